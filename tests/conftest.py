"""What every test session needs, whoever starts it."""

import signal


def pytest_configure():
    """Have Ctrl-C work in the programs that tests start, though this session may run in the background.

    A shell lets what it starts with ``&`` ignore SIGINT, and programs inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
