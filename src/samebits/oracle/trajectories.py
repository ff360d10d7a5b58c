"""One pass over the trajectories table: versions, packings, sampling parameters, rewards, round by round."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from samebits.oracle.columns import Bools, Int32, Int64, codes, values
from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.findings import Faults
from samebits.oracle.layout import ARMS
from samebits.oracle.limits import REWARD_CHARACTERS
from samebits.oracle.sampling import nonconforming

FINISH_REASONS: Final = ("stop", "length", "cancelled")

_NUMBERS: Final = (
    "round",
    "trajectory",
    "group",
    "prompt_tokens",
    "response_tokens",
    "weight_version_start",
    "weight_version_end",
    "trainer_version",
    "recompute_pack",
    "train_pack",
)
_TEXTS: Final = ("finish_reason", "sampling", "reward")


@dataclass(slots=True)
class ArmTrajectories:
    """The trajectories of one arm: what is wrong with them, and counts; none of them is kept."""

    count: int = 0
    by_round: dict[int, int] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    """By round: trajectories that had other neighbours in the training forward's packs than in the recompute's."""
    computed: dict[int, int] = field(default_factory=dict)
    """By round: tokens but the last of each trajectory, from which nothing is predicted."""
    first_round: list[Int64] = field(default_factory=list)
    """Of round 0, in pieces [N, 3]: trajectory, where its response begins and where it ends; some are probed."""
    longest: int = 0
    empty: Faults = field(default_factory=Faults)
    shape: Faults = field(default_factory=Faults)
    versions: Faults = field(default_factory=Faults)
    sampling: Faults = field(default_factory=Faults)
    group_sizes: Counter[int] = field(default_factory=Counter)
    finish_reasons: Counter[str] = field(default_factory=Counter)
    reward_sum: Fraction = Fraction(0)

    def responses_of(self, wanted: Int64) -> dict[int, tuple[int, int]]:
        """Where the responses of these trajectories of round 0 begin and end; those that there are."""
        found: dict[int, tuple[int, int]] = {}
        for piece in self.first_round:
            rows = piece[np.isin(piece[:, 0], wanted)].tolist()
            found |= {trajectory: (begin, end) for trajectory, begin, end in rows}
        return found


@dataclass(slots=True)
class _Round:
    """The round that is being read; a batch may end in the middle of it."""

    arm: int
    number: int
    count: int = 0
    groups: list[Int32] = field(default_factory=list)
    prompts: list[Int32] = field(default_factory=list)
    recompute_packs: list[Int32] = field(default_factory=list)
    train_packs: list[Int32] = field(default_factory=list)


def measure(reader: EvidenceReader) -> dict[str, ArmTrajectories]:
    """Streams the trajectories table once, by arm."""
    arms = {arm: ArmTrajectories() for arm in ARMS}
    current: _Round | None = None
    runs = 0
    for batch in reader.batches("trajectories", ("arm", *_NUMBERS, *_TEXTS), codes_for=("arm", *_TEXTS)):
        numbers = {name: values(batch.column(name), np.int32) for name in _NUMBERS}
        arm_codes, places = codes(batch.column("arm"), ARMS)
        arm_numbers = places[arm_codes]
        if (arm_numbers < 0).any():
            raise reader.fault("trajectories: arm", found="another arm", accepted=" or ".join(ARMS))
        reader.check_rounds("trajectories", numbers["round"])
        found = list(_runs(arm_numbers, numbers["round"]))
        runs += len(found) - 1
        reader.check_runs("trajectories", runs)
        for low, high in found:
            key = int(arm_numbers[low]), int(numbers["round"][low])
            if current is None or (current.arm, current.number) != key:
                _close(arms, current)
                if current is not None and key < (current.arm, current.number):
                    arms[ARMS[key[0]]].shape.add(
                        f"{ARMS[key[0]]}, round {key[1]} comes after {ARMS[current.arm]}, round {current.number}"
                    )
                current = _Round(*key)
            _check(arms[ARMS[key[0]]], current, {name: column[low:high] for name, column in numbers.items()})
            _check_texts(reader, arms[ARMS[key[0]]], current, batch.slice(low, high - low))
    _close(arms, current)
    return arms


def _check(arm: ArmTrajectories, round_: _Round, rows: dict[str, Int32]) -> None:
    """Rows of one round, in order: numbered without gaps, of a sane shape, under one version."""
    where, trajectory = _namer(round_), rows["trajectory"]
    due = np.arange(round_.count, round_.count + trajectory.size)
    _report(arm.shape, trajectory != due, lambda row: f"{where(trajectory[row])} where trajectory {due[row]} belongs")
    _report(arm.shape, rows["prompt_tokens"] < 1, lambda row: f"{where(trajectory[row])} has no prompt")
    _report(arm.empty, rows["response_tokens"] < 1, lambda row: f"{where(trajectory[row])} has no response token")
    start, end, trainer = (rows[name] for name in ("weight_version_start", "weight_version_end", "trainer_version"))
    number = round_.number
    _report(
        arm.versions,
        (start != number) | (end != number) | (trainer != number),
        lambda row: (
            f"{where(trajectory[row])}: started under version {start[row]}, ended under {end[row]}, "
            f"trained under {trainer[row]}"
        ),
    )
    tokens = rows["prompt_tokens"].sum() + rows["response_tokens"].sum() - trajectory.size
    arm.computed[number] = arm.computed.get(number, 0) + int(tokens)
    arm.longest = max(arm.longest, int(rows["response_tokens"].max()))
    round_.groups.append(rows["group"])
    round_.prompts.append(rows["prompt_tokens"])
    if number == 0:
        ends = rows["prompt_tokens"].astype(np.int64) + rows["response_tokens"]
        arm.first_round.append(np.stack([trajectory, rows["prompt_tokens"], ends], axis=1))
    round_.recompute_packs.append(rows["recompute_pack"])
    round_.train_packs.append(rows["train_pack"])


def _check_texts(reader: EvidenceReader, arm: ArmTrajectories, round_: _Round, rows: pa.RecordBatch) -> None:
    """Each distinct text is looked at once."""
    first = round_.count
    round_.count += rows.num_rows
    where = _namer(round_)
    for text, place, count in _distinct(rows.column("finish_reason")):
        arm.finish_reasons[text] += count
        if text not in FINISH_REASONS:
            arm.shape.add(f"{where(first + place)} has the finish reason {text[:80]!r}", count)
    for text, place, count in _distinct(rows.column("sampling")):
        for fault in nonconforming(text):
            arm.sampling.add(f"{where(first + place)}: {fault}", count)
    for text, _, count in _distinct(rows.column("reward")):
        arm.reward_sum += _decimal(reader, text, "trajectories: reward") * count


def _close(arms: dict[str, ArmTrajectories], round_: _Round | None) -> None:
    if round_ is None:
        return
    arm = arms[ARMS[round_.arm]]
    arm.count += round_.count
    arm.by_round[round_.number] = round_.count
    arm.moved[round_.number] = _moved(np.concatenate(round_.recompute_packs), np.concatenate(round_.train_packs))
    groups, prompts = np.concatenate(round_.groups), np.concatenate(round_.prompts)
    kinds, counts = np.unique_counts(groups)
    arm.group_sizes.update(counts.tolist())
    # A group answers one prompt; a longer one would hide response tokens behind the mask.
    whole = np.unique(np.stack([groups, prompts]), axis=1).shape[1]
    if whole != kinds.size:
        arm.shape.add(f"{ARMS[round_.arm]}, round {round_.number}: a group has prompts of different lengths")


def _moved(recompute: Int32, train: Int32) -> int:
    """How many trajectories have other neighbours in one packing than in the other.

    A pack is the same set of trajectories in both exactly if it is as large in both as their intersection.
    """
    both = recompute.astype(np.int64) << 32 | train.astype(np.int64) & 0xFFFF_FFFF
    in_recompute, in_train, in_both = (_pack_sizes(packs) for packs in (recompute, train, both))
    return int(np.count_nonzero((in_recompute != in_both) | (in_train != in_both)))


def _pack_sizes(packs: npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[np.intp]:
    """For each trajectory, how many are in its pack."""
    _, inverse, counts = np.unique(packs, return_inverse=True, return_counts=True)
    sizes: npt.NDArray[np.intp] = counts[inverse]
    return sizes


def _runs(arms: Int32, rounds: Int32) -> Iterator[tuple[int, int]]:
    changes = np.flatnonzero((arms[1:] != arms[:-1]) | (rounds[1:] != rounds[:-1])) + 1
    bounds = [0, *changes.tolist(), arms.size]
    yield from ((low, high) for low, high in itertools.pairwise(bounds) if low < high)


def _namer(round_: _Round) -> Callable[[Any], str]:
    return lambda trajectory: f"{ARMS[round_.arm]}, round {round_.number}, trajectory {trajectory}"


def _report(faults: Faults, wrong: Bools, describe: Callable[[int], str]) -> None:
    count = int(np.count_nonzero(wrong))
    if count:
        faults.add(describe(int(np.argmax(wrong))), count)


def _distinct(column: pa.DictionaryArray) -> Iterator[tuple[str, int, int]]:
    """Each text of ``column`` with the row where it first stands and how often it does."""
    texts = column.dictionary
    found, places, counts = np.unique(values(column.indices, np.int32), return_index=True, return_counts=True)
    for code, place, count in zip(found.tolist(), places.tolist(), counts.tolist(), strict=True):
        yield texts[code].as_py(), place, count


def _decimal(reader: EvidenceReader, text: str, name: str) -> Fraction:
    try:
        value = Decimal(text if len(text) <= REWARD_CHARACTERS else "NaN")
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or abs(value.adjusted()) > REWARD_CHARACTERS:  # no reward needs more; a Fraction would
        raise reader.fault(name, found=repr(text[:80]), accepted="a finite decimal")
    return Fraction(value)
