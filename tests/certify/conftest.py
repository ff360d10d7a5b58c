from __future__ import annotations

from pathlib import Path

import pytest

from .cli import TINY, Ended, samebits


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's keys are."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, home: Path) -> tuple[Ended, Path]:
    """One certification from start to end: how the command ended, and its run folder."""
    runs = tmp_path_factory.mktemp("runs")
    ended = samebits("certify", TINY, "--runs", runs, "--run-id", "whole", "--json", home=home)
    return ended, runs / "whole"
