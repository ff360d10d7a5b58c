"""What a worker constructs and then keeps: an engine or an actor."""

from __future__ import annotations

from typing import Generic, TypeVar

from samebits.errors import InputError

T = TypeVar("T")


class Live(Generic[T]):
    """Holds nothing until something was constructed; ``what`` names it in errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.held: T | None = None

    @property
    def it(self) -> T:
        """What was constructed.

        Raises:
            InputError: nothing was, so far.
        """
        if self.held is None:
            raise InputError(
                self._what,
                found="nothing constructed",
                accepted="a call of construct that succeeded",
                next_step=f"Construct the {self._what} first.",
            )
        return self.held
