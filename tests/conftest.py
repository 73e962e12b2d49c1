"""What all tests share: signals are as in a shell that waits.

What a shell starts in the background has interrupts ignored, and so would every process that the
tests start and interrupt.
"""

import signal


def pytest_configure() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
