"""Signing a finished run: the last step, on whichever machine has the key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from samebits.certificate import bundle, keys, store
from samebits.certificate.certificate import check_subjects, open_certificate, read_statement, sign_certificate
from samebits.certificate.keys import PrivateKey, PublicKey
from samebits.certificate.statement import STATEMENT_LIMIT
from samebits.errors import InputError, InvalidCertificate, MachineError


@dataclass(frozen=True, kw_only=True, slots=True)
class Signed:
    """A certificate that was just written, and the key behind it."""

    certificate: Path
    keyid: str
    private_path: Path
    public_path: Path
    key_created: bool
    """Whether the user's default key was made for this."""


def sign_run(run: Path, key_path: Path | None = None) -> Signed:
    """Sign the one statement in the folder ``run``, with the key at ``key_path`` or the user's default one.

    The evidence is hashed again first.  Signing again with the same key changes nothing.

    Raises:
        InputError: no statement or several, a key that cannot be used, a certificate of another key or statement.
        InvalidCertificate: a statement that would not verify, or evidence that has changed since.
        MachineError: the certificate or the key cannot be written.
    """
    path = _statement_in(run)
    payload = store.read_limited(path, limit=STATEMENT_LIMIT)
    statement, _ = read_statement(payload, source=path.name)
    check_subjects(statement.subjects, store.evidence_folder(path))
    if key_path is None:
        key, key_path, created = keys.ensure_default_key()
    else:
        key, created = keys.load_private(key_path), False
    target = store.bundle_path(path)
    if target.exists():
        _require_same(target, payload, key.public)
    else:
        _write(target, payload, key)
    return Signed(
        certificate=target,
        keyid=key.public.fingerprint,
        private_path=key_path,
        public_path=keys.public_path(key_path),
        key_created=created,
    )


def require_key(key_path: Path | None = None) -> bool:
    """Nothing is signed, but :func:`sign_run` would find its key; whether the user's default one was made for this.

    Raises:
        InputError: a key that cannot be used.
        MachineError: there is no default key and it cannot be written.
    """
    if key_path is None:
        return keys.ensure_default_key()[2]
    keys.load_private(key_path)
    return False


def _statement_in(run: Path) -> Path:
    found = sorted(run.glob(f"*{store.STATEMENT_SUFFIX}")) if run.is_dir() else []
    if len(found) != 1:
        raise InputError(
            str(run),
            found=", ".join(path.name for path in found) or "no statement",
            accepted=f"the folder of a finished run, with one NAME{store.STATEMENT_SUFFIX}",
            next_step="Finish the run first: samebits certify --resume RUN",
        )
    return found[0]


def _require_same(target: Path, payload: bytes, key: PublicKey) -> None:
    data = store.read_limited(target, limit=bundle.BUNDLE_LIMIT)
    try:
        same = open_certificate(data, key).payload == payload
    except InvalidCertificate:
        same = False
    if not same:
        raise InputError(
            str(target),
            found="a certificate of another key or statement",
            accepted=f"none, or one of key {key.fingerprint} over this statement",
            next_step="Move it away; there is one file per certificate and signer.",
        )


def _write(target: Path, payload: bytes, key: PrivateKey) -> None:
    try:
        store.write_atomic(target, sign_certificate(payload, key))
    except OSError as error:
        raise MachineError(
            str(target),
            found=error.strerror or type(error).__name__,
            accepted="a folder that can be written",
            next_step="Free space or change permissions, then sign again.",
        ) from None
