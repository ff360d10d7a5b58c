"""Running somebody's tests and counting honestly, on a release made for it; vLLM's own take a GPU."""

from __future__ import annotations

import io
import tarfile

import pytest

from samebits.engine.vllm import determinism
from samebits.engine.vllm.determinism import observe
from samebits.errors import InputError
from samebits.hashing import sha256_file

MIXED = """
import os
import pytest

def test_good():
    assert os.environ["VLLM_BATCH_INVARIANT"] == "1"

@pytest.mark.skip(reason="needs two GPUs")
def test_skipped():
    pass

def test_bad():
    assert 1 == 2, "bits differ"
"""


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.setattr(determinism, "installed", lambda: ("0.26.0", "cuda"))

    def make(content):
        path = tmp_path / "vllm-0.26.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in {
                "tests/v1/determinism/test_it.py": content,
                "vllm/__init__.py": "raise SystemExit",
            }.items():
                member = tarfile.TarInfo(f"vllm-0.26.0/{name}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        return path

    return make


def test_skips_are_failures(release):
    path = release(MIXED)
    found = observe(path, sha256=sha256_file(path), batch_invariant=True)
    assert (found.vllm, found.tests, found.passed, found.is_clean) == ("0.26.0", 3, 1, False)
    assert found.failures == {
        "tests.v1.determinism.test_it::test_bad": "failure: AssertionError: bits differ",
        "tests.v1.determinism.test_it::test_skipped": "skipped: needs two GPUs",
    }


def test_a_clean_run(release):
    path = release("def test_one():\n    pass\n")
    assert observe(path, sha256=sha256_file(path), batch_invariant=False).is_clean


def test_no_tests_at_all_are_not_clean(release):
    path = release("")
    assert not observe(path, sha256=sha256_file(path), batch_invariant=False).is_clean


def test_another_file_than_the_pinned_one(release):
    path = release("")
    with pytest.raises(InputError) as caught:
        observe(path, sha256="0" * 64, batch_invariant=False)
    assert caught.value.accepted == f"sha256 {'0' * 64}"
