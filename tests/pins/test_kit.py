from __future__ import annotations

import hashlib
import subprocess

import pytest

from samebits.errors import RowError
from samebits.pins import kit, kit_files, kit_sha256


@pytest.fixture
def package(tmp_path):
    for room in kit.ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(f'"""{room}"""\n')
    return tmp_path


def test_every_room_is_in_it():
    rooms = {path.relative_to(kit._PACKAGE).parts[0] for path in kit_files()}
    assert rooms == {"actor", "engine", "models", "ops", "oracle"}
    assert all(path.suffix == ".py" for path in kit_files())


def test_it_can_be_made_without_the_kit(package):
    names = sorted(path.relative_to(package).as_posix() for path in kit_files(package))
    printed = subprocess.run(["sha256sum", *names], cwd=package, capture_output=True, check=True).stdout
    assert kit_sha256(package) == hashlib.sha256(printed).hexdigest()


def test_one_changed_byte_changes_it(package):
    before = kit_sha256(package)
    (package / "ops" / "deep").mkdir()
    (package / "ops" / "deep" / "x.py").write_text("")
    added = kit_sha256(package)
    (package / "oracle" / "__init__.py").write_text('"""oracle."""\n')
    assert len({before, added, kit_sha256(package)}) == 3


def test_other_rooms_and_compiled_files_do_not_count(package):
    before = kit_sha256(package)
    (package / "cli").mkdir()
    (package / "cli" / "__init__.py").write_text("")
    (package / "ops" / "x.pyc").write_bytes(b"")
    assert kit_sha256(package) == before


def test_a_missing_room_is_an_error(package):
    (package / "oracle" / "__init__.py").unlink()
    with pytest.raises(RowError) as caught:
        kit_sha256(package)
    assert str(caught.value) == "kit: oracle: found no sources; accepted: the whole kit. Install samebits again."
