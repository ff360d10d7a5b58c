"""Targets that are documents: certificates, statements, recipes, rows, lists of revocations."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random
from typing import Any

from fuzz.mutate import cut, json_text, mutated, mutated_json, mutated_lines
from fuzz.target import FalsePass, Target
from samebits import pins, recipe, schema
from samebits.certificate import Revocations, load_public, open_certificate, read_statement
from samebits.errors import InvalidCertificate
from samebits.gate import settings as settings_gate

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors" / "certificate"


class Certificate(Target):
    """The bundle: nothing but the payload that was signed ever comes out of it."""

    name, share = "certificate", 22

    def __init__(self) -> None:
        self._keys = {kind: load_public(VECTORS / f"{kind}.pub.pem") for kind in ("p256", "ed25519")}
        self._genuine = {kind: (VECTORS / f"{kind}.sigstore.json").read_bytes() for kind in self._keys}
        self._payloads = {
            kind: base64.b64decode(json.loads(data)["dsseEnvelope"]["payload"]) for kind, data in self._genuine.items()
        }

    def make(self, random: Random) -> bytes:
        kind = random.choice(sorted(self._keys))
        data = self._genuine[kind]
        way = random.randrange(4)
        if way == 0:
            return cut(random, data)
        if way == 1:
            return mutated(random, data)
        value = json.loads(data)
        if random.randrange(8) == 0:  # another layout, the same signature
            return json.dumps(value, indent=random.randrange(4), sort_keys=bool(random.randrange(2))).encode()
        if way == 2:
            envelope = value["dsseEnvelope"]
            holder, key = random.choice(((envelope, "payload"), (envelope["signatures"][0], "sig")))
            holder[key] = base64.b64encode(mutated(random, base64.b64decode(holder[key]))).decode()
            return json_text(value)
        return json_text(mutated_json(random, value))

    def read(self, data: bytes) -> None:
        refusals = []
        for kind, key in self._keys.items():
            try:
                certificate = open_certificate(data, key)
            except InvalidCertificate as error:
                refusals.append(error)
                continue
            if certificate.payload != self._payloads[kind]:
                raise FalsePass("another payload than the one that was signed")
        if len(refusals) == len(self._keys):
            raise refusals[0]


class Statement(Target):
    """The statement, signed by somebody trusted: two readers of JSON must see the same in what is accepted."""

    name, share = "statement", 18

    def __init__(self) -> None:
        bundle = json.loads((VECTORS / "p256.sigstore.json").read_bytes())
        self._genuine = base64.b64decode(bundle["dsseEnvelope"]["payload"])

    def make(self, random: Random) -> bytes:
        if random.randrange(3) == 0:
            return mutated(random, self._genuine)
        return json_text(mutated_json(random, json.loads(self._genuine)))

    def read(self, data: bytes) -> None:
        statement, predicate = read_statement(data)
        said = json.loads(data, object_pairs_hook=_each_once)
        if statement.to_dict() != said or predicate.to_dict() != said["predicate"]:
            raise FalsePass("something else was read than stands there")


class Toml(Target):
    """A file that a person writes; ``shape`` is what reads it."""

    share = 8

    def __init__(self) -> None:
        self._genuine = self.genuine()

    def genuine(self) -> list[bytes]:
        raise NotImplementedError

    def make(self, random: Random) -> bytes:
        data = random.choice(self._genuine)
        way = random.randrange(5)
        if way == 0:
            return cut(random, data)
        return mutated(random, data) if way == 1 else mutated_lines(random, data)


class Recipe(Toml):
    """Recipes: what is accepted says the same when it is read from its own values."""

    name = "recipe"

    def genuine(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((ROOT / "recipes").glob("*.toml"))]

    def read(self, data: bytes) -> None:
        found = recipe.parse(data, source="recipe.toml")
        if schema.parse(recipe.Recipe, found.model_dump(exclude_unset=True), source="again") != found:
            raise FalsePass("a recipe that reads itself as another")


class Row(Toml):
    """Rows, whole and as verification reads them: by id and gate."""

    name = "row"

    def __init__(self) -> None:
        super().__init__()
        self._recipe = recipe.parse((ROOT / "recipes" / "ds4-small.toml").read_bytes(), source="recipe.toml")

    def genuine(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((ROOT / "lock").glob("*.toml"))]

    def read(self, data: bytes) -> None:
        gate = schema.toml(data, source="row.toml").get("gate")
        table = gate.get("engine") if isinstance(gate, dict) else None
        if isinstance(table, dict):
            accepted = settings_gate.accepted_from_json(table, where="row.toml: gate.engine")
            settings_gate.conflicts(self._recipe.engine.model_dump(), accepted, where="recipe.toml: engine")
        pins.parse(data, source="row.toml")


class Revoked(Toml):
    """Lists of revocations."""

    name, share = "revoked", 2

    def genuine(self) -> list[bytes]:
        entry = '[[revoked]]\n{} = "' + "ab" * 32 + '"\nreason = "a stolen laptop"\ndate = 2026-11-30\n'
        return [(entry.format("keyid") + entry.format("certificateSha256")).encode()]

    def read(self, data: bytes) -> None:
        schema.parse_toml(Revocations, data, source="revoked.toml")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise FalsePass("a key that two readers may read in two ways")
    return dict(pairs)
