"""Each rule of the oracle, shown by a world with one fault: the verdict flips, and the named check says why.

``FAULTS`` is closed against the list of checks: a check that none of them breaks fails ``test_every_check_can_fail``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from samebits import bits
from simulator import SAMPLING, Simulator

CLEAN_NOT_APPLICABLE = {
    "contract.routing",
    "contract.fp8-scales",
    "contract.selection",
    "exercised.indexer-ties",
    "exercised.dropless",
    "exercised.chunks-in-windows",
    "exercised.preemptions-in-windows",
    "overhead.budget",
}
FAMILY_ONLY = CLEAN_NOT_APPLICABLE - {"contract.fp8-scales", "overhead.budget"}
"""Checks that a dense world cannot break: ``test_decisions.py`` has a world that can."""
NAN = 0x7FC0_0000
UNIFORM = int(bits.from_float32(np.array([-np.log(512)], dtype=np.float32))[0])


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A change to the world, and exactly which checks no longer pass."""

    name: str
    change: Callable[[Simulator], None]
    verdict: str
    broken: dict[str, str] = field(default_factory=dict)
    resealed: bool = True


FAULTS: list[Fault] = []


def fault(verdict: str, *, resealed: bool = True, **broken: str) -> Callable[[Callable[[Simulator], None]], None]:
    """Registers the decorated change; ``__`` in a name stands for a dot, ``_`` for a hyphen."""

    def register(change: Callable[[Simulator], None]) -> None:
        names = {name.replace("__", ".").replace("_", "-"): status for name, status in broken.items()}
        FAULTS.append(Fault(name=change.__name__, change=change, verdict=verdict, broken=names, resealed=resealed))

    return register


# Rule 1


@fault("failed", tokens__aligned="failed")
def off_by_one_alignment(world: Simulator) -> None:
    for row in world.rows("tokens", arm="aligned", round=4, trajectory=2):
        row["position"] += 1


@fault("failed", tokens__aligned="failed")
def two_rows_swapped(world: Simulator) -> None:
    tokens = world.tables["tokens"]
    tokens[5], tokens[6] = tokens[6], tokens[5]


@fault("failed", tokens__aligned="failed")
def token_row_missing(world: Simulator) -> None:
    world.remove("tokens", arm="aligned", round=3, trajectory=1, position=7)


@fault("failed", tokens__aligned="failed")
def last_token_row_missing(world: Simulator) -> None:
    last = world.rows("tokens", arm="control", round=1, trajectory=5)[-1]
    world.remove("tokens", arm="control", round=1, trajectory=5, position=last["position"])


@fault("failed", tokens__aligned="failed")
def whole_trajectory_dropped(world: Simulator) -> None:
    for table in ("tokens", "trajectories"):
        world.remove(table, arm="aligned", round=10, trajectory=5)


@fault("failed", tokens__aligned="failed")
def response_longer_than_the_recipe_allows(world: Simulator) -> None:
    world.replace("max_response_tokens = 24", "max_response_tokens = 9")


@fault("failed", tokens__aligned="failed")
def token_outside_the_vocabulary(world: Simulator) -> None:
    world.response()[0]["token_id"] = 512


@fault("failed", tokens__aligned="failed")
def unknown_finish_reason(world: Simulator) -> None:
    world.row("trajectories", arm="aligned", round=0, trajectory=1)["finish_reason"] = "tired"


@fault("failed", tokens__masked="failed")
def prompt_token_counted(world: Simulator) -> None:
    row = world.row("tokens", arm="aligned", round=2, trajectory=0, position=3)
    row |= {"mask": True} | {f"{side}_bits": 0xBF80_0000 for side in ("rollout", "recompute", "train", "prefill")}


@fault("failed", tokens__masked="failed")
def response_token_masked_out(world: Simulator) -> None:
    row = world.row("tokens", arm="aligned", round=2, trajectory=0, position=6)
    row |= {"mask": False} | {f"{side}_bits": None for side in ("rollout", "recompute", "train", "prefill")}


@fault("failed", tokens__masked="failed")
def one_side_missing_for_one_token(world: Simulator) -> None:
    world.row("tokens", arm="aligned", round=2, trajectory=0, position=6)["recompute_bits"] = None


