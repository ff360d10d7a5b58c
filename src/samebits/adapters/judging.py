"""Holds what a configuration asks for against a row's gate, and tells the user in the words of the user's own file.

Adding a row needs nothing here: the rules are the row file's ``[gate.engine]`` and ``[gate.request]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from samebits.adapters import notes, vllm_arguments
from samebits.adapters.configuration import ABSENT, literal
from samebits.adapters.meaning import Reading, Stated
from samebits.adapters.outcome import Adapted, Outcome, Refused, guard_of
from samebits.errors import GateError, InputError
from samebits.gate import settings as gate
from samebits.gate.settings import Accepted
from samebits.pins import Row, Values

FAMILY: Final = "dense"
"""The model family whose rules count; a release of vLLM has no batch-invariant DeepSeek-V4 and no Mamba2."""

_WHERE: Final = "engine"
_DTYPES: Final = Values(("bfloat16", "float32"))


@dataclass(frozen=True, slots=True)
class Framework:
    """What is particular to one framework when its settings are judged."""

    name: str
    homes: Mapping[str, str]
    """Setting → the dotted field that states it."""
    arguments: str
    """The dotted field under which any other vLLM argument is stated."""
    implied: Mapping[str, tuple[Any, str]]
    """Setting → what the framework makes of it if no field says it, and why."""
    steps: Mapping[str, str]
    """Setting → the next step, where the framework needs another than the kit's own."""
    notes: tuple[str, ...]

    def home(self, setting: str) -> str:
        """Where the user states ``setting``."""
        return self.homes.get(setting) or f"{self.arguments}.{vllm_arguments.argument_path(setting)}"


def rules_of(row: Row) -> dict[str, Accepted]:
    """The engine rules of a row of vLLM.

    Raises:
        InputError: the row's engine is another, or its gate certifies nothing yet.
    """
    rules = gate.accepted_from_json(row.gate.engine_rules(FAMILY), where="gate.engine")
    if "kind" not in rules or not rules["kind"].accepts("vllm"):
        raise InputError(
            "row",
            found=repr(row.id),
            accepted="a row whose engine is vLLM",
            next_step='List the rows: samebits doctor. Those of vLLM have kind = ["vllm"] under [gate.engine].',
        )
    return rules


def judge(
    reading: Reading,
    row: Row,
    framework: Framework,
    fixed: Mapping[str, Stated],
    validation: Mapping[str, Any] | None = None,
) -> Outcome:
    """What ``row`` says to ``reading``.

    ``fixed`` are settings that are no arguments, with the field behind each; ``validation`` the sampling parameters of
    validation requests, where they differ from those of training.
    """
    rules = rules_of(row)
    asked, dtype = _settings(reading, rules)
    conflicts = list(reading.conflicts)
    stated = {**asked, **fixed}
    settings = {name: one.value for name, one in stated.items()}
    origins = {name: reading.configuration.where(one.field) for name, one in stated.items()}
    for name, rule in rules.items():
        if name not in settings:
            supplied = _supplied(name, rule, row, framework)
            if supplied is not None:
                settings[name], origins[name] = supplied.value, supplied.field
    unread = {name for argument in reading.unread for name in vllm_arguments.settings_named(argument)}
    said = _Words(reading, framework, stated, row)
    conflicts += [
        said.retell(error, rules)
        for error in gate.conflicts(settings, rules, where=_WHERE)
        if error.field.removeprefix(f"{_WHERE}.") not in unread
    ]
    if dtype is not None and not _DTYPES.accepts(dtype.value):
        conflicts.append(said.error(dtype.field, _DTYPES, "Set it to the precision that the policy is trained in."))
    guard = guard_of(row)
    for name, one in reading.request.items():
        sampled = guard.rules[name]
        if not sampled.accepts(one.value):
            conflicts.append(said.error(one.field, sampled.text, _REQUEST_STEPS.get(name, _SAMPLING_STEP)))
    if conflicts:
        return Refused(framework=framework.name, row=row.id, conflicts=tuple(_in_order(conflicts)))
    arguments = vllm_arguments.arguments_of(settings)
    if dtype is not None:
        arguments["dtype"] = dtype.value
    return Adapted(
        framework=framework.name,
        row=row.id,
        settings=settings,
        arguments=arguments,
        environment=vllm_arguments.environment_of(settings),
        sampling={**_NEUTRAL, **{name: one.value for name, one in reading.request.items()}},
        guard=guard,
        validation_guard=guard.saying(validation) if validation else None,
        origins=origins,
        notes=(*framework.notes, *([notes.NEVER_RUN.format(row.id)] if row.status == "never run" else [])),
    )


