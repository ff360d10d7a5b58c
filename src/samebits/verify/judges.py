"""Which oracle judges which predicate version.

A published version keeps its judge: a certificate must verify to the same findings for as long as it is kept, however
the kit moves on.  A change of the oracle that changes findings is a new predicate version with a judge of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from samebits import oracle
from samebits.certificate import PREDICATE_TYPE
from samebits.errors import InvalidCertificate
from samebits.recipe import Recipe


class Judge(Protocol):
    """From evidence and recipe to the ``findings`` of a certificate.

    Raises:
        InvalidCertificate: the folder does not hold evidence of this version.
    """

    def __call__(self, evidence: Path, recipe: Recipe) -> dict[str, Any]: ...


def _version_1(evidence: Path, recipe: Recipe) -> dict[str, Any]:
    return oracle.judge(evidence, recipe, error=InvalidCertificate).to_dict()


JUDGES: Final[Mapping[str, Judge]] = {PREDICATE_TYPE: _version_1}
"""By ``predicateType``."""