@fault("failed", tokens__masked="failed")
def logprob_outside_the_mask(world: Simulator) -> None:
    world.row("tokens", arm="aligned", round=0, trajectory=0, position=0)["train_bits"] = 0xBF80_0000


# Rule 2


@fault("failed", bits__equal="failed", contract__layout="failed")
def one_bit_of_one_recompute(world: Simulator) -> None:
    world.response()[100]["recompute_bits"] ^= 1


@fault("failed", bits__equal="failed", contract__layout="failed")
def one_bit_of_one_train_forward(world: Simulator) -> None:
    world.response()[-1]["train_bits"] ^= 1


@fault("failed", bits__equal="failed", contract__layout="failed", engine__prefill="failed")
def one_bit_of_one_rollout(world: Simulator) -> None:
    world.response()[0]["rollout_bits"] ^= 1


@fault("failed", bits__equal="failed", contract__layout="failed")
def patterns_of_two_tokens_swapped(world: Simulator) -> None:
    one, other = world.response()[10:12]
    one["train_bits"], other["train_bits"] = other["train_bits"], one["train_bits"]


@fault("failed", bits__equal="failed", contract__layout="failed")
def negative_zero_against_zero(world: Simulator) -> None:
    row = world.response()[3]
    row |= {"rollout_bits": 0, "recompute_bits": 0x8000_0000, "train_bits": 0, "prefill_bits": 0}


@fault("failed", bits__finite="failed", contract__layout="failed", engine__prefill="failed")
def the_same_nan_once(world: Simulator) -> None:
    world.response()[7] |= {f"{side}_bits": NAN for side in ("rollout", "recompute", "train", "prefill")}


@fault(
    "failed",
    bits__finite="failed",
    contract__layout="failed",
    engine__prefill="failed",
    informative__entropy="vacuous",
    informative__patterns="vacuous",
    refits__consecutive="failed",
)
def nan_everywhere(world: Simulator) -> None:
    for row in world.response():
        row |= {f"{side}_bits": NAN for side in ("rollout", "recompute", "train", "prefill")}


@fault("failed", bits__every_trajectory="failed")
def one_empty_trajectory(world: Simulator) -> None:
    world.remove("tokens", arm="aligned", round=6, trajectory=4, mask=True)
    world.row("trajectories", arm="aligned", round=6, trajectory=4)["response_tokens"] = 0


@fault("vacuous", bits__enough="vacuous")
def fewer_tokens_than_the_recipe_asks(world: Simulator) -> None:
    world.replace("min_tokens = 300", "min_tokens = 595")


# Rule 3


@fault("failed", resealed=False, independence__commitments="failed")
def all_sides_changed_after_committing(world: Simulator) -> None:
    for row in world.response(round=5, trajectory=0, position=4):
        row |= {f"{side}_bits": 0xBF80_0000 for side in ("rollout", "recompute", "train", "prefill")}


@fault("failed", resealed=False, independence__commitments="failed")
def reveal_of_another_digest(world: Simulator) -> None:
    world.row("commitments", arm="control", round=1, event="reveal", side="prefill")["digest"] = "0" * 64


@fault("failed", resealed=False, independence__order="failed")
def rollout_revealed_before_training_committed(world: Simulator) -> None:
    reveal = world.row("commitments", arm="aligned", round=4, event="reveal", side="rollout")
    commit = world.row("commitments", arm="aligned", round=4, event="commit", side="train")
    for name in ("event", "side", "digest"):
        reveal[name], commit[name] = commit[name], reveal[name]


@fault("failed", resealed=False, independence__order="failed")
def ledger_renumbered(world: Simulator) -> None:
    world.row("commitments", arm="aligned", round=4, sequence=7)["sequence"] = 8


@fault(
    "failed",
    resealed=False,
    independence__commitments="failed",
    independence__order="failed",
    training__first_forward="failed",
)
def training_forward_never_committed(world: Simulator) -> None:
    world.remove("commitments", arm="aligned", round=9, event="commit", side="train")


@fault("failed", independence__packing="failed")
def same_packing_twice_in_one_round(world: Simulator) -> None:
    for row in world.rows("trajectories", arm="aligned", round=3):
        row["train_pack"] = 10 + row["recompute_pack"]


@fault("failed", independence__probe="failed")
def recompute_untouched_by_the_probe_of_one_layer(world: Simulator) -> None:
    for row in world.rows("probes", layer=1):
        row["recompute_probed_bits"] = row["recompute_bits"]


