"""One genuine, signed run, laid out so that a test can change one thing about it.

It is a committed certificate: somebody's real run, not a simulation.  What only its signer could do to it is done
with a key of the test's own, which the verifier is then given: the worst signer there is, one that is trusted.
"""

from __future__ import annotations

import base64
import copy
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric import ec

from samebits.certificate import PrivateKey, PublicKey, Revocations, bundle, dsse, load_public
from samebits.hashing import sha256_bytes, sha256_file
from samebits.oracle import TABLES, writer
from samebits.verify import Report, verify

CERTS = Path(__file__).parents[2] / "certs"
KEY = CERTS / "keys" / "samebits-2026.pub.pem"
OWN_KEY = PrivateKey(ec.generate_private_key(ec.SECP256R1()))
"""Of a signer whom the verifier trusts, and who lies."""


@functools.cache
def committed(recipe: str) -> Path:
    """The certificate of ``recipe`` on the CPU row."""
    return next(iter(sorted((CERTS / "cpu" / recipe).glob("*.sigstore.json"))))


class Genuine:
    """A copy of the certificate and its evidence in ``folder``, as it was signed until something is changed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "one.sigstore.json"
        self.evidence = folder / "one.evidence"
        original = committed("dense-qwen3-small")
        shutil.copy(original, self.path)
        shutil.copytree(original.with_name(original.name.replace(".sigstore.json", ".evidence")), self.evidence)
        self.key: PublicKey = load_public(KEY)
        self.revoked: Revocations | Path | None = None

    def verify(self) -> Report:
        return verify(self.path, self.key, revoked=self.revoked)

    # The file

    @property
    def bundle(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.path.read_bytes())
        return parsed

    def rewrite(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Changes the bundle's JSON and nothing that it signs."""
        value = self.bundle
        change(value)
        self.path.write_text(json.dumps(value))

    def retype(self, old: str, new: str) -> None:
        """Changes the bundle's text where no JSON library would."""
        text = self.path.read_text()
        assert text.count(old) == 1, (old, text.count(old))
        self.path.write_text(text.replace(old, new))

    # The statement

    @property
    def payload(self) -> bytes:
        return base64.b64decode(self.bundle["dsseEnvelope"]["payload"])

    @property
    def statement(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.payload)
        return parsed

    def resign(self, payload: bytes | None = None) -> None:
        """Signs any bytes with the key that the verifier trusts."""
        self.key = OWN_KEY.public
        self.path.write_bytes(bundle.sign(self.payload if payload is None else payload, OWN_KEY))

    def restate(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Changes the statement and signs it."""
        value = copy.deepcopy(self.statement)
        change(value)
        self.resign(json.dumps(value).encode())

    def retext(self, old: str, new: str) -> None:
        """Changes the statement's text where no JSON library would, and signs it."""
        text = self.payload.decode()
        assert text.count(old) == 1, (old, text.count(old))
        self.resign(text.replace(old, new).encode())

    # The evidence

    def table(self, name: str) -> Path:
        return self.evidence / f"{name}.parquet"

    def rows(self, name: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
        """Changes the rows of a table, writes it as the kit writes it, and signs everything anew but the findings."""
        rows = pq.read_table(self.table(name)).to_pylist()
        change(rows)
        self.replace(name, pa.Table.from_pylist(rows, schema=TABLES[name]))

    def replace(self, name: str, table: pa.Table, **options: Any) -> None:
        """Another table in its place, written by the kit's writer or, with ``options``, by pyarrow's; signed anew."""
        if options:
            pq.write_table(table, self.table(name), **options)
        else:
            writer._write(self.table(name), table.schema, iter([table] if table.num_rows else []))
        self.reseal()

    def reseal(self) -> None:
        """Subjects, recipe and row with the digests that the files now have; findings as they were; signed."""

        def change(statement: dict[str, Any]) -> None:
            files = sorted(path for path in self.evidence.iterdir() if path.is_file())
            statement["subject"] = [{"name": file.name, "digest": {"sha256": sha256_file(file)}} for file in files]
            for kind in ("recipe", "row"):
                file = self.evidence / f"{kind}.toml"
                if file.is_file():
                    statement["predicate"][kind]["sha256"] = sha256_bytes(file.read_bytes())

        self.restate(change)

    def retoml(self, kind: str, old: str, new: str, *, count: int = 1) -> None:
        """Changes the copy of recipe or row, and signs everything anew but the findings."""
        file = self.evidence / f"{kind}.toml"
        text = file.read_text()
        assert text.count(old) >= count, old
        file.write_text(text.replace(old, new, count))
        self.reseal()


def flipped(data: bytes, place: int) -> bytes:
    """``data`` with the lowest bit of one byte flipped."""
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def flipped_base64(text: str, place: int) -> str:
    """The same of what ``text`` encodes."""
    return base64.b64encode(flipped(base64.b64decode(text), place)).decode()


def signed_by_nobody(payload: bytes, claimed: PublicKey) -> bytes:
    """A bundle over ``payload`` that names ``claimed`` and is signed with a key of its own."""
    envelope = dsse.Envelope(
        payload=payload, keyid=claimed.fingerprint, signature=OWN_KEY.sign(dsse.pae(dsse.PAYLOAD_TYPE, payload))
    )
    value = {
        "mediaType": bundle.MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": claimed.fingerprint}},
        "dsseEnvelope": envelope.to_dict(),
    }
    return json.dumps(value).encode()
