"""Every error the kit raises on purpose, grouped by whose turn it is to act.

Each carries the four things a reader needs: the field or file, what was found, what is accepted, and the
next step.  The group decides the exit code of a run (``docs/exit-codes`` in the README):

====================  ====  ===================================================
group                 exit  whose turn
====================  ====  ===================================================
:class:`InputError`   2     the user's: an argument, a recipe, a file
:class:`GateError`    2     the configuration's: refused, fail-closed
:class:`RowError`     2     the row's: what is installed is not what is pinned
:class:`InvalidCertificate` 2  the certificate's author's
:class:`MachineError` 3     the machine's or a dependency's
:class:`WorkerError`  3     a worker process died, hung or raised
====================  ====  ===================================================

A certification that ran and did not pass is a *result*, not an error: it ends with exit code 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class SamebitsError(Exception):
    """Base of all errors raised on purpose.

    ``field`` names the field or file, ``found`` what was there, ``accepted`` what would have been right,
    ``next_step`` what to do now.  All are plain text, ready for a terminal and for JSON.
    """

    exit_code: ClassVar[int] = 2
    group: ClassVar[str] = "error"

    def __init__(self, field: str, *, found: object, accepted: object, next_step: str) -> None:
        self.field = field
        self.found = str(found)
        self.accepted = str(accepted)
        self.next_step = next_step
        super().__init__(f"{field}: found {self.found}; accepted: {self.accepted}. {next_step}")

    def to_dict(self) -> dict[str, str]:
        """The error as JSON-ready text, the same under every command's ``--json``."""
        return {
            "error": self.group,
            "field": self.field,
            "found": self.found,
            "accepted": self.accepted,
            "next_step": self.next_step,
        }


def from_dict(data: Mapping[str, str]) -> SamebitsError:
    """The error whose :meth:`SamebitsError.to_dict` was ``data``: how one crosses the border of a process.

    Raises:
        KeyError: ``data`` is no error of this module.
    """
    classes = {cls.group: cls for cls in SamebitsError.__subclasses__() if cls.__module__ == __name__}
    return classes[data["error"]](
        data["field"], found=data["found"], accepted=data["accepted"], next_step=data["next_step"]
    )


class InputError(SamebitsError):
    """The user's input is missing, unknown, unreadable or absurd."""

    group = "input"


class GateError(SamebitsError):
    """A configuration or a request that is not certified (RFC WS1: fail-closed)."""

    group = "refused"


class RowError(SamebitsError):
    """What is installed differs from what the row pins."""

    group = "row"


class InvalidCertificate(SamebitsError):
    """A certificate that must not be believed: signature, format, or a claim its evidence does not carry."""

    group = "invalid"


class MachineError(SamebitsError):
    """The machine or a dependency cannot do what was asked."""

    exit_code = 3
    group = "machine"


class WorkerError(SamebitsError):
    """A worker process died, stopped answering, or raised what it should not have."""

    exit_code = 3
    group = "worker"
