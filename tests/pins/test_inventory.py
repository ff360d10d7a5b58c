"""What an image holds, written down and looked at again: one file changed, one difference named."""

from __future__ import annotations

import base64
import hashlib
import platform
import subprocess
import sys

import pytest

from samebits import pins
from samebits.errors import RowError
from samebits.pins import contents, inventory, make_inventory

ROW_SHA256 = "a" * 64


def install(prefix, name, version="1.0", files=(("x.so", b"kernel"),), *, record=True):
    """A distribution as pip leaves it."""
    site = prefix / "lib" / "python3.11" / "site-packages"
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for file, data in files:
        path = site / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name}/{file},sha256={digest},{len(data)}")
    if record:
        (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,"]) + "\n")
    return site / name


@pytest.fixture
def prefix(tmp_path):
    root = tmp_path / "opt"
    install(root, "alpha")
    install(root, "Beta.Two", files=(("b.py", b"x = 1\n"), ("lib/b.so.1", b"other")))
    return root


def take(prefix):
    return inventory.take([prefix], row="cpu", row_sha256=ROW_SHA256, revision="unknown")


def test_it_holds_every_package_and_every_library(prefix):
    (environment,) = take(prefix).environments.values()
    assert environment.python == "3.11"
    assert {name: one.version for name, one in environment.distributions.items()} == {"alpha": "1.0", "beta-two": "1.0"}
    assert environment.libraries == {
        "lib/python3.11/site-packages/Beta.Two/lib/b.so.1": hashlib.sha256(b"other").hexdigest(),
        "lib/python3.11/site-packages/alpha/x.so": hashlib.sha256(b"kernel").hexdigest(),
    }


def test_equal_images_have_equal_inventories(prefix):
    first = inventory.render(take(prefix))
    assert inventory.render(take(prefix)) == first
    assert inventory.parse(first, source="x") == take(prefix)
    assert inventory.digest(take(prefix)) == hashlib.sha256(first).hexdigest()


def test_nothing_changed(prefix):
    built = take(prefix)
    assert inventory.differences(built, inventory.again(built)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda prefix: install(prefix, "evil", files=()), ["extra package evil"]),
        (
            lambda prefix: install(prefix, "evil"),
            ["extra package evil", "extra library lib/python3.11/site-packages/evil/x.so"],
        ),
        (
            lambda prefix: (prefix / "lib/python3.11/site-packages/alpha/x.so").write_bytes(b"another"),
            ["another library lib/python3.11/site-packages/alpha/x.so"],
        ),
        (
            lambda prefix: (prefix / "lib/python3.11/site-packages/alpha/x.so").unlink(),
            ["no library lib/python3.11/site-packages/alpha/x.so"],
        ),
        (
            # Preloaded by name, known to no RECORD.
            lambda prefix: (prefix / "lib" / "libgomp.so.1").write_bytes(b"another"),
            ["extra library lib/libgomp.so.1"],
        ),
        (
            lambda prefix: (prefix / "lib/python3.11/site-packages/alpha-1.0.dist-info/RECORD").write_text(
                f"alpha/x.so,sha256={base64.urlsafe_b64encode(bytes(32)).rstrip(b'=').decode()},6\n"
            ),
            ["another package alpha"],
        ),
    ],
)
def test_a_change_is_named(prefix, change, words):
    built = take(prefix)
    change(prefix)
    assert inventory.differences(built, inventory.again(built)) == words


def test_a_link_counts_where_it_leads(prefix):
    (prefix / "lib64").symlink_to("lib")
    (prefix / "lib" / "y.so").symlink_to("python3.11/site-packages/alpha/x.so")
    assert len(take(prefix).environments[str(prefix)].libraries) == 2


def test_an_installation_that_nobody_can_check(prefix):
    install(prefix, "gamma", record=False)
    with pytest.raises(RowError) as caught:
        take(prefix)
    assert (caught.value.field, caught.value.found) == (f"{prefix}: gamma", "installed without a RECORD")


def test_an_environment_that_is_none(tmp_path):
    with pytest.raises(RowError) as caught:
        take(tmp_path)
    assert caught.value.found == "no Python packages"


