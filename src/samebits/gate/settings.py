"""The gate on settings: a positive allowlist, fail-closed (RFC WS1, rule 10).

A row's file names every setting of an engine or an actor and what it accepts; whatever is not named is refused, so
that a setting which nobody has thought about can never slip into a certification.  All conflicts are found at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from samebits.errors import GateError, InputError
from samebits.pins import Allowed, Range, Values
from samebits.schema import nearest

Accepted: TypeAlias = Values | Range
"""What one field accepts, as the row's file says it; ``accepts(value)`` asks, ``str`` is for errors."""

_ACCEPTED: TypeAdapter[Accepted] = TypeAdapter(Allowed)


def accepted_from_json(gate: Mapping[str, Any], *, where: str) -> dict[str, Accepted]:
    """A row's gate table, for instance ``[gate.engine]``, by field name: lists of values and ``{min, max}``.

    Raises:
        InputError: a field of the table is neither; ``where`` names the table.
    """
    return {name: _parse(data, f"{where}.{name}") for name, data in gate.items()}


def conflicts(settings: Mapping[str, Any], accepted: Mapping[str, Accepted], *, where: str) -> list[GateError]:
    """Every field of ``settings`` that ``accepted`` does not name or accept, then every field that is missing.

    ``where`` says whose settings they are, for instance ``engine``.
    """
    found = [
        _unknown(name, accepted, where) if name not in accepted else _value(name, value, accepted[name], where)
        for name, value in settings.items()
        if name not in accepted or not accepted[name].accepts(value)
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


def hint(name: str, names: Mapping[str, Any]) -> str:
    """The next step for an unknown name: its nearest neighbour, or to leave it out."""
    near = nearest(name, names)
    return f"Did you mean {near!r}?" if near else "Remove it."


def _parse(data: Any, path: str) -> Accepted:
    try:
        return _ACCEPTED.validate_python(data)
    except ValidationError as error:
        raise InputError(
            path,
            found=repr(data)[:120],
            accepted=error.errors(include_url=False)[0]["msg"].removeprefix("Value error, "),
            next_step="Mend the row file.",
        ) from None


def _unknown(name: str, accepted: Mapping[str, Accepted], where: str) -> GateError:
    return GateError(
        f"{where}.{name}",
        found="an unknown setting",
        accepted=", ".join(sorted(accepted)) or "no settings at all",
        next_step=hint(name, accepted),
    )


def _value(name: str, value: Any, rule: Accepted, where: str) -> GateError:
    return GateError(
        f"{where}.{name}",
        found=repr(value)[:120],
        accepted=rule,
        next_step="Use an accepted value; this row has not been certified with any other.",
    )
