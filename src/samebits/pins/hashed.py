"""Hashed requirements files: blocks of one pinned release and the sha256 of its files, as pip and uv read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name

from samebits.errors import InputError

_HASH = "--hash=sha256:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """One release: ``name==version``, the marker under which it is installed, and the sha256 of each of its files."""

    name: NormalizedName
    version: str
    marker: str
    hashes: tuple[str, ...]

    def applies(self, environment: Mapping[str, str] | None = None) -> bool:
        """Whether the marker holds here, or in ``environment`` (names of PEP 508)."""
        if not self.marker:
            return True
        marker = Requirement(f"x ; {self.marker}").marker
        overrides: dict[str, Any] = dict(environment or {})
        return marker is None or marker.evaluate(overrides)

    def __str__(self) -> str:
        head = f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")
        return " \\\n    ".join([head, *(_HASH + digest for digest in self.hashes)])


def parse(text: str, *, source: str) -> list[Pin]:
    """The pins of a requirements file, in its order.

    Raises:
        InputError: a requirement without exact version or hashes; ``source`` names the file.
    """
    return [_pin(line, source) for line in _logical_lines(text)]


def render(pins: list[Pin], *, comment: str) -> str:
    """The file's text: the comment, then the pins by name."""
    lines = [f"# {line}" for line in comment.splitlines()]
    return "\n".join([*lines, *(str(pin) for pin in sorted(pins, key=lambda pin: (pin.name, pin.version)))]) + "\n"


def _logical_lines(text: str) -> Iterator[str]:
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def _pin(line: str, source: str) -> Pin:
    head, *rest = line.split(_HASH)
    hashes = [part.strip() for part in rest]
    try:
        requirement = Requirement(head.strip())
    except InvalidRequirement:
        raise _malformed(source, head) from None
    specifiers = list(requirement.specifier)
    if len(specifiers) != 1 or specifiers[0].operator != "==" or not hashes:
        raise _malformed(source, head)
    return Pin(
        name=canonicalize_name(requirement.name),
        version=specifiers[0].version,
        marker=str(requirement.marker or ""),
        hashes=tuple(sorted(hashes)),
    )


def _malformed(source: str, head: str) -> InputError:
    return InputError(
        source,
        found=repr(head.strip()[:120]),
        accepted="name==version with at least one --hash=sha256:",
        next_step="Make the file with `samebits lock`; do not edit it.",
    )
