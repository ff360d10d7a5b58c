"""The policy worker: recomputes, trains and exports, and is told token ids and rewards only.

``protocol`` says what it answers, ``actor.NativeActor`` answers it, ``python -m samebits.actor.worker`` serves it over
a spool.  Importing this package does not import torch: the parent needs the protocol only.
"""

from __future__ import annotations

from samebits.actor.protocol import Computed, Constructed, Exported, Probed, Replayed, Sealed, Stepped, Tokens

__all__ = ["Computed", "Constructed", "Exported", "Probed", "Replayed", "Sealed", "Stepped", "Tokens"]
