"""Runs that are killed, and taken up again: nothing half-written is believed, nobody is orphaned, no bit changes.

``python -m crashes [--random N] [--seed S] [--json]`` with ``tests`` on the path; ``nox -s full`` asks for hundreds.
"""