@fault("failed", independence__probe="failed")
def both_sides_untouched_by_the_probe_of_one_layer(world: Simulator) -> None:
    for row in world.rows("probes", layer=2):
        row |= {"recompute_probed_bits": row["recompute_bits"], "train_probed_bits": row["train_bits"]}


@fault("failed", independence__probe="failed")
def one_layer_not_probed(world: Simulator) -> None:
    world.remove("probes", layer=0)


@fault("vacuous", independence__probe="not_run")
def no_probe(world: Simulator) -> None:
    world.tables["probes"].clear()


@fault("failed", independence__recomputed="failed", control__switch="failed", configuration__as_asked="failed")
def actor_skipped_the_recompute(world: Simulator) -> None:
    world.row("facts", arm="aligned", worker="actor", name="settings.force_on_policy_ratio")["value"] = "true"


# Rule 4


@fault(
    "failed",
    resealed=False,
    independence__commitments="failed",
    independence__order="failed",
    training__first_forward="failed",
)
def second_training_forward_in_a_version(world: Simulator) -> None:
    again = dict(world.row("commitments", arm="aligned", round=2, event="commit", side="train"))
    world.tables["commitments"].append(again | {"sequence": 8})


# Rule 5


@fault("failed", versions__one="failed")
def trajectory_ended_under_another_version(world: Simulator) -> None:
    world.row("trajectories", arm="aligned", round=3, trajectory=1)["weight_version_end"] = 4


@fault("failed", versions__one="failed")
def trained_under_a_later_version(world: Simulator) -> None:
    world.row("trajectories", arm="aligned", round=3, trajectory=1)["trainer_version"] = 4


@fault("failed", versions__one="failed", configuration__as_asked="failed")
def asynchronous_rollout(world: Simulator) -> None:
    world.replace("num_gpu_blocks = 22", "num_gpu_blocks = 22\nasync_rollout = true")


# Rule 6


def sampling_with(**changed: object) -> Callable[[Simulator], None]:
    def change(world: Simulator) -> None:
        world.row("trajectories", arm="aligned", round=8, trajectory=2)["sampling"] = json.dumps(SAMPLING | changed)

    return change


for parameter, value in {
    "temperature": 0.999,
    "top_p": 0.95,
    "top_k": 50,
    "min_p": 0.01,
    "presence_penalty": 0.1,
    "frequency_penalty": -0.1,
    "repetition_penalty": 1.1,
    "logit_bias": {"5": 1.0},
    "bad_words": ["no"],
    "allowed_token_ids": [1, 2],
    "structured_outputs": {"json": "{}"},
    "logits_processors": ["mine"],
    "min_tokens": 3,
    "n": True,
    "mirostat": 2,
}.items():
    FAULTS.append(
        Fault(
            name=f"sampling_{parameter}",
            change=sampling_with(**{parameter: value}),
            verdict="failed",
            broken={"sampling.conforming": "failed", "contract.logits-processors": "failed"},
        )
    )


for name, text in {
    "stated_twice": json.dumps(SAMPLING)[:-1] + ', "temperature": 1.0}',
    "not_a_number": json.dumps(SAMPLING)[:-1] + ', "seed": NaN}',
    "not_unicode": json.dumps(SAMPLING)[:-1] + ', "\\ud800": 1}',
}.items():
    FAULTS.append(
        Fault(
            name=f"sampling_{name}",
            change=lambda world, text=text: world.rows("trajectories")[0].update(sampling=text),
            verdict="failed",
            broken={"sampling.conforming": "failed", "contract.logits-processors": "failed"},
        )
    )


@fault("failed", sampling__conforming="failed", contract__logits_processors="failed")
def sampling_that_does_not_state_its_temperature(world: Simulator) -> None:
    stated = {name: value for name, value in SAMPLING.items() if name != "temperature"}
    world.row("trajectories", arm="aligned", round=0, trajectory=0)["sampling"] = json.dumps(stated)


@fault("failed", sampling__sampler="failed")
def biased_sampler(world: Simulator) -> None:
    rows = sorted(world.tables["sampler"], key=lambda row: -row["draws"])
    moved = rows[0]["draws"] // 8
    rows[0]["draws"] -= moved
    rows[1]["draws"] += moved


