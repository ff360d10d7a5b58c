"""A certification of any length that never ran, streamed to disk: every rule is met, so that verifying it does all its
work.

Tokens and trajectories are made here, a few hundred sequences at a time; everything that does not grow with them
(refits, probes, refusals, timings) is the tests' row simulator's.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from samebits import recipe
from samebits.bits import from_float32
from samebits.certificate import PrivateKey, evidence_folder
from samebits.oracle import TABLES, writer

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from simulator import KEY, SAMPLING, Row, Simulator

PROMPT: Final = 64
RESPONSE: Final = 448
LENGTH: Final = PROMPT + RESPONSE
SAMPLES: Final = 4
ROUNDS: Final = (("aligned", 11), ("control", 2))
AT_ONCE: Final = 256
"""Sequences made at once: what bounds this module's own memory."""

_SETTINGS: Final = {
    "samples_per_problem": SAMPLES,
    "max_response_tokens": RESPONSE,
    "max_model_len": LENGTH,
    "num_gpu_blocks": 100,
}


class LongRun:
    """A run of about ``tokens`` token rows, and at least of its smallest."""

    def __init__(self, tokens: int) -> None:
        rounds = sum(count for _, count in ROUNDS)
        self.sequences = max(2, round(tokens / (rounds * LENGTH * SAMPLES))) * SAMPLES
        """Of one round."""
        self.tokens = self.sequences * rounds * LENGTH
        self._world = Simulator()
        self._world.recipe_toml = _recipe(self._world.recipe_toml, self.sequences // SAMPLES)
        _restate(self._world)
        self._random = np.random.default_rng(0)
        self._commitments: list[Row] = []
        self._probed = np.empty(0, dtype=np.uint32)

    def sign(self, path: Path, key: PrivateKey = KEY) -> Path:
        """The certificate at ``path`` with its evidence beside it."""
        folder = evidence_folder(path)
        folder.mkdir()
        tokens = TABLES["tokens"]
        writer._write(folder / "tokens.parquet", tokens, writer._rechunk(self._tokens(), tokens))  # noqa: SLF001 - streams
        trajectories = TABLES["trajectories"]
        batches = writer._rechunk(self._trajectories(), trajectories)  # noqa: SLF001
        writer._write(folder / "trajectories.parquet", trajectories, batches)  # noqa: SLF001
        tables = self._world.tables | {"commitments": self._commitments, "probes": self._probes()}
        for name in TABLES.keys() - {"tokens", "trajectories"}:
            rows = pa.Table.from_pylist(tables[name], TABLES[name])
            writer._write(folder / f"{name}.parquet", TABLES[name], iter([rows] if rows.num_rows else []))  # noqa: SLF001
        (folder / "recipe.toml").write_bytes(self._world.recipe_toml)
        (folder / "row.toml").write_bytes(self._world.row_toml)
        return self._world.sign_folder(path, folder, key=key)

    def _tokens(self) -> Iterator[pa.RecordBatch]:
        for arm, count in ROUNDS:
            for round_ in range(count):
                hashes = {side: hashlib.sha256() for side in ("rollout", "recompute", "train", "prefill")}
                for first in range(0, self.sequences, AT_ONCE):
                    yield self._batch(arm, round_, first, min(AT_ONCE, self.sequences - first), hashes)
                self._commit(arm, round_, {side: running.hexdigest() for side, running in hashes.items()})

    def _batch(self, arm: str, round_: int, first: int, count: int, hashes: dict[str, Any]) -> pa.RecordBatch:
        rows = count * LENGTH
        position = np.tile(np.arange(LENGTH, dtype=np.int32), count)
        patterns = from_float32(-self._random.exponential(1.3, rows).astype(np.float32))
        # Without the switch, every third token comes out one ulp off on the actor, every fourth in the prefill.
        off = {"recompute": 3, "train": 3, "prefill": 4} if arm == "control" else {}
        sides = {
            side: patterns + (position % off[side] == 0).astype(np.uint32) if side in off else patterns
            for side in hashes
        }
        mask = position >= PROMPT
        for side, running in hashes.items():
            running.update(sides[side][mask].data)
        if (arm, round_, first) == ("aligned", 0, 0):
            self._probed = patterns[PROMPT:LENGTH]
        columns = {
            "arm": pa.repeat(pa.scalar(arm), rows),
            "round": np.full(rows, round_, dtype=np.int32),
            "trajectory": np.repeat(np.arange(first, first + count, dtype=np.int32), LENGTH),
            "position": position,
            "token_id": self._random.integers(0, 512, rows, dtype=np.int32),
            "mask": mask,
            **{f"{side}_bits": pa.array(values, mask=~mask) for side, values in sides.items()},
        }
        return pa.record_batch(columns, schema=TABLES["tokens"])

    def _commit(self, arm: str, round_: int, digests: dict[str, str]) -> None:
        three = ("rollout", "recompute", "train")
        order = [*(("commit", side) for side in three), *(("reveal", side) for side in three)]
        order += [("commit", "prefill"), ("reveal", "prefill")]
        self._commitments += [
            {"arm": arm, "round": round_, "sequence": place, "event": event, "side": side, "digest": digests[side]}
            for place, (event, side) in enumerate(order)
        ]

    def _trajectories(self) -> Iterator[pa.RecordBatch]:
        index = np.arange(self.sequences, dtype=np.int32)
        texts = {"finish_reason": "length", "sampling": json.dumps(SAMPLING, sort_keys=True), "reward": "0.5"}
        numbers = {
            "trajectory": index,
            "group": index // SAMPLES,
            "prompt_tokens": np.full_like(index, PROMPT),
            "response_tokens": np.full_like(index, RESPONSE),
            "recompute_pack": index // 4,
            "train_pack": index // 3,
        }
        for arm, count in ROUNDS:
            for round_ in range(count):
                same = {name: pa.repeat(pa.scalar(text), self.sequences) for name, text in texts.items()}
                same |= {"arm": pa.repeat(pa.scalar(arm), self.sequences), "advantage": same["reward"]}
                seeds = pa.array((index.astype(np.int64) + 10**6 * round_).astype(str).tolist())
                versions = ("round", "weight_version_start", "weight_version_end", "trainer_version")
                same |= {name: np.full_like(index, round_) for name in versions} | {"seed": seeds}
                yield pa.record_batch(numbers | same, schema=TABLES["trajectories"])

    def _probes(self) -> list[Row]:
        names = ("recompute_bits", "recompute_probed_bits", "train_bits", "train_probed_bits")
        return [
            {"layer": layer, "trajectory": 0, "position": PROMPT + place}
            | dict(zip(names, (pattern, pattern + 1 + layer) * 2, strict=True))
            for layer in range(3)
            for place, pattern in enumerate(self._probed.tolist())
        ]


def _recipe(text: bytes, problems: int) -> bytes:
    for name, value in {**_SETTINGS, "problems_per_round": problems}.items():
        text, count = re.subn(rf"(?m)^{name} = .*$".encode(), f"{name} = {value}".encode(), text)
        if count != 1:
            raise ValueError(f"{name} stands {count} times in the simulator's recipe")
    return text


def _restate(world: Simulator) -> None:
    """The workers' own description fits the recipe."""
    asked = recipe.parse(world.recipe_toml, source="recipe.toml")
    settings = {"engine": asked.engine.model_dump(), "actor": asked.actor.model_dump()}
    settings["actor"]["max_model_len"] = asked.engine.max_model_len
    for row in world.rows("facts"):
        kind, _, name = row["name"].partition(".")
        if kind == "settings":
            row["value"] = json.dumps(settings[row["worker"]][name], sort_keys=True)
