"""What no configuration can say, and whoever runs it must see to: the notes of an adapted configuration."""

from __future__ import annotations

from typing import Final

_APPLY: Final = (
    "Set the environment before the workers import vLLM, and build the engine from these arguments: {} alone does not."
)
_PLUMBING: Final = "{} always says these itself, and the row's gate does not judge them: {}."
_ROLLOUT_ONLY: Final = (
    "The row certifies the rollout. {}'s policy worker is not the row's actor: whether it computes the same bits, only "
    "the oracle on its log-probabilities can say."
)

_MODEL: Final = "The model's architecture is judged when the engine is built, not by its name here."
_OWN_SEED: Final = (
    "Give every request a seed of its own (SamplingParams.seed): NeMo RL sets none, and the guard refuses a request "
    "without one."
)
_END_OF_RESPONSE: Final = "Where stop_token_ids is null, NeMo RL fills in the tokenizer's end token."
_KL: Final = (
    "gen_kl_error is no proof: it is the mean of an estimate over all tokens, printed with four digits, so 0.0000 may "
    "hide differences."
)

NEMO_RL: Final = (
    _OWN_SEED,
    _APPLY.format("NeMo RL"),
    _PLUMBING.format(
        "NeMo RL",
        "load_format, skip_tokenizer_init, seed, trust_remote_code, worker_extension_cls, enable_sleep_mode, "
        "disable_log_stats, distributed_executor_backend",
    ),
    _END_OF_RESPONSE,
    _MODEL,
    _ROLLOUT_ONLY.format("NeMo RL"),
    _KL,
)

_SHARED_SEED: Final = (
    "Give every request a seed of its own: full_determinism gives all requests of a replica the same one, so that the "
    "answers to one prompt are the same answer."
)
_VALIDATION: Final = (
    "Ask validation_guard about validation requests, and guard about all others, where verl knows which is which (the "
    "agent loop's meta_info['validate']): in the engine they look alike."
)
_BANNED: Final = (
    "verl masks logits in the engine that no setting shows: ids behind the tokenizer's end and, in vision models, "
    "placeholders. The policy worker must mask the same."
)

VERL: Final = (
    _SHARED_SEED,
    _VALIDATION,
    _APPLY.format("verl"),
    _PLUMBING.format(
        "verl",
        "load_format, skip_tokenizer_init, seed, trust_remote_code, worker_extension_cls, enable_sleep_mode, "
        "disable_log_stats, distributed_executor_backend, scheduling_policy, override_generation_config",
    ),
    _BANNED,
    _MODEL,
    _ROLLOUT_ONLY.format("verl"),
)

NEVER_RUN: Final = (
    "Row {} has never been run: accepted means that nothing stands in the way, not that anybody saw the bits agree."
)
