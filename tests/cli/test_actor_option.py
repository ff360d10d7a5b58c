"""``certify --actor``: which recipe it takes, and what it says where there is none."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from .test_command_line import run


def test_a_recipe_without_such_a_variant():
    ended = run("certify", "ds4-small", "--actor", "megatron", "--json")
    assert ended.returncode == 2
    said = json.loads(ended.stdout)
    assert (said["error"], said["field"]) == ("input", "--actor")
    assert said["accepted"] == "dense-qwen3-small-megatron, dense-smollm2-megatron"


@pytest.mark.skipif(find_spec("megatron") is not None, reason="Megatron-core is installed here")
def test_without_megatron_nothing_starts(tmp_path):
    ended = run("certify", "dense-qwen3-small", "--actor", "megatron", "--unsigned", "--runs", tmp_path, "--json")
    assert ended.returncode == 2
    said = json.loads(ended.stdout)
    assert (said["error"], said["field"]) == ("row", "row cpu-megatron-0.16: requirements")
    assert said["found"] == "megatron-core absent for 0.16.1"
