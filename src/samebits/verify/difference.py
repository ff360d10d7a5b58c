"""Where two JSON values differ, by path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_LONGEST = 160
_ABSENT: Final = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One path at which the signed value is not the derived one; both as JSON text, ``nothing`` where there is none."""

    path: str
    signed: str
    derived: str

    def to_dict(self) -> dict[str, str]:
        return {"path": self.path, "signed": self.signed, "derived": self.derived}

    def __str__(self) -> str:
        return f"{self.path}: signed {self.signed}, derived {self.derived}"


def differences(signed: Any, derived: Any, path: str = "") -> Iterator[Difference]:
    """Every place where ``signed`` differs from ``derived``, types and all: ``true`` is not 1."""
    if isinstance(signed, dict) and isinstance(derived, dict):
        for key in sorted(signed.keys() | derived.keys()):
            yield from differences(
                signed.get(key, _ABSENT), derived.get(key, _ABSENT), f"{path}.{key}" if path else key
            )
    elif isinstance(signed, list) and isinstance(derived, list):
        for index in range(max(len(signed), len(derived))):
            left = signed[index] if index < len(signed) else _ABSENT
            right = derived[index] if index < len(derived) else _ABSENT
            yield from differences(left, right, f"{path}[{index}]")
    elif type(signed) is not type(derived) or signed != derived:
        yield Difference(path=path or "top level", signed=_text(signed), derived=_text(derived))


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    # default: dates, which TOML has and JSON has not
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
