from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samebits.certificate import (
    generate_key,
    load_public,
    open_certificate,
    sign_run,
    subjects_of,
    write_statement,
)
from samebits.certificate import (
    predicate as predicates,
)
from samebits.errors import InputError, InvalidCertificate, MachineError


@pytest.fixture
def run(tmp_path: Path, predicate: dict[str, Any]) -> Path:
    folder = tmp_path / "run"
    evidence = folder / "certificate.evidence"
    evidence.mkdir(parents=True)
    (evidence / "tokens.parquet").write_text("tokens")
    statement = write_statement(subjects_of(evidence.iterdir()), predicates.parse(predicate))
    (folder / "certificate.statement.json").write_bytes(statement)
    return folder


def test_with_a_key_of_ones_own(run: Path, tmp_path: Path) -> None:
    pair = generate_key("mine", tmp_path)
    signed = sign_run(run, pair.private_path)
    assert signed.certificate == run / "certificate.sigstore.json"
    assert (signed.keyid, signed.key_created) == (pair.keyid, False)
    assert (signed.private_path, signed.public_path) == (pair.private_path, pair.public_path)
    opened = open_certificate(signed.certificate.read_bytes(), load_public(pair.public_path))
    assert opened.payload == (run / "certificate.statement.json").read_bytes()


def test_with_the_default_key(run: Path, private_home: Path) -> None:
    signed = sign_run(run)
    assert signed.key_created
    assert signed.private_path == private_home / "config" / "samebits" / "keys" / "default.pem"
    open_certificate(signed.certificate.read_bytes(), load_public(signed.public_path))


def test_signing_again_changes_nothing(run: Path, private_home: Path) -> None:
    first = sign_run(run)
    data = first.certificate.read_bytes()
    second = sign_run(run)
    assert (second.key_created, second.keyid, second.certificate.read_bytes()) == (False, first.keyid, data)
    other = generate_key("other", private_home).private_path
    with pytest.raises(
        InputError, match="found a certificate of another key or statement; accepted: none, or one of key"
    ):
        sign_run(run, other)
    assert first.certificate.read_bytes() == data


def test_changed_evidence_is_not_signed(run: Path, private_home: Path) -> None:
    (run / "certificate.evidence" / "tokens.parquet").write_text("tokenS")
    with pytest.raises(InvalidCertificate, match="as in the statement"):
        sign_run(run)
    assert not (run / "certificate.sigstore.json").exists()
    assert not (private_home / "config").exists()


def test_an_unfinished_run_is_not_signed(run: Path, private_home: Path) -> None:
    (run / "certificate.statement.json").unlink()
    with pytest.raises(InputError) as caught:
        sign_run(run)
    assert str(caught.value) == (
        f"{run}: found no statement; accepted: the folder of a finished run, with one NAME.statement.json. "
        "Finish the run first: samebits certify --resume RUN"
    )
    with pytest.raises(InputError, match="found no statement"):
        sign_run(private_home / "missing")


@pytest.mark.usefixtures("private_home")
def test_two_statements_are_one_too_many(run: Path) -> None:
    (run / "other.statement.json").write_bytes(b"{}")
    with pytest.raises(InputError, match=r"found certificate\.statement\.json, other\.statement\.json;"):
        sign_run(run)


def test_a_full_disk_leaves_no_certificate(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = generate_key("mine", tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(MachineError, match=r"certificate\.sigstore\.json: found No space left on device"):
        sign_run(run, pair.private_path)
    assert sorted(path.name for path in run.iterdir()) == ["certificate.evidence", "certificate.statement.json"]
