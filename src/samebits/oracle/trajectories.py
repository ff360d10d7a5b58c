"""One pass over the trajectories table: versions, packings, sampling parameters, rewards, round by round."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.findings import Faults
from samebits.oracle.layout import ARMS
from samebits.oracle.sampling import nonconforming

FINISH_REASONS = ("stop", "length", "cancelled")


@dataclass(slots=True)
class RoundTrajectories:
    """The trajectories of one round of one arm."""

    count: int = 0
    shortest: int = 0
    longest: int = 0
    groups: Counter[int] = field(default_factory=Counter)
    recompute_packs: list[int] = field(default_factory=list)
    train_packs: list[int] = field(default_factory=list)

    @property
    def moved(self) -> int:
        """Trajectories that were packed with other neighbours in the training forward than in the recompute."""
        recompute, train = _neighbours(self.recompute_packs), _neighbours(self.train_packs)
        return sum(one != other for one, other in zip(recompute, train, strict=True))


@dataclass(slots=True)
class ArmTrajectories:
    """The trajectories of one arm. Only counts stay from a round's trajectories once the next round begins."""

    count: int = 0
    by_round: dict[int, int] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    """By round, :attr:`RoundTrajectories.moved`."""
    longest: int = 0
    empty: Faults = field(default_factory=Faults)
    shape: Faults = field(default_factory=Faults)
    versions: Faults = field(default_factory=Faults)
    sampling: Faults = field(default_factory=Faults)
    group_sizes: Counter[int] = field(default_factory=Counter)
    finish_reasons: Counter[str] = field(default_factory=Counter)
    reward_sum: Fraction = Fraction(0)


def measure(reader: EvidenceReader) -> dict[str, ArmTrajectories]:
    """Streams the trajectories table once, by arm."""
    arms = {arm: ArmTrajectories() for arm in ARMS}
    current: tuple[str, int] | None = None
    rows = RoundTrajectories()
    for row in reader.records("trajectories"):
        arm_name, round_ = str(row["arm"]), _int(row["round"])
        if arm_name not in arms:
            raise reader.fault("trajectories: arm", found=repr(arm_name), accepted=" or ".join(ARMS))
        if current != (arm_name, round_):
            _close(arms, current, rows)
            if current is not None and (ARMS.index(arm_name), round_) <= (ARMS.index(current[0]), current[1]):
                arms[arm_name].shape.add(f"{arm_name}, round {round_} comes after {current[0]}, round {current[1]}")
            current, rows = (arm_name, round_), RoundTrajectories()
        _add(reader, arms[arm_name], rows, row)
    _close(arms, current, rows)
    return arms


def _add(reader: EvidenceReader, arm: ArmTrajectories, rows: RoundTrajectories, row: dict[str, object]) -> None:
    round_, number = _int(row["round"]), _int(row["trajectory"])
    where = f"{row['arm']}, round {round_}, trajectory {number}"
    if number != rows.count:
        arm.shape.add(f"{where} where trajectory {rows.count} belongs")
    if _int(row["prompt_tokens"]) < 1:
        arm.shape.add(f"{where} has no prompt")
    if _int(row["response_tokens"]) < 1:
        arm.empty.add(f"{where} has no response token")
    if row["finish_reason"] not in FINISH_REASONS:
        arm.shape.add(f"{where} has the finish reason {row['finish_reason']!r}")
    versions = [_int(row[name]) for name in ("weight_version_start", "weight_version_end", "trainer_version")]
    if versions != [round_] * 3:
        start, end, trainer = versions
        arm.versions.add(f"{where}: started under version {start}, ended under {end}, trained under {trainer}")
    for fault in nonconforming(str(row["sampling"])):
        arm.sampling.add(f"{where}: {fault}")
    arm.finish_reasons[str(row["finish_reason"])] += 1
    arm.reward_sum += _decimal(reader, str(row["reward"]), "trajectories: reward")
    arm.longest = max(arm.longest, _int(row["response_tokens"]))
    rows.count += 1
    rows.groups[_int(row["group"])] += 1
    rows.recompute_packs.append(_int(row["recompute_pack"]))
    rows.train_packs.append(_int(row["train_pack"]))


def _close(arms: dict[str, ArmTrajectories], current: tuple[str, int] | None, rows: RoundTrajectories) -> None:
    if current is None:
        return
    arm = arms[current[0]]
    arm.count += rows.count
    arm.by_round[current[1]] = rows.count
    arm.moved[current[1]] = rows.moved
    arm.group_sizes.update(rows.groups.values())


def _neighbours(packs: Iterable[int]) -> list[frozenset[int]]:
    packs = list(packs)
    members: defaultdict[int, set[int]] = defaultdict(set)
    for trajectory, pack in enumerate(packs):
        members[pack].add(trajectory)
    frozen = {pack: frozenset(some) for pack, some in members.items()}
    return [frozen[pack] for pack in packs]


def _int(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - the schema was checked when the file was opened
    return value


def _decimal(reader: EvidenceReader, text: str, field_name: str) -> Fraction:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or abs(value.adjusted()) > 64:  # noqa: PLR2004 - no reward needs more; a Fraction would
        raise reader.fault(field_name, found=repr(text[:80]), accepted="a finite decimal")
    return Fraction(value)
