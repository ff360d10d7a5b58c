"""Run with vLLM's interpreter: ``train.py ASKED.json``.  Both actor sides of a rollout, a step, and its export.

Writes the mismatching tokens of each pair of computations, and what was compared.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from samebits.actor.actor import NativeActor
from samebits.actor.protocol import Tokens

SETTINGS = {
    "kind": "native",
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "beta1": 0.9,
    "beta2": 0.999,
    "max_grad_norm": 1.0,
    "clip_epsilon": 0.2,
    "recompute_pack": 3,
    "train_pack": 5,
    "force_on_policy_ratio": False,
}


def flat(rows):
    return [pattern for row in rows for pattern in row]


def mismatches(left, right):
    return sum(a != b for a, b in zip(flat(left), flat(right), strict=True))


def main(asked: dict) -> None:
    rows = json.loads(Path(asked["rows"]).read_text())
    settings = {**SETTINGS, **asked["settings"]}
    actor = NativeActor.open(
        Path(asked["model"]),
        asked["op_set"],
        settings,
        asked["max_model_len"],
        {name: [value] for name, value in settings.items()},
        asked["switches"],
    )
    trajectories = [
        Tokens(
            request_id=str(i), token_ids=row["prompt"] + row["tokens"], prompt_length=len(row["prompt"]), group=i // 2
        )
        for i, row in enumerate(rows)
    ]
    sealed = actor.recompute(trajectories, 0).sealed
    recompute = actor.reveal(sealed.commitment)
    trained = actor.train_forward(trajectories, [float(i % 2) for i in range(len(rows))], 0).sealed
    train = actor.reveal(trained.commitment)
    rollout = [row["bits"] for row in rows]
    norm = float(actor.step(0).grad_norm)
    (Path(asked["export"]) / "config.json").write_bytes((Path(asked["model"]) / "config.json").read_bytes())
    actor.export(Path(asked["export"]) / "model.safetensors", 1)
    found = {
        "tokens": sealed.tokens,
        "distinct": len(set(flat(rollout))),
        "rollout_recompute": mismatches(rollout, recompute),
        "recompute_train": mismatches(recompute, train),
        "grad_norm_is_positive": norm > 0,
        "seconds": [sealed.seconds, trained.seconds],
    }
    Path(asked["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
