"""Which kernel libraries a process has loaded."""

import subprocess
import sys

from samebits.environment import loaded
from samebits.hashing import sha256_file


def test_libraries_of_folders_that_compute_are_named_by_path_and_digest(tmp_path, monkeypatch):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    for path in (site / "torch/lib/libtorch.so.2", site / "numpy/core.so", elsewhere / "torch/lib/libother.so"):
        path.parent.mkdir(parents=True)
        path.write_bytes(path.name.encode())
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 08:01 42                         "
    paths = [
        site / "torch/lib/libtorch.so.2",
        site / "torch/lib/libtorch.so.2",
        site / "numpy/core.so",
        elsewhere / "torch/lib/libother.so",
        site / "torch/lib/libgone.so (deleted)",
    ]
    maps.write_text("".join(f"{line}{path}\n" for path in paths) + "7f02-7f03 rw-p 00000000 00:00 0 \n")
    monkeypatch.setattr(loaded, "MAPS", maps)
    monkeypatch.setattr(sys, "path", ["", str(site)])
    expected = sha256_file(site / "torch/lib/libtorch.so.2")
    assert loaded.loaded_libraries() == {"torch/lib/libtorch.so.2": expected}


def test_torch_is_found_where_it_is_loaded():
    program = "import torch, samebits.environment as e; print('\\n'.join(e.loaded_libraries()))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "torch/lib/libtorch_cpu.so" in printed.splitlines()
