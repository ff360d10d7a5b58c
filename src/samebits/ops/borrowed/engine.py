"""Whether the engine to borrow from is there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from samebits.errors import MachineError


def require_version(distribution: str, accepted: str) -> None:
    """That ``distribution`` is installed here, in exactly the version whose source was read.

    Raises:
        MachineError: it is not.
    """
    try:
        found = version(distribution)
    except PackageNotFoundError:
        found = "nothing"
    if found != accepted:
        raise MachineError(
            f"package {distribution}",
            found=found,
            accepted=f"{accepted}, whose kernels the op set calls",
            next_step="Start the actor in the environment that the row pins.",
        )
