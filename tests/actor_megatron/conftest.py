from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
import torch.utils.deterministic

from samebits.actor.determinism import be_deterministic

REASON = "Megatron-core is not installed here; `nox -s tests-megatron` installs what lock/cpu-megatron-0.16.txt pins"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("megatron") is None:
        for item in items:
            if item.get_closest_marker("megatron"):
                item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture(autouse=True)
def deterministic():
    before = torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory
    be_deterministic(1)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(before[0])
    torch.utils.deterministic.fill_uninitialized_memory = before[1]
