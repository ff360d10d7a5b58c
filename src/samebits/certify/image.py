"""What a run says of the image that it happened in.

The image's own manifest lies among the evidence: its sha256 *is* the image's digest, so that the digest is a subject of
the certificate, checked like any other.
"""

from __future__ import annotations

from pathlib import Path

from samebits import pins
from samebits.certificate import Resource
from samebits.certify.order import Order
from samebits.errors import InputError
from samebits.pins.image import MANIFEST


def enter(order: Order, evidence: Path) -> None:
    """Lay the manifest of the order's image, if it has one, among the evidence of a new run."""
    if order.image is not None:
        (evidence / MANIFEST).write_bytes(order.image.manifest)


def require_same(order: Order, evidence: Path) -> None:
    """Nothing, if an interrupted run goes on in the image, or outside of any, in which it began.

    Raises:
        InputError: it does not.
    """
    path = evidence / MANIFEST
    before = path.read_bytes() if path.is_file() else None
    if before != (None if order.image is None else order.image.manifest):
        raise InputError(
            str(path),
            found="another image, or none" if before is not None else "an image",
            accepted="the image that the run began in" if before is not None else "none: the run began outside of one",
            next_step="Continue it where it began, or start a new run.",
        )


def resources(order: Order) -> list[Resource]:
    """The image as a part of the configuration; none outside of one."""
    if order.image is None:
        return []
    record = order.image.record
    return [
        Resource(
            name=f"image/{record.row}",
            digest={"sha256": record.image.removeprefix("sha256:")},
            annotations={
                "material": record.row_sha256,
                "revision": record.revision,
                "inventorySha256": record.inventory_sha256,
                "sbomSha256": record.sbom_sha256,
                "basePinned": record.base.pinned,
                "baseUsed": record.base.used,
                "builtOn": record.built_on,
            },
        )
    ]


def limitations(order: Order) -> list[str]:
    """What a certificate must say of the image, and of a parent that is not inside it."""
    if order.image is None:
        return []
    said = pins.image.limitations(order.image.record)
    if pins.image.here() is None:
        said.append(
            "Engines and actors each ran in a container of the image; the parent did not, and the environment "
            "describes the parent."
        )
    return said
