"""The real vLLM, in its own environment: ``SAMEBITS_VLLM_PYTHON`` names its interpreter."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import tarfile
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

import samebits

HERE = Path(__file__).parent
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_ATTN_SPLIT_KV": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # the routes that change weights are really there
}
ARGUMENTS = (
    "--served-model-name=tiny",
    "--dtype=float32",
    "--enforce-eager",
    "--no-enable-prefix-caching",
    "--no-enable-chunked-prefill",
    "--max-num-batched-tokens=1024",
    "--max-model-len=512",
    "--logprobs-mode=raw_logprobs",
    "--enable-scale-out",
    "--enable-auto-tool-choice",  # strict tools then constrain the answer, behind the middleware
    "--tool-call-parser=hermes",
    "--host=127.0.0.1",
    "--middleware=samebits.engine.vllm.http.Gate",
)
PATIENCE = 300
"""Seconds that the server may take to start on two busy cores."""


class Server:
    """A running ``vllm serve``, asked with the standard library's client, which changes nothing on the way."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method, path, body=None, headers=None, *, chunked=False):
        """Status and content of the answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, headers or {}, encode_chunked=chunked)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def post(self, path, body, headers=None):
        """Status and parsed answer to a JSON body."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, answer = self.ask("POST", path, content, {"content-type": "application/json", **(headers or {})})
        return status, json.loads(answer) if answer.startswith(b"{") else answer.decode()


@pytest.fixture
def made_release(tmp_path):
    """A source distribution with test modules in place of vLLM's own."""

    def make(modules):
        path = tmp_path / "vllm-0.26.0.tar.gz"
        files = {f"tests/v1/determinism/{name}.py": text for name, text in modules.items()}
        with tarfile.open(path, "w:gz") as archive:
            for name, text in {**files, "vllm/__init__.py": "raise SystemExit"}.items():
                member = tarfile.TarInfo(f"vllm-0.26.0/{name}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        return path

    return make


@pytest.fixture(scope="session")
def vllm_python():
    found = os.environ.get("SAMEBITS_VLLM_PYTHON")
    if not found:
        pytest.skip("SAMEBITS_VLLM_PYTHON names no interpreter of an environment with vLLM")
    return found


@pytest.fixture(scope="session")
def vllm_environment():
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(samebits.__file__).parents[1])]
    return {**os.environ, **VARIABLES, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture(scope="session")
def tiny_model(vllm_python, vllm_environment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny-qwen3")
    subprocess.run([vllm_python, HERE / "make_model.py", folder], env=vllm_environment, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def server(vllm_python, vllm_environment, tiny_model, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [vllm_python, HERE / "serve.py", tiny_model, f"--port={port}", *ARGUMENTS],
            env=vllm_environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        wait(Server(port), process, log)
        yield Server(port)
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait(server, process, log):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            if server.ask("GET", "/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"vllm serve did not start; the end of its log:\n{log.read_text(errors='replace')[-4000:]}")
