"""A finished round, read back from its evidence parts: what a resumed run needs to repeat the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from samebits.actor.protocol import Replayed, Tokens
from samebits.errors import MachineError


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRound:
    """Tokens and rewards in request order."""

    trajectories: list[Tokens]
    rewards: list[float]
    commitments: dict[str, str]
    """Digest by side."""


def tokens_of(rows: Iterable[Mapping[str, Any]], token_ids: Mapping[int, list[int]], *, name: str) -> list[Tokens]:
    """Each row of the trajectories table with its token ids, as the actor takes them; requests are ``NAME-INDEX``."""
    return [
        Tokens(
            request_id=f"{name}-{row['trajectory']}",
            token_ids=token_ids[row["trajectory"]],
            prompt_length=row["prompt_tokens"],
            group=row["group"],
        )
        for row in rows
    ]


def round_of(
    tokens: Iterable[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    commitments: Iterable[Mapping[str, Any]],
    *,
    name: str,
) -> RecordedRound:
    """One round from its rows of the tokens, trajectories and commitments tables."""
    token_ids: dict[int, list[int]] = {}
    for token in tokens:
        token_ids.setdefault(token["trajectory"], []).append(token["token_id"])
    return RecordedRound(
        trajectories=tokens_of(rows, token_ids, name=name),
        rewards=[float(row["reward"]) for row in rows],
        commitments={row["side"]: row["digest"] for row in commitments if row["event"] == "commit"},
    )


def recorded_round(parts: Path, phase: str) -> RecordedRound:
    """The round whose parts carry the name ``phase``, for instance ``aligned-003``."""
    return round_of(
        pq.read_table(parts / f"{phase}.tokens.parquet", columns=["trajectory", "token_id"]).to_pylist(),
        pq.read_table(parts / f"{phase}.trajectories.parquet").to_pylist(),
        pq.read_table(parts / f"{phase}.commitments.parquet").to_pylist(),
        name=phase,
    )


def require_same(phase: str, recorded: RecordedRound, replayed: Replayed) -> None:
    """Nothing if the repeated round committed to what was recorded.

    Raises:
        MachineError: other bits: the actor is not deterministic, or the record is not of this round.
    """
    for side, computed in (("recompute", replayed.recompute), ("train", replayed.train)):
        if computed.sealed.commitment != recorded.commitments.get(side):
            raise MachineError(
                f"{phase}: logprobs of {side}, computed again",
                found=f"patterns that hash to {computed.sealed.commitment}",
                accepted=f"the recorded {recorded.commitments.get(side)}",
                next_step="The record was changed, or the actor is not deterministic on this machine; start a new run.",
            )
