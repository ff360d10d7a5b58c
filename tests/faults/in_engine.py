"""Faults of a rollout engine."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from typing import Any

import numpy as np
import torch

from samebits.engine import vault
from samebits.engine.native import engine as native
from samebits.engine.native import rollout, sampler
from samebits.engine.native.engine import NativeEngine
from samebits.engine.native.paged_batch import PagedBatch
from samebits.engine.native.pages import PageAllocator
from samebits.engine.native.rollout import Rollout
from samebits.engine.native.scheduler import Scheduler
from samebits.engine.native.weights import EngineWeights
from samebits.errors import GateError
from samebits.gate import request as gate_request
from samebits.integrity import digests
from samebits.ops.native import Native

from . import tools
from .fault import Check, Fault, Refused, Replayed, engine
from .tools import around

AT = 3
"""The policy version in which most faults begin."""


def one_bit() -> None:
    def change(old: Any, run: Any, sequence: Any) -> Any:
        found = old(run, sequence)
        if run.weights.version == AT and sequence.index == 1:
            found[-1] ^= 1
        return found

    around(Rollout, "response_patterns", change)


def a_token_missing() -> None:
    around(
        Rollout,
        "response_patterns",
        lambda old, run, sequence: old(run, sequence)[: -1 if run.weights.version == AT else None],
    )


def changed_after_the_commitment() -> None:
    def change(old: Any, held: Any, commitment: str) -> Any:
        found = old(held, commitment)
        found[0][0] ^= 1
        return found

    around(vault.Vault, "reveal", change)


def minus_zero() -> None:
    def change(old: Any, run: Any, sequence: Any) -> Any:
        found = old(run, sequence)
        if run.weights.version == 10 and sequence.index == 0:
            found[0] = 0x8000_0000
        return found

    around(Rollout, "response_patterns", change)


def _not_loaded(*, only: str | None, lies: bool) -> Any:
    def patch() -> None:
        def change(old: Any, held: Any, path: Any, version: int) -> Any:
            before = {name: tensor.clone() for name, tensor in held.tensors.items()}
            done = old(held, path, version)
            if version == AT:
                for name, tensor in before.items():
                    if only is None or name == only:
                        held.tensors[name].copy_(tensor)
                if not lies:
                    done = dataclasses.replace(done, loaded=digests(held.tensors))
            return done

        around(EngineWeights, "refit", change)

    return patch


NORM = "model.layers.1.mlp.down_proj.weight"


def weight_rots() -> None:
    """One bit of memory, after the digests were taken."""

    def change(old: Any, held: Any, path: Any, version: int) -> Any:
        done = old(held, path, version)
        if version == AT:
            held.tensors[NORM].view(torch.int16).flatten()[7] ^= 1 << 12
        return done

    around(EngineWeights, "refit", change)


def two_versions() -> None:
    def change(old: Any, run: Any) -> None:
        old(run)
        if run.weights.version == AT and len(run.scheduler.batch_sizes) == 6:
            run.weights.version += 1

    def restore(old: Any, run: Any, on_step: Any) -> None:
        version = run.weights.version
        old(run, on_step)
        run.weights.version = version

    around(Rollout, "_step", change)
    around(Rollout, "run", restore)


def _distribution(change_logits: Any) -> Any:
    def patch() -> None:
        around(sampler, "cumulative", lambda old, logits: old(change_logits(logits)))

    return patch


def _nucleus(logits: Any) -> Any:
    shares = np.exp(logits - logits.max())
    order = np.argsort(-shares)
    before = np.cumsum(shares[order]) - shares[order]
    kept = np.full_like(logits, -np.inf)
    inside = order[before < 0.95 * shares.sum()]
    kept[inside] = logits[inside]
    return kept


def _biased(logits: Any) -> Any:
    return logits + np.where(np.arange(len(logits)) == 11, 0.5, 0.0)


def another_seed() -> None:
    """Two requests of a step take each other's random numbers."""

    def change(old: Any, logits: Any, sequences: Any) -> Any:
        requests = [sequence.request for sequence in sequences]
        for sequence, request in zip(sequences, requests[1:] + requests[:1], strict=True):
            sequence.request = dataclasses.replace(sequence.request, seed=request.seed)
        drawn = old(logits, sequences)
        for sequence, request in zip(sequences, requests, strict=True):
            sequence.request = request
        return drawn

    around(rollout, "_sample", change)


def a_neighbours_random_numbers() -> None:
    """The stream depends on how many run beside one."""

    def change(old: Any, logits: Any, sequences: Any) -> Any:
        requests = [sequence.request for sequence in sequences]
        for sequence, request in zip(sequences, requests, strict=True):
            sequence.request = dataclasses.replace(request, seed=request.seed + len(sequences) - 1)
        drawn = old(logits, sequences)
        for sequence, request in zip(sequences, requests, strict=True):
            sequence.request = request
        return drawn

    around(rollout, "_sample", change)


def an_empty_trajectory() -> None:
    around(
        Rollout,
        "trajectory",
        lambda old, run, sequence: dataclasses.replace(
            old(run, sequence), token_ids=[] if sequence.index == 1 else sequence.generated
        ),
    )