@fault("failed", sampling__sampler="failed")
def sampler_drew_an_impossible_token(world: Simulator) -> None:
    world.tables["sampler"].append({"token_id": 99, "probability": 0.0, "draws": 1})


@fault("failed", sampling__sampler="failed")
def probabilities_that_are_no_distribution(world: Simulator) -> None:
    world.tables["sampler"][0]["probability"] *= 0.5


@fault("vacuous", sampling__sampler="vacuous")
def too_few_draws(world: Simulator) -> None:
    for row in world.tables["sampler"]:
        row["draws"] = round(200 * row["probability"])


@fault("vacuous", sampling__sampler="not_run")
def no_sampler_test(world: Simulator) -> None:
    world.tables["sampler"].clear()


# Rule 7


@fault("failed", refits__carried="failed")
def stale_refit(world: Simulator) -> None:
    for row in world.rows("refits", arm="aligned", version=5):
        row["loaded"] = world.row("refits", arm="aligned", version=4, tensor=row["tensor"])["loaded"]


@fault("failed", refits__carried="failed")
def one_tensor_not_loaded(world: Simulator) -> None:
    world.row("refits", arm="aligned", version=5, tensor="layer.1")["loaded"] = ""


@fault("failed", refits__carried="failed")
def one_tensor_damaged_on_the_way(world: Simulator) -> None:
    world.row("refits", arm="control", version=1, tensor="layer.1")["arrived"] = "0" * 64


@fault("failed", refits__consecutive="failed")
def one_tensor_left_out(world: Simulator) -> None:
    world.remove("refits", arm="aligned", version=10, tensor="layer.1")


@fault("failed", refits__consecutive="failed")
def refit_counted_twice(world: Simulator) -> None:
    world.tables["refits"] += [dict(row) for row in world.rows("refits", arm="aligned", version=10)]


@fault("failed", refits__consecutive="failed", refits__masters="failed", refits__deployed="vacuous")
def refit_repeated_as_a_new_version(world: Simulator) -> None:
    repeated = [row | {"version": 10} for row in world.rows("refits", arm="aligned", version=8)]
    world.remove("refits", arm="aligned", version=9)
    world.remove("refits", arm="aligned", version=10)
    world.tables["refits"] += repeated


@fault(
    "vacuous",
    refits__consecutive="not_run",
    refits__masters="vacuous",
    refits__deployed="vacuous",
    refits__frozen="vacuous",
)
def no_refit(world: Simulator) -> None:
    world.remove("refits", arm="aligned")


@fault("failed", refits__consecutive="failed")
def nine_refits(world: Simulator) -> None:
    for table, name in (("tokens", "round"), ("trajectories", "round"), ("refits", "version"), ("counters", "round")):
        world.remove(table, arm="aligned", **{name: 10})


@fault("failed", refits__masters="failed")
def one_master_unchanged_once(world: Simulator) -> None:
    before = world.row("refits", arm="aligned", version=6, tensor="head")
    world.row("refits", arm="aligned", version=7, tensor="head")["master"] = before["master"]


@fault("failed", refits__masters="failed")
def trained_tensor_without_a_master(world: Simulator) -> None:
    world.row("refits", arm="aligned", version=10, tensor="head")["master"] = ""


@fault("failed", refits__masters="failed", refits__deployed="vacuous")
def zero_learning_rate(world: Simulator) -> None:
    for row in world.rows("refits", arm="aligned"):
        first = world.row("refits", arm="aligned", version=0, tensor=row["tensor"])
        row.update({name: first[name] for name in ("master", "sent", "arrived", "loaded")})


@fault("vacuous", refits__deployed="vacuous")
def rounding_hides_every_change(world: Simulator) -> None:
    for row in world.rows("refits", arm="aligned"):
        first = world.row("refits", arm="aligned", version=0, tensor=row["tensor"])
        row |= {name: first[name] for name in ("sent", "arrived", "loaded")}


@fault("failed", refits__masters="failed")
def frozen_tensor_moved(world: Simulator) -> None:
    world.row("refits", arm="aligned", version=10, tensor="hash_table")["master"] = "0" * 64


@fault("failed", refits__frozen="failed")
def tensor_frozen_midway(world: Simulator) -> None:
    world.row("refits", arm="aligned", version=10, tensor="layer.0")["frozen"] = "tired"
    before = world.row("refits", arm="aligned", version=9, tensor="layer.0")
    world.row("refits", arm="aligned", version=10, tensor="layer.0")["master"] = before["master"]


