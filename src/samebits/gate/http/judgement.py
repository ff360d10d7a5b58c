"""What speaks against one request: its fields as they are written, then the parameters that would be sampled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from samebits.errors import GateError
from samebits.gate import request
from samebits.gate.http.asgi import Scope
from samebits.gate.http.dialects import Dialect
from samebits.gate.request import RULES, or_unset
from samebits.gate.settings import hint

Effective: TypeAlias = Callable[[Scope, Dialect, dict[str, Any]], Mapping[str, Any]]
"""The final effective sampling parameters of a request, after the server's own defaulting; raises GateError."""

_STATE_IT: Final = "State it in the request, or start the server without such a default (--generation-config vllm)."


def conflicts(
    dialect: Dialect, body: dict[str, Any], *, scope: Scope, effective: Effective | None = None
) -> list[GateError]:
    """Everything about a request that does not conform; the errors' fields are bare names.

    Without ``effective`` nobody knows the server's defaults, so that :data:`samebits.gate.request.REQUIRED` must be
    stated.  With it they may be left out wherever the server's own defaults conform.
    """
    found = _field_conflicts(dialect, body)
    stated = dialect.sampling(body)
    if effective is None:
        return _merged(found, _required(stated))
    try:
        final = effective(scope, dialect, body)
    except GateError as error:
        return found or [error]  # the server's own parser stumbles over what was found already
    return _merged(found, [_defaulted(error, stated) for error in request.conflicts(final, request_id=None)])


def _field_conflicts(dialect: Dialect, body: Mapping[str, Any]) -> list[GateError]:
    found = [
        _conflict(name, value, dialect)
        for name, value in body.items()
        if name not in dialect.fields or not dialect.fields[name].accepts(value)
    ]
    if dialect.nested is not None and isinstance(inner := body.get(dialect.nested), dict):
        rules = {name: or_unset(rule) for name, rule in RULES.items()}
        found += [error for error in request.conflicts(inner, request_id=None, rules=rules) if error.found != "nothing"]
    return found


def _conflict(name: str, value: Any, dialect: Dialect) -> GateError:
    if name not in dialect.fields:
        return GateError(
            name[:120],
            found="an unknown field",
            accepted=f"the fields of a request for {dialect.name} that the gate knows",
            next_step=hint(name[:120], dialect.fields),
        )
    return GateError(
        name,
        found=_quoted(value),
        accepted=dialect.fields[name].text,
        next_step="Sample from the unprocessed softmax, one answer a request, or send this request elsewhere.",
    )


def _required(stated: Mapping[str, Any]) -> list[GateError]:
    return [error for error in request.conflicts(stated, request_id=None) if error.found == "nothing"]


def _merged(found: list[GateError], more: list[GateError]) -> list[GateError]:
    named = {error.field for error in found}
    return found + [error for error in more if error.field not in named]


def _defaulted(error: GateError, stated: Mapping[str, Any]) -> GateError:
    """``error`` about a parameter that the request left out says where the value came from."""
    if error.field in stated:
        return error
    return GateError(
        error.field,
        found="nothing" if error.found == "None" else f"{error.found}, the server's default",
        accepted=error.accepted,
        next_step="State it in the request." if error.found == "None" else _STATE_IT,
    )


def _quoted(value: Any) -> str:
    """``repr`` of the beginning of a value, which may be megabytes long."""
    if isinstance(value, str | list) and len(value) > 20:  # noqa: PLR2004 - one line of an error
        return f"{value[:20]!r:.100}… ({len(value)} {'characters' if isinstance(value, str) else 'items'})"
    return repr(value)[:120]
