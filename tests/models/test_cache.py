"""The cache: built once, whole or not at all, and never believed unread."""

from __future__ import annotations

import hashlib
import os
import threading

import pytest

from samebits.errors import MachineError, RowError
from samebits.models.cache import cached_folder

FILES = {"a.txt": b"alpha", "b.bin": bytes(range(256))}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


class Builder:
    """Counts its calls and fills the folder."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder) -> None:
        self.calls += 1
        for name, content in FILES.items():
            (folder / name).write_bytes(content)


@pytest.fixture
def build():
    return Builder()


def test_builds_once(tmp_path, build):
    first = cached_folder("x", build, root=tmp_path / "deep" / "root")
    again = cached_folder("x", build, root=tmp_path / "deep" / "root")
    assert (first.path, first.files, first.was_cached) == (tmp_path / "deep" / "root" / "x", DIGESTS, False)
    assert (again.path, again.files, again.was_cached) == (first.path, DIGESTS, True)
    assert build.calls == 1


def damage_flip(folder):
    (folder / "a.txt").write_bytes(b"alphA")


def damage_remove(folder):
    (folder / "b.bin").unlink()


def damage_add(folder):
    (folder / "c.txt").write_bytes(b"")


def damage_manifest(folder):
    (folder / "manifest.json").write_text("[]")


def damage_truncated_manifest(folder):
    (folder / "manifest.json").write_text('{"files": {')


@pytest.mark.parametrize("damage", [damage_flip, damage_remove, damage_add, damage_manifest, damage_truncated_manifest])
def test_a_damaged_folder_is_built_again(tmp_path, build, damage):
    folder = cached_folder("x", build, root=tmp_path).path
    damage(folder)
    again = cached_folder("x", build, root=tmp_path)
    assert (again.files, again.was_cached, build.calls) == (DIGESTS, False, 2)
    assert {path.name for path in folder.iterdir()} == {*FILES, "manifest.json"}
    assert cached_folder("x", build, root=tmp_path).was_cached


def test_an_edited_file_with_an_edited_manifest_does_not_pass_a_pin(tmp_path, build):
    def other(folder):
        build(folder)
        damage_flip(folder)

    pins = {"a.txt": DIGESTS["a.txt"]}
    cached_folder("x", other, root=tmp_path)
    assert not cached_folder("x", build, root=tmp_path, pinned=pins).was_cached
    assert cached_folder("x", build, root=tmp_path, pinned=pins).was_cached


def test_other_bits_than_pinned(tmp_path, build):
    with pytest.raises(RowError) as refused:
        cached_folder("x", build, root=tmp_path, pinned={"a.txt": "0" * 64})
    assert str(refused.value) == (
        f"a.txt: found sha256 {DIGESTS['a.txt']}; accepted: sha256 {'0' * 64}. "
        "Install the versions pinned in lock/cpu.txt: another library made other bits."
    )
    assert [path.name for path in tmp_path.iterdir()] == [".x.lock"]


def test_a_failed_build_leaves_nothing(tmp_path):
    def fails(folder):
        (folder / "half").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_folder("x", fails, root=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".x.lock"]


def test_what_a_dead_builder_left_is_cleared(tmp_path, build):
    (tmp_path / ".x.building").mkdir()
    (tmp_path / ".x.building" / "half").write_bytes(b"half")
    assert cached_folder("x", build, root=tmp_path).files == DIGESTS
    assert not (tmp_path / ".x.building").exists()


def test_two_builders_at_once(tmp_path, build):
    entered, release = threading.Event(), threading.Event()

    def slow(folder):
        entered.set()
        assert release.wait(10)
        build(folder)

    found = []
    first = threading.Thread(target=lambda: found.append(cached_folder("x", slow, root=tmp_path)))
    second = threading.Thread(target=lambda: found.append(cached_folder("x", build, root=tmp_path)))
    first.start()
    assert entered.wait(10)
    second.start()
    release.set()
    first.join(10)
    second.join(10)
    assert sorted(folder.was_cached for folder in found) == [False, True]
    assert build.calls == 1


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_root_that_is_no_folder(tmp_path, build):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MachineError) as refused:
        cached_folder("x", build, root=tmp_path / "file" / "models")
    assert str(refused.value) == (
        f"{tmp_path / 'file' / 'models'}: found Not a directory; accepted: a cache folder that can be written. "
        "Free space or mend permissions, or set XDG_CACHE_HOME to another folder."
    )