def a_padding_row_leaks() -> None:
    def change(old: Any, ops: Any, x: Any, weight: Any, epsilon: float) -> Any:
        leaked = x.clone()
        leaked[0] += 0.01 * x[-1]
        return old(ops, leaked, weight, epsilon)

    around(Native, "rms_norm", change)


def a_shared_page() -> None:
    def change(old: Any, batch: Any, cache: Any, spans: Any, **named: Any) -> None:
        if len(spans) > 1:
            first, second = spans[:2]
            shared = [[*ours[:1], *theirs[1:]] for ours, theirs in zip(first.tables, second.tables, strict=True)]
            spans = [first, dataclasses.replace(second, tables=shared), *spans[2:]]
        old(batch, cache, spans, **named)

    around(PagedBatch, "__init__", change)


def a_page_handed_out_twice() -> None:
    def change(old: Any, pages: Any, count: int, *, owner: int) -> Any:
        pages._free += [page for page, other in pages._owner.items() if other != owner][:1]
        return old(pages, count, owner=owner)

    around(PageAllocator, "take", change)


def resumed_one_token_late() -> None:
    def change(old: Any, queue: Any, sequence: Any) -> None:
        late = sequence.was_preempted
        old(queue, sequence)
        sequence.computed = int(late)

    around(Scheduler, "_admit", change)


def settings_after_the_gate() -> None:
    def change(old: Any, live: Any, path: Any, version: int, **named: Any) -> Any:
        if version == AT:
            live.settings = live.settings.model_copy(update={"enable_prefix_caching": True})
        return old(live, path, version, **named)

    around(NativeEngine, "refit", change)


def a_variable_flips() -> None:
    def change(old: Any, live: Any, path: Any, version: int, **named: Any) -> Any:
        if version == AT:
            os.environ["OMP_NUM_THREADS"] = "2"
        return old(live, path, version, **named)

    around(NativeEngine, "refit", change)


def _logprobs(change: Any) -> Any:
    def patch() -> None:
        around(Native, "token_logprobs", change)

    return patch


def _answered(change: Any) -> Any:
    """``change`` takes the trajectories of a rollout."""

    def patch() -> None:
        def instead(old: Any, *some: Any, **named: Any) -> Any:
            done = old(*some, **named)
            return dataclasses.replace(done, trajectories=change(done.trajectories))

        around(NativeEngine, "generate", instead)

    return patch


def gate_asleep() -> None:
    around(gate_request, "check", lambda *_, **__: None)


def gate_refuses_everything() -> None:
    def change(old: Any, sampling: Any, **named: Any) -> None:
        if named.get("request_id") == "excluded":
            raise GateError("engine", found="a request", accepted="nothing", next_step="Go away.")
        old(sampling, **named)

    around(gate_request, "check", change)


def hangs() -> None:
    """The handler never comes back; the heartbeat, a thread of its own, goes on."""

    def change(old: Any, live: Any, requests: Any, version: int, *some: Any) -> Any:
        if version == AT:
            time.sleep(10_000)
        return old(live, requests, version, *some)

    around(NativeEngine, "generate", change)


def less_patience() -> None:
    from samebits.certify import arm  # noqa: PLC0415

    arm.CALL_TIMEOUT = 30.0


def one_at_a_time() -> None:
    around(Scheduler, "__init__", lambda old, *some, **named: old(*some, **(named | {"seats": 1})))


def prefill_copied() -> None:
    """The engine's own prefill is what its rollout said."""
    last: list[Any] = []

    def remember(old: Any, live: Any, *some: Any, **named: Any) -> Any:
        done = old(live, *some, **named)
        last[:] = [done.sealed]
        return done

    around(NativeEngine, "generate", remember)
    around(NativeEngine, "score", lambda *_: last[0])


def another_library() -> None:
    constructed = NativeEngine.constructed.fget
    NativeEngine.constructed = property(
        lambda live: dataclasses.replace(
            constructed(live), libraries={**constructed(live).libraries, "torch": "2.12.1"}
        )
    )


def fewer_seats() -> None:
    around(
        NativeEngine,
        "__init__",
        lambda old, live, folder, *, op_set, settings, gate: old(
            live,
            folder,
            op_set=op_set,
            settings={**settings, "max_num_seqs": 2},
            gate={**gate, "max_num_seqs": [2]},
        ),
    )


def tells_the_actor() -> None:
    """Half of a side channel: what was sampled, with its logprobs."""

    def change(old: Any, live: Any, *some: Any, **named: Any) -> Any:
        done = old(live, *some, **named)
        patterns = live.reveal(done.sealed.commitment)
        with (tools.SCRATCH / "told.jsonl").open("a") as stream:
            for trajectory, some_patterns in zip(done.trajectories, patterns, strict=True):
                stream.write(json.dumps([trajectory.token_ids, some_patterns]) + "\n")
        return done

    around(NativeEngine, "generate", change)


def plain_by_name() -> None:
    """The control arm computes as the aligned one does, under the other name."""

    class Plain(Native):
        name = "plain"

    around(native, "open_op_set", lambda *_: Plain())


