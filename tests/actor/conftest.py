from __future__ import annotations

import pytest
import torch
import torch.utils.deterministic

from samebits.actor.determinism import be_deterministic

from . import tiny


@pytest.fixture(autouse=True)
def deterministic():
    before = torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory
    be_deterministic(1)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(before[0])
    torch.utils.deterministic.fill_uninitialized_memory = before[1]


@pytest.fixture(scope="session")
def model():
    return tiny.model()


@pytest.fixture
def actor(model):
    return tiny.actor(model)


@pytest.fixture
def trajectories():
    return tiny.trajectories()
