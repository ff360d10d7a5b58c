"""Keys that sign certificates: ECDSA over P-256 with SHA-256, or Ed25519.

A private key is an unencrypted PKCS #8 PEM file (RFC 5958) that only its owner can read; beside ``NAME.pem`` lies
``NAME.pub.pem``, a SubjectPublicKeyInfo (RFC 5280, 4.1).  The *fingerprint* of a key is the sha256 of that structure in
DER, the same that ``openssl pkey -pubin -in NAME.pub.pem -outform DER | sha256sum`` prints.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from samebits.certificate import store
from samebits.errors import InputError, MachineError
from samebits.hashing import sha256_bytes

ACCEPTED: Final = "a P-256 or Ed25519 key"
DEFAULT_NAME: Final = "default"

_SIZE_LIMIT = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PEM_LABEL = re.compile(r"^-----BEGIN ([A-Z0-9 ]+)-----\s*$", re.MULTILINE)
_LABELS = {
    "PRIVATE KEY": "a private key",
    "PUBLIC KEY": "a public key",
    "ENCRYPTED PRIVATE KEY": "an encrypted private key",
    "EC PRIVATE KEY": "a private key in SEC 1 form",
    "RSA PRIVATE KEY": "an RSA private key",
    "OPENSSH PRIVATE KEY": "a private key in OpenSSH form",
    "CERTIFICATE": "an X.509 certificate",
}


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that checks signatures: always the verifier's own, never one named in a file."""

    key: ec.EllipticCurvePublicKey | Ed25519PublicKey

    @property
    def fingerprint(self) -> str:
        """sha256 of the SubjectPublicKeyInfo in DER, lower-case hex; the keyid and the hint of a certificate."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return sha256_bytes(self.key.public_bytes(serialization.Encoding.DER, form))

    def pem(self) -> bytes:
        """The SubjectPublicKeyInfo as PEM."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_bytes(serialization.Encoding.PEM, form)

    def is_signature(self, signature: bytes, message: bytes) -> bool:
        """Whether ``signature`` (ECDSA: in DER) is this key's over ``message``."""
        try:
            if isinstance(self.key, Ed25519PublicKey):
                self.key.verify(signature, message)
            else:
                self.key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key that makes signatures."""

    key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"PrivateKey(fingerprint={self.public.fingerprint!r})"

    @property
    def public(self) -> PublicKey:
        """The key that checks what this one signs."""
        return PublicKey(self.key.public_key())

    def sign(self, message: bytes) -> bytes:
        """The signature over ``message``; ECDSA signatures are in DER (RFC 3279, 2.2.3)."""
        if isinstance(self.key, Ed25519PrivateKey):
            return self.key.sign(message)
        return self.key.sign(message, ec.ECDSA(hashes.SHA256()))


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyPair:
    """A private key and where its two files lie."""

    key: PrivateKey
    private_path: Path

    @property
    def public_path(self) -> Path:
        """``NAME.pub.pem`` beside ``NAME.pem``."""
        return public_path(self.private_path)

    @property
    def keyid(self) -> str:
        """The fingerprint of the public key."""
        return self.key.public.fingerprint


def generate_key(name: str, folder: Path, *, ed25519: bool = False) -> KeyPair:
    """A new key as ``NAME.pem`` (mode 0600) and ``NAME.pub.pem`` in ``folder``, P-256 unless ``ed25519``.

    Raises:
        InputError: the name is no plain name, or there is a key of that name; nothing is overwritten.
        MachineError: the folder cannot be made or written.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            "key name",
            found=repr(name),
            accepted="1 to 64 letters, digits, '_' and '-', the first a letter or digit",
            next_step="Choose another name.",
        )
    pair = KeyPair(key=PrivateKey(_generated(ed25519=ed25519)), private_path=folder / f"{name}.pem")
    for path in (pair.private_path, pair.public_path):
        if os.path.lexists(path):
            raise _exists(path)
    _write_new(pair.private_path, _private_pem(pair.key), mode=0o600)
    try:
        _write_new(pair.public_path, pair.key.public.pem(), mode=0o644)
    except (InputError, MachineError):
        pair.private_path.unlink()  # half a key would block the name
        raise
    return pair


def public_path(private_path: Path) -> Path:
    """``NAME.pub.pem`` beside ``NAME.pem``."""
    return private_path.with_name(f"{private_path.stem}.pub.pem")


def default_key_folder() -> Path:
    """The user's own keys, for instance ``~/.config/samebits/keys``."""
    return Path(platformdirs.user_config_dir("samebits")) / "keys"


