"""What differs between the tensors that were sent and those that were received."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One tensor that did not arrive as it was sent; a digest is empty where there was no such tensor."""

    tensor: str
    kind: Literal["missing", "unexpected", "different"]
    sent: str
    received: str

    def __str__(self) -> str:
        match self.kind:
            case "missing":
                return f"{self.tensor}: sent as {self.sent}, not received"
            case "unexpected":
                return f"{self.tensor}: received as {self.received}, never sent"
            case _:
                return f"{self.tensor}: sent as {self.sent}, received as {self.received}"


def compare(sent: Mapping[str, str], received: Mapping[str, str]) -> list[Difference]:
    """Every tensor whose digest is not the same on both sides, by name; empty if all arrived."""
    found: list[Difference] = []
    for tensor in sorted(sent.keys() | received.keys()):
        before, after = sent.get(tensor, ""), received.get(tensor, "")
        if tensor not in received:
            found.append(Difference(tensor=tensor, kind="missing", sent=before, received=""))
        elif tensor not in sent:
            found.append(Difference(tensor=tensor, kind="unexpected", sent="", received=after))
        elif before != after:
            found.append(Difference(tensor=tensor, kind="different", sent=before, received=after))
    return found
