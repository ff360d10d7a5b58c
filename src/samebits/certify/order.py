"""What is to be certified: a recipe on a row, with the very bytes that each was read from."""

from __future__ import annotations

from dataclasses import dataclass, field

from samebits.environment import Launcher, OwnEnvironment
from samebits.hashing import sha256_bytes
from samebits.pins import Row
from samebits.pins.image import RunningImage
from samebits.recipe import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """The bytes are subjects of the certificate, so they are kept and never made again from the models."""

    recipe: Recipe
    recipe_file: bytes
    row: Row
    row_file: bytes
    launcher: Launcher = field(default_factory=OwnEnvironment)
    """Starts the run's processes on the row's stack."""
    image: RunningImage | None = None
    """The row's image, where the run or its workers are inside it."""

    @property
    def recipe_sha256(self) -> str:
        """The recipe digest."""
        return sha256_bytes(self.recipe_file)

    @property
    def row_sha256(self) -> str:
        """The row's material digest."""
        return sha256_bytes(self.row_file)
