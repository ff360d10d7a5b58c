"""Tampering with the evidence by anybody, without a key; and with what is revoked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from samebits.certificate import Revocation, Revocations
from samebits.hashing import sha256_bytes
from tampering.acts import Act, bytes_of, instead, lower_min_tokens, write
from tampering.genuine import Genuine, committed, flipped
from tampering.table import FILES, INPUT, REVOCATION, Case, case


def _linked(path: Path) -> None:
    path.symlink_to(evidence_of("dense-smollm2") / path.name)


def evidence_of(recipe: str) -> Path:
    """The evidence folder of a committed certificate."""
    path = committed(recipe)
    return path.with_name(path.name.replace(".sigstore.json", ".evidence"))


def _folder_of_another_run(genuine: Genuine) -> None:
    shutil.rmtree(genuine.evidence)
    shutil.copytree(evidence_of("dense-smollm2"), genuine.evidence)


def _linked_folder(genuine: Genuine) -> None:
    genuine.evidence.rename(genuine.evidence.with_name("elsewhere"))
    genuine.evidence.symlink_to(genuine.evidence.with_name("elsewhere"))


def _revoked(**entry: str) -> Act:
    def act(genuine: Genuine) -> None:
        named = {name: value(genuine) if callable(value) else value for name, value in entry.items()}
        date = np.datetime64("2026-12-01").item()
        genuine.revoked = Revocations(revoked=[Revocation(reason="a stolen laptop", date=date, **named)])

    return act


def _revocations(make: Callable[[Path], object]) -> Act:
    def act(genuine: Genuine) -> None:
        genuine.revoked = genuine.path.with_name("revoked.toml")
        make(genuine.revoked)

    return act


def _of_another(table: str) -> bytes:
    return (evidence_of("dense-smollm2") / f"{table}.parquet").read_bytes()


CASES: Final[tuple[Case, ...]] = (
    # By anybody
    case(
        "an evidence byte",
        bytes_of("tokens.parquet", lambda data: flipped(data, 5000)),
        FILES,
        ("./one.evidence/tokens.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "evidence cut off",
        bytes_of("tokens.parquet", lambda data: data[:5000]),
        FILES,
        ("./one.evidence/tokens.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "evidence lengthened",
        bytes_of("tokens.parquet", lambda data: data + b"\0"),
        FILES,
        ("./one.evidence/tokens.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "an empty table",
        bytes_of("tokens.parquet", lambda data: data[:0]),
        FILES,
        ("./one.evidence/tokens.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "evidence of another run",
        _folder_of_another_run,
        FILES,
        ("./one.evidence/commitments.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "one table of another run",
        bytes_of("probes.parquet", lambda _: _of_another("probes")),
        FILES,
        ("./one.evidence/probes.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "a table taken away",
        instead("probes.parquet", lambda _: None),
        FILES,
        "./one.evidence/probes.parquet: found no such file or directory; accepted: a regular file",
    ),
    case(
        "a file added",
        lambda genuine: write(genuine.evidence / "notes.txt", b"trust me"),
        FILES,
        "./one.evidence/notes.txt: found a file that the statement does not name",
    ),
    case(
        "a precondition lowered in the recipe",
        bytes_of("recipe.toml", lower_min_tokens),
        FILES,
        "./one.evidence/recipe.toml: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement",
    ),
    case(
        "a gate widened in the row",
        bytes_of("row.toml", lambda data: data + b"#\n"),
        FILES,
        "./one.evidence/row.toml: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement",
    ),
    case(
        "a table that is a link",
        instead("probes.parquet", _linked),
        FILES,
        "./one.evidence/probes.parquet: found a symbolic link; accepted: a regular file",
    ),
    case(
        "a table that is a folder",
        instead("probes.parquet", lambda path: path.mkdir()),
        FILES,
        "./one.evidence/probes.parquet: found a folder; accepted: a regular file",
    ),
    case(
        "a table that is a pipe",
        instead("probes.parquet", os.mkfifo),
        FILES,
        "./one.evidence/probes.parquet: found a special file; accepted: a regular file",
    ),
    case("a folder that is a link", _linked_folder, FILES, "./one.evidence: found a symbolic link; accepted: a folder"),
    case(
        "no folder",
        lambda genuine: shutil.rmtree(genuine.evidence),
        FILES,
        "./one.evidence: found no such file or directory; accepted: a folder",
    ),
    case(
        "a sparse file of 64 GiB",
        lambda genuine: os.truncate(genuine.table("tokens"), 1 << 36),
        FILES,
        "./one.evidence: found N bytes; accepted: at most 34359738368 bytes",
    ),
    # Revoked
    case(
        "a revoked key",
        _revoked(keyid=lambda genuine: genuine.key.fingerprint),
        REVOCATION,
        "revoked.toml: found its key was revoked on 2026-12-01: a stolen laptop; accepted: no entry",
    ),
    case(
        "a revoked certificate",
        _revoked(certificateSha256=lambda one: sha256_bytes(one.payload)),
        REVOCATION,
        ("revoked.toml: found this certificate was revoked on 2026-12-01: a stolen laptop; accepted: no entry"),
    ),
    case(
        "revocations that are a pipe",
        _revocations(os.mkfifo),
        INPUT,
        "./revoked.toml: found not a regular file; accepted: a readable TOML file",
    ),
    case(
        "revocations that are not there",
        _revocations(lambda _: None),
        INPUT,
        "./revoked.toml: found No such file or directory; accepted: a readable TOML file",
    ),
    case(
        "revocations that cannot be read",
        _revocations(lambda path: path.write_text("[[revoked]]")),
        INPUT,
        "revoked.toml: revoked[N].reason: found nothing; accepted: a value",
    ),
)
