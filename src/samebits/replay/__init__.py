"""A certificate's evidence, executed again: what a signature cannot promise, a matching machine can find out.

``verify`` checks the arithmetic from evidence to verdict.  Whoever holds the key can make evidence up, so this room
makes the weights again from recipe and recorded steps and runs what the evidence says was run.
"""

from samebits.replay.chance import Chance, chances
from samebits.replay.differences import Difference
from samebits.replay.outcome import Outcome
from samebits.replay.replay import replay, row_of

__all__ = ["Chance", "Difference", "Outcome", "chances", "replay", "row_of"]