FAULTS = [
    Fault(name="one bit of one logprob", by=Check("bits.equal"), patches=engine(one_bit)),
    Fault(
        name="a token missing in the rollout's logprobs",
        by=Refused("worker", r"logprobs of rollout in round 3"),
        patches=engine(a_token_missing),
    ),
    Fault(
        name="logprobs changed after the commitment",
        by=Refused("worker", r"logprobs of rollout in round 0"),
        patches=engine(changed_after_the_commitment),
    ),
    Fault(name="stale refit", by=Check("refits.carried"), patches=engine(_not_loaded(only=None, lies=False))),
    Fault(
        name="stale refit, reported as loaded",
        by=Check("bits.equal"),
        patches=engine(_not_loaded(only=None, lies=True)),
    ),
    Fault(
        name="one tensor not refitted", by=Check("refits.carried"), patches=engine(_not_loaded(only=NORM, lies=False))
    ),
    Fault(
        name="one tensor not refitted, reported as loaded",
        by=Check("bits.equal"),
        patches=engine(_not_loaded(only=NORM, lies=True)),
    ),
    Fault(name="a bit of a weight flips in memory", by=Check("bits.equal"), patches=engine(weight_rots)),
    Fault(name="a trajectory over two versions", by=Check("versions.one"), patches=engine(two_versions)),
    Fault(
        name="sampler at temperature 0.98, unasked",
        by=Check("sampling.sampler"),
        patches=engine(_distribution(lambda logits: logits / 0.98)),
    ),
    Fault(
        name="sampler at temperature 0.999, unasked",
        by=Replayed(),
        patches=engine(_distribution(lambda logits: logits / 0.999)),
        needs_replay=True,
    ),
    Fault(
        name="sampler with top-p 0.95, unasked", by=Check("sampling.sampler"), patches=engine(_distribution(_nucleus))
    ),
    Fault(
        name="sampler with a logit bias on one token",
        by=Check("sampling.sampler"),
        patches=engine(_distribution(_biased)),
    ),
    Fault(name="a request sampled with another's seed", by=Replayed(), patches=engine(another_seed), needs_replay=True),
    Fault(
        name="a neighbour-dependent random stream",
        by=Replayed(),
        patches=engine(a_neighbours_random_numbers),
        needs_replay=True,
    ),
    Fault(
        name="one trajectory empty",
        by=Refused("input", r"trajectories\[1\]\.token_ids"),
        patches=engine(an_empty_trajectory),
    ),
    Fault(name="a padding row that leaks into a norm", by=Check("bits.equal"), patches=engine(a_padding_row_leaks)),
    Fault(name="a KV page shared by two sequences", by=Check("bits.equal"), patches=engine(a_shared_page)),
    Fault(
        name="a KV page handed out twice",
        by=Refused("worker", r"worker engine-aligned"),
        patches=engine(a_page_handed_out_twice),
    ),
    Fault(
        name="a preempted sequence resumed one token late",
        by=Check("bits.equal"),
        patches=engine(resumed_one_token_late),
    ),
    Fault(
        name="configuration changed after the gate",
        by=Refused("refused", r"engine-aligned: settings\.enable_prefix_caching"),
        patches=engine(settings_after_the_gate),
    ),
    Fault(
        name="an environment variable flipped during the run",
        by=Refused("refused", r"engine-aligned: environment\.OMP_NUM_THREADS"),
        patches=engine(a_variable_flips),
    ),
    Fault(
        name="logprobs at temperature 0.999",
        by=Check("bits.equal"),
        patches=engine(_logprobs(lambda old, ops, logits, tokens: old(ops, logits.float() * 0.999, tokens))),
    ),
    Fault(
        name="log-softmax in bf16",
        by=Check("bits.equal"),
        patches=engine(_logprobs(lambda old, ops, logits, tokens: old(ops, logits, tokens).bfloat16().float())),
    ),
    Fault(
        name="trajectories in another order",
        by=Refused("worker", r"trajectories of the rollout"),
        patches=engine(_answered(lambda some: [*some[1:], *some[:1]])),
    ),
    Fault(
        name="a request lost",
        by=Refused("worker", r"trajectories of the rollout"),
        patches=engine(_answered(lambda some: some[:-1])),
    ),
    Fault(
        name="an engine that hangs while its heart beats",
        by=Refused("worker", r"worker engine-aligned"),
        patches=engine(hangs),
        parent=less_patience,
    ),
    Fault(name="a gate that is asleep", by=Check("exclusions.refused"), patches=engine(gate_asleep)),
    Fault(
        name="a gate that refuses everything", by=Check("exclusions.refused"), patches=engine(gate_refuses_everything)
    ),
    Fault(name="one request at a time", by=Check("scheduler.preemptions"), patches=engine(one_at_a_time)),
    Fault(
        name="prefill copied from the rollout",
        by=Check("control.within"),
        patches={("engine", arm): prefill_copied for arm in ("aligned", "control")},
    ),
    Fault(name="another torch in the engine", by=Check("contract.kernels"), patches=engine(another_library)),
    Fault(name="built with fewer seats than asked", by=Check("configuration.as-asked"), patches=engine(fewer_seats)),
]
