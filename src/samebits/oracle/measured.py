"""Everything the rules look at, read from the evidence once.  Nothing here judges."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from samebits import bits
from samebits.oracle import tokens as token_rows
from samebits.oracle import trajectories as trajectory_rows
from samebits.oracle.columns import Int64, values
from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.limits import LAYERS, PHASES, ROUNDS
from samebits.oracle.tokens import Tokens
from samebits.oracle.trajectories import ArmTrajectories

Row = dict[str, Any]

LARGEST: Final = 2**32
"""Of what a scheduler counts in one round; sums of such counts have a place in a certificate."""


class Event(NamedTuple):
    """One line of the commitment ledger."""

    sequence: int
    event: str
    side: str
    digest: str


@dataclass(slots=True)
class Probe:
    """Rule 3's probe of one layer, tokens counted."""

    compared: int = 0
    pieces: list[Int64] = field(default_factory=list)
    """(trajectory, position) of each token [N, 2], as they came; a probe covers a few sequences."""
    changed_recompute: int = 0
    changed_train: int = 0
    different_before: int = 0
    different_probed: int = 0
    non_finite: int = 0

    @property
    def places(self) -> Int64:
        """(trajectory, position) of each token [N, 2], sorted, each once."""
        return np.unique(np.concatenate(self.pieces), axis=0)


@dataclass(kw_only=True, slots=True)
class Measured:
    """The evidence, summed up. Its size depends on rounds, tensors and layers, not on tokens."""

    tokens: Tokens
    trajectories: dict[str, ArmTrajectories]
    ledgers: dict[tuple[str, int], list[Event]]
    """Commitments and reveals by (arm, round), in the order of the rows."""
    refits: dict[str, list[Row]]
    """Rows of the refits table by arm."""
    probes: dict[int, Probe]
    counters: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """By (arm, counter): one value per round."""
    decisions: list[Row] = field(default_factory=list)
    """Of the aligned arm."""
    events: list[Row] = field(default_factory=list)
    """Of the aligned arm."""
    refusals: list[Row] = field(default_factory=list)
    sampler: list[Row] = field(default_factory=list)
    timings: list[Row] = field(default_factory=list)
    facts: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """By (arm, worker): name to JSON text."""


def measure(reader: EvidenceReader) -> Measured:
    """Reads every table of ``reader`` once."""
    ledgers: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
    for row in reader.records("commitments"):
        event = Event(*(row[name] for name in Event._fields))  # type: ignore[arg-type]  # the schema fixes the types
        ledgers[str(row["arm"]), _int(row["round"])].append(event)
    refits: defaultdict[str, list[Row]] = defaultdict(list)
    for row in reader.records("refits"):
        refits[str(row["arm"])].append(row)
    counters: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    counted: set[tuple[object, ...]] = set()
    for row in reader.records("counters"):
        key, value = (row["arm"], row["counter"], row["round"]), _int(row["value"])
        if key in counted:
            raise reader.fault("counters: counter", found=f"{key[1]!r} twice for one round", accepted="each once")
        if not 0 <= value <= LARGEST:
            raise reader.fault("counters: value", found=value, accepted=f"0 to {LARGEST}")
        counted.add(key)
        counters[str(row["arm"]), str(row["counter"])].append(value)
    facts: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in reader.records("facts"):
        said = facts[str(row["arm"]), str(row["worker"])]
        name = str(row["name"])
        if name in said:
            raise reader.fault("facts: name", found=f"{name!r} twice for one worker", accepted="each fact once")
        said[name] = str(row["value"])
    for arm, rows in refits.items():
        _few(reader, "refits: version", {row["version"] for row in rows}, ROUNDS, f"versions in the {arm[:80]} arm")
    timings = _nonnegative(reader, "timings", "nanoseconds")
    _few(reader, "timings: phase", {row["phase"] for row in timings}, PHASES, "phases")
    return Measured(
        tokens=token_rows.measure(reader),
        trajectories=trajectory_rows.measure(reader),
        ledgers=dict(ledgers),
        refits=dict(refits),
        probes=_probes(reader),
        counters=dict(counters),
        decisions=[row for row in reader.records("decisions") if row["arm"] == "aligned"],
        events=[row for row in reader.records("events") if row["arm"] == "aligned"],
        refusals=list(reader.records("refusals")),
        sampler=list(reader.records("sampler")),
        timings=timings,
        facts=dict(facts),
    )


def _probes(reader: EvidenceReader) -> dict[int, Probe]:
    names = ("recompute_bits", "recompute_probed_bits", "train_bits", "train_probed_bits")
    found: defaultdict[int, Probe] = defaultdict(Probe)
    for batch in reader.batches("probes"):
        layers, trajectories, positions = (
            values(batch.column(name), np.int32) for name in ("layer", "trajectory", "position")
        )
        sides = [values(batch.column(name), np.uint32) for name in names]
        present = np.unique(layers).tolist()
        _few(reader, "probes: layer", found.keys() | present, LAYERS, "layers")
        for layer in present:
            here = layers == layer
            recompute, recompute_probed, train, train_probed = (side[here] for side in sides)
            finite = np.ones(recompute.size, dtype=np.bool_)
            for side in (recompute, recompute_probed, train, train_probed):
                finite &= bits.is_finite(side)
            probe = found[layer]
            probe.compared += recompute.size
            probe.pieces.append(np.stack([trajectories[here], positions[here]], axis=1).astype(np.int64))
            probe.changed_recompute += int(np.count_nonzero(recompute != recompute_probed))
            probe.changed_train += int(np.count_nonzero(train != train_probed))
            probe.different_before += int(np.count_nonzero(recompute != train))
            probe.different_probed += int(np.count_nonzero(recompute_probed != train_probed))
            probe.non_finite += int(np.count_nonzero(~finite))
    return dict(sorted(found.items()))


def _few(reader: EvidenceReader, field_: str, found: set[Any], most: int, words: str) -> None:
    """What a rule does for each of these, it does few times."""
    if len(found) > most:
        raise reader.fault(field_, found=f"{len(found)} {words}", accepted=f"at most {most}")


def _nonnegative(reader: EvidenceReader, table: str, column: str) -> list[Row]:
    rows: list[Row] = list(reader.records(table))
    for row in rows:
        if row[column] < 0:
            raise reader.fault(f"{table}: {column}", found=row[column], accepted="0 or more")
    return rows


def _int(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - the schema was checked when the file was opened
    return value
