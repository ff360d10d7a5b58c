"""Where a run's time goes, phase by phase, as evidence (attested: nobody can re-derive a duration)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Clock:
    """Collects rows of the ``timings`` table for one arm and round."""

    arm: str
    round: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    @contextlib.contextmanager
    def phase(self, name: str, worker: str) -> Iterator[None]:
        """Time what happens inside, in nanoseconds of a monotonic clock: a clock set back changes nothing."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self.rows.append(
                {
                    "arm": self.arm,
                    "round": self.round,
                    "phase": name,
                    "worker": worker,
                    "nanoseconds": time.perf_counter_ns() - began,
                }
            )

    def seconds(self, name: str) -> float:
        """Seconds spent in phase ``name`` so far."""
        return float(sum(row["nanoseconds"] for row in self.rows if row["phase"] == name)) / 1e9
