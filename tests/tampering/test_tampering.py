"""Every act of tampering is refused, with the right exit code and for a reason of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.errors import InputError
from tampering import of_the_evidence, of_the_file, of_the_rows, of_the_sources, of_the_statement, of_the_tables
from tampering.genuine import Genuine
from tampering.table import INPUT, Case
from watchdog import watched

TABLE = (of_the_file, of_the_statement, of_the_evidence, of_the_rows, of_the_tables, of_the_sources)
CASES = tuple(case for part in TABLE for case in part.CASES)
SECONDS = 60
"""After which a case hangs; the slowest takes three on one core."""


@pytest.fixture
def genuine(tmp_path: Path) -> Iterator[Genuine]:
    return Genuine(tmp_path)


def outcome(genuine: Genuine) -> tuple[int, str, str]:
    """Exit code, the first step that failed, and its message: of findings, what the evidence really says."""
    try:
        report = genuine.verify()
    except InputError as error:
        return error.exit_code, INPUT, f"{error.field}: found {error.found}; accepted: {error.accepted}"
    failed = next((step for step in report.steps if step.status == "failed"), None)
    if failed is None:
        return report.exit_code, "none", ""
    if not report.differences or report.findings is None:
        return report.exit_code, failed.name, failed.detail
    derived = re.sub(r"[0-9a-f]{16}…|[0-9]+", "N", "; ".join(report.findings["reasons"]))
    paths = ", ".join(difference.path for difference in report.differences)
    return report.exit_code, failed.name, f"derived: {derived or paths}"


def plain(message: str, folder: Path) -> str:
    """Without what differs from run to run, or would if the certificate were another."""
    message = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", message.replace(str(folder), "."))
    message = re.sub(r"found \{.*; accepted", "found {…}; accepted", message)
    return re.sub(r"(byte |character |found (?=\d{9,} bytes|\d+ changes|\d+ phases)|\[)\d+", r"\1N", message)


def test_the_genuine_one_passes(genuine: Genuine) -> None:
    assert outcome(genuine) == (0, "none", "")


def test_signed_again_by_somebody_trusted_it_passes_too(genuine: Genuine) -> None:
    genuine.reseal()
    assert outcome(genuine) == (0, "none", "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tampering(genuine: Genuine, case: Case, tmp_path: Path) -> None:
    case.act(genuine)
    with watched(SECONDS):
        code, step, message = outcome(genuine)
    assert (code, step) == (case.exit_code, case.step), message
    assert plain(message, tmp_path).startswith(case.says), plain(message, tmp_path)


def test_each_for_a_reason_of_its_own() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
    assert len(CASES) >= 30
