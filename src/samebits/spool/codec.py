"""The protocols' frozen dataclasses as JSON-ready dicts, and back, strictly.

A message says exactly what its dataclass says: an unknown field, a missing one or a wrong type is an error that names
its path, for instance ``Generated.trajectories[3].token_ids[0]``.  A field with a default is not optional here, since
:func:`to_message` writes every field.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from samebits.errors import WorkerError

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]
"""Takes a JSON value and its path; returns the field's value or raises :class:`WorkerError`."""

_SCALARS: Final = {str: "text", int: "an integer", bool: "true or false", float: "a number"}


def to_message(value: Any) -> dict[str, Any]:
    """The dataclass instance ``value`` as a dict of plain JSON values, nested dataclasses included.

    Raises:
        WorkerError: something in it is not JSON (an array scalar, NaN, a key that is no text), with its path.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"to_message takes a dataclass instance, not {type(value).__name__}")
    return cast("dict[str, Any]", plain(value, type(value).__name__))


def from_message(cls: type[T], data: Any, *, where: str | None = None) -> T:
    """``data``, as it came from JSON, as an instance of the dataclass ``cls``.

    ``where`` replaces the class' name at the start of paths in errors.

    Raises:
        WorkerError: an unknown or missing field, or a value of a wrong type, with its path.
    """
    return cast("T", _decoder(cast("Any", cls))(data, where or cls.__name__))


def plain(value: Any, path: str) -> Any:
    """``value`` as JSON-ready dicts, lists, texts, numbers, booleans and None; ``path`` is where it sits.

    Raises:
        WorkerError: it holds something else.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise _wrong(path, value, "a finite number")
    if isinstance(value, list | tuple):
        if set(map(type, value)) <= {int}:  # token ids and patterns, by the hundred thousand
            return list(value)
        return [plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise _wrong(f"{path}: a key", key, "text")
        return {key: plain(item, f"{path}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), f"{path}.{field.name}") for field in dataclasses.fields(value)
        }
    raise _wrong(path, value, "text, a number, a boolean, null, a list, a mapping or a dataclass")


@functools.cache
def _decoder(hint: Any) -> Decoder:
    """The decoder of one type hint; made once."""
    if hint is Any:
        return lambda value, _: value
    if isinstance(hint, type):
        if dataclasses.is_dataclass(hint):
            return _dataclass(hint)
        if hint in _SCALARS:
            return _scalar(hint)
    return _composed(hint, get_origin(hint), get_args(hint))


def _composed(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Decoder:
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, types.UnionType):
        return _optional(arguments)
    if origin is list:
        return _list(arguments[0])
    if origin in (dict, Mapping) and arguments[0] is str:
        return _mapping(arguments[1])
    raise TypeError(f"no message can carry a field of type {hint!r}")


def _dataclass(cls: type[Any]) -> Decoder:
    hints = get_type_hints(cls)
    fields = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(cls)}

    def decode(value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise _wrong(path, value, f"the fields of {cls.__name__}")
        for name in value:
            if name not in fields:
                raise _fault(f"{path}.{name[:80]}", "an unknown field", ", ".join(fields))
        for name in fields:
            if name not in value:
                raise _fault(f"{path}.{name}", "nothing", "a value")
        return cls(**{name: field(value[name], f"{path}.{name}") for name, field in fields.items()})

    return decode


def _literal(accepted: tuple[Any, ...]) -> Decoder:
    def decode(value: Any, path: str) -> Any:
        for one in accepted:
            if type(value) is type(one) and value == one:
                return value
        raise _wrong(path, value, " or ".join(map(repr, accepted)))

    return decode


def _optional(arguments: tuple[Any, ...]) -> Decoder:
    inner = [argument for argument in arguments if argument is not type(None)]
    if len(inner) != 1 or len(arguments) != 2:  # noqa: PLR2004 - T | None
        raise TypeError(f"no message can carry a choice between {arguments!r}")
    decode_inner = _decoder(inner[0])
    return lambda value, path: None if value is None else decode_inner(value, path)


def _list(item: Any) -> Decoder:
    decode_item = _decoder(item)

    def decode(value: Any, path: str) -> list[Any]:
        if type(value) is not list:
            raise _wrong(path, value, "a list")
        if item is int and set(map(type, value)) <= {int}:
            return value
        return [decode_item(one, f"{path}[{index}]") for index, one in enumerate(value)]

    return decode


def _mapping(item: Any) -> Decoder:
    decode_item = _decoder(item)

    def decode(value: Any, path: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise _wrong(path, value, "a mapping")
        return {key: decode_item(one, f"{path}.{key[:80]}") for key, one in value.items()}

    return decode


def _scalar(cls: type[Any]) -> Decoder:
    # JSON writes 1.0 and 1 differently and readers may not care; a boolean is never a number.
    accepted = (float, int) if cls is float else (cls,)

    def decode(value: Any, path: str) -> Any:
        if type(value) not in accepted:
            raise _wrong(path, value, _SCALARS[cls])
        try:
            return cls(value)
        except OverflowError:
            raise _fault(path, "an integer too large", _SCALARS[cls]) from None

    return decode


def _wrong(path: str, value: object, accepted: str) -> WorkerError:
    try:
        shown = "null" if value is None else f"{type(value).__name__} {value!r:.80}"
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits, for instance
        shown = f"{type(value).__name__} too large to show"
    return _fault(path, shown, accepted)


def _fault(path: str, found: str, accepted: str) -> WorkerError:
    return WorkerError(
        path,
        found=found,
        accepted=accepted,
        next_step="Install the same samebits in the parent's and in the worker's environment.",
    )
