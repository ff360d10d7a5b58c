from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def small():
    """The seeded recipe as data: a test changes one thing and parses it again."""
    return tomllib.loads((ROOT / "recipes" / "dense-qwen3-small.toml").read_text())
