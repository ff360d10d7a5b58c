"""Tracing over an op set: a wrapper that computes what the set computes, and digests rows on the way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from torch import Tensor

from samebits.ops.fp8 import Fp8Weight
from samebits.ops.opset import Batch, OpSet
from samebits.ops.recorder import Recorder, among
from samebits.traced import LOGPROB, Target, Traced

MIXING: Final = frozenset({"attention", "attend"})
"""Ops in which a row reads others of its sequence."""
UNROWED: Final = frozenset({"dispatch", "grouped_linear", "pool", "index_scores", "describe"})
"""Their results are not rows of the batch in its order, or hold what nobody may read: scores of keys yet to come."""
WORDS: Final[Mapping[str, str]] = {
    "attention": "self_attn.attn",
    "attend": "self_attn.attn",
    "rope": "self_attn.rotary_emb",
    "rope_tables": "rotary_tables",
    "swiglu": "mlp.act_fn",
    "token_logprobs": LOGPROB,
}
"""Ops that no parameter names, after the modules that compute them elsewhere."""
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "add_rms_norm": ("", ".residual"),
    "rope_tables": (".cos", ".sin"),
    "quantise": ("", ".scales"),
}
"""What the parts of a result are called; :meth:`linears` names each by its weight."""
_DESCRIBED: Final = {
    "linears": "linear",
    "add_rms_norm": "rms_norm",
    "rope_tables": "rope",
    "swiglu": "elementwise",
    "token_logprobs": "log_softmax",
}
_LAYER = re.compile(r"model\.layers\.\d+")


class Tracing:
    """What a forward over an op set needs to be traced; one for each traced call."""

    def __init__(self, target: Target) -> None:
        self.recorder = Recorder(target)
        self._ops: _TracedOps | None = None

    def forward(self, ops: OpSet, weights: Mapping[str, Tensor], batch: Batch, keys: Sequence[int]) -> OpSet:
        """``ops``, watched through a forward over ``batch``; ``keys`` name its sequences by their place in the call."""
        at = list(keys).index(self.recorder.target.sequence) if self.recorder.target.sequence in keys else None
        first, end = (0, 0) if at is None else (batch.starts[at], batch.starts[at + 1])
        self.recorder.begin(
            first=first,
            start=0 if at is None else batch.offsets[at],
            count=end - first,
            tokens=batch.starts[-1],
            sequences=len(batch.offsets),
        )
        self._ops = _TracedOps(ops, self.recorder, weights, height=batch.starts[-1])
        return cast("OpSet", self._ops)

    def head(self, rows: Sequence[int]) -> OpSet:
        """The same op set once only these packed ``rows`` go on: through the head, and into logprobs."""
        assert self._ops is not None  # noqa: S101  # a head follows a forward
        self.recorder.choose(rows)
        self._ops.enter_head(len(rows))
        return cast("OpSet", self._ops)

    def result(self) -> Traced:
        """Everything that was digested."""
        return self.recorder.result()


class _TracedOps:
    """An ``OpSet``: every method is the wrapped set's own."""

    def __init__(self, ops: OpSet, recorder: Recorder, weights: Mapping[str, Tensor], *, height: int) -> None:
        self._ops = ops
        self._recorder = recorder
        self._names = {id(tensor): name.removesuffix(".weight") for name, tensor in weights.items()}
        self._described = ops.describe()
        self._height = height
        self._layer = ""
        self._is_head = False
        self._seen: Counter[str] = Counter()

    def enter_head(self, height: int) -> None:
        self._is_head = True
        self._height = height

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._ops, method)
        if not callable(found) or method in UNROWED or not self._recorder.is_watching:
            return found
        return partial(self._call, method, found)

    def _call(self, method: str, compute: Callable[..., Any], *arguments: Any) -> Any:
        names = self._named(method, arguments)
        self._rerun(names, compute, arguments)
        result = compute(*arguments)
        # A fused norm sums first: its last part is listed before the first.
        for name, part in reversed(list(zip(names, _parts(result), strict=False))):
            if isinstance(part, Tensor) and part.dim() > 0 and len(part) == self._height:
                self._recorder.note(
                    name,
                    part,
                    implementation=self._implementation(method),
                    mixes=method in MIXING,
                    is_head=self._is_head,
                )
        return result

    def _rerun(self, names: Sequence[str], compute: Callable[..., Any], arguments: Sequence[Any]) -> None:
        for place, name in enumerate(names):
            row = self._recorder.row_to_rerun(name, is_head=self._is_head)
            for rows in self._recorder.target.sizes if row is not None else ():
                assert row is not None  # noqa: S101  # else there are no sizes
                few = among(arguments, row, self._height, rows)
                # A weight may happen to be as high as the batch.
                kept = [old if self._name_of(old) else new for old, new in zip(arguments, few, strict=True)]
                self._recorder.reran(rows, _parts(compute(*kept))[place])

    def _named(self, method: str, arguments: Sequence[Any]) -> list[str]:
        """A name for each part of the result."""
        if method == "linears":
            return [self._once(self._name_of(weight) or self._in_layer("linears")) for weight in arguments[1]]
        named = (self._name_of(argument) for argument in arguments)
        name = next((name for name in named if name is not None), None)
        if name is not None:
            self._layer = found.group() if (found := _LAYER.match(name)) else ""
        elif method == "attention":
            self._layer = f"model.layers.{arguments[2]}"
        if self._is_head and method == "linear":
            name = "lm_head"  # a tied head is the embedding's table
        name = self._once(name or self._in_layer(WORDS.get(method, method)))
        return [name + part for part in PARTS.get(method, ("", "#b", "#c"))]

    def _name_of(self, argument: object) -> str | None:
        if isinstance(argument, Fp8Weight):
            argument = argument.values
        return self._names.get(id(argument)) if isinstance(argument, Tensor) else None

    def _in_layer(self, word: str) -> str:
        return word if self._is_head or not self._layer else f"{self._layer}.{word}"

    def _once(self, name: str) -> str:
        """``name``; queries, then keys for the two rotations; else ``name#2`` the second time in a forward."""
        if self._is_head:
            return name
        self._seen[name] += 1
        if name.endswith(".rotary_emb"):
            return f"{name}.{'qk'[self._seen[name] - 1]}" if self._seen[name] <= len("qk") else name
        return name if self._seen[name] == 1 else f"{name}#{self._seen[name]}"

    def _implementation(self, method: str) -> str:
        described = self._described.get(_DESCRIBED.get(method, method), "")
        return f"{self._ops.name}: {described}" if described else self._ops.name


def _parts(result: object) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)
