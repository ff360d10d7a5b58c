"""Where a difference was born: a failed run's first differing token, computed again on both sides and traced.

The run's folder must still be there.  The policy version is made again as a resumed run makes it, the round's rollout
is repeated from its requests and seeds, and both sides' rows are digested op by op (``samebits.traced``).
"""

from samebits.explain.birth import Birth, OpRow
from samebits.explain.differing import Differing
from samebits.explain.explain import explain
from samebits.explain.explanation import Explanation

__all__ = ["Birth", "Differing", "Explanation", "OpRow", "explain"]
