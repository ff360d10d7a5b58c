from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from samebits.certificate import (
    PrivateKey,
    default_key_folder,
    ensure_default_key,
    generate_key,
    load_private,
    load_public,
    store,
)
from samebits.errors import InputError, MachineError

PKCS8 = serialization.PrivateFormat.PKCS8
SEC1 = serialization.PrivateFormat.TraditionalOpenSSL
PLAIN = serialization.NoEncryption()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def private_file(path: Path, key: object, form: object = PKCS8, encryption: object = PLAIN) -> Path:
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    path.chmod(0o600)
    return path


def public_file(path: Path, key: object) -> Path:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return path


@pytest.mark.parametrize(("ed25519", "kind"), [(False, ec.EllipticCurvePrivateKey), (True, Ed25519PrivateKey)])
def test_generate_writes_a_private_and_a_public_file(tmp_path: Path, ed25519: bool, kind: type) -> None:
    pair = generate_key("mine", tmp_path / "new" / "keys", ed25519=ed25519)
    assert sorted(path.name for path in pair.private_path.parent.iterdir()) == ["mine.pem", "mine.pub.pem"]
    assert pair.private_path == tmp_path / "new" / "keys" / "mine.pem"
    assert pair.public_path == tmp_path / "new" / "keys" / "mine.pub.pem"
    assert (mode(pair.private_path), mode(pair.public_path), mode(tmp_path / "new" / "keys")) == (0o600, 0o644, 0o700)
    assert pair.private_path.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
    loaded = load_private(pair.private_path)
    assert loaded.public.fingerprint == load_public(pair.public_path).fingerprint == pair.keyid
    assert load_public(pair.public_path).is_signature(loaded.sign(b"message"), b"message")
    assert isinstance(loaded.key, kind)


def test_the_private_file_is_private_from_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            # Written in full here, and not yet under its name.
            seen.append(
                (str(sorted(path.name for path in tmp_path.glob("mine*"))), status.st_size, status.st_mode & 0o777)
            )
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    previous = os.umask(0)
    try:
        pair = generate_key("mine", tmp_path)
    finally:
        os.umask(previous)
    assert seen == [
        ("[]", pair.private_path.stat().st_size, 0o600),
        ("['mine.pem']", pair.public_path.stat().st_size, 0o644),
    ]


def test_fingerprint_is_what_openssl_says(tmp_path: Path) -> None:
    pair = generate_key("mine", tmp_path)
    der = pair.key.public.key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert pair.keyid == hashlib.sha256(der).hexdigest()
    text = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", pair.public_path, "-outform", "DER"], capture_output=True, check=True
    ).stdout
    assert text == der


def test_a_private_key_does_not_show_itself(key: PrivateKey) -> None:
    assert repr(key) == f"PrivateKey(fingerprint='{key.public.fingerprint}')"


@pytest.mark.parametrize("existing", ["mine.pem", "mine.pub.pem"])
def test_generate_never_overwrites(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("precious")
    with pytest.raises(InputError) as caught:
        generate_key("mine", tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / existing}: found an existing file; accepted: a name that is free; keys are never overwritten. "
        "Choose another name, or use the key that is there."
    )
    assert [path.name for path in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_text() == "precious"


def test_generate_does_not_follow_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "mine.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="an existing file"):
        generate_key("mine", tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_generate_loses_a_race_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = store.write_atomic

    def racing(path: Path, data: bytes, **options: object) -> None:
        if path.name == "mine.pub.pem":
            path.write_text("somebody else's")
        write(path, data, **options)

    monkeypatch.setattr(store, "write_atomic", racing)
    with pytest.raises(InputError, match="an existing file"):
        generate_key("mine", tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"mine.pub.pem": "somebody else's"}


def test_generate_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError) as caught:
        generate_key("mine", tmp_path / "file" / "keys")
    assert caught.value.found == "Not a directory"


@pytest.mark.parametrize("name", ["", ".", "a/b", "../a", "-a", "a.pub", "a b", "é", "a" * 65, "a\n"])
def test_key_names_are_plain(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        generate_key(name, tmp_path)
    assert (caught.value.field, caught.value.found) == ("key name", repr(name))
    assert list(tmp_path.iterdir()) == []


def test_default_key_is_made_once(private_home: Path) -> None:
    first, path, created = ensure_default_key()
    assert (path, created) == (private_home / "config" / "samebits" / "keys" / "default.pem", True)
    assert path.parent == default_key_folder()
    second, again, created = ensure_default_key()
    assert (second.public.fingerprint, again, created) == (first.public.fingerprint, path, False)


@pytest.mark.usefixtures("private_home")
def test_default_key_gets_its_public_half_back() -> None:
    key, path, _ = ensure_default_key()
    path.with_name("default.pub.pem").unlink()
    ensure_default_key()
    assert load_public(path.with_name("default.pub.pem")).fingerprint == key.public.fingerprint


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660, 0o644, 0o610, 0o601])
def test_a_private_key_that_others_can_reach_is_refused(tmp_path: Path, bits: int) -> None:
    path = generate_key("mine", tmp_path).private_path
    path.chmod(bits)
    with pytest.raises(InputError) as caught:
        load_private(path)
    assert str(caught.value) == (
        f"{path}: found mode {bits:04o}; accepted: mode 0600: a private key that only its owner can read. "
        f"Run: chmod 600 {path}. If others could read it, make a new key."
    )
    path.chmod(0o400)
    load_private(path)


