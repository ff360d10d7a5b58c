"""What each field of a framework's configuration means to the kit: a small language for tables, and its reader.

The tables are positive allowlists.  A field that stands in no table is refused whatever it says, since nobody has
looked at what it does to the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from samebits.adapters.configuration import ABSENT, Configuration, literal, unresolved_in
from samebits.errors import GateError
from samebits.gate.request import RULES
from samebits.gate.settings import hint
from samebits.pins import Values

UNSET: Final = Values(())
OFF: Final = Values((False,))
ON: Final = Values((True,))
ONE: Final = Values((1,))
ZERO: Final = Values((0,))
SWITCH: Final = Values((False, True))
NO_TABLE: Final = Values(({},))

QUANTISED: Final = "Remove it: a quantised rollout computes other bits than a policy worker in bfloat16."
PARALLEL: Final = "Set it to 1: a sum over ranks adds in another order than one GPU does."
UNTESTED: Final = "Set it to false: nothing is certified with it."
"""Next steps that the fields of both frameworks give."""


@dataclass(frozen=True, slots=True)
class Free:
    """Decides no bit that is compared; anything goes."""


@dataclass(frozen=True, slots=True)
class Derived:
    """Read by the framework's own module, which makes other settings of it; it must have a value that can be read."""


@dataclass(frozen=True, slots=True)
class Only:
    """Must say one of ``accepted``, for every row; left out or null, the framework does the accepted thing."""

    accepted: Values
    next_step: str
    required: bool = False
    """Left out, the framework would do something else, or stop."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Becomes the vLLM argument ``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Request:
    """Becomes the sampling parameter ``name`` of every request of a training rollout."""

    name: str
    convert: Callable[[Any], Any] | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """A table whose every key is passed to vLLM as it is; ``own`` are those that the framework passes itself."""

    own: Mapping[str, str] = field(default_factory=dict)
    """vLLM argument → where it is said instead, or what the framework always says."""


@dataclass(frozen=True, slots=True)
class Variables:
    """Environment variables that the framework sets for its workers, raw."""


Meaning: TypeAlias = "Free | Derived | Only | Engine | Request | Arguments | Variables | Mapping[str, Meaning]"
Table: TypeAlias = Mapping[str, Meaning]

FREE: Final = Free()
DERIVED: Final = Derived()


def free(names: str) -> Table:
    """A table of the free fields ``names``, separated by blanks."""
    return dict.fromkeys(names.split(), FREE)


@dataclass(frozen=True, slots=True)
class Stated:
    """A value, and the dotted field of the user's configuration that states it."""

    value: Any
    field: str


@dataclass(slots=True)
class Reading:
    """A configuration being read: what it asks of vLLM and of each request, and every conflict so far."""

    configuration: Configuration
    engine: dict[str, Stated] = field(default_factory=dict)
    request: dict[str, Stated] = field(default_factory=dict)
    conflicts: list[GateError] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    """Engine settings that a field states, but with a value that cannot be resolved: refused already."""

    def refuse(self, at: str, accepted: object, next_step: str, found: str | None = None) -> None:
        """Adds a conflict at the dotted field ``at``."""
        configuration = self.configuration
        error = GateError(
            configuration.where(at),
            found=configuration.found(at) if found is None else found,
            accepted=accepted,
            next_step=next_step,
        )
        self.conflicts.append(error)

    def get(self, at: str, default: Any = None) -> Any:
        """The value at ``at``; ``default`` where there is none, or none that can be resolved."""
        value = self.configuration.get(at)
        return default if value is ABSENT or unresolved_in(value) else value

    def field(self, at: str, meaning: Meaning) -> None:
        """Reads one dotted field by its ``meaning``."""
        self._field(at, self.configuration.get(at), meaning)

    def always(self, sampling: Mapping[str, Any], at: str) -> None:
        """Notes sampling parameters that the framework says itself."""
        self.request |= {name: Stated(value, at) for name, value in sampling.items()}

    def table(self, at: str, meanings: Table) -> None:
        """Reads the table at the dotted field ``at``, by ``meanings``; the top of the configuration is ``""``."""
        value: Any = self.configuration.get(at) if at else self.configuration.values
        if value is ABSENT or value is None:
            value = {}
        if not isinstance(value, Mapping):
            self.refuse(at, "a table", "Make it a table.")
            return
        for name, meaning in meanings.items():
            self._field(f"{at}.{name}" if at else name, value.get(name, ABSENT), meaning)
        for name in value:
            if name not in meanings:
                here = f"{at}.{name}" if at else name
                found = f"an unknown field, {literal(value[name])}"
                self.refuse(here, "fields whose meaning the kit knows", hint(name, meanings), found)

    def _field(self, at: str, value: Any, meaning: Meaning) -> None:
        if isinstance(meaning, Free):
            return
        if isinstance(meaning, Mapping):
            self.table(at, meaning)
        elif value is ABSENT:
            self._missing(at, meaning)
        elif isinstance(meaning, Arguments):
            self._arguments(at, value, meaning)
        elif (broken := unresolved_in(value)) is not None:
            self.refuse(at, "a value", "Write the value itself.", str(broken))
            self.unread |= {meaning.name} if isinstance(meaning, Engine) else set()
        elif isinstance(meaning, Only):
            if not meaning.accepted.accepts(value) and (value is not None or meaning.required):
                self.refuse(at, meaning.accepted, meaning.next_step)
        else:
            self._passed_on(at, value, meaning)

    def _missing(self, at: str, meaning: Meaning) -> None:
        if isinstance(meaning, Only) and meaning.required:
            self.refuse(at, meaning.accepted, meaning.next_step)
        elif isinstance(meaning, Request) and meaning.required:
            self.refuse(at, RULES[meaning.name].text, "State it: it decides what is sampled.")

    def _passed_on(self, at: str, value: Any, meaning: Derived | Engine | Request | Variables) -> None:
        if isinstance(meaning, Variables):
            self._variables(at, value)
        elif isinstance(meaning, Engine):
            self.ask(meaning.name, value, at)
        elif isinstance(meaning, Request):
            self.request[meaning.name] = Stated(meaning.convert(value) if meaning.convert else value, at)

    def ask(self, name: str, value: Any, at: str) -> None:
        """Notes that the field ``at`` asks for the vLLM argument ``name``; two fields may not disagree."""
        before = self.engine.get(name)
        if before is not None and before.value != value:
            self.refuse(at, f"{literal(before.value)}, as {before.field} says", "Say it once.")
            return
        self.engine[name] = Stated(value, at)

    def _arguments(self, at: str, value: Any, meaning: Arguments) -> None:
        if not isinstance(value, Mapping):
            self.refuse(at, "a table of vLLM arguments, {} for none", "Make it a table.")
            return
        for name, argument in value.items():
            here = f"{at}.{name}"
            if name in meaning.own:
                self.refuse(here, "nothing: the framework passes this one itself", meaning.own[name])
            else:
                self._field(here, argument, Engine(name))

    def _variables(self, at: str, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, Mapping):
            self.refuse(at, "nothing", "Remove it.")
            return
        for name in value:
            ours = name.startswith("VLLM_")
            step = "Remove it: " + (
                "what vLLM's switches say follows from the typed options and the row."
                if ours
                else "the workers' environment is the row's alone."
            )
            # The value stays unsaid: it may be somebody's token.
            self.refuse(f"{at}.{name}", "no environment variable of the configuration's own", step, "a value")
