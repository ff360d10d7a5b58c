"""Sessions: each installs and calls the package; the logic lives in ``src/samebits``.

``nox -l`` lists them. Without arguments, ``nox`` runs the certification of this machine's row.
"""

from __future__ import annotations

import json
import shutil
import sys

import nox

nox.needs_version = ">=2024.10"
nox.options.sessions = ["certify-ds4"]
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "virtualenv"  # pip, not uv: a CPU-only torch wheel found by pip is respected

TORCH = "torch==2.13.0"
UV = "uv==0.13.9"
DS4_RECIPE = "ds4-small"
DS4_REFUSED = "refused-ds4-h200"
DS4_FP8KV_RECIPE = "ds4-small-fp8kv"
MEGATRON_ROW = "cpu-megatron-0.16"
VLLM_ROW = "cpu-vllm-0.32"


def install(
    session: nox.Session, *, run: bool = False, test: bool = False, images: bool = False, row: str = "cpu"
) -> None:
    """The kit with its hashed requirements; torch by version only, its build is checked against the row."""
    locks = ["lock/verify.txt"]
    if run:
        session.install(TORCH)
        locks = [f"lock/{row}.txt"]
    if test or images:
        locks.append("lock/images.txt")
    if test:
        locks.append("lock/test.txt")
    for lock in locks:
        session.install("--no-deps", "--require-hashes", "--requirement", lock)
    session.install("--no-deps", "--editable", ".")


def samebits(session: nox.Session, *arguments: str) -> None:
    """``python -m samebits …``; the exit code is the command's own (0 passed, 1 not passed, 2 refused, 3 machine)."""
    session.run("python", "-m", "samebits", *arguments)


def certify(session: nox.Session, *recipes: str) -> None:
    """``samebits certify``; with ``-- --container`` or ``-- --split`` in the row's image, and then without torch here.

    With ``-- --actor megatron`` the actor is inside Megatron-core.
    """
    inside = bool({"--container", "--split"} & set(session.posargs))
    has_megatron = any(argument.removeprefix("--actor=") == "megatron" for argument in session.posargs)
    install(session, run=not inside, images=inside, row=MEGATRON_ROW if has_megatron else "cpu")
    samebits(session, "certify", *recipes, *session.posargs)


@nox.session(name="certify-ds4")
def certify_ds4(session: nox.Session) -> None:
    """Certify the DeepSeek-V4-class FP8 mixture of experts on this machine's row; on a GPU also hear what vLLM says."""
    certify(session, DS4_RECIPE)
    if shutil.which("nvidia-smi") and not session.posargs:
        # No release of vLLM computes DeepSeek-V4 batch-invariantly.  2: it refused, on record; 3: not the row's GPU.
        session.run("python", "-m", "samebits", "certify", DS4_REFUSED, success_codes=[2, 3])


@nox.session(name="certify-ds4-fp8kv")
def certify_ds4_fp8kv(session: nox.Session) -> None:
    """The same with FP8 rows in the cache."""
    certify(session, DS4_FP8KV_RECIPE)


@nox.session(name="certify-dense")
def certify_dense(session: nox.Session) -> None:
    """Certify every dense recipe of this machine's row, SmolLM2 among them, or of another: ``-- --row ROW``."""
    certify(session, "--family", "dense")


