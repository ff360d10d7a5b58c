"""Seeded fuzzing of everything that reads what somebody else wrote: ``python -m fuzz --help``."""
