"""The gate on settings: a positive allowlist, fail-closed (RFC WS1, rule 10).

A row's file names every setting of an engine or an actor and what it accepts; whatever is not named is refused, so
that a setting which nobody has thought about can never slip into a certification.  All conflicts are found at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from samebits.errors import GateError, InputError

Scalar: TypeAlias = bool | int | float | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What one field accepts: any of ``values``, anything from ``minimum`` to ``maximum``, or nothing at all.

    Types count: ``True`` is not 1, 1 is not 1.0 and ``"1"`` is neither.
    """

    values: tuple[Scalar, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    none: bool = False
    """Whether "not set" is accepted. TOML has no null, so a row writes ``none = true``."""

    @classmethod
    def from_json(cls, data: Any, *, path: str) -> Accepted:
        """A row's words for it: a list of values, or ``{values, min, max, none}``.

        Raises:
            InputError: ``data`` is neither, or accepts nothing; ``path`` names the field.
        """
        if isinstance(data, list):
            data = {"values": data}
        if not isinstance(data, Mapping) or not data or not set(data) <= {"values", "min", "max", "none"}:
            _malformed(path, data)
        values, low, high, none = data.get("values", []), data.get("min"), data.get("max"), data.get("none", False)
        if not isinstance(values, list) or not isinstance(none, bool):
            _malformed(path, data)
        if not all(value is None or type(value) in {bool, int, float, str} for value in values):
            _malformed(path, data)
        if (low is None) != (high is None) or not _is_range(low, high):
            _malformed(path, data)
        accepted = cls(
            values=tuple(value for value in values if value is not None),
            minimum=low,
            maximum=high,
            none=none or None in values,
        )
        if accepted == cls():
            _malformed(path, data)
        return accepted

    def admits(self, value: Any) -> bool:
        """Whether ``value`` is accepted, type and all."""
        if value is None:
            return self.none
        if any(type(value) is type(candidate) and value == candidate for candidate in self.values):
            return True
        if self.minimum is None or self.maximum is None or type(value) is not type(self.minimum):
            return False
        return bool(self.minimum <= value <= self.maximum)  # false for NaN

    def __str__(self) -> str:
        parts = [repr(value) for value in self.values]
        if self.minimum is not None:
            parts.append(f"{self.minimum!r} to {self.maximum!r} ({type(self.minimum).__name__})")
        if self.none:
            parts.append("None")
        return " or ".join(parts)


def accepted_from_json(gate: Mapping[str, Any], *, where: str) -> dict[str, Accepted]:
    """A row's gate table, for instance ``[gate.engine]``, as :class:`Accepted` by field name.

    Raises:
        InputError: a field of the table is malformed.
    """
    return {name: Accepted.from_json(data, path=f"{where}.{name}") for name, data in gate.items()}


def conflicts(settings: Mapping[str, Any], accepted: Mapping[str, Accepted], *, where: str) -> list[GateError]:
    """Every field of ``settings`` that ``accepted`` does not name or admit, then every field that is missing.

    ``where`` says whose settings they are, for instance ``engine``.
    """
    found = [
        _unknown(name, accepted, where=where) if name not in accepted else _value(name, value, accepted[name], where)
        for name, value in settings.items()
        if name not in accepted or not accepted[name].admits(value)
    ]
    missing = [
        GateError(
            f"{where}.{name}",
            found="nothing",
            accepted=rule,
            next_step="State it: the gate fills in no defaults.",
        )
        for name, rule in accepted.items()
        if name not in settings
    ]
    return found + missing


def check(settings: Mapping[str, Any], accepted: Mapping[str, Accepted], *, where: str) -> None:
    """Passes certified ``settings``.

    Raises:
        GateError: the first conflict, with the others named behind it.
    """
    raise_first(conflicts(settings, accepted, where=where))


def raise_first(found: list[GateError]) -> None:
    """Raises the first of ``found``, its next step naming the fields of the others; returns if there are none."""
    if not found:
        return
    first, *others = found
    if not others:
        raise first
    names = ", ".join(other.field for other in others)
    raise GateError(
        first.field,
        found=first.found,
        accepted=first.accepted,
        next_step=f"{first.next_step} {len(others)} more conflict(s): {names}.",
    )


def nearest(name: str, names: Iterable[str]) -> str:
    """The hint for an unknown name: its nearest neighbour, or to leave it out."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {near[0]!r}?" if near else "Remove it."


def _unknown(name: str, accepted: Mapping[str, Accepted], *, where: str) -> GateError:
    return GateError(
        f"{where}.{name}",
        found="an unknown setting",
        accepted=", ".join(sorted(accepted)) or "no settings at all",
        next_step=nearest(name, accepted),
    )


def _value(name: str, value: Any, rule: Accepted, where: str) -> GateError:
    return GateError(
        f"{where}.{name}",
        found=repr(value),
        accepted=rule,
        next_step="Use an accepted value; this row has not been certified with any other.",
    )


def _is_range(low: Any, high: Any) -> bool:
    if low is None:
        return True
    return type(low) is type(high) and type(low) in {int, float} and bool(low <= high)


def _malformed(path: str, data: Any) -> NoReturn:
    raise InputError(
        path,
        found=repr(data)[:120],
        accepted="a list of values, or a table of values, min with max of one type, none",
        next_step="Mend the row file.",
    )
