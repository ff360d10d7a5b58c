from __future__ import annotations

import pytest

from samebits.containers import record, reference
from samebits.errors import InputError, RowError
from samebits.pins import image


def test_a_record_comes_back_as_it_was_written(made):
    _, said, folder = made
    running = record.load("cpu", folder)
    assert running.record == said
    assert image.limitations(said) == []


def test_no_image_was_built(tmp_path):
    with pytest.raises(InputError) as caught:
        record.load("cpu", tmp_path)
    assert str(caught.value) == (
        f"image of row cpu: found no cpu.json in {tmp_path}; accepted: an image that was built and recorded here. "
        "Build it: nox -s images -- cpu"
    )


def test_a_record_without_its_manifest(made):
    _, _, folder = made
    (folder / "cpu.manifest.json").unlink()
    with pytest.raises(InputError) as caught:
        record.load("cpu", folder)
    assert caught.value.found == f"no cpu.manifest.json in {folder}"


def test_a_manifest_that_is_not_the_images(made):
    _, said, folder = made
    (folder / "cpu.manifest.json").write_bytes(b"{}")
    with pytest.raises(RowError) as caught:
        record.load("cpu", folder)
    assert caught.value.accepted == f"{said.image}, the image's digest"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema_version": 1}'])
def test_something_that_is_no_record(made, text):
    _, _, folder = made
    (folder / "cpu.json").write_text(text)
    with pytest.raises(InputError):
        record.load("cpu", folder)


def test_a_base_that_stood_in_is_a_limitation(made):
    _, said, _ = made
    base = image.Base(pinned="python:3.11@sha256:1", used="local/base@sha256:2")
    (limitation,) = image.limitations(said.model_copy(update={"base": base}))
    assert limitation == (
        "The image was built on local/base@sha256:2, which stood in for the pinned base python:3.11@sha256:1: "
        "the Dockerfile's steps are the row's, the system libraries below them are not."
    )


def test_outside_of_a_container_there_is_no_image(tmp_path):
    assert image.here(tmp_path) is None


def test_inside_of_one_there_is(made, tmp_path):
    _, said, folder = made
    (tmp_path / image.RECORD).write_bytes((folder / "cpu.json").read_bytes())
    (tmp_path / image.MANIFEST).write_bytes((folder / "cpu.manifest.json").read_bytes())
    assert image.here(tmp_path).record == said


DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize("name", [DIGEST, f"x@{DIGEST}", f"local/x:1@{DIGEST}", f"ghcr.io:443/a/b:v1.2@{DIGEST}"])
def test_a_digest_names_one_image(name):
    assert reference.require_pinned(name, field="--base") == name


@pytest.mark.parametrize("name", ["", "x", "samebits/cpu:latest", "x@sha256:abc", f"@{DIGEST}", f"x@{DIGEST} y"])
def test_a_tag_does_not(name):
    with pytest.raises(InputError) as caught:
        reference.require_pinned(name, field="--base")
    assert (caught.value.field, caught.value.found) == ("--base", repr(name))
    assert caught.value.accepted == "NAME@sha256:… or sha256:…"
