"""A framework's configuration, resolved, that still knows which file each value came from.

Both NeMo RL and verl keep their configuration in OmegaConf, with ``${...}`` interpolations.  A value that cannot be
resolved matters only where it decides something, so it is kept as :class:`Unresolved` until somebody asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from samebits.errors import InputError

Path: TypeAlias = tuple[str, ...]
"""The keys that lead to a value, outermost first."""

_LONGEST: Final = 120
_ENVIRONMENT: Final = "oc.env"
_REFERENCE: Final = re.compile(r"\$\{(?:oc\.select:)?([^${}:,]+)")
"""The field that an interpolation names, also as the argument of oc.select."""


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()
"""What :meth:`Configuration.get` returns for a field that no file sets; ``null`` is None."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A value that has no value: ``text`` is as written, ``reason`` says why."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.text!r}, {self.reason}"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration as the framework would see it.

    ``name`` is the file that the user named; ``values`` are plain containers; ``written`` the same before
    interpolation; ``origins`` says for each field that is set where it was set last: a file's name, or
    ``command line``.
    """

    name: str
    values: Mapping[str, Any]
    written: Mapping[str, Any]
    origins: Mapping[Path, str]

    def get(self, field: str) -> Any:
        """The value of a dotted ``field``, or :data:`ABSENT`."""
        return _at(self.values, split(field))

    def where(self, field: str) -> str:
        """``file: field``: the file that sets it, or for one that none sets the file that the user named."""
        return f"{self._source(split(field))}: {field}"

    def _source(self, keys: Path) -> str:
        if _at(self.values, keys) is ABSENT:
            return self.name
        if keys not in self.origins:
            below = {source for path, source in self.origins.items() if path[: len(keys)] == keys}
            if below:
                return below.pop() if len(below) == 1 else self.name
        above = (self.origins[keys[:length]] for length in range(len(keys), 0, -1) if keys[:length] in self.origins)
        return next(above, self.name)

    def found(self, field: str) -> str:
        """The value of ``field`` for an error, with the interpolation that it came through."""
        value = self.get(field)
        if value is ABSENT or isinstance(value, Unresolved):
            return str(value)[:_LONGEST]
        shown = literal(value)
        written = _at(self.written, split(field))
        return f"{shown}, through {written}" if _is_interpolation(written) else shown


def split(field: str) -> Path:
    """The keys of a dotted field."""
    return tuple(field.split("."))


def literal(value: object) -> str:
    """``value`` as a YAML file would say it, short enough for an error."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)[:_LONGEST]


def unresolved_in(value: object) -> Unresolved | None:
    """The first part of ``value`` that has no value, or None."""
    if isinstance(value, Unresolved):
        return value
    parts: Iterator[object] = iter(())
    if isinstance(value, Mapping):
        parts = iter(value.values())
    elif isinstance(value, list):
        parts = iter(value)
    return next((found for part in parts if (found := unresolved_in(part)) is not None), None)


def leaves(values: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    """The paths of all values that are no tables with something in them."""
    for key, value in values.items():
        here = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, here)
        else:
            yield here


def resolved(config: DictConfig, *, name: str, origins: Mapping[Path, str]) -> Configuration:
    """``config`` with every interpolation that can be resolved.

    Raises:
        InputError: interpolations that lead in a circle, or no table of texts.
    """
    written = _with_text_keys(OmegaConf.to_container(config, resolve=False))
    try:
        values = _Resolver(written).plain(config, (), ())
    except RecursionError:
        raise InputError(
            name,
            found="tables inside each other without end: interpolations ${...} that lead in a circle",
            accepted="interpolations that end in a value",
            next_step="Break the circle.",
        ) from None
    return Configuration(name=name, values=values, written=written, origins=dict(origins))


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Resolves value by value, so that one that has none does not hide the others."""

    written: Mapping[str, Any]

    def plain(self, node: DictConfig | ListConfig, at: Path, above: tuple[int, ...]) -> Any:
        """``node``, which lies at ``at``; ``above`` are the identities of the containers it was reached through."""
        if id(node) in above:
            raise RecursionError
        inside = (*above, id(node))
        if isinstance(node, ListConfig):
            return [self._value(node, index, (*at, str(index)), inside) for index in range(len(node))]
        return {str(key): self._value(node, key, (*at, str(key)), inside) for key in node}

    def _value(self, node: DictConfig | ListConfig, key: Any, at: Path, inside: tuple[int, ...]) -> Any:
        if OmegaConf.is_missing(node, key):
            return Unresolved("???", "which must be set before the run")
        if OmegaConf.is_interpolation(node, key):
            container: Any = OmegaConf.to_container(node, resolve=False)
            text = str(container[key])
            if self._reads_environment(text, at, frozenset()):
                return Unresolved(text, "which depends on the environment of whoever starts the run")
            try:
                value = node[key]
            except OmegaConfBaseException as error:
                return Unresolved(text, f"which cannot be resolved ({' '.join(str(error).split())[:_LONGEST]})")
        else:
            value = node[key]
        return self.plain(value, at, inside) if isinstance(value, DictConfig | ListConfig) else value

    def _reads_environment(self, text: str, at: Path, seen: frozenset[Path]) -> bool:
        """Whether the interpolation ``text`` at ``at`` ends, through others perhaps, in a variable."""
        if _ENVIRONMENT in text:
            return True
        for reference in _REFERENCE.findall(text):
            dots = len(reference) - len(reference.lstrip("."))
            target = (*(at[:-dots] if dots else ()), *reference.lstrip(".").split("."))
            named = _at(self.written, target)
            if target in seen or not _is_interpolation(named):
                continue
            if self._reads_environment(named, target, seen | {target}):
                return True
        return False


def _at(values: Any, keys: Path) -> Any:
    for key in keys:
        if not isinstance(values, Mapping) or key not in values:
            return ABSENT
        values = values[key]
    return values


def _with_text_keys(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {str(key): _with_text_keys(value) for key, value in values.items()}
    return values


def _is_interpolation(written: object) -> bool:
    return isinstance(written, str) and "${" in written
