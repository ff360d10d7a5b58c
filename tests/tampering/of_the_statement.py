"""Tampering with the statement by a signer whom the verifier trusts: every signature here is good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tampering.genuine import Genuine
from tampering.of_the_file import nested
from tampering.table import CERTIFICATE, FILES, FINDINGS, SOURCES, Case, case

Statement = dict[str, Any]
Act = Callable[[Genuine], None]


def _statement(change: Callable[[Statement], object]) -> Act:
    return lambda genuine: genuine.restate(change)


def _predicate(change: Callable[[dict[str, Any]], object]) -> Act:
    return lambda genuine: genuine.restate(lambda value: change(value["predicate"]))


def _findings(change: Callable[[dict[str, Any]], object]) -> Act:
    return lambda genuine: genuine.restate(lambda value: change(value["predicate"]["findings"]))


def _subject(change: Callable[[dict[str, Any]], object]) -> Act:
    return lambda genuine: genuine.restate(lambda value: change(value["subject"][0]))


def _renamed_subject(name: str) -> Act:
    return _subject(lambda subject: subject.update(name=name))


def _without_recipe(value: Statement) -> None:
    value["subject"] = [subject for subject in value["subject"] if subject["name"] != "recipe.toml"]


def _swapped_digests(value: Statement) -> None:
    one, two = value["subject"][:2]
    one["digest"], two["digest"] = two["digest"], one["digest"]


def _set(where: tuple[str | int, ...], value: object) -> Act:
    def change(findings: dict[str, Any]) -> None:
        place: Any = findings
        for part in where[:-1]:
            place = place[part]
        assert (type(place[where[-1]]), place[where[-1]]) != (type(value), value)
        place[where[-1]] = value

    return _findings(change)


def _minus_zero(genuine: Genuine) -> None:
    _set(("exactness", "mismatches"), 987654321)(genuine)
    genuine.retext("987654321", "-0")


def _backwards(predicate: dict[str, Any]) -> None:
    run = predicate["run"]
    run["startedOn"], run["finishedOn"] = run["finishedOn"], run["startedOn"]


def _attested_as_derived(genuine: Genuine) -> None:
    def change(findings: dict[str, Any]) -> None:
        check = next(check for check in findings["checks"] if check["basis"] == "attested")
        check["basis"] = "derived"

    _findings(change)(genuine)


_TYPE = "https://in-toto.io/Statement/v0.1"
_NEXT = "urn:samebits:certificate:v2"
_SLSA = "https://slsa.dev/provenance/v1"
_UUID = "GPU-5a2f1c3e-8d1b-4c6a-9f00-1234567890ab"

CASES: Final[tuple[Case, ...]] = (
    # What kind of statement
    case(
        "another version of in-toto",
        _statement(lambda value: value.update(_type=_TYPE)),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: _type: found 'https://in-toto.io/Statement/v0.1'; accepted: "
            "https://in-toto.io/Statement/v1"
        ),
    ),
    case(
        "an unknown predicate version",
        _statement(lambda value: value.update(predicateType=_NEXT)),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicateType: found 'urn:samebits:certificate:v2'; accepted: "
            "urn:samebits:certificate:v1"
        ),
    ),
    case(
        "an unknown predicate type",
        _statement(lambda value: value.update(predicateType=_SLSA)),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicateType: found 'https://slsa.dev/provenance/v1'; accepted: "
            "urn:samebits:certificate:v1"
        ),
    ),
    case(
        "no predicate",
        _statement(lambda value: value.update(predicate=None)),
        CERTIFICATE,
        "one.sigstore.json: statement: predicate: found null; accepted: an object",
    ),
    case(
        "an unknown key in the statement",
        _statement(lambda value: value.update(note="trust me")),
        CERTIFICATE,
        ("one.sigstore.json: statement.note: found an unknown key; accepted: _type, subject, predicateType, predicate"),
    ),
    case(
        "a statement that is no JSON",
        lambda genuine: genuine.resign(b"%PDF-1.7"),
        CERTIFICATE,
        ("one.sigstore.json: statement: character N: found not JSON (Expecting value); accepted: JSON in UTF-8"),
    ),
    case(
        "a statement that is too large",
        lambda genuine: genuine.resign(b" " * (4 << 20) + b"{}"),
        CERTIFICATE,
        "one.sigstore.json: statement: found 4194306 bytes; accepted: at most 4194304 bytes",
    ),
    # JSON that two readers may read in two ways
    case(
        "a duplicate key in the findings",
        lambda genuine: genuine.retext('"findings":{', '"findings":{"verdict":"failed",'),
        CERTIFICATE,
        ("one.sigstore.json: statement: predicate.findings.verdict: found a duplicate key; accepted: each key once"),
    ),
    case(
        "a float in the findings",
        _set(("exactness", "mismatches"), 0.5),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate.findings.exactness.mismatches: found '0.5'; accepted: an "
            "integer, or a string"
        ),
    ),
    case(
        "minus zero in the findings",
        _minus_zero,
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate.findings.exactness.mismatches: found '-0'; accepted: an "
            "integer of magnitude at most 2^53, or a string"
        ),
    ),
    case(
        "a huge integer in the findings",
        _set(("exactness", "compared"), 2**60),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate.findings.exactness.compared: found "
            "'1152921504606846976'; accepted: an integer of magnitude at most 2^53, or a string"
        ),
    ),
    case(
        "nesting in the findings",
        _findings(lambda value: value.update(extra=nested(32))),
        CERTIFICATE,
        ("one.sigstore.json: statement: character N: found nesting deeper than 32; accepted: at most 32 levels"),
    ),
    case(
        "a lone surrogate in the findings",
        _set(("reasons",), ["\ud800"]),
        CERTIFICATE,
        ("one.sigstore.json: statement: predicate.findings.reasons[N]: found a lone surrogate; accepted: Unicode text"),
    ),
    # Files named in it
    case(
        "a path that climbs",
        _renamed_subject("../../../etc/passwd"),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: subject[N].name: found '../../../etc/passwd'; accepted: a plain "
            "file name: letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
        ),
    ),
    case(
        "two dots inside a name",
        _renamed_subject("a..b"),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: subject[N].name: found 'a..b'; accepted: a plain file name: "
            "letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
        ),
    ),
    case(
        "an absolute path",
        _renamed_subject("/etc/passwd"),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: subject[N].name: found '/etc/passwd'; accepted: a plain file name: "
            "letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
        ),
    ),
    case(
        "a path of Windows",
        _renamed_subject("..\\..\\secrets"),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: subject[N].name: found '..\\\\..\\\\secrets'; accepted: a plain file "
            "name: letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
        ),
    ),
    case(
        "a zero byte in a name",
        _renamed_subject("tokens\0.parquet"),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: subject[N].name: found 'tokens\\x00.parquet'; accepted: a plain "
            "file name: letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
        ),
    ),
    case(
        "a hidden file",
        _renamed_subject(".parquet"),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: subject[N].name: found '.parquet'; accepted: a plain file name: "
            "letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
        ),
    ),
    case(
        "a file named twice",
        _statement(lambda value: value["subject"].append(value["subject"][0])),
        CERTIFICATE,
        ("one.sigstore.json: statement: subject[N].name: found 'commitments.parquet' again; accepted: each name once"),
    ),
    case(
        "a file named twice but for case",
        _renamed_subject("RECIPE.toml"),
        CERTIFICATE,
        "one.sigstore.json: statement: subject[N].name: found 'recipe.toml' again; accepted: each name once",
    ),
    case(
        "a weaker digest",
        _subject(lambda value: value.update(digest={"sha1": "ab" * 20})),
        CERTIFICATE,
        "one.sigstore.json: statement: subject[N].digest.sha1: found an unknown key; accepted: sha256",
    ),
    case(
        "a digest beside sha256",
        _subject(lambda value: value["digest"].update(sha1="ab" * 20)),
        CERTIFICATE,
        "one.sigstore.json: statement: subject[N].digest.sha1: found an unknown key; accepted: sha256",
    ),
    case(
        "a digest in capitals",
        _subject(lambda value: value["digest"].update(sha256="AB" * 32)),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: subject[N].digest.sha256: found "
            "'ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB'; accepted: 64 lower-case hex "
            "digits"
        ),
    ),
    case(
        "no files",
        _statement(lambda value: value.update(subject=[])),
        CERTIFICATE,
        "one.sigstore.json: statement: subject: found 0 subjects; accepted: 1 to 1000",
    ),
    case(
        "a million files",
        _statement(lambda value: value.update(subject=[0] * 1001)),
        CERTIFICATE,
        "one.sigstore.json: statement: subject: found 1001 subjects; accepted: 1 to 1000",
    ),
    case(
        "another digest",
        _subject(lambda value: value["digest"].update(sha256="ab" * 32)),
        FILES,
        ("./one.evidence/commitments.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "digests of two files swapped",
        _statement(_swapped_digests),
        FILES,
        ("./one.evidence/commitments.parquet: found sha256 <sha256>; accepted: sha256 <sha256>, as in the statement"),
    ),
    case(
        "a file that is not there",
        _renamed_subject("absent.parquet"),
        FILES,
        "./one.evidence/absent.parquet: found no such file or directory; accepted: a regular file",
    ),
    case(
        "the recipe no longer named",
        _statement(_without_recipe),
        FILES,
        "./one.evidence/recipe.toml: found a file that the statement does not name",
    ),
    # What is said beside the findings
    case(
        "an unknown key in the predicate",
        _predicate(lambda value: value.update(note="trust me")),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate: note: found an unknown key; accepted: configuration, "
            "environment, findings, kit, limitations, recipe, reproduces, row, run, seeds"
        ),
    ),
    case(
        "the name of a host",
        _predicate(lambda value: value["environment"].update(hostname="lab7")),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate: environment: found {…}; accepted: no names of hosts or "
            "users, no serial numbers (key 'hostname')"
        ),
    ),
    case(
        "a serial number",
        _predicate(lambda value: value["environment"].update(gpu=_UUID)),
        CERTIFICATE,
        ("one.sigstore.json: statement: predicate: environment: found {…}; accepted: no GPU UUIDs (key 'gpu')"),
    ),
    case(
        "an escape for the terminal",
        _predicate(lambda value: value.update(limitations=["\x1b[2J"])),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate: limitations[N]: found '\\x1b[NJ'; accepted: String "
            "should match pattern '^[^\\x00-\\x1f\\x7f-\\x9f]+$'"
        ),
    ),
    case(
        "a run that ended before it began",
        _predicate(_backwards),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate: run: found {…}; accepted: a finishedOn that is not "
            "before startedOn"
        ),
    ),
    case(
        "a verdict nobody knows",
        _set(("verdict",), "excellent"),
        CERTIFICATE,
        (
            "one.sigstore.json: statement: predicate: findings: found {…}; accepted: an object whose "
            "'verdict' is one of passed, failed, vacuous"
        ),
    ),
    case(
        "another recipe digest",
        _predicate(lambda value: value["recipe"].update(sha256="cd" * 32)),
        SOURCES,
        "subject recipe.toml: found <sha256>; accepted: sha256 <sha256>",
    ),
    case(
        "another row digest",
        _predicate(lambda value: value["row"].update(sha256="cd" * 32)),
        SOURCES,
        "subject row.toml: found <sha256>; accepted: sha256 <sha256>",
    ),
    case(
        "another recipe id",
        _predicate(lambda value: value["recipe"].update(id="ds4-large")),
        SOURCES,
        "recipe.toml: id: found 'dense-qwen3-small'; accepted: 'ds4-large', as the predicate says",
    ),
    case(
        "another row id",
        _predicate(lambda value: value["row"].update(id="gb200")),
        SOURCES,
        "row.toml: id: found 'cpu'; accepted: 'gb200', as the predicate says",
    ),
    case(
        "another seed",
        _predicate(lambda value: value["seeds"].update(workload="7")),
        SOURCES,
        "seeds.workload: found 7",
    ),
    # Findings that the evidence does not carry
    case("counts lowered", _set(("exactness", "compared"), 7), FINDINGS, "derived: findings.exactness.compared"),
    case("a verdict worse than the evidence", _set(("verdict",), "refused"), FINDINGS, "derived: findings.verdict"),
    case(
        "the control arm's mismatches",
        _set(("controlArm", "mismatches", "rollout/recompute"), 0),
        FINDINGS,
        "derived: findings.controlArm.mismatches.rollout/recompute",
    ),
    case("a check taken out", _findings(lambda value: value["checks"].pop()), FINDINGS, "derived: findings.checks[N]"),
    case(
        "an exclusion taken out",
        _findings(lambda value: value["exclusions"].pop()),
        FINDINGS,
        "derived: findings.exclusions[N]",
    ),
    case("attested called derived", _attested_as_derived, FINDINGS, "derived: findings.checks[N].basis"),
    case("true for one", _set(("checks", 0, "rule"), True), FINDINGS, "derived: findings.checks[N].rule"),
    case(
        "a number as text", _set(("exactness", "mismatches"), "0"), FINDINGS, "derived: findings.exactness.mismatches"
    ),
    case("an award", _findings(lambda value: value.update(award="gold")), FINDINGS, "derived: findings.award"),
)
