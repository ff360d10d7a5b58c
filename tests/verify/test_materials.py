"""Recipe and row against the kit's own files, libraries against the row's pins: said, and never a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samebits import schema
from samebits.certificate import Material
from samebits.cli.output import console
from samebits.cli.summary import report_view
from samebits.hashing import sha256_bytes
from samebits.verify import Report, verify, verify_catalogue
from simulator import KEY, RECIPE, ROW, Simulator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kit that ships the simulator's recipe and row, and nothing else."""
    root = tmp_path / "kit"
    for folder, name, content in (("recipes", "simulated", RECIPE), ("lock", "cpu", ROW)):
        (root / folder).mkdir(parents=True)
        (root / folder / f"{name}.toml").write_bytes(content)
    monkeypatch.setattr(schema, "_PACKAGED", root)
    return root


def check(tmp_path: Path, world: Simulator, **options: Any) -> Report:
    return verify(world.sign(tmp_path / "one.sigstore.json"), KEY.public, **options)


def test_the_files_of_this_kit(tmp_path: Path, kit: Path) -> None:
    del kit
    report = check(tmp_path, Simulator(), require_shipped=True)
    assert (report.exit_code, report.warnings) == (0, [])
    told = {claim.name: (claim.basis, claim.text) for claim in report.claims}
    assert told["recipe as shipped"] == ("derived", "recipe simulated is the file that this kit ships")
    assert told["row as shipped"] == ("derived", "row cpu is the file that this kit ships")
    assert report.steps[-1].to_dict() == {"name": "recipe and row as shipped", "status": "passed", "detail": ""}


def test_a_weaker_recipe_under_a_known_id_shows_where(tmp_path: Path, kit: Path) -> None:
    del kit
    world = Simulator()
    world.replace("min_tokens = 300", "min_tokens = 1")
    world.recipe_toml = world.recipe_toml[: world.recipe_toml.rindex(b"[[exclusions]]")]
    report = check(tmp_path, world)
    assert (report.exit_code, report.verdict) == (0, "passed")
    told = {claim.name: claim.text for claim in report.claims}
    assert report.warnings == [told["recipe as shipped"]]
    assert report.warnings[0].startswith(
        "recipe simulated is NOT the file that this kit ships under that id: certification.min_tokens is 1, shipped "
        "300; exclusions[2] is nothing, shipped {"
    )
    assert told["row as shipped"] == "row cpu is the file that this kit ships"
    said = json.loads(json.dumps(report.to_dict()))
    assert said["warnings"] == report.warnings
    recipe = said["materials"][0]
    assert (recipe["standing"], recipe["sha256"], recipe["shippedSha256"]) == (
        "other content",
        sha256_bytes(world.recipe_toml),
        sha256_bytes(RECIPE),
    )
    assert recipe["differences"][0] == {"path": "certification.min_tokens", "here": "1", "shipped": "300"}


def test_the_warning_is_the_last_thing_a_reader_sees(tmp_path: Path, kit: Path) -> None:
    del kit
    world = Simulator()
    world.replace("min_tokens = 300", "min_tokens = 1")
    with console.capture() as shown:
        console.print(report_view(check(tmp_path, world)))
    last = " ".join(shown.get().split("one.sigstore.json: passed")[1].split())
    assert last == (
        "recipe simulated is NOT the file that this kit ships under that id: certification.min_tokens is 1, shipped 300"
    )


def test_a_wider_gate_in_a_row_of_a_known_id(tmp_path: Path, kit: Path) -> None:
    del kit
    world = Simulator()
    world.row_toml = ROW.replace(b"[gate.engine]", b"[gate.engine]\nanything = [true]", 1)
    world.replace("num_gpu_blocks = 22", "num_gpu_blocks = 22")
    report = check(tmp_path, world)
    assert [material.standing for material in report.materials] == ["shipped", "other content"]
    assert report.warnings == [
        "row cpu is NOT the file that this kit ships under that id: gate.engine.anything is [true], shipped nothing"
    ]


def test_another_comment_is_another_file(tmp_path: Path, kit: Path) -> None:
    del kit
    world = Simulator()
    world.recipe_toml += b"# nothing\n"
    assert check(tmp_path, world).warnings == [
        "recipe simulated is NOT the file that this kit ships under that id: in comments or layout alone"
    ]


def test_an_unknown_id(tmp_path: Path) -> None:
    report = check(tmp_path, Simulator(), require_shipped=True)
    assert [(one.kind, one.standing) for one in report.materials] == [("recipe", "unknown id"), ("row", "shipped")]
    assert (report.exit_code, report.verdict) == (2, "invalid")
    (reason,) = report.reasons
    assert reason == (
        "recipe.toml: found recipe simulated is NOT of this kit: it ships none of that id; accepted: a file that this "
        "kit ships, or an earlier version of it did. Compare the two files; without the requirement, the certificate "
        "stands for its own."
    )


