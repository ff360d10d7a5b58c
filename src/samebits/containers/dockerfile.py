"""Dockerfiles, read for what they leave open: a base, a copied image or an installation that tomorrow is another one.

An allowlist, like the gate: an installation that is not known to be pinned is a fault, and so is a step with a network
that is not known to need one.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dockerfile_parse import DockerfileParser

from samebits.containers.reference import is_pinned

CONTEXTS: Final = frozenset({"wheels"})
"""Named build contexts: folders whose files are held against the lock before the build."""

_INSTRUCTIONS: Final = frozenset(
    "ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL STOPSIGNAL USER VOLUME WORKDIR".split()  # noqa: SIM905 - a table of words
)
"""ADD is not among them: it fetches from wherever."""

_INSTALLER: Final = re.compile(
    r"""\b(?:
        (?P<pip>pip[0-9.]*\s+(?:install|download|wheel)|uv\s+(?:pip\s+(?:install|sync)|sync|add|tool|run)|uvx)
      | (?P<apt>(?:apt|apt-get|aptitude)\s+(?:-\S+\s+(?:\S+\s+)??)*install)
      | (?P<other>curl|wget|git\s+(?:\S+\s+)*?(?:clone|fetch|pull|submodule)|conda|mamba|npm|yarn|pnpm|pipx|poetry
                 |cargo\s+install|go\s+install|gem\s+install|apk\s+add|dnf|yum|microdnf|zypper|easy_install
                 |ensurepip\s+--upgrade|python\S*\s+setup\.py)
    )\b""",
    re.VERBOSE,
)
_SNAPSHOT: Final = re.compile(r"--snapshot[= ][0-9]{8}T[0-9]{6}Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is left open."""

    line: int
    """Counted from 1."""
    found: str
    accepted: str

    def __str__(self) -> str:
        return f"line {self.line}: found {self.found}; accepted: {self.accepted}"


def faults(text: str) -> list[Fault]:
    """Everything that a Dockerfile leaves open, in its order; none means that it is pinned."""
    reader = _Reader()
    for step in _steps(text):
        reader.read(step["instruction"], step["value"], step["startline"] + 1)
    return reader.finish()


class _Reader:
    """One Dockerfile, read from top to bottom."""

    def __init__(self) -> None:
        self._found: list[Fault] = []
        self._stages: set[str] = set()
        self._user = ""
        self._line = 1

    def read(self, name: str, value: str, line: int) -> None:
        self._line = line
        if name == "COMMENT":
            if re.match(r"\s*syntax\s*=", value):
                self._fault("a syntax directive", "the builder's own frontend")
        elif name not in _INSTRUCTIONS:
            self._fault(f"the instruction {name}", ", ".join(sorted(_INSTRUCTIONS)))
        elif name == "FROM":
            self._from(value)
        elif name == "USER":
            self._user = value
        elif name == "COPY":
            self._found += _sources(value, self._stages, line, "COPY --from")
        elif name == "RUN":
            self._found += _run(value, self._stages, line)

    def finish(self) -> list[Fault]:
        if not re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", self._user):
            self._fault(f"USER {self._user or '(none)'}", "a last USER UID:GID other than 0")
        return self._found

    def _from(self, value: str) -> None:
        image, stage = _from(value)
        if image not in self._stages and not is_pinned(image):
            self._fault(f"FROM {image}", "NAME:TAG@sha256:…, or an earlier stage")
        self._stages.add(stage)
        self._user = ""

    def _fault(self, found: str, accepted: str) -> None:
        self._found.append(Fault(line=self._line, found=found, accepted=accepted))


def base(text: str) -> str:
    """The image of the last FROM that names none of the file's own stages; empty if there is none."""
    stages: set[str] = set()
    found = ""
    for step in _steps(text):
        if step["instruction"] == "FROM":
            image, stage = _from(step["value"])
            found = found if image in stages else image
            stages.add(stage)
    return found


def _steps(text: str) -> list[dict[str, Any]]:
    structure: list[dict[str, Any]] = DockerfileParser(fileobj=io.BytesIO(text.encode())).structure
    return structure


def _from(value: str) -> tuple[str, str]:
    words = [word for word in value.split() if not word.startswith("--")]
    image = words[0] if words else ""
    return image, words[2] if len(words) > 2 and words[1].upper() == "AS" else ""  # noqa: PLR2004 - FROM image AS stage


def _sources(value: str, stages: set[str], line: int, what: str) -> Iterator[Fault]:
    for source in re.findall(r"(?:--|,|=)from=([^\s,]+)", f" {value}"):
        if source not in stages | CONTEXTS and not is_pinned(source):
            accepted = f"a stage, NAME:TAG@sha256:…, or {', '.join(sorted(CONTEXTS))}"
            yield Fault(line=line, found=f"{what}={source}", accepted=accepted)


def _run(value: str, stages: set[str], line: int) -> Iterator[Fault]:
    if value.startswith("[") or "<<" in value:
        yield Fault(line=line, found="RUN as a list or a here-document", accepted="a plain shell command")
        return
    options = re.match(r"(?:--\S+\s+)*", value)
    flags = options.group(0) if options else ""
    for mount in re.findall(r"--mount=(\S+)", flags):
        yield from _sources(f",{mount}", stages, line, "RUN --mount=from")
    commands = [part.strip() for part in re.split(r"&&|\|\||;|\||\n|\bdo\b|\bthen\b", value[len(flags) :])]
    for command in commands:
        yield from _command(command, "--network=none" in flags.split(), line)


def _command(command: str, offline: bool, line: int) -> Iterator[Fault]:
    match = _INSTALLER.search(command)
    if match is None:
        return
    said = command[:100]
    words = _words(command[match.start() :])
    if match["pip"]:
        if "--require-hashes" not in words or not match["pip"].startswith("pip"):
            yield Fault(line=line, found=said, accepted="pip install --require-hashes")
        elif not offline or not {"--no-index", "--no-deps"} <= set(words):
            yield Fault(line=line, found=said, accepted="RUN --network=none … pip install --no-index --no-deps")
    elif match["apt"]:
        packages = words[words.index("install") + 1 :] if "install" in words else []
        unpinned = [word for word in packages if not word.startswith("-") and "=" not in word]
        if unpinned or not _SNAPSHOT.search(command):
            accepted = "apt-get install --snapshot=YYYYMMDDTHHMMSSZ NAME=VERSION…"
            yield Fault(line=line, found=said, accepted=accepted)
    else:
        yield Fault(line=line, found=said, accepted="wheels and packages that are known by digest before the build")


def _words(command: str) -> Sequence[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
