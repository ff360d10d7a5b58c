"""A spool with ten thousand messages: each is answered, in order, and nothing else is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from samebits.spool.folder import LIMIT
from samebits.spool.message import SHUTDOWN, Call, Reply, decode, encode

MESSAGES = 10_000


def test_ten_thousand_calls_are_answered(tmp_path: Path, program: Path) -> None:
    for part in ("requests", "replies", "progress"):
        (tmp_path / part).mkdir()
    for number in range(1, MESSAGES + 1):
        call = Call(id=number, method="echo", params={"n": number})
        (tmp_path / "requests" / f"{number:06}.json").write_bytes(encode(call, limit=LIMIT))
    last = Call(id=MESSAGES + 1, method=SHUTDOWN, params={})
    (tmp_path / "requests" / f"{MESSAGES + 1:06}.json").write_bytes(encode(last, limit=LIMIT))
    ended = subprocess.run([sys.executable, str(program), str(tmp_path)], check=False, timeout=300)
    assert ended.returncode == 0
    replies = sorted((tmp_path / "replies").iterdir())
    assert [path.name for path in replies] == [f"{number:06}.json" for number in range(1, MESSAGES + 2)]
    for number, path in enumerate(replies[:-1], 1):
        reply = decode(Reply, path.read_bytes(), number=number, source=path.name)
        assert (reply.result, reply.failure) == ({"n": number}, None)
    assert json.loads((tmp_path / "heartbeat.json").read_bytes())["call"] in {0, MESSAGES + 1}