@nox.session
def smoke(session: nox.Session) -> None:
    """Hear the real model speak, and compare rollout with recompute once."""
    install(session, run=True)
    samebits(session, "smoke", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Every test that this machine can run."""
    install(session, run=True, test=True)
    session.run("python", "-m", "pytest", "--numprocesses=2", "--dist=loadfile", *session.posargs)


@nox.session(name="tests-megatron")
def tests_megatron(session: nox.Session) -> None:
    """The tests that need Megatron-core, a whole certification among them."""
    install(session, run=True, test=True, row=MEGATRON_ROW)
    session.run("python", "-m", "pytest", "-m", "megatron", *(session.posargs or ("tests/actor_megatron",)))


@nox.session(name="tests-vllm")
def tests_vllm(session: nox.Session) -> None:
    """Tests that need the real vLLM, on the stack of row cpu-vllm-0.32, but for the slow ones."""
    install(session, run=True, test=True)
    said = session.run("python", "-m", "samebits", "stack", VLLM_ROW, "--json", silent=True)
    python = json.loads(str(said)[str(said).index("{") :])["python"]
    arguments = session.posargs or ("tests",)
    session.run("python", "-m", "pytest", "-m", "vllm and not slow", *arguments, env={"SAMEBITS_VLLM_PYTHON": python})


@nox.session(name="vllm-determinism")
def vllm_determinism(session: nox.Session) -> None:
    """Run vLLM's own determinism tests on a row's stack, cpu-vllm-0.32 or ``-- ROW``; skipped ones count as failed."""
    install(session)
    session.run("python", "-m", "samebits.engine.vllm.own_tests", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint with ruff, check types with mypy --strict."""
    install(session, run=True, test=True)
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session
def verify(session: nox.Session) -> None:
    """Verify certificates; without arguments every committed one, each against its declared exit code. No torch."""
    install(session)
    samebits(session, *(("verify", *session.posargs) if session.posargs else ("verify-all", "certs")))


@nox.session
def faults(session: nox.Session) -> None:
    """Seeded faults through the whole path: which check caught each; ``-- --only PATTERN`` chooses."""
    install(session, run=True, test=True)
    session.run("python", "-m", "faults", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def crashes(session: nox.Session) -> None:
    """Runs that are killed and taken up again: a dozen, or ``-- --boundaries --random 200``."""
    install(session, run=True, test=True)
    session.run("python", "-m", "crashes", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """A new campaign of 100,000 inputs over every reader of foreign files; --seed N repeats one. No torch."""
    install(session, test=True)
    session.run("python", "-m", "fuzz", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def bench(session: nox.Session) -> None:
    """Ratios, each measured in one run on this machine."""
    install(session, run=True)
    for script in session.posargs or ("oracle", "digest", "ops", "engine", "actor", "ds4", "gate", "scale"):
        session.run("python", f"bench/{script}.py")


@nox.session
def lock(session: nox.Session) -> None:
    """Make the hashed requirements anew; with --check, say what has drifted."""
    session.install(UV)
    install(session)
    samebits(session, "lock", *session.posargs)


@nox.session
def images(session: nox.Session) -> None:
    """Build the images of rows with your Docker, record their digests, write SBOMs; ``-- ROW… [--base NAME@sha256:…]``.

    Without rows, all images must be described by rows that are as they should be.
    """
    install(session, images=True)
    if session.posargs:
        samebits(session, "images", "build", *session.posargs)
    else:
        samebits(session, "images", "bake", "--check")


@nox.session
def full(session: nox.Session) -> None:
    """Every test, one at a time, then every recipe, FP8 cache rows included, which CI leaves out for time."""
    install(session, run=True, test=True)
    session.run("python", "-m", "pytest")
    session.run("python", "-m", "faults", env={"PYTHONPATH": "tests"})
    session.run("python", "-m", "crashes", "--boundaries", "--random", "200", env={"PYTHONPATH": "tests"})
    session.run("python", "-m", "fuzz", env={"PYTHONPATH": "tests"})
    session.run("python", "bench/scale.py", "--tokens", "1000000", "10000000", "100000000")
    samebits(session, "certify", DS4_RECIPE, DS4_FP8KV_RECIPE)
    samebits(session, "certify", "--family", "dense")
    # The image of the row cpu built twice, bit for bit; ends with 3, and so do we, where no Docker engine can be had.
    session.run("bash", "images/ci.sh", "--twice", external=True, env={"NOX": f"{sys.executable} -m nox"})
