"""What a run says of the image that it happened in, and that it is continued in no other."""

from __future__ import annotations

import json

import pytest

from samebits import pins, recipe
from samebits.certificate import Resource
from samebits.certify import image
from samebits.certify.order import Order
from samebits.errors import InputError
from samebits.hashing import sha256_bytes
from samebits.pins.image import Base, Record, RunningImage

MANIFEST = json.dumps({"schemaVersion": 2}).encode()
DIGEST = sha256_bytes(MANIFEST)


@pytest.fixture
def outside():
    loaded, recipe_file = recipe.load("ds4-small")
    row, row_file = pins.load("cpu")
    return Order(recipe=loaded, recipe_file=recipe_file, row=row, row_file=row_file)


@pytest.fixture
def inside(outside):
    record = Record(
        schema_version=1,
        row="cpu",
        row_sha256="1" * 64,
        kit_sha256="2" * 64,
        revision="3" * 40,
        image=f"sha256:{DIGEST}",
        base=Base(pinned="a:1@sha256:x", used="a:1@sha256:x"),
        inventory_sha256="4" * 64,
        sbom_sha256="5" * 64,
        arch="x86_64",
        built_on="2026-11-30T12:00:00Z",
    )
    return Order(
        recipe=outside.recipe,
        recipe_file=outside.recipe_file,
        row=outside.row,
        row_file=outside.row_file,
        image=RunningImage(record, MANIFEST),
    )


def test_outside_of_an_image_nothing_is_said(outside, tmp_path):
    image.enter(outside, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert image.resources(outside) == []
    assert image.limitations(outside) == []
    image.require_same(outside, tmp_path)


def test_the_images_digest_is_that_of_a_file_among_the_evidence(inside, tmp_path):
    image.enter(inside, tmp_path)
    assert sha256_bytes((tmp_path / "image.manifest.json").read_bytes()) == DIGEST
    image.require_same(inside, tmp_path)


def test_the_configuration_names_it(inside):
    (resource,) = image.resources(inside)
    assert (resource.name, resource.digest) == ("image/cpu", {"sha256": DIGEST})
    assert resource.annotations["inventorySha256"] == "4" * 64
    assert resource.annotations["baseUsed"] == "a:1@sha256:x"
    assert Resource(**resource.model_dump(exclude_unset=True)) == resource  # as it travels through the manifest


def test_a_parent_outside_says_so(inside, monkeypatch):
    (said,) = image.limitations(inside)
    assert said.startswith("Engines and actors each ran in a container of the image; the parent did not")
    monkeypatch.setattr(pins.image, "here", lambda: inside.image)
    assert image.limitations(inside) == []


def test_a_run_goes_on_where_it_began(inside, outside, tmp_path):
    with pytest.raises(InputError) as caught:
        image.require_same(inside, tmp_path)
    assert caught.value.accepted == "none: the run began outside of one"
    image.enter(inside, tmp_path)
    with pytest.raises(InputError) as caught:
        image.require_same(outside, tmp_path)
    assert (caught.value.found, caught.value.accepted) == ("another image, or none", "the image that the run began in")
