"""Reading a Hugging Face ``config.json``: what changes the forward is read or refused, never overlooked.

A key that the family does not know may change what the model computes, so it is refused too.  The neutral keys below
were read in transformers 5.24 and reach no line of a dense decoder's evaluation.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from samebits.errors import InputError

MODEL_TYPES: Final = ("llama", "qwen3")

# Key to the values under which it changes nothing.  ``0.0`` also accepts 0; a key that is absent is fine.
_FIXED: Final[dict[str, tuple[object, ...]]] = {
    "attention_bias": (False,),
    "attention_dropout": (0.0,),
    "hidden_act": ("silu",),
    "is_encoder_decoder": (False,),
    "mlp_bias": (False,),
    "partial_rotary_factor": (1.0,),
    "quantization_config": (None,),
    "rope_scaling": (None,),
    "sliding_window": (None,),
    "use_sliding_window": (False,),
}
_ROPE_FIXED: Final[dict[str, tuple[object, ...]]] = {
    "rope_type": ("default",),
    "type": ("default",),
    "partial_rotary_factor": (1.0,),
}
_READ: Final = frozenset(
    {
        "dtype",
        "head_dim",
        "hidden_size",
        "intermediate_size",
        "layer_types",
        "max_position_embeddings",
        "model_type",
        "num_attention_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "rms_norm_eps",
        "rope_parameters",
        "rope_theta",
        "tie_word_embeddings",
        "torch_dtype",
        "vocab_size",
    }
)
_NEUTRAL: Final = frozenset(
    {
        "_attn_implementation_autoset",
        "_model_name_or_path",
        "_name_or_path",
        "architectures",
        "bos_token_id",
        "chunk_size_feed_forward",
        "eos_token_id",
        "id2label",
        "initializer_range",
        "is_llama_config",
        "label2id",
        "max_window_layers",
        "output_attentions",
        "output_hidden_states",
        "pad_token_id",
        "pretraining_tp",
        "problem_type",
        "return_dict",
        "rope_interleaved",
        "transformers.js_config",
        "transformers_version",
        "unk_token_id",
        "use_cache",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseConfig:
    """A Llama/Qwen3 dense decoder, in Hugging Face's terms."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool
    qk_norm: bool


def parse_dense(config: Mapping[str, Any], *, source: str = "config.json") -> DenseConfig:
    """The decoder that ``config`` describes; ``source`` names the file in errors.

    Raises:
        InputError: a required key is missing or absurd, an option is not supported, or a key is unknown.
    """
    model_type = config.get("model_type")
    if model_type not in MODEL_TYPES:
        raise _refused(source, "model_type", model_type, " or ".join(MODEL_TYPES))
    _check_fixed(config, _FIXED, source)
    _check_known(config, source)
    layers = _count(config, "num_hidden_layers", source)
    _check_layer_types(config, source)
    heads = _count(config, "num_attention_heads", source)
    groups = _count(config, "num_key_value_heads", source, default=heads)
    hidden = _count(config, "hidden_size", source)
    if heads % groups:
        raise _refused(source, "num_key_value_heads", groups, f"a divisor of num_attention_heads ({heads})")
    if config.get("head_dim") is None and hidden % heads:
        raise _refused(source, "head_dim", "nothing", f"a value, since {heads} heads do not divide {hidden}")
    head_dim = _count(config, "head_dim", source, default=hidden // heads)
    if head_dim % 2:
        raise _refused(source, "head_dim", head_dim, "an even number, since rope rotates halves")
    return DenseConfig(
        vocab_size=_count(config, "vocab_size", source),
        hidden_size=hidden,
        intermediate_size=_count(config, "intermediate_size", source),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=head_dim,
        max_position_embeddings=_count(config, "max_position_embeddings", source),
        rms_norm_eps=_positive(config, "rms_norm_eps", source),
        rope_theta=_rope_theta(config, source),
        tie_word_embeddings=_flag(config, "tie_word_embeddings", source),
        qk_norm=model_type == "qwen3",
    )


def _rope_theta(config: Mapping[str, Any], source: str) -> float:
    """Transformers 5 writes ``rope_parameters``, older ones ``rope_theta`` at the top."""
    parameters = config.get("rope_parameters")
    if parameters is None:
        return _positive(config, "rope_theta", source)
    if not isinstance(parameters, Mapping):
        raise _refused(source, "rope_parameters", parameters, "an object")
    inside = f"{source}: rope_parameters"
    _check_fixed(parameters, _ROPE_FIXED, inside)
    for key in parameters:
        if key != "rope_theta" and key not in _ROPE_FIXED:
            raise _refused(inside, key, parameters[key], "no such key: rope scaling is not supported")
    return _positive(parameters, "rope_theta", inside)


def _check_fixed(config: Mapping[str, Any], fixed: Mapping[str, tuple[object, ...]], source: str) -> None:
    for key, accepted in fixed.items():
        if key in config and config[key] not in accepted:
            raise _refused(source, key, config[key], " or ".join(repr(value) for value in accepted))


def _check_known(config: Mapping[str, Any], source: str) -> None:
    known = _READ | _NEUTRAL | _FIXED.keys()
    for key in config:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise InputError(
                f"{source}: {key}",
                found="an unknown key",
                accepted="keys known not to change the forward, or read by it",
                next_step=f"Did you mean {near[0]!r}?" if near else "Remove it if it changes nothing.",
            )


def _check_layer_types(config: Mapping[str, Any], source: str) -> None:
    kinds = config.get("layer_types")
    if kinds is None:
        return
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise _refused(source, "layer_types", kinds, "full_attention in every layer")


def _count(config: Mapping[str, Any], key: str, source: str, *, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refused(source, key, _shown(value), "a whole number of at least 1")
    return value


def _positive(config: Mapping[str, Any], key: str, source: str) -> float:
    value = config.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise _refused(source, key, _shown(value), "a finite number above 0")
    return float(value)


def _flag(config: Mapping[str, Any], key: str, source: str) -> bool:
    value = config.get(key, False)
    if not isinstance(value, bool):
        raise _refused(source, key, _shown(value), "true or false")
    return value


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)


def _refused(source: str, key: str, found: object, accepted: str) -> InputError:
    return InputError(
        f"{source}: {key}", found=found, accepted=accepted, next_step="Choose a model that this family computes."
    )
