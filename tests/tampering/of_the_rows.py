"""Tampering with rows by a signer whom the verifier trusts, and who signs it all again but for the findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from samebits.oracle import limits
from tampering.acts import Rows, rows_of, setting
from tampering.table import FINDINGS, Case, case


def _swapped(rows: Rows) -> None:
    responses = [index for index, row in enumerate(rows) if row["mask"]]
    one, two = responses[3], responses[4]
    rows[one], rows[two] = rows[two], rows[one]


def _bit(rows: Rows) -> None:
    next(row for row in rows if row["mask"])["train_bits"] ^= 1


def _everywhere(pattern: int | None) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        row = next(row for row in rows if row["mask"])
        row.update({name: pattern for name in row if name.endswith("_bits")})

    return change


def _counted_prompt(rows: Rows) -> None:
    row = next(row for row in rows if not row["mask"])
    row.update(mask=True, rollout_bits=1, recompute_bits=1, train_bits=1)


def _temperature(rows: Rows) -> None:
    rows[0]["sampling"] = rows[0]["sampling"].replace('"temperature": 1.0', '"temperature": 0.999')


def _no_effect(rows: Rows) -> None:
    for row in rows:
        if row["layer"] == 0:
            row.update(recompute_probed_bits=row["recompute_bits"], train_probed_bits=row["train_bits"])


def _slower(rows: Rows) -> None:
    for row in rows:
        row["nanoseconds"] *= 2 if row["arm"] == "aligned" else 1


def _op_set(rows: Rows) -> None:
    next(row for row in rows if (row["arm"], row["name"]) == ("control", "op_set"))["value"] = '"native"'


def _in_turns(rows: Rows) -> None:
    rows += [rows[0] | {"round": index % 2} for index in range(2 * limits.RUNS)]


def _versions(rows: Rows) -> None:
    rows += [rows[0] | {"version": version} for version in range(limits.ROUNDS + 1)]


def _layers(rows: Rows) -> None:
    rows += [rows[0] | {"layer": layer} for layer in range(limits.LAYERS + 1)]


def _phases(rows: Rows) -> None:
    rows += [rows[0] | {"phase": f"phase {phase}"} for phase in range(limits.PHASES)]


CASES: Final[tuple[Case, ...]] = (
    # By the signer, findings as they were: tokens
    case(
        "tokens reordered",
        rows_of("tokens", _swapped),
        FINDINGS,
        (
            "derived: tokens.aligned: failed: found aligned, round N, trajectory N, position N; the "
            "trajectories table wants aligned, round N, trajectory N, position N"
        ),
    ),
    case(
        "one bit of one logprob",
        rows_of("tokens", _bit),
        FINDINGS,
        ("derived: bits.equal: failed: recompute/train: N of N tokens differ; rollout/train: N of N tokens differ"),
    ),
    case(
        "one bit of one logprob on every side",
        rows_of("tokens", _everywhere(1)),
        FINDINGS,
        (
            "derived: independence.commitments: failed: aligned, round N: commit of rollout is recorded as N; "
            "the rows say N; aligned, round N: reveal of rollout is recorded as N; the rows say N; aligned, "
            "round N: commit of recompute is recorded as N; the rows say N; and N more"
        ),
    ),
    case(
        "NaN on every side",
        rows_of("tokens", _everywhere(0x7FC00000)),
        FINDINGS,
        "derived: bits.finite: failed: N tokens have a logprob that is infinite or NaN",
    ),
    case(
        "a logprob taken away",
        rows_of("tokens", _everywhere(None)),
        FINDINGS,
        (
            "derived: tokens.masked: failed: N response tokens have no rollout logprob; N response tokens "
            "have no recompute logprob; N response tokens have no train logprob"
        ),
    ),
    case(
        "a token taken away",
        rows_of("tokens", lambda rows: rows.pop(50)),
        FINDINGS,
        (
            "derived: tokens.aligned: failed: found aligned, round N, trajectory N, position N; the "
            "trajectories table wants aligned, round N, trajectory N, position N"
        ),
    ),
    case(
        "a token twice",
        rows_of("tokens", lambda rows: rows.insert(50, rows[50])),
        FINDINGS,
        (
            "derived: tokens.aligned: failed: found aligned, round N, trajectory N, position N; the "
            "trajectories table wants aligned, round N, trajectory N, position N"
        ),
    ),
    case(
        "a prompt token counted",
        rows_of("tokens", _counted_prompt),
        FINDINGS,
        "derived: tokens.masked: failed: round N, trajectory N, position N: a prompt token is counted",
    ),
    case(
        "all tokens taken away",
        rows_of("tokens", lambda rows: rows.clear()),
        FINDINGS,
        "derived: tokens.aligned: failed: N trajectories have no token rows; and N more; and N more",
    ),
    # By the signer, findings as they were: other tables
    case(
        "a trajectory under another version",
        rows_of("trajectories", setting(weight_version_end=9)),
        FINDINGS,
        (
            "derived: versions.one: failed: aligned, round N, trajectory N: started under version N, ended "
            "under N, trained under N"
        ),
    ),
    case(
        "another temperature",
        rows_of("trajectories", _temperature),
        FINDINGS,
        "derived: sampling.conforming: failed: aligned, round N, trajectory N: temperature is N.N, not N",
    ),
    case(
        "commitments reordered",
        rows_of("commitments", lambda rows: rows.reverse()),
        FINDINGS,
        (
            "derived: independence.order: failed: control, round N: the ledger's numbers are not N, N, N, …; "
            "control, round N: the ledger's numbers are not N, N, N, …; aligned, round N: the ledger's "
            "numbers are not N, N, N, …; and N more"
        ),
    ),
    case(
        "a tensor that was not loaded",
        rows_of("refits", setting(loaded="")),
        FINDINGS,
        "derived: refits.carried: failed: aligned, version N: lm_head.weight was not loaded",
    ),
    case(
        "a probe without effect",
        rows_of("probes", _no_effect),
        FINDINGS,
        (
            "derived: independence.probe: failed: layer N: the recompute did not change; layer N: the "
            "training forward did not change"
        ),
    ),
    case(
        "a refusal taken away",
        rows_of("refusals", lambda rows: rows.pop()),
        FINDINGS,
        'derived: exclusions.refused: failed: request {"n": N} was not tried',
    ),
    case(
        "a sampler of NaN",
        rows_of("sampler", setting(probability=float("nan"))),
        FINDINGS,
        "derived: sampling.sampler: failed: the probabilities are no distribution",
    ),
    case(
        "a slower step",
        rows_of("timings", _slower),
        FINDINGS,
        (
            "derived: findings.checks[N].detail, findings.overhead.phases.export, "
            "findings.overhead.phases.oracle, findings.overhead.phases.recompute, "
            "findings.overhead.phases.refit, findings.overhead.phases.reward, "
            "findings.overhead.phases.rollout, findings.overhead.phases.step, "
            "findings.overhead.phases.train_forward, findings.overhead.ratio"
        ),
    ),
    case(
        "another switch",
        rows_of("facts", _op_set),
        FINDINGS,
        (
            'derived: control.switch: failed: the control engine says op_set is "native", not "plain"; the '
            "arms' engines have the same op_set"
        ),
    ),
    # Values that cannot be judged
    case(
        "an arm nobody knows",
        rows_of("trajectories", setting(arm="third")),
        FINDINGS,
        "trajectories: arm: found another arm; accepted: aligned or control",
    ),
    case(
        "a round far away",
        rows_of("tokens", setting(round=2**31 - 1)),
        FINDINGS,
        "tokens: round: found 2147483647; accepted: 0 to 4095",
    ),
    case(
        "a negative round",
        rows_of("trajectories", setting(round=-1)),
        FINDINGS,
        "trajectories: round: found -1; accepted: 0 to 4095",
    ),
    case(
        "a reward of many digits",
        rows_of("trajectories", setting(reward="0." + "1" * 1000)),
        FINDINGS,
        (
            "trajectories: reward: found "
            "'0.111111111111111111111111111111111111111111111111111111111111111111111111111111'; accepted: a "
            "finite decimal"
        ),
    ),
    case(
        "a fact twice",
        rows_of("facts", lambda rows: rows.append(rows[0])),
        FINDINGS,
        "facts: name: found 'dtype' twice for one worker; accepted: each fact once",
    ),
    case(
        "arms in turns",
        rows_of("tokens", _in_turns),
        FINDINGS,
        "tokens: round: found N changes of arm or round; accepted: at most 16384: rows in order",
    ),
    case(
        "rounds by the thousand",
        rows_of("refits", _versions),
        FINDINGS,
        "refits: version: found 4097 versions in the aligned arm; accepted: at most 4096",
    ),
    case(
        "layers by the thousand",
        rows_of("probes", _layers),
        FINDINGS,
        "probes: layer: found 4097 layers; accepted: at most 4096",
    ),
    case(
        "phases by the hundred",
        rows_of("timings", _phases),
        FINDINGS,
        "timings: phase: found N phases; accepted: at most 256",
    ),
)
