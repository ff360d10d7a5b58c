"""Seeded faults through the whole path: each is put into a real run, and the check that must catch it is named.

``nox -s faults``, or ``python -m faults`` with ``tests`` on the path.  A fault is a small change to one process of the
run: an engine or actor worker after it was started, the parent, or the evidence while the run lies still.  Nothing in
the package knows of it.
"""
