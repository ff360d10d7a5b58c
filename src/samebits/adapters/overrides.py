"""Overrides on the command line, ``key=value``, as NeMo RL and verl take them: Hydra's override grammar.

Hydra itself is not needed for it: OmegaConf parses the values (``oc.decode`` is the same grammar), and what is done to
the configuration is what ``ConfigLoaderImpl._apply_overrides_to_config`` of hydra-core 1.3 does.  Sweeps, function
calls and config groups are refused: neither framework's training job takes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from omegaconf import MISSING, DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from samebits.adapters.configuration import Path, leaves, split
from samebits.errors import InputError

SOURCE: Final = "command line"
"""What :attr:`Configuration.origins` says of a value that an override set."""

_OVERRIDE: Final = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>[^\s=+~@:,{}\[\]()$]+)(?P<value>=.*)?", re.DOTALL)
_CALL: Final = re.compile(r"[A-Za-z_]\w*\(.*\)", re.DOTALL)
_ACCEPTED: Final = "key=value, ++key=value (add or replace), +key=value (add) or ~key (delete), as in Hydra"


@dataclass(frozen=True, slots=True)
class Override:
    """One parsed override; ``text`` is as written."""

    text: str
    act: Literal["replace", "add", "set", "delete"]
    key: str
    value: Any


_ACTS: Final[dict[str, Literal["replace", "add", "set", "delete"]]] = {
    "": "replace",
    "+": "add",
    "++": "set",
    "~": "delete",
}


def parse(text: str) -> Override:
    """The override that ``text`` says.

    Raises:
        InputError: not an override of this grammar.
    """
    matched = _OVERRIDE.fullmatch(text)
    if matched is None or (matched["value"] is None and matched["sign"] != "~"):
        raise _refused(text, _ACCEPTED)
    value = None if matched["value"] is None else _decode(text, matched["value"][1:].strip())
    return Override(text=text, act=_ACTS[matched["sign"] or ""], key=matched["key"], value=value)


def apply(config: DictConfig, texts: Sequence[str]) -> dict[Path, str]:
    """Applies overrides in order, in place; returns the fields that they set, as origins.

    Raises:
        InputError: an override that cannot be parsed, replaces or deletes what is not there, or adds what is.
    """
    origins: dict[Path, str] = {}
    OmegaConf.set_struct(config, True)  # as both frameworks do: a misspelt key must not make a new field
    for override in [parse(text) for text in texts]:
        try:
            _apply(config, override)
        except OmegaConfBaseException:
            raise _refused(
                override.text,
                "a field that the configuration has",
                f"Correct the key, or add the field: ++{override.text.lstrip('+~')}",
            ) from None
        keys = split(override.key)
        inside = leaves(override.value, keys) if isinstance(override.value, dict) and override.value else [keys]
        origins |= dict.fromkeys(inside, SOURCE)
    return origins


def _apply(config: DictConfig, override: Override) -> None:
    present = OmegaConf.select(config, override.key, throw_on_missing=False)
    if override.act == "delete":
        _delete(config, override, present)
        return
    if override.act == "add" and present is not None and not isinstance(override.value, dict | list):
        raise _refused(override.text, "a field that is not there yet", f"Replace it: +{override.text}")
    OmegaConf.update(config, override.key, override.value, merge=True, force_add=override.act != "replace")


def _delete(config: DictConfig, override: Override, present: Any) -> None:
    if present is None:
        raise _refused(override.text, "a field that is there", "Leave the override out.")
    if override.value is not None and override.value != present:
        raise _refused(override.text, f"the value that is there, {present!r}", f"Say ~{override.key}")
    above, _, last = override.key.rpartition(".")
    node = OmegaConf.select(config, above) if above else config
    with open_dict(config):
        del node[last]


def _decode(text: str, value: str) -> Any:
    if value in {"", MISSING}:
        return value
    if "${" in value:
        if value[0] in "[{'\"":
            raise _refused(text, "an interpolation ${...} outside of lists, tables and quotes")
        return value
    if _CALL.fullmatch(value):
        raise _refused(text, "a value, no function call of Hydra's")
    try:
        decoded = OmegaConf.create({"text": value, "value": "${oc.decode:${.text}}"})["value"]
    except OmegaConfBaseException:
        raise _refused(text, "one value: a number, text, true, false, null, [list] or {table: …}") from None
    return OmegaConf.to_container(decoded) if OmegaConf.is_config(decoded) else decoded


def _refused(text: str, accepted: str, next_step: str = "Correct the override.") -> InputError:
    return InputError(f"override {text[:120]!r}", found="not applicable", accepted=accepted, next_step=next_step)
