"""What the request gate adds to a request: the gate alone, and inside the real ``vllm serve``.

``python bench/gate.py [--requests 100]`` prints one JSON line.  *over_parsing* is the time of the gate alone over the
time of ``json.loads`` on the same body, which no gate can do without.  With ``SAMEBITS_VLLM_PYTHON`` naming the
interpreter of an environment with vLLM, *over_ungated* is the latency with both of the gate's checks over that without,
requests taking turns on one server (medians, of the differences between neighbours): one token, the worst case for a
ratio, and 64, of a model so tiny that vLLM's own overhead is nearly all of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = ROOT / "tests" / "engine" / "vllm"  # the tests' own model and command line
UNGATED = b"x-bench-ungated"
PATH = "/v1/completions"
BODY = {
    "prompt": [5, 6, 7, 8] * 8,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "seed": 7,
}
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_ATTN_SPLIT_KV": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
ARGUMENTS = (
    "--dtype=float32",
    "--enforce-eager",
    "--no-enable-prefix-caching",
    "--max-model-len=512",
    "--max-num-batched-tokens=1024",
    "--host=127.0.0.1",
    "--disable-uvicorn-access-log",
    "--middleware=gate.Switched",
)


class Switched:
    """Middleware for this benchmark alone: the gate, or for a request with a header of its own nothing at all."""

    def __init__(self, app: Any) -> None:
        from samebits.engine.vllm.http import Gate  # noqa: PLC0415 - only there where vLLM is

        self._app, self._gate = app, Gate(app)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if any(name == UNGATED for name, _ in scope.get("headers", ())):
            scope["app"].state.engine_client.__dict__.pop("generate", None)  # the guard comes back with the gate
            await self._app(scope, receive, send)
        else:
            await self._gate(scope, receive, send)


def median(work: Any, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def alone(body: dict[str, Any], rounds: int) -> dict[str, float]:
    """The gate in front of a server that does nothing."""
    from samebits.gate.http import Gate  # noqa: PLC0415 - this file is loaded by the server as well

    content = json.dumps(body).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    message = {"type": "http.request", "body": content, "more_body": False}
    reached = []

    async def server(_scope: Any, receive: Any, _send: Any) -> None:
        reached.append((await receive())["body"])

    async def receive() -> dict[str, Any]:
        return message

    async def refused(sent: dict[str, Any]) -> None:
        raise AssertionError(sent)

    gate = Gate(server)
    loop = asyncio.new_event_loop()
    gated = median(lambda: loop.run_until_complete(gate(scope, receive, refused)), rounds)
    bare = median(lambda: loop.run_until_complete(server(scope, receive, refused)), rounds)
    loop.close()
    parsing = median(lambda: json.loads(content), rounds)
    return {
        "bytes": len(content),
        "added_microseconds": round((gated - bare) * 1e6, 1),
        "over_parsing": round((gated - bare) / parsing, 2),
    }


def latencies(port: int, tokens: int, rounds: int) -> dict[str, float]:
    """One request after the other, gated and not by turns, over one connection."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    content = json.dumps({**BODY, "max_tokens": tokens})
    times: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * rounds + 10):
        gated = turn % 2 == 0
        headers = {"content-type": "application/json"} | ({} if gated else {UNGATED.decode(): "1"})
        start = time.perf_counter()
        connection.request("POST", PATH, content, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:  # noqa: PLR2004 - HTTP
            raise RuntimeError(answer)
        if turn >= 10:  # noqa: PLR2004 - warm by then
            times[gated].append(time.perf_counter() - start)
    connection.close()
    ungated = statistics.median(times[False])
    added = statistics.median(on - off for on, off in zip(times[True], times[False], strict=True))
    return {
        "ungated_milliseconds": round(ungated * 1e3, 2),
        "added_microseconds": round(added * 1e6),
        "over_ungated": round(1 + added / ungated, 3),
    }


def served(python: str, rounds: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        paths = (os.environ.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT / "bench"))
        environment = {**os.environ, **VARIABLES, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        subprocess.run([python, LAUNCH / "make_model.py", name], env=environment, check=True, capture_output=True)
        command = [python, LAUNCH / "serve.py", name, f"--port={port}", *ARGUMENTS]
        log = Path(name) / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(command, env=environment, stdout=stream, stderr=subprocess.STDOUT)
        try:
            wait(port, process, log)
            return {f"{tokens}_tokens": latencies(port, tokens, rounds) for tokens in (1, 64)}
        finally:
            process.terminate()
            process.wait(timeout=60)


def wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:  # noqa: PLR2004 - HTTP
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(log.read_text(errors="replace")[-2000:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    python = os.environ.get("SAMEBITS_VLLM_PYTHON")
    line = {
        "benchmark": "gate",
        "small": alone({**BODY, "max_tokens": 16}, 20 * options.requests),
        "megabyte": alone({**BODY, "max_tokens": 16, "prompt": [12345] * 150_000}, 20),
        "served": served(python, options.requests) if python else "not run: SAMEBITS_VLLM_PYTHON names no interpreter",
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
