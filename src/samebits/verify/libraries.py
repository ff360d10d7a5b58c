"""The libraries that the workers say they computed with, against those that the row pins.  Their word: *attested*."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from samebits.errors import InvalidCertificate
from samebits.oracle import EvidenceReader

_PREFIX: Final = "libraries."


@dataclass(frozen=True, kw_only=True, slots=True)
class Libraries:
    """What was said: ``as_pinned`` in words, and every library that is not what the row pins."""

    as_pinned: list[str] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.otherwise:
            return f"NOT what the row pins: {'; '.join(self.otherwise)}"
        if self.as_pinned:
            return f"as the row pins them: {', '.join(self.as_pinned)}"
        return "the workers name none that the row pins"


def libraries(evidence: Path, row: Mapping[str, Any]) -> Libraries:
    """The ``libraries.*`` facts of every worker in ``evidence`` against the pins of ``row``, a parsed row file.

    Raises:
        InvalidCertificate: the evidence cannot be read.
    """
    pinned = _pinned(row)
    reader = EvidenceReader(evidence, error=InvalidCertificate)
    said = sorted(
        {
            (str(fact["name"]).removeprefix(_PREFIX), _text(str(fact["value"])))
            for fact in reader.records("facts")
            if str(fact["name"]).startswith(_PREFIX)
        }
    )
    found = Libraries()
    for name, version in said:
        if name not in pinned:
            continue
        # A pin without a local version means any: torch's public wheel 2.13.0 calls itself 2.13.0+cu130 once imported.
        if version in pinned[name] or version.partition("+")[0] in pinned[name]:
            found.as_pinned.append(f"{name} {version}")
        else:
            found.otherwise.append(f"{name} {version[:80]}, pinned {' or '.join(pinned[name])}")
    return found


def _pinned(row: Mapping[str, Any]) -> dict[str, list[str]]:
    """Accepted versions by distribution; of torch, those of the accepted builds."""
    pinned: dict[str, list[str]] = {}
    for package in _tables(row.get("packages")):
        name, version = package.get("name"), package.get("version")
        if isinstance(name, str) and isinstance(version, str):
            pinned.setdefault(name, []).append(version)
    builds = [build.get("version") for build in _tables(row.get("torch_builds"))]
    texts = dict.fromkeys(build for build in builds if isinstance(build, str))
    if texts:
        pinned["torch"] = list(texts)
    return pinned


def _tables(value: Any) -> list[dict[str, Any]]:
    # Rows of other kits may have other fields: what is no table of pins pins nothing.
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: str) -> str:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, str) else value
