"""What adapting a configuration ends in: the engine it asks for, or every conflict at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from samebits.errors import GateError
from samebits.gate import request
from samebits.gate.request import Rule
from samebits.gate.settings import raise_first
from samebits.pins import Row


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """The per-request gate of a row: calls pass, or raise.

    It judges the *final effective* sampling parameters, after vLLM's own defaulting, by vLLM's names;
    ``samebits.engine.vllm.final.flat`` reads them off a ``SamplingParams`` object.
    """

    rules: Mapping[str, Rule]

    def conflicts(self, sampling: Mapping[str, Any], *, request_id: str) -> list[GateError]:
        """Every parameter that is unknown, not accepted or missing."""
        return request.conflicts(sampling, request_id=request_id, rules=self.rules)

    def __call__(self, sampling: Mapping[str, Any], *, request_id: str) -> None:
        """Passes a conforming request.

        Raises:
            GateError: the first conflict, with the others named behind it.
        """
        raise_first(self.conflicts(sampling, request_id=request_id))

    def to_dict(self) -> dict[str, str]:
        """What each parameter accepts, in words."""
        return {name: rule.text for name, rule in self.rules.items()}

    def saying(self, sampling: Mapping[str, Any]) -> RequestGuard:
        """A guard that accepts exactly ``sampling`` in these parameters."""
        exactly = {name: request.only(value) for name, value in sampling.items()}
        return RequestGuard({**self.rules, **exactly})


def guard_of(row: Row) -> RequestGuard:
    """The guard of ``row``: the kit's rules, narrowed by the row's ``[gate.request]``."""
    return RequestGuard({name: _narrowed(name, rule, row) for name, rule in request.RULES.items()})


def _narrowed(name: str, rule: Rule, row: Row) -> Rule:
    accepted = row.gate.request.get(name)
    if accepted is None:
        return rule

    def accepts(value: Any) -> bool:
        off = value is None or value in ([], {}, "")  # other spellings of a feature that is not used
        return rule.accepts(value) and (off or accepted.accepts(value))

    return Rule(accepts=accepts, text=rule.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapted:
    """A configuration that the row certifies."""

    framework: str
    row: str
    settings: Mapping[str, Any]
    """What the row's gate passed, by the names of :class:`samebits.recipe.VllmSettings`."""
    arguments: Mapping[str, Any]
    """The same as arguments of ``vllm.LLM``."""
    environment: Mapping[str, str]
    """Variables of the workers, before vLLM is imported; from typed options and the row, never passed through."""
    sampling: Mapping[str, Any]
    """Parameters of each request of a training rollout, complete but for ``seed``, which each request has its own."""
    guard: RequestGuard
    """For requests whose tokens are trained on."""
    validation_guard: RequestGuard | None
    """For validation requests, where they may sample otherwise; None: ``guard`` is for them too."""
    origins: Mapping[str, str]
    """Who states each setting: a field of the configuration, the framework, or the row."""
    notes: tuple[str, ...]
    """What a configuration cannot say, and whoever runs it must see to."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; of the guard, what it accepts in words."""
        return {
            "accepted": True,
            "framework": self.framework,
            "row": self.row,
            "settings": dict(self.settings),
            "origins": dict(self.origins),
            "arguments": dict(self.arguments),
            "environment": dict(self.environment),
            "sampling": dict(self.sampling),
            "guard": self.guard.to_dict(),
            "validation_guard": self.validation_guard.to_dict() if self.validation_guard else None,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A configuration that the row does not certify, with every reason."""

    framework: str
    row: str
    conflicts: tuple[GateError, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "accepted": False,
            "framework": self.framework,
            "row": self.row,
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
        }


Outcome: TypeAlias = Adapted | Refused
