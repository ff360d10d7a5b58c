"""A row simulator: a small, complete, passing certification in memory, in which a test changes one thing.

``Simulator()`` holds every evidence table as a list of rows, the recipe as the bytes of a TOML file, and what they
say is one world: digests are those of the rows, versions follow each other, the control arm differs.  A test changes
what it likes, calls :meth:`Simulator.seal` if the fault should be a *consistent* one (commitments that fit the changed
rows), and judges.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from samebits import bits, recipe
from samebits.certificate import (
    Kit,
    Material,
    Predicate,
    PrivateKey,
    Run,
    evidence_folder,
    sign_certificate,
    subjects_of,
    write_statement,
)
from samebits.hashing import sha256_bytes
from samebits.oracle import TABLES, EvidenceWriter, Findings, fact_rows, judge

RECIPE = b"""\
schema_version = 1
id = "simulated"
title = "A certification that never ran"
rows = ["cpu"]

[model]
family = "dense"
source = "seeded"

[model.shape]
vocab_size = 512
hidden_size = 64
intermediate_size = 128
num_hidden_layers = 3
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 16

[workload]
problems = "chain_sum"
problems_per_round = 2
samples_per_problem = 3
max_response_tokens = 24

[engine]
max_model_len = 128
max_num_seqs = 6
max_num_batched_tokens = 64
num_gpu_blocks = 22

[actor]
learning_rate = 1e-3
recompute_pack = 4
train_pack = 3

[certification]
refits = 10
control_rounds = 2
min_tokens = 300
min_preemptions = 2
min_chunked_prefills = 2

[[exclusions]]
kind = "engine"
set = { tensor_parallel_size = 2 }
why = "adds partial sums in another order"

[[exclusions]]
kind = "actor"
set = { force_on_policy_ratio = true }
why = "skips the recompute"

[[exclusions]]
kind = "request"
set = { temperature = 0.999 }
why = "another distribution than the one compared"
"""

DS4 = b"""\
[model]
family = "ds4"
source = "seeded"

