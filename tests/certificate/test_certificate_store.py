from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from samebits.certificate import bundle_path, evidence_folder, read_limited, statement_path, subject_file, write_atomic
from samebits.errors import InputError, InvalidCertificate


@pytest.mark.parametrize("name", ["a.sigstore.json", "a.statement.json"])
def test_paths(name: str) -> None:
    path = Path("runs/1") / name
    assert bundle_path(path) == Path("runs/1/a.sigstore.json")
    assert statement_path(path) == Path("runs/1/a.statement.json")
    assert evidence_folder(path) == Path("runs/1/a.evidence")


@pytest.mark.parametrize("name", ["a.json", "a.evidence", ".sigstore.json", "a.sigstore.json.bak"])
def test_paths_of_something_else(name: str) -> None:
    with pytest.raises(InputError) as caught:
        evidence_folder(Path("runs") / name)
    assert str(caught.value) == (
        f"runs/{name}: found the name {name!r}; accepted: NAME.sigstore.json or NAME.statement.json. "
        "Name the certificate itself, not its folder."
    )


def test_write_and_replace(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomic(path, b"one")
    write_atomic(path, b"two", mode=0o600)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_atomic(path, b"three", replace=False)
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_nlink == 1


@pytest.mark.parametrize("step", ["fsync", "fchmod"])
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"before")
    link.symlink_to(target)
    write_atomic(link, b"after")
    assert (target.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"before", b"after", False)


def test_read_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_limited(path, limit=5) == b"12345"
    with pytest.raises(InvalidCertificate) as caught:
        read_limited(path, limit=4)
    assert (caught.value.found, caught.value.accepted) == ("more than 4 bytes", "at most 4 bytes")


def test_read_takes_regular_files_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    found = {}
    for path in (tmp_path / "link", tmp_path / "dangling", tmp_path / "pipe", tmp_path):
        with pytest.raises(InvalidCertificate) as caught:
            read_limited(path, limit=10)
        found[path.name] = caught.value.found
    assert found == {
        "link": "a symbolic link",
        "dangling": "a symbolic link",
        "pipe": "a special file",
        tmp_path.name: "a folder",
    }
    with pytest.raises(InputError) as missing:
        read_limited(tmp_path / "missing", limit=10)
    assert str(missing.value) == (
        f"{tmp_path / 'missing'}: found no such file or directory; accepted: a readable file. Check the path."
    )


def test_reading_leaks_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(InvalidCertificate):
            read_limited(tmp_path, limit=10)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_subject_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    assert subject_file(tmp_path, "x") == tmp_path / "x"
    with pytest.raises(InvalidCertificate) as caught:
        subject_file(tmp_path / "missing", "x")
    assert (caught.value.field, caught.value.found) == (str(tmp_path / "missing"), "no such file or directory")
    assert caught.value.accepted == "a folder"
