"""What a certificate says, as a closed model.

``findings`` is the oracle's and is *derived*: whoever has the evidence computes it again.  Everything else is
*attested*: true as far as the signer is to be believed.
"""
# ruff: noqa: N815 -- fields are named as they stand in the JSON

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from samebits.certificate.strict_json import invalid
from samebits.errors import InputError, InvalidCertificate
from samebits.schema import Closed
from samebits.schema import parse as parse_closed

DERIVED: Final = ("findings",)
"""Fields that verification computes again from the evidence; the rest of :class:`Predicate` is attested."""
VERDICTS: Final = ("passed", "failed", "vacuous", "over_budget", "refused")

# Words for one machine or person; a certificate is published.
_PRIVATE_WORDS = frozenset({"host", "hostname", "nodename", "fqdn", "user", "username", "uuid", "serial"})
# No control characters: these end up on a terminal.
_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,4096}")
_GPU_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-")
_DIGEST_LENGTHS = {"sha256": (64,), "sha512": (128,), "gitCommit": (40, 64), "gitTree": (40, 64)}


def _real_time(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("an RFC 3339 time in UTC that exists, for instance 2026-01-31T23:59:59Z") from None
    return text


def _digest_set(digests: dict[str, str]) -> dict[str, str]:
    for name, value in digests.items():
        if name not in _DIGEST_LENGTHS:
            raise ValueError(f"digests named {', '.join(_DIGEST_LENGTHS)}")
        if len(value) not in _DIGEST_LENGTHS[name] or not re.fullmatch("[0-9a-f]*", value):
            raise ValueError(f"lower-case hex, for {name} {' or '.join(map(str, _DIGEST_LENGTHS[name]))} digits")
    return digests


def _texts(value: Any) -> Any:
    # By hand: where both halves of a union fail, pydantic puts names of its own into the path.
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and _TEXT.fullmatch(item) for item in items):
        raise ValueError("text or a list of texts, 1 to 4096 characters each and no control characters")
    return value


def _nothing_private(environment: dict[str, str | list[str]]) -> dict[str, str | list[str]]:
    for key, value in environment.items():
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()  # hostName, HOST_NAME and host-name alike
        if _PRIVATE_WORDS & set(re.split(r"[^a-z0-9]+", words)):
            raise ValueError(f"no names of hosts or users, no serial numbers (key {key!r})")
        if any(_GPU_UUID.search(text) for text in ([value] if isinstance(value, str) else value)):
            raise ValueError(f"no GPU UUIDs (key {key!r})")
    return environment


def _with_verdict(findings: dict[str, Any]) -> dict[str, Any]:
    if findings.get("verdict") not in VERDICTS:
        raise ValueError(f"an object whose 'verdict' is one of {', '.join(VERDICTS)}")
    return findings


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+/@-]{0,255}$")]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=4096)]
Texts = Annotated[str | list[str], BeforeValidator(_texts)]
Utc = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"),
    AfterValidator(_real_time),
]


class Material(Closed):
    """The row or the recipe: its id, and the digest of what it stands for."""

    id: Name
    sha256: Sha256


class Kit(Closed):
    """The kit that ran.  Verification reports it and never compares it with its own: certificates outlive kits."""

    version: Name
    sha256: Sha256


class Resource(Closed):
    """One part of the configuration, as an in-toto ResourceDescriptor (attestation/spec/v1/resource_descriptor.md)."""

    name: Name
    digest: Annotated[dict[str, str], Field(min_length=1), AfterValidator(_digest_set)]
    """``sha256`` or ``sha512`` of a file; ``gitCommit`` and ``gitTree`` of a repository."""
    uri: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,2048}$")] = ""
    """Where it came from; left out of the JSON when nothing was said."""
    annotations: dict[Name, Text] = Field(default_factory=dict)


class Run(Closed):
    """When and by what it was run."""

    id: Name
    startedOn: Utc
    finishedOn: Utc
    producer: Text
    """The program and its version."""
    resumed: bool
    """Whether it was interrupted and taken up again."""

    @model_validator(mode="after")
    def _in_order(self) -> Run:
        if datetime.fromisoformat(self.finishedOn) < datetime.fromisoformat(self.startedOn):
            raise ValueError("a finishedOn that is not before startedOn")
        return self


class Reproduces(Closed):
    """The certificate that this run set out to reproduce."""

    certificateSha256: Sha256
    """sha256 of its statement, the bytes that were signed; not of the file around them, which anyone can reformat."""
    keyid: Sha256


class Predicate(Closed):
    """The predicate ``urn:samebits:certificate:v1``."""

    row: Material
    recipe: Material
    kit: Kit
    configuration: list[Resource]
    environment: Annotated[dict[Name, Texts], AfterValidator(_nothing_private)]
    """What was found on the machine: GPU name, driver, CUDA, Python, allow-listed variables.  Nothing that names it."""
    run: Run
    seeds: dict[Name, Text]
    """As decimal text: seeds may be larger than 2^53."""
    reproduces: Reproduces | None
    limitations: list[Text]
    """What this certificate does not show, in sentences."""
    findings: Annotated[dict[str, Any], AfterValidator(_with_verdict)]
    """The oracle's; of its content only ``verdict`` is known here."""

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object; :func:`parse` gives the same model back."""
        return self.model_dump(exclude_unset=True)


def parse(data: Mapping[str, Any], *, source: str = "predicate") -> Predicate:
    """The predicate in ``data``.

    Raises:
        InvalidCertificate: the first fault; ``source`` begins its path.
    """
    try:
        return parse_closed(Predicate, data, source=source)
    except InputError as error:
        raise _as_invalid(error) from None


def _as_invalid(error: InputError) -> InvalidCertificate:
    return invalid(error.field, found=error.found, accepted=error.accepted)
