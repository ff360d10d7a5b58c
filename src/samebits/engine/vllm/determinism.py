"""vLLM's own determinism tests against the vLLM that is installed: an observation, never part of a verdict.

``python -m samebits.engine.vllm.determinism SDIST --sha256 HEX [--flag] [--tools FOLDER]``, run by the interpreter of a
row's stack; pytest is installed there or lies in FOLDER, which is searched last, so that it shadows nothing of the
stack's (:mod:`samebits.engine.vllm.own_tests` makes it).  SDIST is the row's pinned source distribution; only its
``tests`` are unpacked, so that the installed package is tested and not the source.  A skipped test proves nothing, and
a test that passes when it is run again is the very fault that it looks for: skips count as failures, and nothing is run
again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from samebits.engine.vllm.variables import installed
from samebits.errors import InputError, MachineError
from samebits.hashing import sha256_file

TESTS: Final = "tests/v1/determinism"
_START: Final = """
import sys
sys.path.append(sys.argv.pop(1))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
"""What ``python -m pytest`` does, with one more folder at the end of the path."""

_NEVER_AGAIN: Final = ("no:rerunfailures", "no:flaky", "no:cacheprovider")


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """How vLLM's own tests went here."""

    vllm: str
    sdist_sha256: str
    batch_invariant: bool
    tests: int
    passed: int
    by_module: Mapping[str, int]
    """How many tests each module has; one that cannot be imported counts as one."""
    failures: Mapping[str, str]
    """Test to the line that says why; a skipped one says so."""

    @property
    def is_clean(self) -> bool:
        """Whether there were tests and every one passed at once."""
        return self.tests > 0 and not self.failures


def observe(sdist: Path, *, sha256: str, batch_invariant: bool, tests: str = TESTS, tools: str = "") -> Observation:
    """Run the tests below ``tests`` in ``sdist``; ``tools`` is a folder with what the stack lacks, searched last.

    Raises:
        InputError: another file than the pinned one, or without such tests.
        MachineError: pytest is missing or ended without a report.
        RowError: no vLLM is installed here.
    """
    version, _ = installed()
    found = sha256_file(sdist)
    if found != sha256:
        raise InputError(
            str(sdist), found=f"sha256 {found}", accepted=f"sha256 {sha256}", next_step="Take the pinned release."
        )
    with tempfile.TemporaryDirectory(prefix="samebits-determinism-") as name:
        scratch = Path(name)
        _unpack(sdist, scratch, tests)
        return _observation(_run(scratch, tests, batch_invariant, tools), version, sha256, batch_invariant)


def _unpack(sdist: Path, scratch: Path, tests: str) -> None:
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            _, _, inside = member.name.partition("/")  # the first folder is the release's own
            if inside.startswith("tests/"):
                member.name = inside
                archive.extract(member, scratch, filter="data")
    if not (scratch / tests).is_dir():
        raise InputError(str(sdist), found=f"no {tests}", accepted="vLLM's own tests", next_step="Take vLLM's sdist.")


def _run(scratch: Path, tests: str, batch_invariant: bool, tools: str) -> ET.Element:
    report = scratch / "report.xml"
    command = [sys.executable, "-c", _START, tools, "-q", f"--junitxml={report}", tests]
    command.append("--continue-on-collection-errors")  # a module that cannot be imported hides none of the others
    for plugin in _NEVER_AGAIN:
        command += ["-p", plugin]
    flag = {"VLLM_BATCH_INVARIANT": "1" if batch_invariant else "0"}
    done = subprocess.run(command, cwd=scratch, env={**os.environ, **flag}, check=False, stdout=sys.stderr)
    if not report.is_file():
        raise MachineError(
            "pytest",
            found=f"exit status {done.returncode} and no report",
            accepted="a run that reports",
            next_step="Its words are above; pytest must be installed beside the stack's vLLM.",
        )
    return ET.parse(report).getroot()  # noqa: S314 - pytest wrote it a moment ago


def _observation(report: ET.Element, version: str, sha256: str, batch_invariant: bool) -> Observation:
    cases = list(report.iter("testcase"))
    failures = {
        "::".join(filter(None, (case.get("classname"), case.get("name")))): f"{child.tag}: {_why(child)}"
        for case in cases
        for child in case
        if child.tag in {"failure", "error", "skipped"}
    }
    return Observation(
        vllm=version,
        sdist_sha256=sha256,
        batch_invariant=batch_invariant,
        tests=len(cases),
        passed=len(cases) - len(failures),
        by_module=dict(Counter(sorted(case.get("classname") or case.get("name") or "" for case in cases))),
        failures=dict(sorted(failures.items())),
    )


def _why(element: ET.Element) -> str:
    """The message's first line; of an error its last exception, which the message only calls a failure."""
    raised = [line for line in (element.text or "").splitlines() if line.startswith("E  ")]
    if element.tag == "error" and raised:
        return raised[-1].removeprefix("E").strip()
    return next(iter((element.get("message") or "").splitlines()), "")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; exit code 0 if every test passed at once, else 1."""
    parser = argparse.ArgumentParser(prog="python -m samebits.engine.vllm.determinism", description=__doc__)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("--sha256", required=True, help="the digest that the row pins")
    parser.add_argument("--flag", action="store_true", help="with VLLM_BATCH_INVARIANT=1")
    parser.add_argument("--tools", default="", metavar="FOLDER", help="what the stack lacks, searched last")
    options = parser.parse_args(arguments)
    observation = observe(options.sdist, sha256=options.sha256, batch_invariant=options.flag, tools=options.tools)
    sys.stdout.write(json.dumps(asdict(observation)) + "\n")
    return 0 if observation.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
