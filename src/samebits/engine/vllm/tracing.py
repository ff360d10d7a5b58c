"""Tracing vLLM: hooks on the modules of the live model digest one sequence's rows, op by op.

Hooks are called where modules are called: not inside CUDA graphs, so an engine that uses them is constructed again
without for tracing.  Nothing is replaced and nothing written to; reading rows on a GPU waits for it, which costs time
and changes no bit.  Names are Hugging Face's, fused outputs are cut into their parts.

Imports vLLM: only :mod:`samebits.engine.vllm.engine` imports this, and only after the variables are set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from torch import Tensor
from vllm.forward_context import get_forward_context

from samebits.bits import Bits
from samebits.engine.vllm.live import Live
from samebits.engine.vllm.watch import Watch
from samebits.ops.recorder import Recorder, among
from samebits.traced import Target, Traced

ATTENTION: Final = "attn"
HEAD: Final = "logits_processor"
_WATCHED: Final = re.compile(
    r"(^|\.)(embed_tokens|input_layernorm|qkv_proj|q_norm|k_norm|rotary_emb|attn|o_proj|post_attention_layernorm"
    r"|gate_up_proj|act_fn|down_proj|model\.norm|logits_processor)$"
)
_LAYER = re.compile(r"model\.layers\.\d+")


class ModuleTracing:
    """One traced call of ``generate`` or ``score``."""

    def __init__(self, live: Live, watch: Watch, target: Target) -> None:
        self.recorder = Recorder(target)
        self._live = live
        self._watch = watch
        self._request_id = ""
        self._layer = ""
        self._hidden: Tensor | None = None
        # What left the final norm in this forward: the rows that go through the head are taken out of it.
        self._query_starts: list[int] = []
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._patterns: dict[int, int] = {}

    def follow(self, request_id: str) -> None:
        """The request that is the traced sequence, by the name that it was added under."""
        self._request_id = request_id

    def drawn(self, start: int, patterns: Bits) -> None:
        """Patterns of the sequence's tokens from position ``start`` on, as the call gave them."""
        self._patterns = {start + at: int(pattern) for at, pattern in enumerate(patterns)}

    def result(self) -> Traced:
        """Everything up to the token, its logprob last."""
        self.recorder.logprobs(self._patterns, implementation=type(self._live.runner.sampler).__name__)
        return self.recorder.result()

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """While the call runs."""
        with ExitStack() as stack:
            before = self._live.model.register_forward_pre_hook(self._begin, with_kwargs=True)
            stack.callback(before.remove)
            for name, module in self._live.model.named_modules():
                if _WATCHED.search(name):
                    keep, note = self._hooks(name)
                    stack.callback(module.register_forward_pre_hook(keep).remove)
                    stack.callback(module.register_forward_hook(note).remove)
            yield

    def _begin(self, _: object, __: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Find the sequence's rows by the cache slots that the forward writes: no two sequences share one."""
        del named
        self._layer, self._hidden = "", None
        slots = self._slots()
        context = get_forward_context()
        layer = next(iter(self._live.attention_layers()))
        written = _of_layer(context.slot_mapping, layer).tolist()
        rows = [(row, slots[slot]) for row, slot in enumerate(written) if slot in slots]
        sequences = self._watch.running_now
        starts = _of_layer(context.attn_metadata, layer).query_start_loc.tolist()
        self._query_starts = starts[: sequences + 1]
        self.recorder.begin(
            first=rows[0][0] if rows else 0,
            start=rows[0][1] if rows else 0,
            count=len(rows),
            tokens=self._watch.batch_sizes[-1],
            sequences=sequences,
        )

    def _slots(self) -> dict[int, int]:
        """Position by cache slot, of the traced request; empty where it is not running."""
        requests = self._live.scheduler.requests
        # vLLM 0.32 appends random characters to the name that a request was added under.
        name = next(
            (one for one in requests if one == self._request_id or one.startswith(f"{self._request_id}-")), None
        )
        if name is None:
            return {}
        (blocks, *_) = self._live.scheduler.kv_cache_manager.get_block_ids(name)
        size = self._live.config.cache_config.block_size
        return {block * size + at: number * size + at for number, block in enumerate(blocks) for at in range(size)}

    def _hooks(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def keep(module: Any, inputs: tuple[Any, ...]) -> None:
            del module
            if self.recorder.is_watching and self._rerun_of(name):
                # Some kernels write their result over their input.
                self._inputs[name] = tuple(one.clone() if isinstance(one, Tensor) else one for one in inputs)

        def note(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if not self.recorder.is_watching:
                return
            if name.endswith(HEAD):
                self._note_head(module, inputs, output)
                return
            if found := _LAYER.search(name):
                # One rotary embedding may serve all layers, and is found under the first one's name.
                self._layer = self._layer if name.endswith("rotary_emb") else found.group()
            elif name.endswith("model.norm") or name == "norm":
                self._hidden = output[0] if isinstance(output, tuple) else output
            for part, rows in self._parts(name, output):
                self.recorder.note(
                    part, rows, implementation=implementation(module), mixes=part.endswith(f".{ATTENTION}")
                )
            self._rerun(name, module)

        return keep, note

    def _note_head(self, module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        hidden = next(one for one in reversed(inputs) if isinstance(one, Tensor))
        rows = self._rows_of(hidden)
        if rows is None:
            return
        self.recorder.choose(rows)
        self.recorder.note("lm_head", output, implementation=implementation(module), is_head=True)
        row = self.recorder.row_to_rerun("lm_head", is_head=True)
        for count in self.recorder.target.sizes if row is not None else ():
            assert row is not None  # noqa: S101 - else there are no sizes
            self.recorder.reran(count, module.forward(*among(inputs, row, len(hidden), count)))
        self.recorder.end_if_drawn()

    def _rows_of(self, hidden: Tensor) -> list[int] | None:
        """Packed rows of what goes through the head: a piece of the hidden states, or each request's last row."""
        whole = self._hidden
        if whole is None:
            return None
        if hidden.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr():
            first = (hidden.storage_offset() - whole.storage_offset()) // whole.stride(0)
            return list(range(first, first + len(hidden)))
        last = [end - 1 for end in self._query_starts[1:]]
        return last if len(last) == len(hidden) else None

    def _parts(self, name: str, output: Any) -> list[tuple[str, Tensor]]:
        """Names and rows of what module ``name`` gave, in the order in which the ops of an actor have them."""
        if name.endswith("rotary_emb"):
            return [
                (f"{self._layer}.self_attn.rotary_emb.{which}", rows) for which, rows in zip("qk", output, strict=True)
            ]
        first = output[0] if isinstance(output, tuple) else output
        if name.endswith(("qkv_proj", "gate_up_proj")):
            prefix, _, fused = name.rpartition(".")
            owner = self._live.model.get_submodule(prefix)
            names = ("q_proj", "k_proj", "v_proj") if fused == "qkv_proj" else ("gate_proj", "up_proj")
            half = first.shape[-1] // 2
            sizes = [owner.q_size, owner.kv_size, owner.kv_size] if fused == "qkv_proj" else [half, half]
            return [(f"{prefix}.{one}", rows) for one, rows in zip(names, first.split(sizes, dim=-1), strict=True)]
        if name.endswith("norm") and isinstance(output, tuple):
            return [(f"{name}.residual", output[1]), (name, first)]
        return [(name, first)]

    def _rerun_of(self, name: str) -> bool:
        """Whether module ``name`` gives the op that is to be computed again."""
        wanted = self.recorder.target.rerun
        if not wanted or name.endswith((ATTENTION, HEAD)):
            return False
        prefix, _, last = name.rpartition(".")
        if last == "rotary_emb":
            return wanted.startswith(f"{self._layer}.self_attn.rotary_emb.")
        names = {
            "qkv_proj": ("q_proj", "k_proj", "v_proj"),
            "gate_up_proj": ("gate_proj", "up_proj"),
        }.get(last, (last, f"{last}.residual"))
        return wanted in {f"{prefix}.{one}" if prefix else one for one in names}

    def _rerun(self, name: str, module: Any) -> None:
        inputs = self._inputs.pop(name, None)
        row = self.recorder.row_to_rerun(self.recorder.target.rerun)
        if inputs is None or row is None:
            return
        height = next(len(one) for one in inputs if isinstance(one, Tensor))
        for count in self.recorder.target.sizes:
            again = module.forward(*among(inputs, row, height, count))
            self.recorder.reran(count, dict(self._parts(name, again))[self.recorder.target.rerun])


def implementation(module: Any) -> str:
    """What computes a module's output: its class, and the kernel that was chosen for it as far as it says so."""
    words = [type(module).__name__]
    chosen = getattr(module, "_forward_method", None)
    if chosen is not None:
        words.append(chosen.__name__)
    if hasattr(module, "attn_backend"):
        words.append(module.attn_backend.get_name())
    if hasattr(module, "cpu_linear"):
        words.append(module.cpu_linear.__code__.co_names[-1])
    elif getattr(module, "quant_method", None) is not None:
        words.append(type(module.quant_method).__name__)
    return ", ".join(words)


def _of_layer(by_layer: Any, layer: str) -> Any:
    """One layer's entry; with micro-batches, which nothing here uses, there would be a list of them."""
    return by_layer[layer]
