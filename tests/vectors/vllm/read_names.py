"""Reads the names that the request gate must know out of an unpacked vLLM, without importing it.

``python read_names.py SITE_PACKAGES > VERSION.json``: the fields of ``SamplingParams``, those of the request classes
of the four routes that are judged, every route, and the keyword arguments of ``AsyncLLM.generate``.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

REQUESTS = {
    "completions": ("openai/completion/protocol.py", "CompletionRequest"),
    "chat completions": ("openai/chat_completion/protocol.py", "ChatCompletionRequest"),
    "responses": ("openai/responses/protocol.py", "ResponsesRequest"),
    "tokens in, tokens out": ("scale_out/token_in_token_out/protocol.py", "GenerateRequest"),
}
METHODS = {"get", "post", "put", "delete", "patch", "head", "options", "websocket"}


def fields(path: Path, name: str) -> list[str]:
    (found,) = [node for node in ast.parse(path.read_text()).body if getattr(node, "name", None) == name]
    return sorted(node.target.id for node in found.body if isinstance(node, ast.AnnAssign))


def text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def routes(folder: Path) -> list[str]:
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            where, how = text(node.args[0]), node.func.attr
            if where is None or not where.startswith("/"):
                continue
            if how in METHODS:
                found.add(f"{how.upper()} {where}")
            elif how == "add_api_route":
                (methods,) = [item.value for item in node.keywords if item.arg == "methods"]
                found |= {f"{text(method)} {where}" for method in methods.elts}
            elif how == "mount":
                found.add(f"MOUNT {where}")
    return sorted(found)


def arguments(path: Path) -> list[str]:
    (engine,) = [node for node in ast.parse(path.read_text()).body if getattr(node, "name", None) == "AsyncLLM"]
    (generate,) = [node for node in engine.body if getattr(node, "name", None) == "generate"]
    return sorted(argument.arg for argument in generate.args.kwonlyargs)


def main(site: Path) -> None:
    package = site / "vllm"
    names = {
        "sampling_params": fields(package / "sampling_params.py", "SamplingParams"),
        "requests": {name: fields(package / "entrypoints" / path, cls) for name, (path, cls) in REQUESTS.items()},
        "routes": routes(package / "entrypoints"),
        "generate": arguments(package / "v1" / "engine" / "async_llm.py"),
    }
    print(json.dumps(names, indent=1))  # noqa: T201 - a script


if __name__ == "__main__":
    main(Path(sys.argv[1]))
