from __future__ import annotations

import json

import pytest

TEMPLATE = """{% for message in messages %}
{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}"""


@pytest.fixture
def chat_folder(tmp_path):
    """A model folder with a chat tokenizer of one token per character."""
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    characters = sorted(set("abcdefghijklmnopqrstuvwxyz0123456789 +-=?.\n"))
    vocabulary = {token: index for index, token in enumerate(special + characters)}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, token in enumerate(special)
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False},
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "?"},
    }
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "generation_config.json").write_text('{"eos_token_id": 0}')
    return folder
