"""A run with a known fault, and its explanation: ``python story.py FOLDER FAULT``, one line of JSON.

The fault is in the aligned actor's process alone, in the run and while it is explained.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import warm

TINY = Path(__file__).parents[1] / "certify" / "tiny.toml"
DS4 = Path(__file__).parents[1] / "faults" / "recipes" / "ds4.toml"


def split_output_projection() -> None:
    """The output projection of layer 1 is summed in two halves, each rounded, as a split-K kernel might."""
    from samebits.ops.native import Native  # noqa: PLC0415

    attention, linear = Native.attention, Native.linear
    after: list[int] = []
    split: set[int] = set()

    def attend(ops, query, batch, layer):
        after[:] = [layer]
        return attention(ops, query, batch, layer)

    def multiply(ops, x, weight):
        if after == [1]:
            split.add(id(weight))
        after.clear()
        if id(weight) not in split:
            return linear(ops, x, weight)
        left, right = x.chunk(2, dim=1), weight.chunk(2, dim=1)
        return linear(ops, left[0].contiguous(), right[0].contiguous()) + linear(
            ops, left[1].contiguous(), right[1].contiguous()
        )

    Native.attention, Native.linear = attend, multiply


def misreads_a_key() -> None:
    """The attention of layer 0 reads the key of position 3 doubled: the key is as it was, what is made of it is not."""
    from samebits.ops.native import Native  # noqa: PLC0415
    from samebits.ops.opset import KEYS  # noqa: PLC0415

    attention = Native.attention

    class Doubled:
        def __init__(self, batch):
            self._batch = batch

        def __getattr__(self, name):
            return getattr(self._batch, name)

        def gather(self, layer, name):
            found = self._batch.gather(layer, name).clone()
            if name == KEYS:
                found[:, 3] *= 2
            return found

    def attend(ops, query, batch, layer):
        return attention(ops, query, Doubled(batch) if layer == 0 else batch, layer)

    Native.attention = attend


def combines_in_another_order() -> None:
    """The experts of every layer are added up from the last slot to the first."""
    from samebits.ops.native import Native  # noqa: PLC0415

    combine = Native.combine

    def backwards(ops, rows, weights):
        return combine(ops, rows.flip(1), weights.flip(1))

    Native.combine = backwards


FAULTS: dict[str, tuple[Path, Callable[[], None]]] = {
    "output-projection": (TINY, split_output_projection),
    "attention": (TINY, misreads_a_key),
    "experts": (DS4, combines_in_another_order),
}


def run(folder: Path, recipe: Path, patch: Callable[[], None]) -> dict:
    """Certified, then explained; the folder's name is the run's."""
    patches = {("actor", "aligned"): patch}
    asked = warm.order(recipe, scratch=folder)

    def certify() -> dict:
        finished = warm.certify(asked, folder, "run")
        return {"verdict": finished.findings.verdict, "reasons": finished.findings.reasons}

    def explained() -> dict:
        from samebits.explain import explain  # noqa: PLC0415

        return explain(folder / "run", launcher=asked.launcher).to_dict()

    certified = warm.in_child(certify, folder / "certify.log", patches).answer(600)
    return {"run": certified, "explanation": warm.in_child(explained, folder / "explain.log", patches).answer(600)}


if __name__ == "__main__":
    warm.clean_start()
    warm.preload()
    print(json.dumps(run(Path(sys.argv[1]), *FAULTS[sys.argv[2]])))  # noqa: T201 - its result