def test_outside_of_an_image_there_is_none(tmp_path):
    assert inventory.load(tmp_path / "inventory.json") is None


def test_something_that_is_none(tmp_path):
    path = tmp_path / "inventory.json"
    path.write_text("[]")
    with pytest.raises(RowError) as caught:
        inventory.load(path)
    assert caught.value.field == str(path)


@pytest.fixture
def row_file(tmp_path):
    path = tmp_path / "cpu.toml"
    path.write_text("id = 1\n")
    return path


def make(row_file, prefix, output, digest=None):
    arguments = [f"--row={row_file}", f"--row-sha256={digest or hashlib.sha256(row_file.read_bytes()).hexdigest()}"]
    return make_inventory.main([*arguments, "--revision=unknown", f"--output={output}", str(prefix)])


def test_a_dockerfiles_last_step(row_file, prefix, tmp_path):
    assert make(row_file, prefix, tmp_path / "out.json") == 0
    made = inventory.load(tmp_path / "out.json")
    assert (made.row, made.row_sha256) == ("cpu", hashlib.sha256(row_file.read_bytes()).hexdigest())
    assert made.arch == platform.machine()


def test_a_row_file_that_is_not_the_bake_files(row_file, prefix, tmp_path, capsys):
    assert make(row_file, prefix, tmp_path / "out.json", "b" * 64) == 2
    assert "accepted: " + "b" * 64 in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_it_runs_as_a_program(row_file, prefix, tmp_path):
    digest = hashlib.sha256(row_file.read_bytes()).hexdigest()
    command = [sys.executable, "-m", "samebits.pins.make_inventory", f"--row={row_file}", f"--row-sha256={digest}"]
    command += ["--revision=unknown", f"--output={tmp_path / 'out.json'}", str(prefix)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@pytest.fixture
def inside(monkeypatch, prefix, tmp_path, row):
    """This process in an image of the row, with ``prefix`` for its packages."""
    built = inventory.take([prefix], row=row.id, row_sha256=pins.digest(pins.load(row.id)[1]), revision="unknown")
    place = tmp_path / "inventory.json"
    place.write_bytes(inventory.render(built))
    monkeypatch.setattr(inventory, "PLACE", place)
    return place


def by_name(row):
    return {finding.name: finding for finding in contents.findings(row)}


def test_doctor_says_nothing_of_images_outside_of_one(row):
    assert contents.findings(row) == []


@pytest.mark.usefixtures("inside")
def test_doctor_inside_of_one(row):
    found = by_name(row)
    assert found["image: row"].ok
    assert found["image: contents"].found == "2 packages and 2 libraries as it was built"
    assert not found["image: pins"].ok  # no package of the row is there


@pytest.mark.usefixtures("inside")
def test_doctor_notices_what_was_changed_since(row, prefix):
    install(prefix, "evil", files=())
    found = by_name(row)["image: contents"]
    assert (found.found, found.ok) == ("extra package evil", False)


def test_doctor_notices_another_row_file(row, inside):
    built = inventory.load(inside)
    inside.write_bytes(inventory.render(built.model_copy(update={"row_sha256": "b" * 64})))
    found = by_name(row)["image: row"]
    assert (found.found, found.ok) == ("built from cpu with sha256 bbbbbbbbbbbb…", False)


@pytest.mark.usefixtures("inside")
def test_the_image_of_one_row_says_nothing_about_another():
    assert contents.findings(pins.load("cpu-vllm-0.32")[0]) == []


@pytest.mark.usefixtures("inside")
def test_a_shipped_library_is_reported_by_its_digest(row, prefix):
    install(prefix, "deep_ep", files=(("deep_ep_cpp.so", b"DeepEP"),))
    material = pins.Material(name="DeepEP", within="base image", commit="1" * 40)
    held = inventory.again(inventory.load())
    found = {one.name: one for one in contents.against(row.model_copy(update={"materials": [material]}), held)}
    digest = hashlib.sha256(b"DeepEP").hexdigest()
    assert found["image: DeepEP"].found == f"deep_ep_cpp.so {digest[:12]}…"
    assert found["image: DeepEP"].accepted == "any: its digests are not pinned yet"
    assert found["image: DeepEP"].ok
