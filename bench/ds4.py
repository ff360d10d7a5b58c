"""The DeepSeek-V4-class recipe by phase: tokens per second of engine and actor, native over plain, where time goes.

``python bench/ds4.py [--recipe ds4-small] [--rounds 2] [--top 12] [--json]`` runs rounds of the recipe's
own workload in one process, both op sets in turn, so that the ratios are of one run on one machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import torch
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerActivity, profile

from samebits import pins, recipe
from samebits.actor.actor import NativeActor
from samebits.certify.round import actor_tokens, engine_request
from samebits.engine.native import NativeEngine
from samebits.models import save_folder, seeded_config, seeded_weights
from samebits.recipe import Recipe
from samebits.workload import RoundPlan, Workload

Seconds = dict[str, list[float]]
PROFILED = 4
"""Requests in the profiled round: the profiler keeps every single call."""


class Pair:
    """Engine and actor of one op set."""

    def __init__(self, asked: Recipe, folder: Path, op_set: str) -> None:
        row, _ = pins.load("cpu")
        gate = row.gate.model_dump(mode="json")
        engine = {name: [] if value is None else [value] for name, value in asked.engine.model_dump().items()}
        self.engine = NativeEngine(folder, op_set=op_set, settings=asked.engine.model_dump(), gate=engine)
        self.actor = NativeActor.open(
            folder, op_set, asked.actor.model_dump(), asked.engine.max_model_len, gate["actor"]
        )
        self.file = folder / f"{op_set}.safetensors"
        self.tokens: defaultdict[str, list[int]] = defaultdict(list)
        self.seconds: Seconds = defaultdict(list)

    def round(self, plan: RoundPlan, version: int) -> None:
        requests = [engine_request(prompt) for prompt in plan.prompts]
        began = time.perf_counter()
        generated = self.engine.generate(requests, version)
        self._note("rollout", began, sum(len(one.token_ids) for one in generated.trajectories))
        tokens = actor_tokens(plan.prompts, generated.trajectories)
        every = sum(len(one.token_ids) for one in tokens)
        began = time.perf_counter()
        self.actor.recompute(tokens, version)
        self._note("recompute", began, every)
        began = time.perf_counter()
        self.actor.train_forward(tokens, plan.rewards([one.token_ids for one in generated.trajectories]), version)
        self._note("train_forward and backward", began, every)
        began = time.perf_counter()
        self.actor.step(version)
        self.load(version + 1)
        self._note("step, export, refit", began, every)

    def load(self, version: int) -> None:
        self.actor.export(self.file, version)
        self.engine.refit(self.file, version)

    def _note(self, phase: str, began: float, tokens: int) -> None:
        self.seconds[phase].append(time.perf_counter() - began)
        self.tokens[phase].append(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="ds4-small")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--top", type=int, default=12, help="rows of the profile of a native round")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    asked, _ = recipe.load(arguments.recipe)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        save_folder(folder, seeded_config(asked.model), seeded_weights(asked.model))
        workload = Workload.open(asked.workload, folder)
        pairs = {name: Pair(asked, folder, name) for name in ("native", "plain")}
        for pair in pairs.values():
            pair.load(0)
        for version in range(arguments.rounds):
            for pair in pairs.values():
                pair.round(workload.plan_round(version), version)
        plan = workload.plan_round(arguments.rounds)
        few = replace(plan, prompts=[replace(prompt, max_tokens=6) for prompt in plan.prompts[:PROFILED]])
        with profile(activities=[ProfilerActivity.CPU]) as watched:
            pairs["native"].round(few, arguments.rounds)
    report(pairs, watched.key_averages(), arguments)


def report(pairs: dict[str, Pair], averages: EventList, arguments: argparse.Namespace) -> None:
    phases = {}
    for phase in pairs["native"].seconds:
        rates = {
            name: statistics.median(
                tokens / seconds
                for tokens, seconds in zip(
                    pair.tokens[phase][: arguments.rounds], pair.seconds[phase][: arguments.rounds], strict=True
                )
            )
            for name, pair in pairs.items()
        }
        phases[phase] = {
            "tokens_per_second": round(rates["native"]),
            "native_over_plain": round(rates["plain"] / rates["native"], 3),
        }
    total = sum(average.self_cpu_time_total for average in averages)
    longest = sorted(averages, key=lambda average: -average.self_cpu_time_total)[: arguments.top]
    where = {average.key: round(average.self_cpu_time_total / total, 3) for average in longest}
    if arguments.json:
        print(json.dumps({"phases": phases, "share_of_a_small_native_round": where}))
        return
    print(f"{'phase':<28}{'tok/s':>8}{'native/plain':>14}")
    for phase, numbers in phases.items():
        print(f"{phase:<28}{numbers['tokens_per_second']:>8}{numbers['native_over_plain']:>14}")
    print("\nshare of a small native round, by operation")
    for key, share in where.items():
        print(f"{share:>7.1%}  {key}")


if __name__ == "__main__":
    main()
