"""Tampering with the copies of recipe and row by a signer whom the verifier trusts."""

from __future__ import annotations

from typing import Final

from tampering.acts import Act, bytes_of, lower_min_tokens, sealed, write
from tampering.genuine import Genuine
from tampering.table import FINDINGS, SOURCES, Case, case


def _toml(kind: str, old: str, new: str) -> Act:
    return lambda genuine: genuine.retoml(kind, old, new)


def _source(kind: str, content: bytes) -> Act:
    return sealed(lambda genuine: write(genuine.evidence / f"{kind}.toml", content))


def _appended(kind: str, content: bytes) -> Act:
    def act(genuine: Genuine) -> None:
        path = genuine.evidence / f"{kind}.toml"
        path.write_bytes(path.read_bytes() + content)
        genuine.reseal()

    return act


def _fewer_exclusions(genuine: Genuine) -> None:
    path = genuine.evidence / "recipe.toml"
    text = path.read_text()
    path.write_text(text[: text.rindex("[[exclusions]]")])
    genuine.reseal()


def _recipe_of_another_row(genuine: Genuine) -> None:
    genuine.retoml("recipe", 'rows = ["cpu"', 'rows = ["gb200"')


CASES: Final[tuple[Case, ...]] = (
    # Recipe and row, signed
    case(
        "an exclusion taken out of the recipe",
        _fewer_exclusions,
        FINDINGS,
        "derived: findings.checks[N].detail, findings.checks[N].exercised, findings.exclusions[N]",
    ),
    case(
        "a precondition lowered and signed",
        sealed(bytes_of("recipe.toml", lower_min_tokens)),
        FINDINGS,
        "derived: findings.checks[N].detail",
    ),
    case(
        "a recipe for another row",
        _recipe_of_another_row,
        SOURCES,
        "recipe.toml: rows: found gb200; accepted: a list that has 'cpu'",
    ),
    case(
        "a recipe by another id",
        _toml("recipe", 'id = "dense-qwen3-small"', 'id = "dense"'),
        SOURCES,
        "recipe.toml: id: found 'dense'; accepted: 'dense-qwen3-small', as the predicate says",
    ),
    case(
        "a row by another id",
        _toml("row", 'id = "cpu"', 'id = "cpu2"'),
        SOURCES,
        "row.toml: id: found 'cpu2'; accepted: 'cpu', as the predicate says",
    ),
    case(
        "a row without a gate",
        _source("row", b'id = "cpu"\n'),
        SOURCES,
        "row.toml: gate.engine: found nothing; accepted: a table: what the row certifies",
    ),
    case(
        "an unknown key in the recipe",
        _appended("recipe", b"\n[trust]\nme = true\n"),
        SOURCES,
        "recipe.toml: trust: found an unknown key",
    ),
    case(
        "fewer refits",
        _toml("recipe", "refits = 10", "refits = 1"),
        SOURCES,
        "recipe.toml: certification.refits: found 1; accepted: greater than or equal to 10",
    ),
    case(
        "a recipe that is no text",
        _source("recipe", b"\xff\xfe"),
        SOURCES,
        (
            "recipe.toml: found not TOML ('utf-8' codec can't decode byte Nxff in position 0: invalid start "
            "byte); accepted: TOML 1.0 in UTF-8"
        ),
    ),
    case(
        "a recipe with a byte order mark",
        _source("recipe", b"\xef\xbb\xbfid = 1"),
        SOURCES,
        "recipe.toml: found not TOML (Invalid statement (at line 1, column 1)); accepted: TOML 1.0 in UTF-8",
    ),
    case(
        "a recipe of brackets",
        _source("recipe", b"a = " + b"[" * 100_000),
        SOURCES,
        "recipe.toml: found not TOML (maximum recursion depth exceeded); accepted: TOML 1.0 in UTF-8",
    ),
    case(
        "a key of 100,000 parts",
        _source("recipe", b".".join([b"a"] * 100_000) + b" = 1"),
        SOURCES,
        "recipe.toml: line 1: found 99999 dots; accepted: at most 128 in one line",
    ),
    case(
        "a row of dots",
        _source("row", b".".join([b"a"] * 1000) + b" = 1"),
        SOURCES,
        "row.toml: line 1: found 999 dots; accepted: at most 128 in one line",
    ),
    case(
        "a recipe of 2 MiB",
        _source("recipe", b"#" * (2 << 20)),
        SOURCES,
        "./one.evidence/recipe.toml: found more than 1048576 bytes; accepted: at most 1048576 bytes",
    ),
    case(
        "a number of 10,000 digits",
        _toml("recipe", "refits = 10", "refits = 0x" + "f" * 10_000),
        SOURCES,
        ("recipe.toml: certification.refits: found int too large to show; accepted: less than or equal to 1000"),
    ),
)