def ensure_default_key() -> tuple[PrivateKey, Path, bool]:
    """The user's default key, its private file, and whether this call made it.

    Raises:
        InputError: there is a key and it cannot be used.
        MachineError: there is none and it cannot be written.
    """
    path = default_key_folder() / f"{DEFAULT_NAME}.pem"
    created = False
    if not os.path.lexists(path):
        try:
            generate_key(DEFAULT_NAME, path.parent)
            created = True
        except InputError:
            if not os.path.lexists(path):
                raise
            # Another process was first; its key is ours too.
    key = load_private(path)
    if not os.path.lexists(public_path(path)):
        _write_new(public_path(path), key.public.pem(), mode=0o644)
    return key, path, created


def load_private(path: Path) -> PrivateKey:
    """The private key at ``path``.

    Raises:
        InputError: unreadable, readable by others, encrypted, not PKCS #8 PEM, another algorithm or curve.
    """
    pem = _read_pem(path, "PRIVATE KEY", private=True)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _damaged(path, "a PKCS #8 private key in PEM") from None
    if isinstance(key, Ed25519PrivateKey):
        return PrivateKey(key)
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return PrivateKey(key)
    raise _wrong_algorithm(path, key)


def load_public(path: Path) -> PublicKey:
    """The public key at ``path``.

    Raises:
        InputError: unreadable, not a SubjectPublicKeyInfo in PEM, another algorithm or curve.
    """
    pem = _read_pem(path, "PUBLIC KEY", private=False)
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise _damaged(path, "a SubjectPublicKeyInfo in PEM") from None
    if isinstance(key, Ed25519PublicKey):
        return PublicKey(key)
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return PublicKey(key)
    raise _wrong_algorithm(path, key)


def _generated(*, ed25519: bool) -> ec.EllipticCurvePrivateKey | Ed25519PrivateKey:
    return Ed25519PrivateKey.generate() if ed25519 else ec.generate_private_key(ec.SECP256R1())


def _private_pem(key: PrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_new(path: Path, data: bytes, *, mode: int) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store.write_atomic(path, data, mode=mode, replace=False)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise MachineError(
            str(path),
            found=error.strerror or type(error).__name__,
            accepted="a folder that can be written and has hard links",
            next_step="Choose another folder for the key.",
        ) from None


def _read_pem(path: Path, wanted: str, *, private: bool) -> bytes:
    try:
        # A key may be mounted as a symbolic link (Kubernetes secrets are); O_NONBLOCK for named pipes.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(
            str(path),
            found=error.strerror or type(error).__name__,
            accepted=f"a readable file with {_LABELS[wanted]} in PEM",
            next_step="Check the path and its permissions.",
        ) from None
    try:
        status = os.fstat(descriptor)
        pem = os.read(descriptor, _SIZE_LIMIT) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(descriptor)
    labels = _PEM_LABEL.findall(pem.decode("ascii", errors="replace"))
    if labels != [wanted]:
        raise InputError(
            str(path),
            found=" and ".join(_LABELS.get(label, f"PEM of kind {label}") for label in labels) or "no PEM",
            accepted=f"{_LABELS[wanted]} in PEM, and nothing else",
            next_step=_next_step(labels, path),
        )
    if private and status.st_mode & 0o077:
        raise InputError(
            str(path),
            found=f"mode {stat.S_IMODE(status.st_mode):04o}",
            accepted="mode 0600: a private key that only its owner can read",
            next_step=f"Run: chmod 600 {path}. If others could read it, make a new key.",
        )
    return pem


def _next_step(labels: list[str], path: Path) -> str:
    if labels == ["PUBLIC KEY"]:
        return "Name the private key, NAME.pem beside NAME.pub.pem."
    if labels == ["PRIVATE KEY"]:
        return f"Name the public key, for instance {public_path(path)}; a private key is for its owner alone."
    if labels in (["ENCRYPTED PRIVATE KEY"], ["EC PRIVATE KEY"]):
        return f"Convert it: openssl pkcs8 -topk8 -nocrypt -in {path} -out NEW.pem"
    return "Make a key: samebits keygen NAME"


def _exists(path: Path) -> InputError:
    return InputError(
        str(path),
        found="an existing file",
        accepted="a name that is free; keys are never overwritten",
        next_step="Choose another name, or use the key that is there.",
    )


def _damaged(path: Path, accepted: str) -> InputError:
    return InputError(str(path), found="PEM that holds no key", accepted=accepted, next_step="Check the file.")


def _wrong_algorithm(path: Path, key: object) -> InputError:
    curve = getattr(key, "curve", None)
    found = f"an EC key on {curve.name}" if isinstance(curve, ec.EllipticCurve) else _algorithm(key)
    return InputError(str(path), found=found, accepted=ACCEPTED, next_step="Make a key: samebits keygen NAME")


def _algorithm(key: object) -> str:
    return type(key).__name__.removesuffix("PrivateKey").removesuffix("PublicKey").lstrip("_") + " key"
