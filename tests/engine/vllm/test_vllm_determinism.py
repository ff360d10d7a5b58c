"""Running somebody's tests and counting honestly, on a release made for it; vLLM's own take a GPU."""

from __future__ import annotations

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
def release(made_release, monkeypatch):
    monkeypatch.setattr(determinism, "installed", lambda: ("0.26.0", "cuda"))

    def make(content, **others):
        return made_release({"test_it": content, **others})

    return make


def test_skips_are_failures(release):
    path = release(MIXED)
    found = observe(path, sha256=sha256_file(path), batch_invariant=True)
    assert (found.vllm, found.tests, found.passed, found.is_clean) == ("0.26.0", 3, 1, False)
    assert found.failures == {
        "tests.v1.determinism.test_it::test_bad": "failure: AssertionError: bits differ",
        "tests.v1.determinism.test_it::test_skipped": "skipped: needs two GPUs",
    }
    assert found.by_module == {"tests.v1.determinism.test_it": 3}


def test_a_module_that_cannot_be_imported_is_a_failure_and_hides_no_other(release):
    path = release("def test_one():\n    pass\n", test_broken="import nonexistent_module_of_nobody\n")
    found = observe(path, sha256=sha256_file(path), batch_invariant=False)
    assert (found.tests, found.passed) == (2, 1)
    assert found.by_module == {"tests.v1.determinism.test_broken": 1, "tests.v1.determinism.test_it": 1}
    assert found.failures == {
        "tests.v1.determinism.test_broken": "error: ModuleNotFoundError: No module named 'nonexistent_module_of_nobody'"
    }


def test_tools_are_looked_for_last(release, tmp_path):
    """A tool of the same name as a module that is there shadows nothing."""
    (tmp_path / "tools").mkdir()
    for name in ("json", "tool_of_mine"):
        (tmp_path / "tools" / f"{name}.py").write_text("mine = True\n")
    path = release(
        "def test_it():\n    import json, tool_of_mine\n    assert tool_of_mine.mine and not hasattr(json, 'mine')\n"
    )
    assert observe(path, sha256=sha256_file(path), batch_invariant=False, tools=str(tmp_path / "tools")).is_clean


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
