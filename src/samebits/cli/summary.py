"""Tables about findings, the same after a run, under ``verify`` and under ``show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from samebits.cli.output import styled, table
from samebits.verify import Report

REASONS_SHOWN = 8


def findings_view(findings: Mapping[str, Any], *, title: str, seconds: float | None = None) -> RenderableType:
    """The end of a run on one screen: what was compared, what the control arm did, cost, exclusions, verdict."""
    exactness, control = findings["exactness"], _oracle(findings, "control", "rollout", "recompute")
    shown = table("", "", title=title)
    if findings["oracles"]:  # none where the run was there to record a refusal
        shown.add_row("compared", f"{exactness['compared']} tokens, three ways, as fp32 bit patterns")
        shown.add_row("mismatches", f"{exactness['mismatches']} differ, {exactness['nonFinite']} not finite")
    if exactness["firstMismatch"]:
        shown.add_row("first", _where(exactness["firstMismatch"]))
    if control:
        shown.add_row("control arm", f"{control['mismatches']} of {control['compared']} differ, as they must")
    if findings["oracles"]:
        shown.add_row("overhead", _overhead(findings["overhead"]))
    refused = sum(1 for exclusion in findings["exclusions"] if exclusion.get("refused"))
    shown.add_row("exclusions", f"{refused} of {len(findings['exclusions'])} refused")
    counts = Counter(check["status"] for check in findings["checks"])
    shown.add_row(
        "checks", ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(counts.items()))
    )
    if seconds is not None:
        shown.add_row("time", f"{seconds:.0f} s")
    shown.add_row("verdict", styled(findings["verdict"]))
    return Group(shown, *_reasons(findings["reasons"]))


def checks_view(findings: Mapping[str, Any]) -> RenderableType:
    """Every oracle and every named check."""
    oracles = table("oracle", "compared", "differ", "max ulp", "")
    for oracle in findings["oracles"]:
        oracles.add_row(
            f"{oracle['arm']}: {oracle['left']} against {oracle['right']}",
            str(oracle["compared"]),
            str(oracle["mismatches"]),
            str(oracle["maxUlp"]),
            styled(oracle["verdict"]),
        )
    checks = table("check", "rule", "exercised", "", "basis", "detail")
    for check in findings["checks"]:
        checks.add_row(
            check["name"],
            str(check["rule"]),
            str(check["exercised"]),
            styled(check["status"]),
            check["basis"],
            escape(_plain(check["detail"])),
        )
    return Group(oracles, "", checks)


def attested_view(predicate: Mapping[str, Any]) -> RenderableType:
    """What the producer says and no evidence can show."""
    shown = table("attested", "")
    run = predicate["run"]
    rows = {
        "row": f"{predicate['row']['id']}  sha256 {predicate['row']['sha256']}",
        "recipe": f"{predicate['recipe']['id']}  sha256 {predicate['recipe']['sha256']}",
        "kit": f"samebits {predicate['kit']['version']}  sha256 {predicate['kit']['sha256']}",
        "run": f"{run['id']}, {run['startedOn']} to {run['finishedOn']}{', resumed' if run['resumed'] else ''}",
    }
    rows |= {name: _text(value) for name, value in predicate["environment"].items()}
    rows |= {f"seed of {name}": value for name, value in predicate["seeds"].items()}
    for resource in predicate["configuration"]:
        digests = ", ".join(f"{name} {value}" for name, value in resource["digest"].items())
        notes = ", ".join(f"{name} {value}" for name, value in resource.get("annotations", {}).items())
        rows[resource["name"]] = f"{digests}  {notes}"
    for name, text in rows.items():
        shown.add_row(name, escape(_plain(text)))
    for limitation in predicate["limitations"]:
        shown.add_row("limitation", escape(_plain(limitation)))
    return shown


def report_view(report: Report) -> RenderableType:
    """What ``verify`` found: steps, then each claim with its basis."""
    steps = table("step", "", "")
    for step in report.steps:
        steps.add_row(step.name, styled(step.status), escape(_plain(step.detail)))
    parts: list[RenderableType] = [steps]
    if report.claims:
        claims = table("claim", "basis", "")
        for claim in report.claims:
            claims.add_row(claim.name, claim.basis, escape(_plain(claim.text)))
        parts += ["", claims]
    parts += ["", Text.from_markup(f"{escape(report.source)}: {styled(report.verdict)}"), *_reasons(report.reasons)]
    parts += [Text(f"  {_plain(warning)}", style="bold yellow") for warning in report.warnings]
    return Group(*parts)


def _oracle(findings: Mapping[str, Any], arm: str, left: str, right: str) -> Mapping[str, Any] | None:
    wanted = (arm, left, right)
    return next((one for one in findings["oracles"] if (one["arm"], one["left"], one["right"]) == wanted), None)


def _where(mismatch: Mapping[str, Any]) -> str:
    sides = ", ".join(f"{side} {bit}" for side, bit in mismatch["bits"].items())
    return (
        f"round {mismatch['round']}, trajectory {mismatch['trajectory']}, position {mismatch['position']}, "
        f"token {mismatch['token']}: {sides}"
    )


def _overhead(overhead: Mapping[str, Any]) -> str:
    if overhead["ratio"] is None:
        return "not measured"
    budget = f"budget {overhead['budget']}" if overhead["budget"] else "no budget on this row"
    return f"{overhead['ratio']} × the unaligned step time ({budget})"


def _reasons(reasons: Sequence[str]) -> list[RenderableType]:
    shown: list[RenderableType] = [Text(f"  {_plain(reason)}") for reason in reasons[:REASONS_SHOWN]]
    if len(reasons) > REASONS_SHOWN:
        shown.append(Text(f"  and {len(reasons) - REASONS_SHOWN} more; --json has all of them"))
    return shown


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _plain(text: str) -> str:
    """Without control characters: a file must not be able to move the reader's cursor."""
    return "".join(character if character.isprintable() else "�" for character in text)
