"""The import arrows: a room imports only from rooms below its own level, torch only where it is allowed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "samebits"

LEVELS = {
    0: {"errors", "hashing"},
    1: {"bits", "observed", "schema", "traced", "environment"},
    2: {"ops", "pins", "recipe", "spool"},
    3: {"models", "integrity", "oracle", "gate", "certificate", "workload"},
    4: {"verify", "engine", "actor", "adapters"},
    5: {"certify", "containers"},
    6: {"replay", "explain"},
    7: {"cli"},
}
LEVEL_OF = {room: level for level, rooms in LEVELS.items() for room in rooms}
TORCH_ROOMS = {"engine", "actor", "models", "ops", "integrity"}
PROTOCOLS = {"engine/protocol.py", "actor/protocol.py"}  # stdlib only, so that the torch-free parent can import them


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        room = relative.parts[0].removesuffix(".py")
        if room not in {"__init__", "__main__"}:
            yield relative.as_posix(), room, ast.parse(path.read_text())


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield node.module or ""


def test_every_room_has_a_level() -> None:
    assert {room for _, room, _ in modules()} == set(LEVEL_OF)


@pytest.mark.parametrize(
    ("file", "room", "tree"), list(modules()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_arrows_point_down(file: str, room: str, tree: ast.Module) -> None:
    for name in imported(tree):
        parts = name.split(".")
        if parts[0] == "samebits" and len(parts) > 1 and parts[1] != room:
            below = LEVEL_OF[parts[1]] < LEVEL_OF[room]
            assert below, f"{file} (level {LEVEL_OF[room]}) imports {name} (level {LEVEL_OF[parts[1]]})"
        if parts[0] in {"torch", "transformers", "safetensors"}:
            assert room in TORCH_ROOMS, f"{file} imports {name}; torch belongs in {sorted(TORCH_ROOMS)}"
            assert file not in PROTOCOLS, f"{file} imports {name}; protocols are stdlib only"
        if parts[0] == "vllm":
            assert file.startswith(("engine/vllm", "ops/vllm")), f"{file} imports {name}"
        if parts[0] == "megatron":
            assert file == "actor/megatron/model.py", f"{file} imports {name}"


def test_what_reads_a_certificate_does_not_load_torch() -> None:
    code = "import sys, samebits.cli, samebits.verify, samebits.certify; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
