"""Verification: the signature with the verifier's own key, then every claim that the evidence can carry, again."""

from samebits.verify.catalogue import Outcome, verify_catalogue
from samebits.verify.difference import Difference, differences
from samebits.verify.libraries import Libraries
from samebits.verify.materials import Standing
from samebits.verify.report import Claim, Report
from samebits.verify.verification import Verification, verify

__all__ = [
    "Claim",
    "Difference",
    "Libraries",
    "Outcome",
    "Report",
    "Standing",
    "Verification",
    "differences",
    "verify",
    "verify_catalogue",
]