# Rule 8


@fault("failed", contract__kernels="failed", contract__log_softmax="failed", control__switch="failed")
def engine_and_actor_compute_differently(world: Simulator) -> None:
    world.row("facts", arm="aligned", worker="actor", name="op_set")["value"] = '"plain"'


@fault("failed", contract__kernels="failed", control__switch="failed")
def another_torch_in_the_actor(world: Simulator) -> None:
    world.row("facts", arm="aligned", worker="actor", name="libraries.torch")["value"] = '"2.12.0+cpu"'


@fault("vacuous", contract__kernels="vacuous")
def batch_never_changed_its_size(world: Simulator) -> None:
    for row in world.rows("counters", counter="distinct_batch_sizes"):
        row["value"] = 1


@fault("failed", contract__context_parallel="failed", configuration__as_asked="failed")
def context_parallelism(world: Simulator) -> None:
    world.replace("num_gpu_blocks = 22", "num_gpu_blocks = 22\ndecode_context_parallel_size = 2")


@fault("failed", contract__fp8_scales="failed", configuration__as_asked="failed")
def quantized(world: Simulator) -> None:
    world.replace("num_gpu_blocks = 22", 'num_gpu_blocks = 22\nquantization = "fp8"')


@fault("failed", contract__log_softmax="failed", control__switch="failed", configuration__as_asked="failed")
def processed_logprobs(world: Simulator) -> None:
    said = world.row("facts", arm="aligned", worker="engine", name="settings.logprobs_mode")
    said["value"] = '"processed_logprobs"'


@fault(
    "vacuous",
    contract__kernels="not_run",
    contract__log_softmax="not_run",
    control__switch="not_run",
    configuration__as_asked="not_run",
)
def workers_said_nothing_of_themselves(world: Simulator) -> None:
    world.tables["facts"].clear()


@fault("vacuous", scheduler__preemptions="vacuous")
def no_preemption(world: Simulator) -> None:
    for row in world.rows("counters", counter="preemptions"):
        row["value"] = 0


@fault("vacuous", scheduler__chunked_prefills="vacuous")
def no_chunked_prefill(world: Simulator) -> None:
    for row in world.rows("counters", arm="aligned", counter="chunked_prefills"):
        row["value"] = 0


@fault("vacuous", scheduler__preemptions="not_run")
def preemptions_not_counted(world: Simulator) -> None:
    world.remove("counters", counter="preemptions")


# Rule 9


@fault("over_budget", overhead__budget="failed")
def over_budget(world: Simulator) -> None:
    world.replace("control_rounds = 2", "control_rounds = 2\noverhead_budget = 1.05")


@fault("vacuous", overhead__budget="not_run")
def budget_and_no_timings(world: Simulator) -> None:
    world.replace("control_rounds = 2", "control_rounds = 2\noverhead_budget = 1.15")
    world.tables["timings"].clear()


# Rule 10


@fault("failed", exclusions__refused="failed")
def exclusion_not_tried(world: Simulator) -> None:
    world.remove("refusals", kind="request")


@fault("vacuous", exclusions__refused="not_run")
def no_exclusion_tried(world: Simulator) -> None:
    world.tables["refusals"].clear()


@fault("failed", exclusions__refused="failed")
def exclusion_accepted(world: Simulator) -> None:
    world.row("refusals", kind="engine")["refused"] = False


@fault("failed", exclusions__refused="failed")
def exclusion_of_nearly_the_same(world: Simulator) -> None:
    world.row("refusals", kind="request")["set"] = '{"temperature": 0.9}'


def _an_unknown_setting(world: Simulator, **said: object) -> None:
    row = {"kind": "engine", "set": '{"unknown": true}', "refused": True, "by": "gate", "field": "engine.unknown"}
    world.tables["refusals"].insert(0, {**row, "message": "an unknown setting", **said})


@fault("passed")
def an_unknown_setting_refused(world: Simulator) -> None:
    _an_unknown_setting(world)


@fault("failed", exclusions__refused="failed")
def an_unknown_setting_accepted(world: Simulator) -> None:
    _an_unknown_setting(world, refused=False, by="", field="")


@fault("failed", exclusions__refused="failed")
def an_unknown_setting_refused_for_another_reason(world: Simulator) -> None:
    _an_unknown_setting(world, field="engine.max_model_len")


