"""The gate: refuses what is not certified, at construction and at every request (RFC WS1, rules 6 and 10)."""

from __future__ import annotations

from samebits.gate.request import conforming
from samebits.gate.settings import Accepted, accepted_from_json

__all__ = ["Accepted", "accepted_from_json", "conforming"]
