"""The gate: refuses what is not certified, at construction and at every request (RFC WS1, rules 6 and 10).

``settings`` is asked when an engine or an actor is constructed, ``request`` for every request.
"""

from __future__ import annotations

from samebits.gate import request, settings
from samebits.gate.settings import Accepted, accepted_from_json

__all__ = ["Accepted", "accepted_from_json", "request", "settings"]