@fault("failed", exclusions__refused="failed")
def refused_by_nobody(world: Simulator) -> None:
    world.row("refusals", kind="actor")["by"] = ""


# Rule 11


@fault("vacuous", control__within="vacuous", control__across="vacuous")
def control_identical_to_the_run(world: Simulator) -> None:
    for row in world.response("control"):
        row |= {f"{side}_bits": row["rollout_bits"] for side in ("recompute", "train", "prefill")}


@fault("vacuous", control__within="vacuous")
def control_engine_agrees_with_itself(world: Simulator) -> None:
    for row in world.response("control"):
        row["prefill_bits"] = row["rollout_bits"]


@fault("vacuous", control__across="vacuous")
def control_trains_on_what_it_rolled_out(world: Simulator) -> None:
    for row in world.response("control"):
        row["train_bits"] = row["rollout_bits"]


@fault("failed", contract__layout="failed", engine__prefill="failed")
def aligned_engine_differs_from_its_own_prefill(world: Simulator) -> None:
    world.response()[50]["prefill_bits"] ^= 1


@fault("vacuous", engine__prefill="vacuous")
def aligned_engine_never_scored(world: Simulator) -> None:
    for row in world.response():
        row["prefill_bits"] = None


@fault("vacuous", control__rounds="vacuous")
def one_control_round_too_few(world: Simulator) -> None:
    for table in ("tokens", "trajectories", "counters"):
        world.remove(table, arm="control", round=1)


@fault("failed", control__switch="failed", configuration__as_asked="failed")
def control_differs_in_more_than_the_switch(world: Simulator) -> None:
    for worker in ("engine", "actor"):
        world.row("facts", arm="control", worker=worker, name="dtype")["value"] = '"float32"'


@fault("failed", control__switch="failed")
def switch_was_never_off(world: Simulator) -> None:
    for worker in ("engine", "actor"):
        world.row("facts", arm="control", worker=worker, name="op_set")["value"] = '"native"'


# Rule 12


@fault("failed", informative__entropy="vacuous", informative__patterns="vacuous", refits__consecutive="failed")
def all_uniform_logprobs(world: Simulator) -> None:
    for row in world.response():
        row |= {f"{side}_bits": UNIFORM for side in ("rollout", "recompute", "train", "prefill")}


# Evidence that passes every rule word by word, and is not what a run leaves


@fault("failed", refits__consecutive="failed")
def a_round_written_down_twice(world: Simulator) -> None:
    for table in ("tokens", "trajectories"):
        copies = world.rows(table, arm="aligned", round=2)
        for row, copy in zip(world.rows(table, arm="aligned", round=3), copies, strict=True):
            row.update({name: value for name, value in copy.items() if name != "round" and "version" not in name})


@fault("failed", refits__frozen="failed")
def whole_layers_frozen(world: Simulator) -> None:
    first = {(row["arm"], row["tensor"]): dict(row) for row in world.rows("refits", version=0)}
    for row in world.rows("refits"):
        if row["tensor"] in {"layer.0", "layer.1"}:
            row.update(first[row["arm"], row["tensor"]] | {"version": row["version"], "frozen": "too slow"})


@fault("failed", refits__frozen="failed")
def a_layer_left_out_of_the_refits(world: Simulator) -> None:
    world.remove("refits", tensor="layer.1")


@fault("failed", tokens__aligned="failed")
def response_tokens_hidden_in_the_prompt(world: Simulator) -> None:
    found = world.row("trajectories", arm="aligned", round=1, trajectory=1)
    found |= {"prompt_tokens": found["prompt_tokens"] + 2, "response_tokens": found["response_tokens"] - 2}
    for row in world.rows("tokens", arm="aligned", round=1, trajectory=1)[4:6]:
        row.update({"mask": False} | {f"{side}_bits": None for side in ("rollout", "recompute", "train", "prefill")})


@fault("failed", independence__probe="failed")
def one_token_probed(world: Simulator) -> None:
    world.tables["probes"] = [world.rows("probes", layer=layer)[0] for layer in range(3)]


@fault("failed", independence__probe="failed")
def probed_tokens_of_another_place(world: Simulator) -> None:
    for row in world.rows("probes"):
        row["position"] += 1


