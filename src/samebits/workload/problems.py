"""Real problems with verifiable answers, from reasoning-gym (Stojanovski et al., arXiv:2505.24760).

A problem depends on (workload seed, round, index) and on nothing else, so both arms, a resumed run and a stranger's
reproduction meet the same ones.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from samebits.errors import InputError
from samebits.recipe.model import Workload
from samebits.workload.requirements import require
from samebits.workload.tokenizer import Message

NUMBER: Final = re.compile(r"(?<![0-9])-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?")
"""A number in an answer: ``-7``, ``1,219``, ``0.25``.  The minus of ``5-9`` is not a sign."""

_FEW: Final = 3
"""Up to here the number of examples goes round, one more from problem to problem; beyond, from none to the most."""

DIFFICULTY: Final[Mapping[str, Mapping[str, Any]]] = {
    # A 135 M parameter model gets some of these right and some wrong, which is what GRPO learns from.
    "basic_arithmetic": {
        "min_terms": 2,
        "max_terms": 3,
        "min_digits": 1,
        "max_digits": 1,
        "operators": ("+", "-"),
        "allow_parentheses": False,
        "allow_negation": False,
    },
    "chain_sum": {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1},
}
"""Arguments of reasoning-gym's datasets where its defaults are too hard."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One question, its answer, reasoning-gym's own entry, and the solved problems shown before it."""

    question: str
    answer: str
    entry: Mapping[str, Any]
    examples: tuple[tuple[str, str], ...] = ()

    def conversation(self) -> list[Message]:
        """The examples as turns already taken, then the question."""
        turns: list[Message] = []
        for question, answer in self.examples:
            turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return [*turns, {"role": "user", "content": self.question}]


def round_problems(workload: Workload, round_index: int) -> list[Problem]:
    """The problems of one round, ``workload.problems_per_round`` of them.

    Raises:
        InputError: ``workload.problems`` is no reasoning-gym task, or one whose answers are not numbers.
        MachineError: reasoning-gym is not installed.
    """
    gym = require("reasoning_gym", "reasoning-gym")
    known = require("reasoning_gym.factory", "reasoning-gym").DATASETS
    if workload.problems not in known:
        near = difflib.get_close_matches(workload.problems, known, n=1)
        raise InputError(
            "workload.problems",
            found=repr(workload.problems),
            accepted="a task of reasoning-gym whose answers are numbers",
            next_step=f"Did you mean {near[0]!r}?" if near else "Choose chain_sum, gcd, products or another.",
        )
    count, most = workload.problems_per_round, workload.most_examples
    dataset = gym.create_dataset(
        workload.problems,
        size=count * (1 + most),
        seed=_dataset_seed(workload.seed, round_index),
        **DIFFICULTY.get(workload.problems, {}),
    )
    entries = [dataset[index] for index in range(len(dataset))]
    for entry in entries:
        if NUMBER.fullmatch(entry["answer"]) is None:
            raise InputError(
                "workload.problems",
                found=f"{workload.problems!r}, which has the answer {entry['answer']!r}",
                accepted="a task of reasoning-gym whose answers are numbers",
                next_step="Choose chain_sum, gcd, products or another.",
            )
    return [_problem(entries, index, count, most, _examples(index, count, most)) for index in range(count)]


def _examples(index: int, count: int, most: int) -> int:
    return index % (most + 1) if most <= _FEW else index * most // max(1, count - 1)


def _problem(entries: list[Mapping[str, Any]], index: int, count: int, most: int, examples: int) -> Problem:
    entry = entries[index]
    first = count + index * most
    shown = entries[first : first + examples]
    return Problem(
        question=entry["question"].strip(),
        answer=entry["answer"],
        entry=entry,
        # Small tasks repeat themselves; an example must not give the answer away.
        examples=tuple(
            (example["question"].strip(), example["answer"])
            for example in shown
            if example["question"] != entry["question"]
        ),
    )


def _dataset_seed(seed: int, round_index: int) -> int:
    """31 bits.  Hashed, since reasoning-gym draws entry ``i`` from ``seed + i``: consecutive seeds share entries."""
    digest = hashlib.sha256(f"samebits.problems.v1\0{seed}\0{round_index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
