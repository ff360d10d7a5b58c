"""What workers said of themselves once built, flat, so that two of them can be laid side by side."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any


def fact_rows(arm: str, worker: str, constructed: Any) -> list[dict[str, str]]:
    """Rows of the ``facts`` table from a ``Constructed`` message (a dataclass instance or a mapping).

    One level of nesting becomes a dotted name: ``settings.max_num_seqs``, ``libraries.torch``.
    """
    is_instance = dataclasses.is_dataclass(constructed) and not isinstance(constructed, type)
    said: Mapping[str, Any] = dataclasses.asdict(constructed) if is_instance else constructed
    flat: dict[str, Any] = {}
    for name, value in said.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": some for inner, some in value.items()}
        else:
            flat[name] = value
    return [
        {"arm": arm, "worker": worker, "name": name, "value": json.dumps(flat[name], sort_keys=True)}
        for name in sorted(flat)
    ]
