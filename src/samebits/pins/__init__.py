"""Rows of the certification matrix: pins, digests, and what is installed here."""

from samebits.pins.allow import Allowed, Range, Values
from samebits.pins.files import digest, find, known, load, parse, requirements
from samebits.pins.row import Build, Gate, Hardware, Package, Repository, Requirements, Row, Switch

__all__ = [
    "Allowed",
    "Build",
    "Gate",
    "Hardware",
    "Package",
    "Range",
    "Repository",
    "Requirements",
    "Row",
    "Switch",
    "Values",
    "digest",
    "find",
    "known",
    "load",
    "parse",
    "requirements",
]
