from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Lets programs under test be interrupted: whatever starts tests in the background ignores these for them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