_NEUTRAL: Final = {
    "n": 1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""What neither framework lets a user say, as vLLM's ``SamplingParams`` has it."""

_ROW_STEP: Final = ": the row is certified with nothing else."
REASONS: Final[Mapping[str, str]] = {
    "batch_invariant": ": it is how this row is certified.",
    "logprobs_mode": ": the actor's log-probabilities are raw, and so must the rollout's be.",
    "enable_prefix_caching": ": a cached prefix was computed in another batch, under other weights perhaps.",
    "tensor_parallel_size": ": a sum over ranks adds in another order than one GPU does.",
    "pipeline_parallel_size": ": only one GPU per engine is certified.",
    "data_parallel_size": ": only one GPU per engine is certified.",
    "enable_expert_parallel": ": experts' outputs are summed over ranks in another order.",
    "decode_context_parallel_size": ": a softmax over ranks merges partial sums.",
    "quantization": ": a quantised rollout computes other bits than a policy worker in bfloat16.",
    "kv_cache_dtype": ": rounded keys and values are read by the rollout alone.",
    "speculative_config": ": a draft changes which positions are computed together, and which tokens are sampled.",
    "enable_lora": ": an adapter's product is added beside the layer, not merged into it.",
    "kv_connector": ": cache pages from elsewhere were computed elsewhere.",
    "async_rollout": ": a trajectory must begin and end under the trainer's weights.",
}
"""Why a setting is pinned, behind its next step."""
_SAMPLING_STEP: Final = "Sample from the unprocessed softmax: the comparison is of raw logprobs."
_REQUEST_STEPS: Final = {
    "stop": "Remove it: a text can end a response inside a token. Token ids (stop_token_ids) are accepted.",
    "ignore_eos": "Let a response end at its end.",
    "max_tokens": "State a whole number.",
}


def _settings(reading: Reading, rules: Mapping[str, Accepted]) -> tuple[dict[str, Stated], Stated | None]:
    """The gate's settings behind vLLM's arguments; ``dtype`` apart unless the row names it: it belongs to the model."""
    settings: dict[str, Stated] = {}
    for argument, one in reading.engine.items():
        if argument == "dtype" and "dtype" not in rules:
            continue
        for name, value, path in vllm_arguments.settings_of(argument, one.value):
            inside = one.field + path.removeprefix(argument)
            text = reading.configuration.get(inside) is ABSENT  # the whole table is one JSON text
            here = Stated(value, one.field if text else inside)
            if name in settings and settings[name].value != value:
                reading.refuse(
                    here.field, f"{literal(settings[name].value)}, as {settings[name].field} says", "Say it once."
                )
            settings[name] = here
    return settings, reading.engine.get("dtype")


def _supplied(name: str, rule: Accepted, row: Row, framework: Framework) -> Stated | None:
    """What the typed option brings along: what no field says and the row pins; before it, what the framework says."""
    if name == "kind":
        return Stated("vllm", framework.name)
    if name in framework.implied:
        return Stated(framework.implied[name][0], framework.name)
    by_row = f"row {row.id}"
    if name == "threads":
        return Stated(row.hardware.cores, by_row)
    if isinstance(rule, Values) and (len(rule.accepted) <= 1 or name in vllm_arguments.NOT_ARGUMENTS):
        # Of several, no field could choose: the row lists its preference first.
        return Stated(rule.accepted[0] if rule.accepted else None, by_row)
    return None


def _in_order(conflicts: Iterable[GateError]) -> list[GateError]:
    """By field, each conflict once: a value may be refused both by a table and by the row."""
    seen: dict[tuple[str, str], GateError] = {}
    for conflict in conflicts:
        seen.setdefault((conflict.field, conflict.found), conflict)
    return sorted(seen.values(), key=lambda conflict: conflict.field.partition(": ")[2])


@dataclass(frozen=True, slots=True)
class _Words:
    """Retells the gate's findings in terms of the configuration."""

    reading: Reading
    framework: Framework
    stated: Mapping[str, Stated]
    row: Row

    def error(self, field: str, accepted: object, next_step: str, found: str | None = None) -> GateError:
        configuration = self.reading.configuration
        return GateError(
            configuration.where(field),
            found=configuration.found(field) if found is None else found,
            accepted=accepted,
            next_step=next_step,
        )

    def retell(self, error: GateError, rules: Mapping[str, Accepted]) -> GateError:
        name = error.field.removeprefix(f"{_WHERE}.")
        if name not in rules:
            return self._unknown(name, error)
        if name in self.stated:
            return self._unaccepted(name, self.stated[name], error, rules[name])
        home = self.framework.home(name)
        if name in self.framework.implied:
            value, why = self.framework.implied[name]
            found = f"nothing: {why} ({name} = {literal(value)})"
            return self.error(home, error.accepted, self._step(name, rules[name]), found)
        return self.error(home, error.accepted, "State it: vLLM would choose for itself.", "nothing")

    def _unknown(self, name: str, error: GateError) -> GateError:
        field = self.stated[name].field
        setting = name.removeprefix(vllm_arguments.NO_ARGUMENT)
        step = "Remove it." if "." in name or setting != name else error.next_step
        if setting in vllm_arguments.INSIDE_ONLY:
            step = f"Say it in {self.framework.home(setting)}."
        found = f"an unknown setting, {self.reading.configuration.found(field)}"
        return self.error(field, f"the settings that [gate.engine] of row {self.row.id} names", step, found)

    def _unaccepted(self, name: str, one: Stated, error: GateError, rule: Accepted) -> GateError:
        found, accepted = self.reading.configuration.found(one.field), error.accepted
        if one.value != self.reading.configuration.get(one.field) or one.field.rpartition(".")[2] != name:
            found, accepted = f"{found}, that is {name} = {literal(one.value)}", f"{name} = {accepted}"
        return self.error(one.field, accepted, self._step(name, rule), found)

    def _step(self, name: str, rule: Accepted) -> str:
        verb = "Leave it out" if rule == Values(()) else "Choose another" if _is_choice(rule) else f"Set it to {rule}"
        return self.framework.steps.get(name) or f"{verb}{REASONS.get(name, _ROW_STEP)}"


def _is_choice(rule: Accepted) -> bool:
    return not isinstance(rule, Values) or len(rule.accepted) > 1
