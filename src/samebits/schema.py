"""Closed, frozen models for everything a person writes: rows and recipes.

Pydantic finds what is wrong; this module says it the kit's way: the field's path, what was found, what is accepted,
and for an unknown key its nearest neighbour.
"""

from __future__ import annotations

import difflib
import os
import stat
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from samebits.errors import InputError

_CHECKOUT = Path(__file__).resolve().parents[2]
_PACKAGED = Path(__file__).resolve().parent / "data"
_LARGEST = 1 << 20
"""Bytes of a file that are read at most: a path may lead to a device that never ends."""

_LONGEST = 120
"""Characters of a found value that an error repeats."""

_TOLD = 20
"""Further faults that an error names."""

_DOTS = 128
"""Dots in a line: reading a key of many parts takes their number squared (of a mebibyte of them, an hour)."""


class Closed(BaseModel):
    """Base of all models: unknown keys are errors, values are not coerced, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


ModelT = TypeVar("ModelT", bound=Closed)


def parse(model: type[ModelT], data: Any, *, source: str) -> ModelT:
    """``data`` as a ``model``.

    Raises:
        InputError: the first fault, naming the further ones; ``source`` names the file.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _first_fault(error, model, source) from None


def load_toml(model: type[ModelT], path: Path) -> ModelT:
    """The TOML file at ``path`` as a ``model``.

    Raises:
        InputError: unreadable, not TOML, or not what the model accepts.
    """
    return parse_toml(model, read(path), source=path.name)


def read(path: Path) -> bytes:
    """The bytes of a TOML file that a person named.

    Raises:
        InputError: it cannot be read, or is far larger than anything a person writes.
    """
    try:
        # O_NONBLOCK: a named pipe would otherwise block before it can be refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unreadable(path, "not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from None
    finally:
        os.close(descriptor)
    if len(content) > _LARGEST:
        raise InputError(
            str(path),
            found=f"more than {_LARGEST} bytes",
            accepted="a TOML file written by a person",
            next_step="Check the path.",
        )
    return content


def parse_toml(model: type[ModelT], content: bytes, *, source: str) -> ModelT:
    """The TOML text in ``content`` as a ``model``.

    Raises:
        InputError: not TOML in UTF-8, or not what the model accepts; ``source`` names the file.
    """
    return parse(model, toml(content, source=source), source=source)


