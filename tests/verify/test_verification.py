"""A certificate is believed only as far as its evidence carries it."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from samebits.certificate import Material, PrivateKey, Revocation, Revocations, evidence_folder
from samebits.errors import InputError
from samebits.hashing import sha256_bytes, sha256_file
from samebits.verify import Report, Verification, verify
from simulator import KEY, Simulator


@pytest.fixture
def world() -> Simulator:
    return Simulator()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.sigstore.json"


def check(path: Path, **options: object) -> Report:
    return verify(path, KEY.public, **options)


def failed(report: Report) -> dict[str, str]:
    return {step.name: step.detail for step in report.steps if step.status == "failed"}


def statuses(report: Report) -> list[str]:
    return [step.status for step in report.steps]


def test_a_clean_certificate_is_valid_and_passed(world: Simulator, path: Path) -> None:
    report = check(world.sign(path))
    assert (report.exit_code, report.verdict, report.reasons) == (0, "passed", [])
    assert [step.name for step in report.steps] == [
        "signature and format",
        "files",
        "recipe and row",
        "findings",
        "revocation",
    ]
    assert statuses(report) == ["passed"] * 5
    assert report.keyid == KEY.public.fingerprint


def test_ed25519_is_accepted(world: Simulator, path: Path) -> None:
    key = PrivateKey(ed25519.Ed25519PrivateKey.generate())
    assert verify(world.sign(path, key=key), key.public).exit_code == 0


def test_a_failed_certification_verifies_and_does_not_pass(world: Simulator, path: Path) -> None:
    world.response()[0]["train_bits"] ^= 1
    world.seal()
    report = check(world.sign(path))
    assert (report.exit_code, report.valid, report.verdict) == (1, True, "failed")
    assert report.reasons[0] == (
        "bits.equal: failed: recompute/train: 1 of 594 tokens differ; rollout/train: 1 of 594 tokens differ"
    )


def test_a_vacuous_certification_verifies_and_does_not_pass(world: Simulator, path: Path) -> None:
    world.tables["probes"].clear()
    report = check(world.sign(path))
    assert (report.exit_code, report.verdict) == (1, "vacuous")
    assert report.reasons == ["independence.probe: not run: no layer was probed"]


def test_over_budget_verifies_and_does_not_pass(world: Simulator, path: Path) -> None:
    world.replace("control_rounds = 2", "control_rounds = 2\noverhead_budget = 1.05")
    report = check(world.sign(path))
    assert (report.exit_code, report.findings["overhead"]["verdict"]) == (1, "over")
    assert report.findings["exactness"]["verdict"] == "passed"


def test_a_producer_who_signs_better_findings_than_the_evidence_carries(world: Simulator, path: Path) -> None:
    honest = world.judge(path.parent / "elsewhere").to_dict()
    world.response()[0]["train_bits"] ^= 1
    world.seal()
    report = check(world.sign(path, findings=honest))
    assert (report.exit_code, report.valid, report.verdict) == (2, False, "invalid")
    paths = {difference.path: (difference.signed, difference.derived) for difference in report.differences}
    assert paths["findings.verdict"] == ('"passed"', '"failed"')
    assert paths["findings.exactness.mismatches"] == ("0", "1")
    assert paths["findings.reasons[0]"][0] == "nothing"
    assert failed(report)["findings"].startswith(f"findings: found {len(report.differences)} signed values")
    assert report.reasons[1:] == [str(difference) for difference in report.differences]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("exactness", "compared"), 593),
        (("observations", "entropy", "mean"), "1.000000"),
        (("overhead", "ratio"), "1.0000"),
        (("checks", 0, "basis"), "attested"),
        (("probes", 0, "changedTrain"), 7),
        (("refits", "versions", 3, "mastersChanged"), 6),
        (("exclusions", 0, "by"), "the engine"),
    ],
)
def test_each_signed_number_is_compared(
    world: Simulator, path: Path, where: tuple[str | int, ...], value: object
) -> None:
    findings = world.judge(path.parent / "elsewhere").to_dict()
    place = findings
    for part in where[:-1]:
        place = place[part]
    assert place[where[-1]] != value
    place[where[-1]] = value
    report = check(world.sign(path, findings=findings))
    text = "findings" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)
    assert report.exit_code == 2
    assert [difference.path for difference in report.differences] == [text]


def test_an_invented_finding_is_a_difference(world: Simulator, path: Path) -> None:
    findings = world.judge(path.parent / "elsewhere").to_dict() | {"award": "gold"}
    report = check(world.sign(path, findings=findings))
    assert [difference.to_dict() for difference in report.differences] == [
        {"path": "findings.award", "signed": '"gold"', "derived": "nothing"}
    ]


# Signature


def test_another_key_is_refused_before_anything_is_parsed(world: Simulator, path: Path) -> None:
    other = PrivateKey(ec.generate_private_key(ec.SECP256R1())).public
    report = verify(world.sign(path), other)
    assert (report.exit_code, statuses(report)) == (2, ["failed", "skipped", "skipped", "skipped", "skipped"])
    assert (report.claims, report.predicate, report.certificate_sha256) == ([], None, None)


def test_a_flipped_payload_byte(world: Simulator, path: Path) -> None:
    bundle = json.loads(world.sign(path).read_bytes())
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b'"resumed":false', b'"resumed":true ')
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    path.write_text(json.dumps(bundle))
    report = check(path)
    assert report.exit_code == 2
    assert "a signature that does not fit" in failed(report)["signature and format"]


def test_a_missing_certificate_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        check(tmp_path / "none.sigstore.json")
    assert caught.value.exit_code == 2


# Files


def test_a_flipped_evidence_byte(world: Simulator, path: Path) -> None:
    world.sign(path)
    tokens = evidence_folder(path) / "tokens.parquet"
    data = bytearray(tokens.read_bytes())
    data[100] ^= 1
    tokens.write_bytes(data)
    report = check(path)
    assert statuses(report) == ["passed", "failed", "skipped", "skipped", "passed"]
    assert f"found sha256 {sha256_file(tokens)}" in failed(report)["files"]


def test_a_missing_table(world: Simulator, path: Path) -> None:
    world.sign(path)
    (evidence_folder(path) / "probes.parquet").unlink()
    assert "probes.parquet" in failed(check(path))["files"]


def test_an_extra_file(world: Simulator, path: Path) -> None:
    world.sign(path)
    (evidence_folder(path) / "notes.txt").write_text("trust me")
    assert "notes.txt" in failed(check(path))["files"]


def test_a_symbolic_link(world: Simulator, path: Path) -> None:
    world.sign(path)
    table = evidence_folder(path) / "probes.parquet"
    table.rename(path.parent / "moved")
    table.symlink_to(path.parent / "moved")
    assert "found a symbolic link" in failed(check(path))["files"]


def test_evidence_elsewhere(world: Simulator, path: Path) -> None:
    world.sign(path)
    evidence_folder(path).rename(path.parent / "unpacked")
    assert check(path, evidence_folder=path.parent / "unpacked").exit_code == 0


def test_a_signed_table_of_another_schema_names_table_and_column(world: Simulator, path: Path) -> None:
    folder = world.write(evidence_folder(path))
    findings = world.judge(path.parent / "elsewhere").to_dict()
    table = pq.read_table(folder / "sampler.parquet")
    column = table.column("draws").cast("int32")
    pq.write_table(table.set_column(2, "draws", column), folder / "sampler.parquet")
    report = check(world.sign_folder(path, folder, findings=findings))
    assert failed(report) == {
        "findings": "sampler.parquet: draws: found int32; accepted: int64 not null. "
        "This file was not written by this version of the kit."
    }


def test_a_signed_folder_without_a_table(world: Simulator, path: Path) -> None:
    folder = world.write(evidence_folder(path))
    findings = world.judge(path.parent / "elsewhere").to_dict()
    (folder / "facts.parquet").unlink()
    report = check(world.sign_folder(path, folder, findings=findings))
    assert failed(report)["findings"].startswith("one.evidence/facts.parquet: found missing; accepted: exactly these")


# Recipe and row


def test_a_recipe_copy_that_is_not_the_one_named(world: Simulator, path: Path) -> None:
    report = check(world.sign(path, recipe=Material(id="simulated", sha256="cd" * 32)))
    (reason,) = report.reasons
    assert reason == (
        f"subject recipe.toml: found {sha256_bytes(world.recipe_toml)}; accepted: sha256 {'cd' * 32}. "
        "Do not rely on this certificate; ask its signer for a sound one."
    )


def test_a_recipe_by_another_name(world: Simulator, path: Path) -> None:
    report = check(world.sign(path, recipe=Material(id="grander", sha256=sha256_bytes(world.recipe_toml))))
    assert "recipe.toml: id: found 'simulated'; accepted: 'grander'" in failed(report)["recipe and row"]


def test_a_row_that_the_recipe_is_not_for(world: Simulator, path: Path) -> None:
    world.row_toml = b'id = "gb200"\n'
    report = check(world.sign(path, row=Material(id="gb200", sha256=sha256_bytes(world.row_toml))))
    assert "recipe.toml: rows: found cpu; accepted: a list that has 'gb200'" in failed(report)["recipe and row"]


def test_a_row_file_without_an_id(world: Simulator, path: Path) -> None:
    world.row_toml = b"nothing = true\n"
    assert failed(check(world.sign(path)))["recipe and row"].startswith("row.toml: found no id in it")


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("threads = 200", "recipe.toml: engine.threads: found 200; accepted: 1 … 4"),
        ("enable_lora = true", "recipe.toml: engine.enable_lora: found True; accepted: false"),
        ('quantization = "fp8"', "recipe.toml: engine.quantization: found 'fp8'; accepted: unset"),
    ],
)
def test_a_recipe_that_the_row_does_not_certify(world: Simulator, path: Path, setting: str, fault: str) -> None:
    world.replace("num_gpu_blocks = 22", f"num_gpu_blocks = 22\n{setting}")
    assert failed(check(world.sign(path)))["recipe and row"].startswith(fault)


@pytest.mark.parametrize(
    ("gate", "fault"),
    [
        (b"", "row.toml: gate.engine: found nothing"),
        (b"[gate]\nengine = 5\n", "row.toml: gate.engine: found nothing"),
        (b"[gate.engine]\nthreads = { min = 9, max = 1 }\n", "row.toml: gate.engine.threads: found {'min': 9"),
        (b"[gate.engine]\n", "recipe.toml: engine.kind: found an unknown setting; accepted: no settings at all"),
    ],
)
def test_a_row_file_without_a_gate(world: Simulator, path: Path, gate: bytes, fault: str) -> None:
    world.row_toml = b'id = "cpu"\n' + gate
    assert failed(check(world.sign(path)))["recipe and row"].startswith(fault)


def test_seeds_that_are_not_the_recipe_s(world: Simulator, path: Path) -> None:
    report = check(world.sign(path, seeds={"model": "0", "workload": "1"}))
    assert "seeds.workload: found 1; accepted: 0, as in recipe.toml" in failed(report)["recipe and row"]


def test_a_weaker_recipe_does_not_carry_the_findings(world: Simulator, path: Path) -> None:
    findings = world.judge(path.parent / "elsewhere").to_dict()
    world.replace("min_tokens = 300", "min_tokens = 1")
    report = check(world.sign(path, findings=findings))
    assert [difference.path for difference in report.differences] == ["findings.checks[5].detail"]


# Revocation


@pytest.mark.parametrize("by_key", [True, False])
def test_revoked(world: Simulator, path: Path, by_key: bool) -> None:
    world.sign(path)
    named = {"keyid": KEY.public.fingerprint} if by_key else {"certificateSha256": check(path).certificate_sha256}
    entry = Revocation(reason="the laptop was stolen", date=np.datetime64("2026-12-01").item(), **named)
    report = check(path, revoked=Revocations(revoked=[entry]))
    what = "its key" if by_key else "this certificate"
    assert (report.exit_code, statuses(report)) == (2, ["passed"] * 4 + ["failed"])
    (reason,) = report.reasons
    assert reason == (
        f"revoked.toml: found {what} was revoked on 2026-12-01: the laptop was stolen; accepted: no entry. "
        "Do not rely on this certificate; ask its signer for a sound one."
    )


def test_an_unreadable_revocation_list_is_not_an_empty_one(world: Simulator, path: Path) -> None:
    with pytest.raises(InputError):
        check(world.sign(path), revoked=path.parent / "revoked.toml")


# What a reader is told


def test_every_check_is_a_claim_with_its_basis(world: Simulator, path: Path) -> None:
    report = check(world.sign(path))
    told = {claim.name: claim.basis for claim in report.claims}
    assert {check["name"]: check["basis"] for check in report.findings["checks"]}.items() <= told.items()
    assert {name for name, basis in told.items() if basis == "attested"} == {
        "independence.order",
        "training.first-forward",
        "contract.kernels",
        "contract.log-softmax",
        "configuration.as-asked",
        "scheduler.preemptions",
        "scheduler.chunked-prefills",
        "overhead.budget",
        "exclusions.refused",
        "control.switch",
        "ran on the row",
        "kit",
        "libraries",
        "configuration",
        "environment",
        "run",
        "resumed",
        "seeds",
        "limitation",
    }


def test_the_report_is_json(world: Simulator, path: Path) -> None:
    said = json.loads(json.dumps(check(world.sign(path)).to_dict()))
    assert (said["valid"], said["exitCode"], said["verdict"], said["source"]) == (
        True,
        0,
        "passed",
        "one.sigstore.json",
    )


def test_steps_cannot_be_taken_out_of_order(world: Simulator, path: Path) -> None:
    world.sign(path)
    verification = Verification(KEY.public)
    with pytest.raises(RuntimeError, match="the certificate has not been opened"):
        verification.check_revocation(Revocations())
    verification.open(path.read_bytes(), source="one")
    with pytest.raises(RuntimeError, match="verification is in state 'opened'; this step follows 'sourced'"):
        verification.judge()
    with pytest.raises(RuntimeError, match="this step follows 'complete'"):
        verification.check_sources()
    verification.check_files(evidence_folder(path))
    with pytest.raises(RuntimeError, match="verification is in state 'complete'; this step follows 'new'"):
        verification.open(path.read_bytes(), source="one")


def test_verification_does_not_depend_on_where_the_files_lie(world: Simulator, path: Path) -> None:
    world.sign(path)
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.move(path, elsewhere / "two.sigstore.json")
    shutil.move(evidence_folder(path), elsewhere / "two.evidence")
    assert check(elsewhere / "two.sigstore.json").exit_code == 0
