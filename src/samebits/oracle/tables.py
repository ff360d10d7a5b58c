"""The evidence: which Parquet files there are and what a row of each is.

Every claim of a certificate that can be derived is derived from these files and from the recipe, by
``samebits.oracle.judge``, when a run ends and again when somebody verifies.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa


def _schema(*fields: tuple[str, pa.DataType, bool]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=nullable) for name, kind, nullable in fields])


TOKENS: Final = _schema(
    # One row per token of every trajectory, prompt tokens too: a prompt token has mask false and null patterns.
    ("arm", pa.string(), False),  # "aligned" or "control"
    ("round", pa.int32(), False),  # 0 before any refit, then one per refit
    ("trajectory", pa.int32(), False),  # within the round, in request order
    ("position", pa.int32(), False),  # absolute in the sequence
    ("token_id", pa.int32(), False),
    ("mask", pa.bool_(), False),  # true: a generated token, compared
    ("rollout_bits", pa.uint32(), True),  # fp32 patterns of the raw logprob of *this* token
    ("recompute_bits", pa.uint32(), True),
    ("train_bits", pa.uint32(), True),
    ("prefill_bits", pa.uint32(), True),  # the engine's own single prefill of the whole sequence; null if not scored
)

TRAJECTORIES: Final = _schema(
    ("arm", pa.string(), False),
    ("round", pa.int32(), False),
    ("trajectory", pa.int32(), False),
    ("group", pa.int32(), False),
    ("prompt_tokens", pa.int32(), False),
    ("response_tokens", pa.int32(), False),
    ("finish_reason", pa.string(), False),
    ("seed", pa.string(), False),
    ("weight_version_start", pa.int32(), False),
    ("weight_version_end", pa.int32(), False),
    ("trainer_version", pa.int32(), False),
    ("recompute_pack", pa.int32(), False),  # which packed forward of the recompute held it
    ("train_pack", pa.int32(), False),
    ("sampling", pa.string(), False),  # the final effective sampling parameters, as sorted JSON
    ("reward", pa.string(), False),
    ("advantage", pa.string(), False),
)

COMMITMENTS: Final = _schema(
    # In the order in which the parent received them (attested); the digests are re-derived from TOKENS.
    ("arm", pa.string(), False),
    ("round", pa.int32(), False),
    ("sequence", pa.int32(), False),  # 0, 1, 2 … within the round
    ("event", pa.string(), False),  # "commit" or "reveal"
    ("side", pa.string(), False),  # "rollout", "recompute", "train", "prefill"
    ("digest", pa.string(), False),
)

REFITS: Final = _schema(
    # One row per tensor and policy version; version 0 is the initial load.
    ("arm", pa.string(), False),
    ("version", pa.int32(), False),
    ("tensor", pa.string(), False),
    ("master", pa.string(), False),  # sha256 of the fp32 master
    ("sent", pa.string(), False),  # of the deployed tensor, sender's side
    ("arrived", pa.string(), False),  # of the tensor in the file, receiver's side
    ("loaded", pa.string(), False),  # of the materialised parameter in the engine
    ("frozen", pa.string(), False),  # why it does not train; empty if it does
)

PROBES: Final = _schema(
    # Rule 3: patterns before and after one ulp on every element of one layer's input norm weight.
    ("layer", pa.int32(), False),
    ("trajectory", pa.int32(), False),
    ("position", pa.int32(), False),
    ("recompute_bits", pa.uint32(), False),
    ("recompute_probed_bits", pa.uint32(), False),
    ("train_bits", pa.uint32(), False),
    ("train_probed_bits", pa.uint32(), False),
)

DECISIONS: Final = _schema(
    # samebits.observed.Decision, of each side that computed: "rollout", "recompute", "train".
    ("arm", pa.string(), False),
    ("round", pa.int32(), False),
    ("side", pa.string(), False),
    ("layer", pa.int32(), False),
    ("what", pa.string(), False),  # "routes", "selection", "scales.attention", …
    ("rows", pa.int64(), False),  # tokens that decided
    ("digest", pa.string(), False),
)

EVENTS: Final = _schema(
    # samebits.observed.Event, of each such side.
    ("arm", pa.string(), False),
    ("round", pa.int32(), False),
    ("side", pa.string(), False),
    ("layer", pa.int32(), False),
    ("what", pa.string(), False),  # "router_tie", "indexer_tie", "tokens_per_expert", …
    ("kind", pa.string(), False),  # "count": a sum over tokens; "level": the largest of any one forward
    ("value", pa.int64(), False),
)

COUNTERS: Final = _schema(
    # engine.protocol.Counters, one row per (arm, round, counter).
    ("arm", pa.string(), False),
    ("round", pa.int32(), False),
    ("counter", pa.string(), False),
    ("value", pa.int64(), False),
)

REFUSALS: Final = _schema(
    ("kind", pa.string(), False),  # "engine", "actor", "request"; "construct" where the engine itself was really built
    ("set", pa.string(), False),  # the excluded fields, as sorted JSON
    ("refused", pa.bool_(), False),
    ("by", pa.string(), False),  # "gate" or the engine's own name
    ("field", pa.string(), False),
    ("message", pa.string(), False),
)

SAMPLER: Final = _schema(
    # The engine's sampler alone: draws against the exact softmax of the same logits (rule 6).
    ("token_id", pa.int32(), False),
    ("probability", pa.float64(), False),
    ("draws", pa.int64(), False),
)

TIMINGS: Final = _schema(
    # The phases of a round do not overlap: a step's time is the sum of its round's rows.
    ("arm", pa.string(), False),
    ("round", pa.int32(), False),  # −1 outside any round
    ("phase", pa.string(), False),  # "rollout", "recompute", "train_forward", "step", "refit", …
    ("worker", pa.string(), False),  # "engine", "actor", "parent"
    ("nanoseconds", pa.int64(), False),
)

FACTS: Final = _schema(
    # What each worker said of itself once built: its ``Constructed`` message, flattened by ``oracle.facts.fact_rows``.
    ("arm", pa.string(), False),
    ("worker", pa.string(), False),  # "engine" or "actor"
    ("name", pa.string(), False),  # "op_set", "dtype", "threads", "libraries.torch", "settings.max_num_seqs", …
    ("value", pa.string(), False),  # as JSON text
)

TABLES: Final[dict[str, pa.Schema]] = {
    "tokens": TOKENS,
    "trajectories": TRAJECTORIES,
    "commitments": COMMITMENTS,
    "refits": REFITS,
    "probes": PROBES,
    "decisions": DECISIONS,
    "events": EVENTS,
    "counters": COUNTERS,
    "refusals": REFUSALS,
    "sampler": SAMPLER,
    "timings": TIMINGS,
    "facts": FACTS,
}
"""Table name to schema; the file of table ``x`` is ``x.parquet``."""
