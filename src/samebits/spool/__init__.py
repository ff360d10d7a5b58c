"""How the parent and its workers talk: a shared folder with one JSON file per message.

Standard library only; no sockets and no shared memory, so a worker may live in another virtual environment or in
another container that mounts the folder.  The parent starts a :class:`Worker` and calls it; the worker's program ends
in :func:`serve`.  :mod:`samebits.spool.codec` turns the protocols' dataclasses into messages and back.

::

    <spool>/parent.json             the parent's heartbeat; the folder is claimed by creating it
    <spool>/heartbeat.json          the worker's heartbeat
    <spool>/requests/000001.json    calls, in order
    <spool>/replies/000001.json     one for each
    <spool>/progress/000001.json    how far a call is, overwritten
"""

from samebits.spool.codec import from_message, to_message
from samebits.spool.live import Live
from samebits.spool.progress import Progress
from samebits.spool.reaping import Terminated, reaping
from samebits.spool.serve import Handler, serve
from samebits.spool.worker import Worker

__all__ = ["Handler", "Live", "Progress", "Terminated", "Worker", "from_message", "reaping", "serve", "to_message"]
