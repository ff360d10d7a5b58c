"""From a conversation to token ids and back, without torch and without transformers.

A model folder with a ``tokenizer.json`` brings its own tokenizer and chat template; a seeded one reads bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from samebits.errors import InputError
from samebits.workload.requirements import require

Message: TypeAlias = Mapping[str, str]
"""``{"role": "user" | "assistant" | "system", "content": …}``."""


class Tokenizer(Protocol):
    """What a workload needs of a tokenizer."""

    stop_token_ids: tuple[int, ...]

    def encode(self, conversation: Sequence[Message]) -> list[int]:
        """Ids of the conversation up to where the model's answer begins."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of generated ids; stop tokens and other special ones leave no trace."""


class ChatTokenizer:
    """A Hugging Face ``tokenizer.json`` with its ``chat_template.jinja``.

    Raises:
        InputError: a file of the folder is missing, unreadable, or not what its name says.
        MachineError: ``tokenizers`` or ``jinja2`` is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.stop_token_ids = _stop_tokens(_read_json(folder / "generation_config.json"), folder)
        path = folder / "tokenizer.json"
        text = _read(path)
        try:
            self._tokenizer = require("tokenizers", "tokenizers").Tokenizer.from_str(text)
        except Exception as error:  # noqa: BLE001 - the library raises bare Exception
            _unusable(path, f"not a tokenizer ({error})", "a Hugging Face tokenizer.json")
        # The options are those under which transformers renders, or white space would differ.
        sandbox = require("jinja2.sandbox", "jinja2").ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True
        )
        self._template = sandbox.from_string(_read(folder / "chat_template.jinja"))

    def encode(self, conversation: Sequence[Message]) -> list[int]:
        """Through the chat template; the template writes all special tokens itself."""
        text = self._template.render(messages=list(conversation), add_generation_prompt=True)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens; bytes that are not UTF-8 become U+FFFD."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return text


class ByteTokenizer:
    """Ids 0–255 are bytes of UTF-8, 256 ends an answer; a seeded model never trained on text, so nothing is lost.

    A large vocabulary says the bytes over and over, so that what it answers is not all unreadable and earns rewards
    that differ.

    Raises:
        InputError: the vocabulary has no room for the stop token.
    """

    STOP: Final = 256
    LARGE: Final = 4096

    def __init__(self, vocab_size: int) -> None:
        if vocab_size <= self.STOP:
            raise InputError(
                "model.shape.vocab_size",
                found=vocab_size,
                accepted=f"at least {self.STOP + 1}: 256 bytes and a stop token",
                next_step="Raise it.",
            )
        self.stop_token_ids: tuple[int, ...] = (self.STOP,)
        self._repeats = vocab_size >= self.LARGE

    def encode(self, conversation: Sequence[Message]) -> list[int]:
        """Each message on a line of its own."""
        return [byte for message in conversation for byte in f"{message['content']}\n".encode()]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Bytes that are not UTF-8, and ids that are no byte, become U+FFFD."""
        # 0xff occurs nowhere in UTF-8, so it decodes to one replacement character.
        data = bytes(
            token % self.STOP if token < self.STOP or self._repeats else 0xFF
            for token in token_ids
            if token != self.STOP
        )
        return data.decode(errors="replace")


def open_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder: its own, or bytes where it has none.

    Raises:
        InputError: the folder holds no usable model.
        MachineError: a package is not installed.
    """
    if (folder / "tokenizer.json").exists():
        return ChatTokenizer(folder)
    path = folder / "config.json"
    vocab_size = _read_json(path).get("vocab_size")
    if not isinstance(vocab_size, int):
        _unusable(path, f"vocab_size {vocab_size!r}", "a whole number")
    return ByteTokenizer(vocab_size)


def _stop_tokens(generation: Mapping[str, Any], folder: Path) -> tuple[int, ...]:
    """``eos_token_id`` is one id or a list of them."""
    stop = generation.get("eos_token_id")
    ids = stop if isinstance(stop, list) else [stop]
    if not ids or not all(isinstance(token, int) for token in ids):
        _unusable(folder / "generation_config.json", f"eos_token_id {stop!r}", "a token id, or a list of them")
    return tuple(ids)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read(path))
    except ValueError as error:
        _unusable(path, f"not JSON ({error})", "a JSON object")
    if not isinstance(value, dict):
        _unusable(path, f"a JSON {type(value).__name__}", "a JSON object")
    return value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        _unusable(path, error.strerror or "unreadable", "a file of a prepared model folder")
    except UnicodeDecodeError as error:
        _unusable(path, f"not UTF-8 ({error.reason})", "a text file")


def _unusable(path: Path, found: str, accepted: str) -> NoReturn:
    raise InputError(str(path), found=found, accepted=accepted, next_step="Prepare the model folder again.") from None
