"""What a gate accepts in one field: a list of values, or a range.

An allowlist, never a blocklist: what nobody thought of is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator

Value: TypeAlias = Any
"""A scalar, or a list or table of values: vLLM has settings that are lists and tables."""


@dataclass(frozen=True, slots=True)
class Values:
    """The accepted values. No value at all accepts only *unset* (None): TOML has no word for it."""

    accepted: tuple[Value, ...]

    def accepts(self, value: object) -> bool:
        """Whether ``value`` is one of these: 1 and 1.0 are the same, 1 and true are not."""
        if value is None:
            return not self.accepted
        return any(_same(value, accepted) for accepted in self.accepted)

    def __str__(self) -> str:
        return " or ".join(_literal(value) for value in self.accepted) or "unset"


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``minimum`` to ``maximum``, both included; whole numbers only if both ends are."""

    minimum: int | float
    maximum: int | float

    def accepts(self, value: object) -> bool:
        """Whether ``value`` is a number in this range; NaN and true never are."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        whole = isinstance(self.minimum, int) and isinstance(self.maximum, int)
        return (isinstance(value, int) or not whole) and self.minimum <= value <= self.maximum

    def __str__(self) -> str:
        return f"{self.minimum} … {self.maximum}"


def exactly(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The rules, JSON-ready, that let through these values of these fields and no others."""
    return {name: [] if value is None else [value] for name, value in settings.items()}


def _parse(data: Any) -> Values | Range:
    if isinstance(data, Values | Range):
        return data
    if isinstance(data, list) and all(_is_value(value) for value in data):
        return Values(tuple(data))
    if isinstance(data, dict) and data.keys() == {"min", "max"}:
        ends = (data["min"], data["max"])
        if all(isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) for end in ends):
            if ends[0] > ends[1]:
                raise ValueError("min no larger than max")
            return Range(*ends)
    raise ValueError("a list of values ([]: must stay unset), or {min = …, max = …}")


def _is_value(data: object) -> bool:
    if isinstance(data, list):
        return all(_is_value(value) for value in data)
    if isinstance(data, dict):
        return all(isinstance(name, str) and _is_value(value) for name, value in data.items())
    if isinstance(data, float) and not math.isfinite(data):
        raise ValueError("finite numbers")
    return isinstance(data, bool | int | float | str)


def _same(value: object, accepted: Value) -> bool:
    if isinstance(value, bool) or isinstance(accepted, bool):
        return value is accepted
    if isinstance(value, int | float) and isinstance(accepted, int | float):
        return value == accepted
    if isinstance(value, list | tuple) and isinstance(accepted, list | tuple):
        return len(value) == len(accepted) and all(_same(*pair) for pair in zip(value, accepted, strict=True))
    if isinstance(value, dict) and isinstance(accepted, dict):
        return value.keys() == accepted.keys() and all(_same(value[name], accepted[name]) for name in accepted)
    return isinstance(value, str) and isinstance(accepted, str) and value == accepted


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, list | dict) else repr(value)


def _to_toml(allowed: Values | Range) -> Any:
    if isinstance(allowed, Values):
        return list(allowed.accepted)
    return {"min": allowed.minimum, "max": allowed.maximum}


Allowed = Annotated[Values | Range, PlainValidator(_parse), PlainSerializer(_to_toml)]
"""What a gate table holds per field. Ask ``allowed.accepts(value)``; ``str(allowed)`` is for errors."""
