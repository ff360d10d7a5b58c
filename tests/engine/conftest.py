from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine_crowd import MODEL, build
from samebits.engine.native import NativeEngine
from samebits.models import save_folder, seeded_config, seeded_weights


@pytest.fixture(autouse=True)
def leave_torch_as_it_was() -> Iterator[None]:
    """The engine sets up torch for its whole process, which here is everybody's."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = fill


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_folder(folder, seeded_config(MODEL), seeded_weights(MODEL))
    return folder


@pytest.fixture
def engine(model_folder: Path) -> Callable[..., NativeEngine]:
    def make(op_set: str = "native", folder: Path = model_folder, **changed: Any) -> NativeEngine:
        return build(folder, op_set, **changed)

    return make
