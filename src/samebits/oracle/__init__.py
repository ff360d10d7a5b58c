"""The oracle: evidence, comparison of bit patterns, and verdicts that are derived from the evidence alone."""

from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.facts import fact_rows
from samebits.oracle.findings import Check, Comparison, Exactness, Findings, Mismatch, Overhead
from samebits.oracle.judge import judge
from samebits.oracle.tables import TABLES
from samebits.oracle.writer import EvidenceWriter

__all__ = [
    "TABLES",
    "Check",
    "Comparison",
    "EvidenceReader",
    "EvidenceWriter",
    "Exactness",
    "Findings",
    "Mismatch",
    "Overhead",
    "fact_rows",
    "judge",
]