def toml(content: bytes, *, source: str) -> dict[str, Any]:
    """The TOML text in ``content``, whatever it says.

    Raises:
        InputError: not TOML in UTF-8, larger than a mebibyte, or with a line of more than 128 dots; ``source`` names
            the file.
    """
    if len(content) > _LARGEST:
        raise _no_toml(source, f"{len(content)} bytes", f"at most {_LARGEST} bytes")
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.count(b".") > _DOTS:
            raise _no_toml(f"{source}: line {number}", f"{line.count(b'.')} dots", f"at most {_DOTS} in one line")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        # TOMLDecodeError and UnicodeDecodeError are ValueErrors, and so is an integer of more than 4,300 digits.
        raise _no_toml(source, f"not TOML ({_printable(str(error), 2 * _LONGEST)})", "TOML 1.0 in UTF-8") from None


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The one of ``names`` that ``word`` was most likely meant to be, or None."""
    near = difflib.get_close_matches(word, list(names), n=1)
    return near[0] if near else None


def folders(kind: str) -> list[Path]:
    """Where files of ``kind`` ("lock" or "recipes") are looked for, first match first.

    The working directory comes first, so that in a clone an edited file counts without a new installation; then the
    checkout this package runs from; then the copies packed into the wheel.
    """
    found: list[Path] = []
    for root in (Path.cwd(), _CHECKOUT, _PACKAGED):
        folder = root / kind
        if folder.is_dir() and folder not in found:
            found.append(folder)
    return found


def own_folder(kind: str) -> Path | None:
    """The folder of ``kind`` that belongs to this kit, whatever the working directory is; None if it has none."""
    return next((root / kind for root in (_PACKAGED, _CHECKOUT) if (root / kind).is_dir()), None)


def identifiers(kind: str) -> list[str]:
    """All ids of ``kind``, sorted: names of the TOML files without their ending."""
    return sorted({path.stem for folder in folders(kind) for path in folder.glob("*.toml")})


def locate(kind: str, name: str | Path, *, field: str) -> Path:
    """The file behind a path or an id: ``name`` is a path if it ends in ``.toml`` or names a folder.

    Raises:
        InputError: no file of ``kind`` has this id; ``field`` names the argument.
    """
    text = str(name)
    if isinstance(name, Path) or text.endswith(".toml") or Path(text).name != text:
        return Path(name)
    for folder in folders(kind):
        path = folder / f"{text}.toml"
        if path.is_file():
            return path
    known = identifiers(kind)
    near = nearest(text, known)
    raise InputError(
        field,
        found=repr(text[:_LONGEST]),
        accepted=", ".join(known) or f"the path of a TOML file; no folder {kind}/ was found",
        next_step=f"Did you mean {near!r}?" if near else "Choose one of these, or give the path of a TOML file.",
    )


class Conflict(ValueError):
    """A value that only another value makes wrong; ``field`` is its full dotted path.

    Models yield these to :func:`refuse`; :func:`parse` turns them into an :class:`InputError`.
    """

    def __init__(
        self, field: str, *, found: object, accepted: object, next_step: str = "Correct one of the two."
    ) -> None:
        self.field = field
        self.found = str(found)
        self.accepted = str(accepted)
        self.next_step = next_step
        self.others: list[str] = []
        super().__init__(f"{field}: found {self.found}; accepted: {self.accepted}")


def refuse(conflicts: Iterable[Conflict]) -> None:
    """Raises the first of ``conflicts``, which names the others, if there are any."""
    found = list(conflicts)
    if found:
        found[0].others = [conflict.field for conflict in found[1:]]
        raise found[0]


def _first_fault(error: ValidationError, model: type[Closed], source: str) -> InputError:
    faults = error.errors(include_url=False)
    fault = faults[0]
    path = _dotted(_plain(model, fault["loc"]))
    field = f"{source}: {path}" if path else source
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, Conflict):
        return InputError(
            f"{source}: {cause.field}",
            found=cause.found,
            accepted=cause.accepted,
            next_step=cause.next_step + _also(cause.others),
        )
    also = _also([_dotted(_plain(model, other["loc"])) for other in faults[1:]])
    if fault["type"] == "extra_forbidden":
        names = _names_beside(model, fault["loc"])
        near = nearest(str(fault["loc"][-1]), names)
        return InputError(
            field,
            found="an unknown key",
            accepted=", ".join(names),
            next_step=(f"Did you mean {near!r}?" if near else "Remove it.") + also,
        )
    if fault["type"] == "missing":
        return InputError(field, found="nothing", accepted="a value", next_step="Add the key." + also)
    return InputError(
        field,
        found=_shown(fault["input"]),
        accepted=_sentence(fault["msg"]),
        next_step="Correct the value." + also,
    )


def _also(fields: list[str]) -> str:
    """Every further fault, so that a file is mended in one go."""
    distinct = list(dict.fromkeys(fields))
    more = f" and {len(distinct) - _TOLD} more" if len(distinct) > _TOLD else ""
    return f" Also wrong in this file: {', '.join(distinct[:_TOLD])}{more}." if distinct else ""


def _shown(value: object) -> str:
    try:
        return repr(value)[:_LONGEST]
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits, for instance
        return f"{type(value).__name__} too large to show"


def _printable(text: str, longest: int = _LONGEST) -> str:
    """Text out of a file: short, and nothing in it that a terminal obeys."""
    return "".join(character if character.isprintable() else "�" for character in text[:longest])


def _unreadable(path: Path, found: str) -> InputError:
    return InputError(str(path), found=found, accepted="a readable TOML file", next_step="Check the path.")


def _no_toml(field: str, found: str, accepted: str) -> InputError:
    return InputError(field, found=found, accepted=accepted, next_step="Mend the file.")


def _sentence(message: str) -> str:
    return message.removeprefix("Input should be ").removeprefix("Value error, ")


def _dotted(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        name = f"[{part}]" if isinstance(part, int) else _printable(part)
        text += f".{name}" if text and isinstance(part, str) else name
    return text


def _names_beside(model: type[Closed], location: tuple[int | str, ...]) -> list[str]:
    """Field names of the model that holds ``location``'s last part."""
    return sorted(_walk(model, location[:-1])[0].model_fields)


def _plain(model: type[Closed], location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """``location`` as a person would write it: pydantic adds the tag of a union's member as a step of its own."""
    return _walk(model, location)[1]


def _walk(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[type[BaseModel], tuple[int | str, ...]]:
    """The model that ``location`` ends in, and the location without the tags of tagged unions."""
    current, plain, members = model, list[int | str](), list[type[BaseModel]]()
    for part in location:
        tagged = next((member for member in members if len(members) > 1 and _tag(member) == part), None)
        if tagged is not None:
            current, members = tagged, []
            continue
        plain.append(part)
        members = []
        if isinstance(part, str) and part in current.model_fields:
            members = _models_in(current.model_fields[part].annotation)
            current = members[0] if members else current
    return current, tuple(plain)


def _tag(member: type[BaseModel]) -> object:
    """What ``kind`` must say for this member of a union."""
    kind = member.model_fields.get("kind")
    return get_args(kind.annotation)[0] if kind is not None and get_args(kind.annotation) else None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _models_in(argument)]