def test_the_file_of_an_earlier_kit(tmp_path: Path, kit: Path) -> None:
    (kit / "recipes" / "simulated.toml").write_bytes(RECIPE.replace(b"min_tokens = 300", b"min_tokens = 500"))
    (kit / "recipes" / "earlier.sha256").write_text(f"{sha256_bytes(RECIPE)}  simulated.toml\n")
    report = check(tmp_path, Simulator(), require_shipped=True)
    assert (report.exit_code, report.warnings, report.materials[0].standing) == (0, [], "earlier")


def test_an_earlier_file_under_another_id_does_not_count(tmp_path: Path, kit: Path) -> None:
    (kit / "recipes" / "simulated.toml").unlink()
    (kit / "recipes" / "earlier.sha256").write_text(f"{sha256_bytes(RECIPE)}  another.toml\n")
    assert check(tmp_path, Simulator()).materials[0].standing == "unknown id"


def test_the_working_directory_ships_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "simulated.toml").write_bytes(RECIPE)
    monkeypatch.chdir(tmp_path)
    assert check(tmp_path, Simulator()).materials[0].standing == "unknown id"


def test_nothing_is_said_of_files_that_nobody_signed(tmp_path: Path) -> None:
    world = Simulator()
    path = world.sign(tmp_path / "one.sigstore.json", recipe=Material(id="simulated", sha256="cd" * 32))
    report = verify(path, KEY.public, require_shipped=True)
    assert (report.materials, report.warnings) == ([], [])
    assert [(step.name, step.status) for step in report.steps][-1] == ("recipe and row as shipped", "skipped")


def test_a_catalogue_can_ask_for_it(tmp_path: Path) -> None:
    (tmp_path / "key.pub.pem").write_bytes(KEY.public.pem())
    Simulator().sign(tmp_path / "one.sigstore.json")
    entry = '[[certificate]]\npath = "one.sigstore.json"\nkey = "key.pub.pem"\nexit_code = 0\n'
    (tmp_path / "catalogue.toml").write_text(entry)
    (outcome,) = verify_catalogue(tmp_path)
    warning = "recipe simulated is NOT of this kit: it ships none of that id"
    assert (outcome.as_declared, outcome.reason) == (True, warning)
    (tmp_path / "catalogue.toml").write_text(entry + "shipped = true\n")
    (outcome,) = verify_catalogue(tmp_path)
    assert (outcome.as_declared, outcome.found) == (False, 2)
    assert outcome.reason.startswith(f"recipe.toml: found {warning}; accepted: a file that this kit ships")


@pytest.mark.parametrize("path", sorted(ROOT.glob("certs/cpu/*/*.sigstore.json")), ids=lambda path: path.parent.name)
def test_every_certificate_of_the_cpu_row_stands_on_files_that_some_version_ships(path: Path) -> None:
    folder = path.with_name(path.name.replace(".sigstore.json", ".evidence"))
    for kind, home in (("recipe", "recipes"), ("row", "lock")):
        content = (folder / f"{kind}.toml").read_bytes()
        earlier = ROOT / home / "earlier.sha256"
        known = {sha256_bytes(file.read_bytes()) for file in (ROOT / home).glob("*.toml")}
        known |= {line[:64] for line in earlier.read_text().splitlines()} if earlier.exists() else set()
        assert sha256_bytes(content) in known, f"{path}: add its {kind} to {home}/earlier.sha256"


# Libraries


def libraries(report: Report) -> str:
    (claim,) = [claim for claim in report.claims if claim.name == "libraries"]
    assert claim.basis == "attested"
    return claim.text


def with_library(name: str, value: str) -> Simulator:
    world = Simulator()
    world.tables["facts"] += [
        {"arm": arm, "worker": worker, "name": f"libraries.{name}", "value": value}
        for arm in ("aligned", "control")
        for worker in ("engine", "actor")
    ]
    return world


def test_libraries_as_the_row_pins_them(tmp_path: Path) -> None:
    report = check(tmp_path, with_library("blake3", '"1.0.11"'))
    assert libraries(report).startswith("as the row pins them: blake3 1.0.11")
    assert [warning for warning in report.warnings if "libraries" in warning] == []


def test_another_library_than_the_row_s_is_shown_and_decides_nothing(tmp_path: Path) -> None:
    report = check(tmp_path, with_library("blake3", '"0.9"'))
    text = "NOT what the row pins: blake3 0.9, pinned 1.0.11"
    assert (report.exit_code, libraries(report)) == (0, text)
    assert f"libraries are {text}" in report.warnings


def test_a_library_that_the_row_does_not_pin(tmp_path: Path) -> None:
    assert "oneDNN" not in libraries(check(tmp_path, with_library("oneDNN", '"3.7"')))


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("2.13.0+cu130", "as the row pins them: torch 2.13.0+cu130"),  # what the public wheel calls itself
        ("2.13.1+cpu", "NOT what the row pins: torch 2.13.1+cpu, pinned 2.13.0+cpu or 2.13.0"),
    ],
)
def test_torch_is_one_of_the_row_s_builds(tmp_path: Path, version: str, text: str) -> None:
    world = Simulator()
    for fact in world.rows("facts", name="libraries.torch"):
        fact["value"] = json.dumps(version)
    assert libraries(check(tmp_path, world)) == text
