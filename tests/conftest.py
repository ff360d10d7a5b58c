from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Lets programs under test be interrupted: a shell that starts tests in the background ignores SIGINT for them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
