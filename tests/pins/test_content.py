from __future__ import annotations

import base64
import hashlib
import subprocess
import zipfile
from importlib import metadata

import pytest

from samebits.errors import RowError
from samebits.pins import content

FILES = {
    "kit/__init__.py": b"one = 1\n",
    "kit/core.so": b"\x7fELF core",
    "kit/lib/libkit.so.2": b"\x7fELF library",
    "kit-1.0+cpu.dist-info/METADATA": b"Metadata-Version: 2.1\nName: kit\nVersion: 1.0+cpu\n",
    "kit-1.0+cpu.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_28_x86_64\n",
}
MADE_BY_INSTALLER = [
    "kit-1.0+cpu.dist-info/RECORD,,",
    "kit-1.0+cpu.dist-info/INSTALLER,sha256=zuuue4knoyJ-UwPPXg8fezS7VCrXJQrAP7zeNuwvFQg,4",
    "kit-1.0+cpu.dist-info/REQUESTED,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
    "kit-1.0+cpu.dist-info/direct_url.json,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
    "kit/__pycache__/__init__.cpython-311.pyc,,",
    "../../../bin/kit,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
]


def record_line(path, data):
    encoded = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={encoded},{len(data)}"


RECORD = "\n".join(record_line(path, data) for path, data in FILES.items()) + "\n"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the path in which ``kit`` is installed the way pip does it."""
    for path, data in FILES.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    record = tmp_path / "kit-1.0+cpu.dist-info" / "RECORD"
    record.write_text(RECORD + "\n".join(MADE_BY_INSTALLER) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_what_the_installer_made_does_not_count():
    assert content.entries(RECORD + "\n".join(MADE_BY_INSTALLER)) == content.entries(RECORD)
    assert [entry.path for entry in content.entries(RECORD)] == sorted(FILES)


def test_digest_is_what_sha256sum_would_say(site):
    printed = subprocess.run(["sha256sum", *sorted(FILES)], cwd=site, capture_output=True, check=True).stdout
    assert content.content_digest(content.entries(RECORD)) == hashlib.sha256(printed).hexdigest()


def test_wheel_and_installation_have_the_same_content(site, tmp_path):
    wheel = tmp_path / "kit-1.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kit-1.0+cpu.dist-info/RECORD", RECORD + "kit-1.0+cpu.dist-info/RECORD,,\n")
    installed = content.verify_distribution("kit")
    assert installed == content.Installed(
        name="kit",
        version="1.0+cpu",
        python_tag="cp311",
        platform="manylinux_2_28_x86_64",
        content_sha256=content.wheel_content(wheel),
        verified=2,
        differing=[],
    )
    assert site == tmp_path


def test_changed_and_missing_libraries_are_named(site):
    (site / "kit/core.so").write_bytes(b"\x7fELF other")
    (site / "kit/lib/libkit.so.2").unlink()
    found = content.verify_distribution("kit")
    assert (found.verified, found.differing, found.missing) == (1, ["kit/core.so"], ["kit/lib/libkit.so.2"])


def test_python_files_are_hashed_on_request(site):
    (site / "kit/__init__.py").write_bytes(b"one = 2\n")
    assert content.verify_distribution("kit").differing == []
    everything = content.verify_distribution("kit", select=content.everything)
    assert (everything.verified, everything.differing) == (5, ["kit/__init__.py"])


def test_a_rewritten_record_changes_the_content_digest(site):
    before = content.verify_distribution("kit").content_sha256
    record = site / "kit-1.0+cpu.dist-info" / "RECORD"
    changed = record_line("kit/core.so", b"other")
    (site / "kit/core.so").write_bytes(b"other")
    record.write_text(record.read_text().replace(record_line("kit/core.so", FILES["kit/core.so"]), changed))
    after = content.verify_distribution("kit")
    assert after.differing == []
    assert after.content_sha256 != before


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("kit/a.so,md5=AAAA,1\n", "kit/a.so: RECORD has a digest by md5, not sha256"),
        (record_line("kit/a", b"") + "\n" + record_line("kit/a", b"") + "\n", "kit/a: twice in RECORD"),
    ],
)
def test_a_record_that_cannot_be_trusted(record, message):
    with pytest.raises(ValueError, match=message):
        content.entries(record)


def test_not_installed():
    with pytest.raises(RowError) as caught:
        content.verify_distribution("no-such-kit")
    assert str(caught.value) == (
        "no-such-kit: found not installed; accepted: an installed no-such-kit. Install the row's requirements."
    )


def test_installed_without_record(site):
    (site / "kit-1.0+cpu.dist-info" / "RECORD").unlink()
    with pytest.raises(RowError) as caught:
        content.verify_distribution("kit")
    assert caught.value.found == "an installation without RECORD"


def test_the_installed_torch_is_one_that_the_row_accepts(row):
    """Fails on a machine whose torch the row does not list: that is what it is for."""
    installed = content.verify_distribution("torch")
    assert installed.differing == []
    assert installed.version == metadata.version("torch")
    assert installed.content_sha256 in {build.content_sha256 for build in row.torch_builds}
