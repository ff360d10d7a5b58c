"""What is fuzzed: how an input comes about, and what must hold of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random


class FalsePass(AssertionError):
    """An input that says something else than the genuine one, and was taken for it."""


class Target(ABC):
    """One reader.  An instance is made once in each process."""

    name: str
    share: int
    """Of 100 inputs, how many are its."""

    @abstractmethod
    def make(self, random: Random) -> bytes:
        """An input; the same for the same state of ``random``."""

    @abstractmethod
    def read(self, data: bytes) -> None:
        """Gives ``data`` to the reader.

        Raises:
            SamebitsError: it was refused, as it should be.
            Exception: anything else is a failure of the reader, :class:`FalsePass` among it.
        """


def input_of(target: Target, seed: int, number: int) -> bytes:
    """Input ``number`` of ``target`` in the campaign of ``seed``: no other input has to be made first."""
    return target.make(Random(f"{seed}/{target.name}/{number}"))  # noqa: S311 - reproducible, not secret
