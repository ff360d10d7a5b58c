"""Where the files of a certificate lie, and how they are written and read.

===================  ==========================================================
``X.statement.json`` what a run leaves: the statement, not signed
``X.sigstore.json``  the certificate: the same statement, signed
``X.evidence/``      every subject of the statement, under its own name
===================  ==========================================================

Files are written whole or not at all.  Files that somebody else wrote are read with a size limit and never through a
symbolic link, so that a certificate cannot point at something outside its own folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from samebits.certificate.strict_json import invalid
from samebits.errors import InputError

BUNDLE_SUFFIX: Final = ".sigstore.json"
STATEMENT_SUFFIX: Final = ".statement.json"
EVIDENCE_SUFFIX: Final = ".evidence"
EVIDENCE_LIMIT: Final = 1 << 35
"""Bytes of all subjects of a certificate together: ten times what 10^9 tokens need.  A sparse file of any size costs
whoever made it nothing, and whoever hashes it hours."""


class Stamp(NamedTuple):
    """Which file it was and when it last changed, as the system says: equal only if nobody has written to it since."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


def bundle_path(path: Path) -> Path:
    """``X.sigstore.json`` of a statement or bundle ``X``.

    Raises:
        InputError: the name ends otherwise.
    """
    return path.with_name(_stem(path) + BUNDLE_SUFFIX)


def statement_path(path: Path) -> Path:
    """``X.statement.json`` of a statement or bundle ``X``.

    Raises:
        InputError: the name ends otherwise.
    """
    return path.with_name(_stem(path) + STATEMENT_SUFFIX)


def evidence_folder(path: Path) -> Path:
    """``X.evidence`` of a statement or bundle ``X``.

    Raises:
        InputError: the name ends otherwise.
    """
    return path.with_name(_stem(path) + EVIDENCE_SUFFIX)


def subject_file(folder: Path, name: str) -> Path:
    """The file of subject ``name`` in the evidence ``folder``.  ``name`` was checked when the statement was parsed.

    Raises:
        InvalidCertificate: the folder or the file is missing, a symbolic link, or not what its place asks for.
    """
    for path, is_kind, wanted in ((folder, stat.S_ISDIR, "a folder"), (folder / name, stat.S_ISREG, "a regular file")):
        try:
            mode = path.lstat().st_mode
        except OSError as error:
            raise invalid(str(path), found=_reason(error), accepted=wanted) from None
        if not is_kind(mode):
            raise invalid(str(path), found=_file_kind(mode), accepted=wanted)
    return folder / name


def read_limited(path: Path, *, limit: int) -> bytes:
    """All bytes of the regular file at ``path``, at most ``limit`` of them.

    Raises:
        InputError: no such file, or unreadable.
        InvalidCertificate: a symbolic link, not a regular file, or longer than ``limit``.
    """
    with _regular(path) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise invalid(str(path), found=f"more than {limit} bytes", accepted=f"at most {limit} bytes")
    return data


def size_of(path: Path) -> int:
    """Bytes of the regular file at ``path``.

    Raises:
        InputError, InvalidCertificate: as :func:`read_limited`.
    """
    with _regular(path) as descriptor:
        return os.fstat(descriptor).st_size


def hash_limited(path: Path, *, limit: int) -> tuple[str, Stamp]:
    """sha256 of the regular file at ``path``, read in blocks, and which file that was.

    Raises:
        InputError: no such file, or unreadable.
        InvalidCertificate: a symbolic link, not a regular file, or longer than ``limit`` (which is asked first).
    """
    with _regular(path) as descriptor:
        before = stamp_of(os.fstat(descriptor))
        if before.size > limit:
            raise invalid(str(path), found=f"{before.size} bytes", accepted=f"at most {limit} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return digest, before


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file with this status."""
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@contextmanager
def _regular(path: Path) -> Iterator[int]:
    """An open descriptor of the regular file at ``path``."""
    try:
        # O_NONBLOCK: a named pipe would otherwise block before it can be refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # a ValueError: a path with a zero byte
        if not isinstance(error, OSError):
            found = str(error)
        elif path.is_symlink():
            raise invalid(str(path), found="a symbolic link", accepted="a regular file") from None
        else:
            found = _reason(error)
        raise InputError(str(path), found=found, accepted="a readable file", next_step="Check the path.") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise invalid(str(path), found=_file_kind(mode), accepted="a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644, replace: bool = True) -> None:
    """``data`` at ``path``, whole or not at all: also after a crash, and never readable beyond ``mode``.

    Raises:
        FileExistsError: ``replace`` is false and there is something at ``path``.
        OSError: the folder is missing, full or not writable; on a few network file systems also for want of hard
            links when ``replace`` is false.
    """
    # mkstemp creates with 0600, so a private key is private from its first byte.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, mode)
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        if replace:
            temporary.replace(path)
        else:
            path.hardlink_to(temporary)  # unlike a rename, fails where something is
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stem(path: Path) -> str:
    for suffix in (BUNDLE_SUFFIX, STATEMENT_SUFFIX):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    raise InputError(
        str(path),
        found=f"the name {path.name!r}",
        accepted=f"NAME{BUNDLE_SUFFIX} or NAME{STATEMENT_SUFFIX}",
        next_step="Name the certificate itself, not its folder.",
    )


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _file_kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a regular file"}
    return kinds.get(stat.S_IFMT(mode), "a special file")