@fault("failed", independence__probe="failed")
def probed_rows_twice(world: Simulator) -> None:
    world.tables["probes"] += [dict(row) for row in world.rows("probes", layer=0)]


@fault("failed", independence__probe="failed")
def fewer_sequences_probed_than_asked_for(world: Simulator) -> None:
    world.replace("control_rounds = 2", "control_rounds = 2\nprobe_sequences = 2")


@fault("failed", engine__prefill="failed")
def prefill_of_one_token(world: Simulator) -> None:
    for row in world.response(round=0)[1:]:
        row["prefill_bits"] = None


@fault("failed", control__within="failed", control__across="failed")
def control_arm_of_nan(world: Simulator) -> None:
    for row in world.response("control"):
        row |= {"recompute_bits": NAN, "train_bits": NAN, "prefill_bits": NAN}


@fault("failed", control__switch="failed")
def the_arms_exchanged(world: Simulator) -> None:
    for row in world.rows("facts", name="op_set"):
        row["value"] = {'"native"': '"plain"', '"plain"': '"native"'}[row["value"]]


@fault("failed", exclusions__refused="failed")
def refused_for_another_reason(world: Simulator) -> None:
    world.rows("refusals")[0]["field"] = "engine.max_model_len"


@fault("failed", configuration__as_asked="failed")
def another_dtype_than_asked_for(world: Simulator) -> None:
    for row in world.rows("facts", name="dtype"):
        row["value"] = '"float32"'


@fault("failed", configuration__as_asked="failed")
def a_setting_that_the_recipe_does_not_know(world: Simulator) -> None:
    for arm in ("aligned", "control"):
        world.tables["facts"].append({"arm": arm, "worker": "engine", "name": "settings.turbo", "value": "true"})


@fault("failed", sampling__sampler="failed")
def more_draws_than_a_certificate_can_count(world: Simulator) -> None:
    for row in world.rows("sampler"):
        row["draws"] *= 2**50


@pytest.fixture
def world() -> Simulator:
    return Simulator()


def not_passed(findings: dict[str, object]) -> dict[str, str]:
    return {
        check["name"]: check["status"]
        for check in findings["checks"]
        if check["status"] not in {"passed", "not_applicable"}
    }


def test_the_clean_world_passes(world: Simulator, tmp_path) -> None:
    findings = world.judge(tmp_path / "evidence")
    assert (findings.verdict, findings.reasons) == ("passed", [])
    assert {check.name for check in findings.checks if check.status == "not_applicable"} == CLEAN_NOT_APPLICABLE
    assert {check.rule for check in findings.checks} == set(range(1, 13))


@pytest.mark.parametrize("one", FAULTS, ids=lambda one: one.name)
def test_one_fault_flips_the_verdict(world: Simulator, tmp_path, one: Fault) -> None:
    one.change(world)
    if one.resealed:
        world.seal()
    findings = world.judge(tmp_path / "evidence").to_dict()
    assert (findings["verdict"], not_passed(findings)) == (one.verdict, one.broken)


def test_every_check_can_fail(world: Simulator, tmp_path) -> None:
    names = {check.name for check in world.judge(tmp_path / "evidence").checks}
    found = {name for one in FAULTS for name in one.broken}
    assert names - found == FAMILY_ONLY


def test_an_empty_run_is_vacuous_in_everything_it_should_have_shown(world: Simulator, tmp_path) -> None:
    for table in world.tables.values():
        table.clear()
    findings = world.judge(tmp_path / "evidence")
    assert findings.verdict == "vacuous"
    assert findings.exactness.to_dict() == {
        "verdict": "vacuous",
        "compared": 0,
        "mismatches": 0,
        "nonFinite": 0,
        "firstMismatch": None,
    }
    assert {check.name for check in findings.checks if check.status == "passed"} == set()


def test_a_setting_that_a_later_kit_knows_does_not_fail_an_older_certificate(tmp_path):
    """The recipe says nothing of it and the worker of then said nothing either; whoever states it must see it told."""
    world = Simulator()
    facts = world.tables["facts"]
    facts[:] = [row for row in facts if row["name"] != "settings.activation_checkpointing"]
    assert world.judge(tmp_path / "evidence").verdict == "passed"
    world.replace("train_pack = 3", "train_pack = 3\nactivation_checkpointing = false")
    assert world.judge(tmp_path / "stated").verdict == "failed"
