"""Adapters: NeMo RL's and verl's configurations, held against a row of the certification matrix (RFC WS1).

Each returns either the engine that the configuration asks for (settings, workers' environment, the guard for its
requests), or every conflict at once, in the words of the user's own file.
"""

from __future__ import annotations

from samebits.adapters.nemo_rl import nemo_rl
from samebits.adapters.outcome import Adapted, Outcome, Refused, RequestGuard
from samebits.adapters.verl import verl

__all__ = ["Adapted", "Outcome", "Refused", "RequestGuard", "nemo_rl", "verl"]
