"""Closed, frozen models for everything a person writes: rows and recipes.

Pydantic finds what is wrong; this module says it the kit's way: the field's path, what was found, what is accepted,
and for an unknown key its nearest neighbour.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from samebits.errors import InputError


class Closed(BaseModel):
    """Base of all models: unknown keys are errors, values are not coerced, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


ModelT = TypeVar("ModelT", bound=Closed)


def parse(model: type[ModelT], data: Any, *, source: str) -> ModelT:
    """``data`` as a ``model``.

    Raises:
        InputError: the first fault, with the count of further ones; ``source`` names the file.
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
    try:
        data = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise InputError(
            str(path),
            found=error.strerror or "unreadable",
            accepted="a readable TOML file",
            next_step="Check the path.",
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            str(path),
            found=f"not TOML ({error})",
            accepted="TOML 1.0 in UTF-8",
            next_step="Mend the file.",
        ) from None
    return parse(model, data, source=path.name)


def _first_fault(error: ValidationError, model: type[Closed], source: str) -> InputError:
    faults = error.errors(include_url=False)
    fault = faults[0]
    path = _dotted(fault["loc"])
    more = f" {len(faults) - 1} more fault(s) in this file." if len(faults) > 1 else ""
    if fault["type"] == "extra_forbidden":
        names = _names_beside(model, fault["loc"])
        near = difflib.get_close_matches(str(fault["loc"][-1]), names, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Remove it."
        return InputError(
            f"{source}: {path}",
            found="an unknown key",
            accepted=", ".join(names),
            next_step=hint + more,
        )
    if fault["type"] == "missing":
        return InputError(
            f"{source}: {path}",
            found="nothing",
            accepted="a value",
            next_step="Add the key." + more,
        )
    return InputError(
        f"{source}: {path}",
        found=repr(fault["input"])[:120],
        accepted=_sentence(fault["msg"]),
        next_step="Correct the value." + more,
    )


def _sentence(message: str) -> str:
    return message.removeprefix("Input should be ").removeprefix("Value error, ")


def _dotted(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _names_beside(model: type[Closed], location: tuple[int | str, ...]) -> list[str]:
    """Field names of the model that holds ``location``'s last part."""
    current: type[BaseModel] = model
    for part in location[:-1]:
        if isinstance(part, str) and part in current.model_fields:
            current = _model_in(current.model_fields[part].annotation) or current
    return sorted(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
