"""The shared folder: claimed by one, written whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.errors import InputError, MachineError, SamebitsError
from samebits.spool.folder import Folder, read, write


def fields(error: SamebitsError) -> tuple[str, str, str, str]:
    return error.field, error.found, error.accepted, error.next_step


@pytest.fixture
def readonly(tmp_path: Path) -> Iterator[Path]:
    """A folder that this process may not write; root becomes nobody for a while, since root may write everywhere."""
    folder = tmp_path / "readonly"
    folder.mkdir(mode=0o500)
    if os.geteuid() != 0:
        yield folder
        return
    os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("file", ["requests/000001.json", "replies/000001.json", "progress/1", "heartbeat.json"])
def test_a_used_folder_is_refused(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(InputError) as caught:
        Folder(tmp_path).claim()
    assert fields(caught.value) == (
        f"spool {tmp_path}",
        f"{file} of an earlier run",
        "a new or an empty folder",
        "Give each worker a spool folder of its own, or remove this one.",
    )


def test_a_folder_is_claimed_once(tmp_path: Path) -> None:
    Folder(tmp_path / "deep" / "spool").claim()
    with pytest.raises(InputError) as caught:
        Folder(tmp_path / "deep" / "spool").claim()
    assert caught.value.found == "parent.json of an earlier run"


def test_only_its_owner_may_write(tmp_path: Path) -> None:
    Folder(tmp_path / "spool").claim()
    assert [(tmp_path / "spool" / part).stat().st_mode & 0o777 for part in (".", "requests", "replies")] == [0o700] * 3


def test_a_folder_that_cannot_be_written_is_refused(readonly: Path) -> None:
    with pytest.raises(InputError) as caught:
        Folder(readonly / "spool").claim()
    assert fields(caught.value) == (
        f"spool {readonly / 'spool'}",
        "Permission denied",
        "a folder that can be made and written",
        "Choose a folder on a writable disk.",
    )


@pytest.mark.parametrize("path", ["file", "file/spool"])
def test_a_file_is_no_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as caught:
        Folder(tmp_path / path).claim()
    assert (caught.value.field, caught.value.found) == (f"spool {tmp_path / path}", "File exists")


def test_numbers_sort_as_text() -> None:
    folder = Folder(Path("spool"))
    assert folder.request(1) == Path("spool/requests/000001.json")
    assert folder.reply(999_999) == Path("spool/replies/999999.json")
    assert folder.progress(1_000_000) == Path("spool/progress/1000000.json")


def test_a_reader_never_sees_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "message.json"
    bodies = {bytes([letter]) * size for letter, size in ((97, 300_000), (98, 5), (99, 70_000))}
    done = threading.Event()

    def keep_writing() -> None:
        for _ in range(100):
            for body in bodies:
                write(path, body)
        done.set()

    writer = threading.Thread(target=keep_writing)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(read(path, 10**6))
    writer.join()
    assert seen - {None} <= bodies
    assert len(seen - {None}) > 1
    assert [file.name for file in tmp_path.iterdir()] == ["message.json"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken.json").mkdir()
    with pytest.raises(MachineError) as caught:
        write(tmp_path / "taken.json", b"{}")
    assert fields(caught.value) == (
        f"spool file {tmp_path / 'taken.json'}",
        "Is a directory",
        "a folder that can be written",
        "Free space on that disk, or put the run on another one.",
    )
    assert [file.name for file in tmp_path.iterdir()] == ["taken.json"]


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "message.json", b"{}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read(tmp_path / "message.json", 10) is None


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "message.json").write_bytes(b"x" * 11)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "message.json", 10)
    assert (caught.value.found, caught.value.accepted) == ("11 bytes", "at most 10 bytes in one message")


def test_a_file_that_cannot_be_read_is_a_machine_error(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        read(tmp_path, 10**9)
    assert caught.value.found == "Is a directory"
