"""What a row asks for, and what was found: one thing, and all of it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

SHOWN: Final = 12
"""Digits of a digest that a finding shows, and names it lists before it only counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing a row asks for: what was found, what is accepted."""

    name: str
    found: str
    accepted: str
    ok: bool
    limitation: str = ""
    """What a certificate must say of something that is accepted all the same; empty if nothing."""

    def to_dict(self) -> dict[str, str | bool]:
        """As JSON-ready values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Computing:
    """One installed distribution that computes."""

    name: str
    sha256: str
    """Of its wheel, or of its installed content where the wheel is unknown; ``annotations`` say which."""
    """Of the wheel it was installed from."""
    annotations: Mapping[str, str]
    """Version, Python and platform tags, and the digest of its installed content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """Everything a row asks for, and the distributions that compute."""

    findings: list[Finding]
    computing: list[Computing]


def listed(names: Sequence[str]) -> str:
    """The names, or the first dozen of them and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
