from __future__ import annotations

from typing import Any

import pytest

from samebits.certificate import Subject, strict_json
from samebits.certificate import statement as statements
from samebits.errors import InvalidCertificate

PLAIN = "a plain file name: letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
HEX = "64 lower-case hex digits"


def refused(value: Any) -> tuple[str, str, str]:
    with pytest.raises(InvalidCertificate) as caught:
        statements.parse(strict_json.dumps(value))
    return caught.value.field, caught.value.found, caught.value.accepted


def test_parse(statement: dict[str, Any]) -> None:
    parsed = statements.parse(strict_json.dumps(statement))
    assert parsed.subjects == (
        Subject(name="recipe.toml", sha256="7" * 64),
        Subject(name="tokens.parquet", sha256="8" * 64),
    )
    assert parsed.predicate == statement["predicate"]
    assert parsed.to_dict() == statement


def test_write_sorts_subjects(statement: dict[str, Any], payload: bytes) -> None:
    subjects = (Subject(name="tokens.parquet", sha256="8" * 64), Subject(name="recipe.toml", sha256="7" * 64))
    assert statements.write(subjects, statement["predicate"]) == payload


def test_write_refuses_what_parse_would() -> None:
    with pytest.raises(InvalidCertificate, match=r"^statement: subject\[0\]\.name: found '\.\./x'"):
        statements.write([Subject(name="../x", sha256="7" * 64)], {})
    with pytest.raises(TypeError, match=r"^predicate\.a: float"):
        statements.write([Subject(name="x", sha256="7" * 64)], {"a": 1.5})


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (
            ["_type"],
            "https://in-toto.io/Statement/v0.1",
            ("statement: _type", "'https://in-toto.io/Statement/v0.1'", "https://in-toto.io/Statement/v1"),
        ),
        (
            ["predicateType"],
            "urn:samebits:certificate:v2",
            ("statement: predicateType", "'urn:samebits:certificate:v2'", "urn:samebits:certificate:v1"),
        ),
        (["predicateType"], 1, ("statement: predicateType", "a number", "a string")),
        (["predicate"], [], ("statement: predicate", "an array", "an object")),
        (["subject"], {}, ("statement: subject", "an object", "an array")),
        (["subject"], [], ("statement: subject", "0 subjects", "1 to 1000")),
        (["subject", 0], "recipe.toml", ("statement: subject[0]", "a string", "an object")),
        (["subject", 0, "uri"], "x", ("statement: subject[0].uri", "an unknown key", "name, digest")),
        (["subject", 0, "digest", "sha1"], "7" * 40, ("statement: subject[0].digest.sha1", "an unknown key", "sha256")),
        (["subject", 0, "digest"], {}, ("statement: subject[0].digest.sha256", "nothing", "a value")),
        (["subject", 0, "digest", "sha256"], "7" * 63, ("statement: subject[0].digest.sha256", repr("7" * 63), HEX)),
        (["subject", 0, "digest", "sha256"], "A" * 64, ("statement: subject[0].digest.sha256", repr("A" * 64), HEX)),
        (
            ["subject", 0, "digest", "sha256"],
            "7" * 64 + "\n",
            ("statement: subject[0].digest.sha256", repr("7" * 64 + "\n"), HEX),
        ),
        (
            ["subject", 1, "name"],
            "recipe.toml",
            ("statement: subject[1].name", "'recipe.toml' again", "each name once"),
        ),
        (
            ["subject", 1, "name"],
            "Recipe.TOML",
            ("statement: subject[1].name", "'Recipe.TOML' again", "each name once"),
        ),
        (["annotations"], {}, ("statement.annotations", "an unknown key", "_type, subject, predicateType, predicate")),
    ],
)
def test_parse_is_closed(
    statement: dict[str, Any], path: list[Any], value: Any, expected: tuple[str, str, str]
) -> None:
    target: Any = statement
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert refused(statement) == expected


@pytest.mark.parametrize("key", ["_type", "subject", "predicateType", "predicate"])
def test_every_key_is_required(statement: dict[str, Any], key: str) -> None:
    del statement[key]
    assert refused(statement) == (f"statement.{key}", "nothing", "a value")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".hidden",
        "-rf",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "C:x",
        "a..b",
        "a\x00b",
        "a\nb",
        "a b",
        "é",
        "a\u202e",
        "a" * 129,
    ],
)
def test_subject_names_are_plain_file_names(statement: dict[str, Any], name: str) -> None:
    statement["subject"][0]["name"] = name
    shown = repr(name) if len(name) <= 80 else repr(name[:80]) + "…"
    assert refused(statement) == ("statement: subject[0].name", shown, PLAIN)


def test_limits(statement: dict[str, Any]) -> None:
    statement["subject"] = [{"name": f"f{number}", "digest": {"sha256": "7" * 64}} for number in range(1001)]
    assert refused(statement) == ("statement: subject", "1001 subjects", "1 to 1000")
    with pytest.raises(InvalidCertificate, match="found 4194305 bytes; accepted: at most 4194304 bytes"):
        statements.parse(b" " * (4 * 1024 * 1024 + 1))
