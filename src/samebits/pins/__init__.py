"""Rows of the certification matrix: pins, digests, and what is installed here."""

from samebits.pins import image, inventory, stack
from samebits.pins.allow import Allowed, Range, Values, exactly
from samebits.pins.checking import check, require, survey, torch_build
from samebits.pins.choice import choose, choose_row, elsewhere, require_hardware
from samebits.pins.content import Installed, verify_distribution, wheel_content
from samebits.pins.diagnosis import Diagnosis, RowDiagnosis, diagnose, limitations
from samebits.pins.files import digest, find, known, load, parse, requirements
from samebits.pins.finding import Computing, Finding, Survey
from samebits.pins.kit import kit_files, kit_sha256
from samebits.pins.machine import Machine, look
from samebits.pins.row import (
    Build,
    Gate,
    Hardware,
    Image,
    Material,
    Package,
    Repository,
    Requirements,
    Row,
    Stack,
    Switch,
)

__all__ = [
    "Allowed",
    "Build",
    "Computing",
    "Diagnosis",
    "Finding",
    "Gate",
    "Hardware",
    "Image",
    "Installed",
    "Machine",
    "Material",
    "Package",
    "Range",
    "Repository",
    "Requirements",
    "Row",
    "RowDiagnosis",
    "Stack",
    "Survey",
    "Switch",
    "Values",
    "check",
    "choose",
    "choose_row",
    "diagnose",
    "digest",
    "elsewhere",
    "exactly",
    "find",
    "image",
    "inventory",
    "kit_files",
    "kit_sha256",
    "known",
    "limitations",
    "load",
    "look",
    "parse",
    "require",
    "require_hardware",
    "requirements",
    "stack",
    "survey",
    "torch_build",
    "verify_distribution",
    "wheel_content",
]
