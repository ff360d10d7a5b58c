"""A row of the certification matrix: a pinned stack, the hardware it runs on, and what its gate lets through.

Rows are TOML files under ``lock/``.  The sha256 of the file is the row's *material digest*; the hashed requirements
beside it are named in it by digest, so that it covers them too.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, Field

from samebits.pins.allow import Allowed
from samebits.schema import Closed


def _is_specifier(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError("a version specifier, for instance >=3.11,<3.15") from None
    return text


Identifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
Text = Annotated[str, Field(min_length=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
GitObject = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Version = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)*([a-z0-9.+-]*)$")]
Specifier = Annotated[str, AfterValidator(_is_specifier)]
Status = Literal["certified here", "never run"]


class Hardware(Closed):
    """What the row runs on. ``count`` accelerators of kind ``accelerator``; none on CPU rows."""

    arch: Literal["x86_64", "aarch64"]
    accelerator: Text
    """``none``, or the accelerator's name as its driver says it."""
    count: Annotated[int, Field(ge=0, le=4096)]
    cores: Annotated[int, Field(ge=1)]
    """CPU cores that the row's recipes need to end in the time they promise."""
    memory_gib: Annotated[int, Field(ge=1)]
    disk_gib: Annotated[int, Field(ge=1)]
    exact_with: list[str]
    """CPU features of the machines on which exactness was seen, by their /proc/cpuinfo names."""


class Switch(Closed):
    """The aligned switch: the one setting in which the control arm differs from the run (rule 11)."""

    name: Literal["op_set", "batch_invariant", "attention_split_kv"]
    aligned: str | bool
    control: str | bool


class Package(Closed):
    """One distribution whose version the row pins."""

    name: Text
    version: Version
    wheel_sha256: Sha256 | None = None
    """Of the one wheel there is; packages with a wheel per platform have theirs in the requirements."""
    kernels: bool = False
    """Whether its shared libraries compute: then each is hashed and held against the wheel's own record."""


class Build(Closed):
    """One accepted build of torch. A wheel differs by platform and Python, and so do its files."""

    version: Version
    python: Annotated[str, Field(pattern=r"^cp3[0-9]{1,2}$")]
    platform: Text
    wheel_sha256: Sha256 | None = None
    """None where only an installation was seen, whose wheel nobody can name."""
    content_sha256: Sha256
    """Digest over the installed files, see :mod:`samebits.pins.content`."""
    status: Status


class Repository(Closed):
    """Source the row is built from: a commit names history, the tree names the files."""

    name: Text
    url: Text
    commit: GitObject
    tree: GitObject | None = None
    """None where the records do not say."""


class Material(Closed):
    """One part of the stack that computes or moves numbers between GPUs, wherever it comes from.

    An image that ships it records its libraries' digests in its inventory; ``doctor`` reports both.
    """

    name: Text
    """``DeepEP``, ``NCCL``, …: what people call it."""
    within: Literal["requirements", "base image", "wheel"]
    """Who brings it. A wheel of its own is published, or built once from ``commit``, and then pinned by digest."""
    distribution: Text | None = None
    """Its name among the installed packages, if it is one."""
    version: Version | None = None
    url: Text | None = None
    commit: GitObject | None = None
    """Of the source; a release's tag, sdist and wheels may be built from different commits, so wheels have digests."""
    tree: GitObject | None = None
    wheel_sha256: Sha256 | None = None
    """Of the row's own architecture."""
    libraries: dict[Text, Sha256] = Field(default_factory=dict)
    """sha256 of shared libraries by file name; none where the image was never pulled."""


class Requirements(Closed):
    """The hashed requirements beside the row."""

    file: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*\.txt$")]
    sha256: Sha256


class Stack(Closed):
    """The environment of the row's workers, where it is not the kit's own: vLLM lives apart from the kit."""

    python: Specifier
    requirements: Requirements
    """Everything but torch, hashed; installed without resolving anything anew."""
    torch: Version
    """Installed first, by version alone; its build is one of ``torch_builds``."""
    in_base_image: bool = False
    """Whether the row's base image brings it: then the image installs nothing beside the kit."""


class Image(Closed):
    """The container image that the row's stack lives in, and how that stack is started there."""

    name: Text
    """What it is called, in words; it is built, not pulled."""
    dockerfile: Text
    """Where its recipe is published."""
    families: Annotated[list[Text], Field(min_length=1)]
    """Model families that the row is for."""
    variables: dict[str, str]
    settings: dict[str, str]
    layout: Text
    """How GPUs are divided among actor and rollout."""
    smallest: Text
    """The least that the stack's own test runs."""


class FamilyGate(Closed):
    """What is certified of one model family in place of the row's general rule."""

    engine: dict[str, Allowed]


class Gate(Closed):
    """What is certified, per field. A field that is not listed is refused, whatever its value."""

    engine: dict[str, Allowed]
    actor: dict[str, Allowed]
    request: dict[str, Allowed]
    family: dict[str, FamilyGate] = Field(default_factory=dict)
    """By model family: FP8 is certified where a family's forward computes in it, and refused everywhere else."""

    actor_kind: dict[str, dict[str, Allowed]] = Field(default_factory=dict)
    """By the actor's kind: one inside Megatron-core has settings of its own; without an entry it is refused."""

    def engine_rules(self, family: str) -> dict[str, Any]:
        """``[gate.engine]``, laid over by ``[gate.family.X.engine]``, JSON-ready, for the engine's process."""
        said = self.model_dump(mode="json")
        rules: dict[str, Any] = said["engine"] | said["family"].get(family, {"engine": {}})["engine"]
        return rules

    def actor_rules(self, kind: str = "native") -> dict[str, Any]:
        """``[gate.actor]``, laid over by ``[gate.actor_kind.X]``, JSON-ready, for the actor's process."""
        said = self.model_dump(mode="json")
        rules: dict[str, Any] = said["actor"] | said["actor_kind"].get(kind, {})
        return rules


class Row(Closed):
    """One row file."""

    schema_version: Literal[1]
    id: Identifier
    title: Text
    status: Status
    hardware: Hardware
    python: Specifier
    switch: Switch
    op_set: Text | None = None
    """What the actor computes with, where the switch is not the op set itself."""
    requirements: Requirements | None = None
    """Of the kit's own environment; None where an image brings everything."""
    stack: Stack | None = None
    """``packages`` and ``torch_builds`` are what it holds, if there is one."""
    packages: list[Package]
    torch_builds: list[Build] = Field(default_factory=list)
    repositories: list[Repository] = Field(default_factory=list)
    materials: list[Material] = Field(default_factory=list)
    base_image: Annotated[str, Field(pattern=r"^[^\s@]+:[^\s@]+@sha256:[0-9a-f]{64}$")] | None = None
    """What the Dockerfile starts from: a tag for people, and the digest that counts."""
    dockerfile: Annotated[str, Field(pattern=r"^images/[a-z0-9]+\.Dockerfile$")] | None = None
    """What builds the row's image in a checkout of the kit."""
    image: Image | None = None
    cuda: Version | None = None
    driver_floor: Version | None = None
    gate: Gate