def test_loading_the_wrong_thing(tmp_path: Path) -> None:
    p256 = ec.generate_private_key(ec.SECP256R1())
    rsa_key = rsa.generate_private_key(65537, 2048)
    garbled = tmp_path / "garbled.pem"
    garbled.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    garbled.chmod(0o600)
    two = tmp_path / "two.pem"
    two.write_bytes(
        private_file(tmp_path / "one.pem", p256).read_bytes() + public_file(tmp_path / "x", p256).read_bytes()
    )
    two.chmod(0o600)
    (tmp_path / "empty.pem").write_text("")
    os.mkfifo(tmp_path / "pipe.pem")
    cases = {
        private_file(tmp_path / "rsa.pem", rsa_key): "RSA key",
        private_file(tmp_path / "p384.pem", ec.generate_private_key(ec.SECP384R1())): "an EC key on secp384r1",
        private_file(tmp_path / "k1.pem", ec.generate_private_key(ec.SECP256K1())): "an EC key on secp256k1",
        private_file(tmp_path / "sec1.pem", p256, SEC1): "a private key in SEC 1 form",
        private_file(
            tmp_path / "locked.pem", p256, PKCS8, serialization.BestAvailableEncryption(b"x")
        ): "an encrypted private key",
        public_file(tmp_path / "public.pem", p256): "a public key",
        garbled: "PEM that holds no key",
        two: "a private key and a public key",
        tmp_path / "empty.pem": "no PEM",
        tmp_path / "pipe.pem": "no PEM",
        tmp_path: "no PEM",
        tmp_path / "missing.pem": "No such file or directory",
    }
    found = {}
    for path in cases:
        with pytest.raises(InputError) as caught:
            load_private(path)
        assert caught.value.field == str(path)
        found[path] = caught.value.found
    assert found == cases


def test_loading_the_wrong_public_thing(tmp_path: Path) -> None:
    p256 = ec.generate_private_key(ec.SECP256R1())
    cases = {
        public_file(tmp_path / "rsa.pem", rsa.generate_private_key(65537, 2048)): "RSA key",
        public_file(tmp_path / "p521.pem", ec.generate_private_key(ec.SECP521R1())): "an EC key on secp521r1",
        private_file(tmp_path / "private.pem", p256): "a private key",
        tmp_path / "missing.pem": "No such file or directory",
    }
    found = {}
    for path in cases:
        with pytest.raises(InputError) as caught:
            load_public(path)
        found[path] = caught.value.found
    assert found == cases
    with pytest.raises(InputError) as caught:
        load_public(tmp_path / "private.pem")
    assert caught.value.next_step == (
        f"Name the public key, for instance {tmp_path / 'private.pub.pem'}; a private key is for its owner alone."
    )


def test_signatures_fit_one_message_and_one_key(
    key: PrivateKey, other_key: PrivateKey, ed25519_key: PrivateKey
) -> None:
    for signer in (key, ed25519_key):
        signature = signer.sign(b"message")
        assert signer.public.is_signature(signature, b"message")
        assert not signer.public.is_signature(signature, b"messagE")
        assert not signer.public.is_signature(signature[:-1], b"message")
        assert not signer.public.is_signature(b"", b"message")
        assert not other_key.public.is_signature(signature, b"message")
