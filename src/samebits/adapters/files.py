"""Reads a configuration as the framework does: YAML, inheritance, interpolation, overrides.

NeMo RL (``nemo_rl/utils/config.py``): a file may name parents in ``defaults``, one or a list, relative to itself;
parents are merged depth-first in order, the file last; at the top level, a table that says ``_override_: true``
replaces its parent's table as a whole.  verl composes config groups with Hydra, which needs verl itself: here it is
read composed, as ``python -m verl.trainer.main_ppo … --cfg job`` prints it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as File
from typing import Any, Final

import omegaconf
import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from packaging.version import Version

from samebits.adapters import overrides as override_room
from samebits.adapters.configuration import Configuration, Path, leaves, resolved
from samebits.errors import InputError

MAPPING: Final = "configuration"
"""The name of a configuration that is no file."""

_LARGEST: Final = 1 << 20
_DEEPEST: Final = 32


def nemo_rl(source: File | str | Mapping[str, Any], overrides: Sequence[str] = ()) -> Configuration:
    """NeMo RL's configuration in a file or a mapping, its parents merged.

    Raises:
        InputError: unreadable, not YAML, parents in a circle, or an override that does not apply.
    """
    _register_resolvers()
    if isinstance(source, Mapping):
        return _from_mapping(source, overrides)
    config, origins = _inherit(File(source), ())
    return _overridden(config, origins, overrides, File(source).name)


def composed(source: File | str | Mapping[str, Any], overrides: Sequence[str] = ()) -> Configuration:
    """A configuration that Hydra has composed, in a file or a mapping.

    Raises:
        InputError: unreadable, not YAML, not composed, or an override that does not apply.
    """
    if isinstance(source, Mapping):
        return _from_mapping(source, overrides)
    path = File(source)
    config = _read(path)
    _refuse_defaults(config, path.name)
    return _overridden(config, _origins(config, path.name), overrides, path.name)


def _from_mapping(source: Mapping[str, Any], overrides: Sequence[str]) -> Configuration:
    plain: Any = OmegaConf.to_container(source, resolve=False) if OmegaConf.is_config(source) else dict(source)
    try:
        config = OmegaConf.create(plain)
    except (OmegaConfBaseException, RecursionError) as error:
        raise _not_a_configuration(MAPPING, " ".join(str(error).split())) from None
    _refuse_defaults(config, MAPPING)
    return _overridden(config, _origins(config, MAPPING), overrides, MAPPING)


def _overridden(config: DictConfig, origins: Mapping[Path, str], overrides: Sequence[str], name: str) -> Configuration:
    set_there = override_room.apply(config, overrides)
    return resolved(config, name=name, origins={**origins, **set_there})


def _inherit(path: File, below: tuple[File, ...]) -> tuple[DictConfig, dict[Path, str]]:
    if path.resolve() in below or len(below) > _DEEPEST:
        raise InputError(
            f"{path.name}: defaults",
            found=" → ".join([file.name for file in below] + [path.name]),
            accepted="parents that end somewhere",
            next_step="Break the circle.",
        )
    config = _read(path)
    origins: dict[Path, str] = {}
    if "defaults" in config:
        merged = OmegaConf.create({})
        for parent in _parents(config.pop("defaults"), path):
            inherited, theirs = _inherit(parent, (*below, path.resolve()))
            merged = _merge(merged, inherited, path.name)
            origins |= theirs
        origins |= _origins(config, path.name)
        return _merge(merged, config, path.name), origins
    return config, _origins(config, path.name)


def _parents(defaults: Any, path: File) -> list[File]:
    named = [defaults] if isinstance(defaults, str) else list(defaults) if isinstance(defaults, ListConfig) else []
    if not named or not all(isinstance(parent, str) for parent in named):
        raise InputError(
            f"{path.name}: defaults",
            found=repr(defaults)[:120],
            accepted="the path of a YAML file, or a list of them",
            next_step="Name the parents by path, relative to this file.",
        )
    return [path.parent / parent for parent in named]


def _merge(base: DictConfig, own: DictConfig, name: str) -> DictConfig:
    """As NeMo RL's ``merge_with_override``, whose ``_override_`` is looked for at the top level alone."""
    try:
        for key in list(own.keys()):
            if isinstance(own[key], DictConfig) and own[key].get("_override_", False):
                own[key].pop("_override_")
                base.pop(key, None)
        merged = OmegaConf.merge(base, own)
    except OmegaConfBaseException as error:
        raise _not_a_configuration(name, " ".join(str(error).split())) from None
    assert isinstance(merged, DictConfig)  # noqa: S101  # merging two tables makes a table
    return merged


def _read(path: File) -> DictConfig:
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise InputError(
            str(path),
            found=getattr(error, "strerror", None) or str(error),
            accepted="a readable YAML file",
            next_step="Check the path.",
        ) from None
    if len(content) > _LARGEST:
        raise _not_a_configuration(path.name, f"more than {_LARGEST} bytes")
    try:
        config = OmegaConf.load(io.StringIO(content.decode("utf-8")))
    except (yaml.YAMLError, OmegaConfBaseException, OSError, ValueError, RecursionError) as error:
        # OSError is what OmegaConf raises for a file that holds a single number.
        raise _not_a_configuration(path.name, " ".join(str(error).split())) from None
    if not isinstance(config, DictConfig):
        raise _not_a_configuration(path.name, "a list")
    return config


def _origins(config: DictConfig, name: str) -> dict[Path, str]:
    written: Any = OmegaConf.to_container(config, resolve=False)
    return dict.fromkeys(leaves(written), name)


def _refuse_defaults(config: DictConfig, name: str) -> None:
    if "defaults" in config:
        raise InputError(
            f"{name}: defaults",
            found="parents that have not been merged",
            accepted="a composed configuration",
            next_step="Give NeMo RL's as a file, beside its parents; let Hydra print verl's: "
            "python -m verl.trainer.main_ppo … --cfg job > composed.yaml",
        )


def _not_a_configuration(name: str, found: str) -> InputError:
    return InputError(
        name, found=found[:240], accepted="a table in YAML, as the framework reads it", next_step="Mend the file."
    )


def _register_resolvers() -> None:
    """NeMo RL's own resolvers (``register_omegaconf_resolvers``), unless it has registered them itself."""
    renamed = Version(omegaconf.__version__) >= Version("2.4.0.dev0")  # before, the one name was an older function's
    register = OmegaConf.register_resolver if renamed else OmegaConf.register_new_resolver
    for name, compute in _RESOLVERS.items():
        if not OmegaConf.has_resolver(name):
            register(name, compute)


def _add(left: Any, right: Any) -> Any:
    return left + right


def _subtract(left: Any, right: Any) -> Any:
    return left - right


def _multiply(left: Any, right: Any) -> Any:
    return left * right


def _divide(left: Any, right: Any) -> Any:
    return left / right


def _larger(left: Any, right: Any) -> Any:
    return max(left, right)


_RESOLVERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "max": _larger,
}