[model.ds4]
vocab_size = 512
hidden_size = 64
num_attention_heads = 4
head_dim = 32
qk_rope_head_dim = 16
q_lora_rank = 32
o_groups = 2
o_lora_rank = 32
sliding_window = 8
compress_ratios = [0, 4, 16]
index_n_heads = 2
index_head_dim = 16
index_topk = 4
n_routed_experts = 8
num_experts_per_tok = 3
moe_intermediate_size = 32
num_hash_layers = 1
fp8_block = 32
"""
"""The model of :meth:`Simulator.with_experts`, in place of the dense one; it has three layers too."""

KEY = PrivateKey(ec.generate_private_key(ec.SECP256R1()))
"""Made anew in every test process; nobody needs to keep it."""

ROW = (Path(__file__).parents[1] / "lock" / "cpu.toml").read_bytes()

SIDES = ("rollout", "recompute", "train", "prefill")
TENSORS = {"embed": "", "layer.0": "", "layer.1": "", "layer.2": "", "head": "", "hash_table": "not a weight"}
SAMPLING = {
    "n": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_tokens": 0,
    "logit_bias": None,
    "structured_outputs": None,
}
PROMPT, RESPONSE = 4, 8
PHASES = {"rollout": 900, "recompute": 300, "train_forward": 400, "step": 200, "refit": 100}

Row = dict[str, Any]


class Simulator:
    """One certification. ``tables`` and ``recipe_toml`` are there to be changed."""

    def __init__(self) -> None:
        self.recipe_toml = RECIPE
        self.row_toml = ROW
        self.tables = {name: [dict(row) for row in rows] for name, rows in _made_once().items()}
        self.seal()

    @classmethod
    def with_experts(cls) -> Simulator:
        """The same world with a DeepSeek-V4 decoder: decisions, events, scales, windows."""
        world = cls()
        before, rest = world.recipe_toml.split(b"[model]")
        world.recipe_toml = before + DS4 + b"\n[workload]" + rest.split(b"[workload]")[1]
        world.replace("num_gpu_blocks = 22", 'num_gpu_blocks = 22\nquantization = "fp8"')
        for row in world.rows("facts", worker="engine", name="settings.quantization"):
            row["value"] = '"fp8"'
        for row in world.rows("counters"):
            if row["counter"] in {"chunked_prefills", "preemptions"}:
                inside = {"chunked_prefills": "chunks", "preemptions": "preemptions"}[row["counter"]]
                world.tables["counters"].append(row | {"counter": f"{inside}_inside_window", "value": 1})
        for row in world.rows("refits", tensor="layer.0"):
            moved = _sha("scales", row["version"] // 5)
            world.tables["refits"].append(
                row | {"tensor": "layer.0_scale_inv", "sent": moved, "arrived": moved, "loaded": moved}
            )
        for (arm, round_), rows in _tokens_computed(world.tables["trajectories"]).items():
            for side in SIDES[:3]:
                world._decide(arm, round_, side, rows)
        return world

    def _decide(self, arm: str, round_: int, side: str, rows: int) -> None:
        where = {"arm": arm, "round": round_, "side": side}
        for layer in range(3):
            for what in ("routes", "route_weights", "scales.attention", "scales.experts_down", "selection"):
                if what != "selection" or layer == 1:
                    digest = _sha("decision", arm, round_, layer, what)
                    self.tables["decisions"].append(
                        where | {"layer": layer, "what": what, "rows": rows, "digest": digest}
                    )
            counts = {"slots": 3 * rows, "router_tie": layer, "past_top_k": 5, "indexer_tie": 2}
            for what, value in counts.items():
                self.tables["events"].append(where | {"layer": layer, "what": what, "kind": "count", "value": value})
            level = {"layer": layer, "what": "tokens_per_expert", "kind": "level", "value": 20 + len(side)}
            self.tables["events"].append(where | level)

    # What a test changes things through

    def rows(self, table: str, **where: Any) -> list[Row]:
        """Rows of ``table`` whose columns have these values; changing a row changes the world."""
        return [row for row in self.tables[table] if all(row[name] == value for name, value in where.items())]

    def row(self, table: str, **where: Any) -> Row:
        """The only such row."""
        (only,) = self.rows(table, **where)
        return only

    def response(self, arm: str = "aligned", **where: Any) -> list[Row]:
        """Token rows that are compared."""
        return self.rows("tokens", arm=arm, mask=True, **where)

    def remove(self, table: str, **where: Any) -> None:
        """Takes such rows out."""
        gone = {id(row) for row in self.rows(table, **where)}
        self.tables[table] = [row for row in self.tables[table] if id(row) not in gone]

    def replace(self, old: str, new: str) -> None:
        """Changes the recipe file."""
        assert self.recipe_toml.count(old.encode()) == 1, old
        self.recipe_toml = self.recipe_toml.replace(old.encode(), new.encode())

    def seal(self) -> None:
        """Commitments and reveals that fit the token rows, in the right order."""
        patterns: defaultdict[tuple[str, int], dict[str, list[int]]] = defaultdict(lambda: {side: [] for side in SIDES})
        for row in self.tables["tokens"]:
            for side in SIDES:
                if row["mask"] and row[f"{side}_bits"] is not None:
                    patterns[row["arm"], row["round"]][side].append(row[f"{side}_bits"])
        order = [("commit", side) for side in SIDES[:3]] + [("reveal", side) for side in SIDES[:3]]
        order += [("commit", "prefill"), ("reveal", "prefill")]
        self.tables["commitments"] = [
            {
                "arm": arm,
                "round": round_,
                "sequence": sequence,
                "event": event,
                "side": side,
                "digest": bits.digest(np.array(sides[side], dtype=np.uint32)),
            }
            for (arm, round_), sides in patterns.items()
            for sequence, (event, side) in enumerate(order)
        ]

    # What a test does with it

    @property
    def recipe(self) -> recipe.Recipe:
        return recipe.parse(self.recipe_toml, source="recipe.toml")

    def write(self, folder: Path) -> Path:
        """The evidence folder, with the copies of recipe and row."""
        writer = EvidenceWriter(folder)
        writer.part("all", self.tables)
        writer.assemble()
        writer.discard_parts()
        writer.parts.rmdir()
        (folder / "recipe.toml").write_bytes(self.recipe_toml)
        (folder / "row.toml").write_bytes(self.row_toml)
        return folder

    def judge(self, folder: Path) -> Findings:
        """Writes the evidence and judges it."""
        return judge(self.write(folder), self.recipe)

    def sign(self, path: Path, *, key: PrivateKey = KEY, findings: dict[str, Any] | None = None, **said: Any) -> Path:
        """A certificate at ``path`` (``X.sigstore.json``) with its evidence beside it.

        ``findings`` are the oracle's own unless given; ``said`` replaces other parts of the predicate.
        """
        folder = self.write(evidence_folder(path))
        return self.sign_folder(path, folder, key=key, findings=findings, **said)

    def sign_folder(
        self, path: Path, folder: Path, *, key: PrivateKey = KEY, findings: dict[str, Any] | None = None, **said: Any
    ) -> Path:
        """The same over evidence that is there already, whatever it is."""
        parts: dict[str, Any] = {
            "row": Material(id="cpu", sha256=sha256_bytes(self.row_toml)),
            "recipe": Material(id="simulated", sha256=sha256_bytes(self.recipe_toml)),
            "kit": Kit(version="0.0.1", sha256="ab" * 32),
            "configuration": [],
            "environment": {"python": "3.11.7"},
            "run": Run(
                id="simulated-1",
                startedOn="2026-11-30T12:00:00Z",
                finishedOn="2026-11-30T12:03:00Z",
                producer="tests/simulator.py",
                resumed=False,
            ),
            "seeds": {"model": "0", "workload": "0"},
            "reproduces": None,
            "limitations": ["nothing ran"],
            "findings": judge(folder, self.recipe).to_dict() if findings is None else findings,
        }
        statement = write_statement(subjects_of(sorted(folder.iterdir())), Predicate(**(parts | said)))
        path.write_bytes(sign_certificate(statement, key))
        return path


@functools.cache
def _made_once() -> dict[str, list[Row]]:
    return _Maker().tables


class _Maker:
    """How the clean world is made; it is not sealed yet."""

    refits = 10
    control_rounds = 2

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.tables["refusals"] = self._refusals()
        self.tables["sampler"] = self._sampler()
        for arm, rounds, op_set in (("aligned", self.refits + 1, "native"), ("control", self.control_rounds, "plain")):
            for round_ in range(rounds):
                self._round(arm, round_)
            # The control arm steps after its last round too.
            for version in range(rounds if arm == "aligned" else rounds + 1):
                self._refit(arm, version)
            self._facts(arm, op_set)
        self._probes()

    def _round(self, arm: str, round_: int) -> None:
        aligned = arm == "aligned"
        for trajectory in range(6):
            length = RESPONSE + trajectory % 3
            logprobs = -self._random.exponential(1.3, length).astype(np.float32)
            patterns = bits.from_float32(logprobs).tolist()
            for position in range(PROMPT + length):
                place = position - PROMPT
                pattern = patterns[place] if place >= 0 else None
                # Without the switch, every third token comes out one ulp off on the actor, every fourth in the prefill.
                actor = pattern if aligned or pattern is None or place % 3 else pattern + 1
                prefill = pattern if aligned or pattern is None or place % 4 else pattern + 1
                self.tables["tokens"].append(
                    {
                        "arm": arm,
                        "round": round_,
                        "trajectory": trajectory,
                        "position": position,
                        "token_id": int(self._random.integers(0, 512)),
                        "mask": place >= 0,
                        "rollout_bits": pattern,
                        "recompute_bits": actor,
                        "train_bits": actor,
                        "prefill_bits": prefill,
                    }
                )
            self.tables["trajectories"].append(
                {
                    "arm": arm,
                    "round": round_,
                    "trajectory": trajectory,
                    "group": trajectory // 3,
                    "prompt_tokens": PROMPT,
                    "response_tokens": length,
                    "finish_reason": "stop" if trajectory else "length",
                    "seed": str(1000 * round_ + trajectory),
                    "weight_version_start": round_,
                    "weight_version_end": round_,
                    "trainer_version": round_,
                    "recompute_pack": trajectory // 4,
                    "train_pack": trajectory // 3,
                    "sampling": json.dumps(SAMPLING, sort_keys=True),
                    "reward": "0.5" if trajectory % 2 else "1.0",
                    "advantage": "0.7",
                }
            )
        counters = {"preemptions": 1, "chunked_prefills": 2, "distinct_batch_sizes": 5, "steps": 40}
        self.tables["counters"] += [
            {"arm": arm, "round": round_, "counter": name, "value": value} for name, value in counters.items()
        ]
        self.tables["timings"] += [
            {
                "arm": arm,
                "round": round_,
                "phase": phase,
                "worker": "engine" if phase in {"rollout", "refit"} else "actor",
                "nanoseconds": (nanoseconds + 10 * round_) * (11 if aligned else 10),
            }
            for phase, nanoseconds in PHASES.items()
            if not (aligned and round_ == self.refits and phase in {"step", "refit"})
        ]

    def _refit(self, arm: str, version: int) -> None:
        for tensor, frozen in TENSORS.items():
            moved = 0 if frozen else version
            # As bf16 rounding does: the head's deployed bytes change only with every other version.
            deployed = _sha(arm, tensor, moved // 2 if tensor == "head" else moved, "deployed")
            self.tables["refits"].append(
                {
                    "arm": arm,
                    "version": version,
                    "tensor": tensor,
                    "master": _sha(arm, tensor, moved, "master"),
                    "sent": deployed,
                    "arrived": deployed,
                    "loaded": deployed,
                    "frozen": frozen,
                }
            )

    def _facts(self, arm: str, op_set: str) -> None:
        asked = recipe.parse(RECIPE, source="recipe.toml")
        said = {"op_set": op_set, "dtype": "bfloat16", "parameters": 1234, "libraries": {"torch": "2.13.0+cpu"}}
        actor = asked.actor.model_dump() | {"max_model_len": asked.engine.max_model_len}
        self.tables["facts"] += fact_rows(arm, "engine", said | {"settings": asked.engine.model_dump()})
        self.tables["facts"] += fact_rows(arm, "actor", said | {"settings": actor, "layers": 3})

    def _probes(self) -> None:
        for layer in range(3):
            for row in self.tables["tokens"]:
                if not row["mask"] or row["arm"] != "aligned" or row["round"] or row["trajectory"]:
                    continue
                before, after = row["recompute_bits"], row["recompute_bits"] + 1 + layer
                self.tables["probes"].append(
                    {
                        "layer": layer,
                        "trajectory": 0,
                        "position": row["position"],
                        "recompute_bits": before,
                        "recompute_probed_bits": after,
                        "train_bits": before,
                        "train_probed_bits": after,
                    }
                )

    def _refusals(self) -> list[Row]:
        return [
            {
                "kind": exclusion.kind,
                "set": json.dumps(exclusion.set, sort_keys=True),
                "refused": True,
                "by": "gate",
                "field": next(iter(exclusion.set)),
                "message": "not certified",
            }
            for exclusion in recipe.parse(RECIPE, source="recipe.toml").exclusions
        ]

    def _sampler(self) -> list[Row]:
        weights = [math.exp(3 * math.sin(token)) for token in range(16)]
        probabilities = [weight / math.fsum(weights) for weight in weights]
        draws = self._random.multinomial(20_000, probabilities).tolist()
        return [
            {"token_id": token, "probability": probability, "draws": count}
            for token, (probability, count) in enumerate(zip(probabilities, draws, strict=True))
        ]


def _tokens_computed(trajectories: list[Row]) -> dict[tuple[str, int], int]:
    """By arm and round: all tokens but the last of each trajectory."""
    found: defaultdict[tuple[str, int], int] = defaultdict(int)
    for row in trajectories:
        found[row["arm"], row["round"]] += row["prompt_tokens"] + row["response_tokens"] - 1
    return found


def _sha(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
