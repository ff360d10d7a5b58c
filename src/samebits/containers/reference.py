"""Names of images.  Only a digest names one image; a tag names whatever somebody last called so."""

from __future__ import annotations

import re
from typing import Final

from samebits.errors import InputError

_IMAGE_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PINNED: Final = re.compile(r"[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}")


def is_pinned(reference: str) -> bool:
    """Whether ``reference`` is ``NAME@sha256:…``, ``NAME:TAG@sha256:…`` or an image's id, ``sha256:…``."""
    return bool(_IMAGE_ID.fullmatch(reference) or _PINNED.fullmatch(reference))


def require_pinned(reference: str, *, field: str) -> str:
    """``reference``, if it names one image for ever.

    Raises:
        InputError: a tag, which can be moved, or no image's name.
    """
    if is_pinned(reference):
        return reference
    raise InputError(
        field,
        found=repr(reference[:200]),
        accepted="NAME@sha256:… or sha256:…",
        next_step="A tag can be moved: name the image by its digest (docker image inspect --format '{{.Id}}' NAME).",
    )
