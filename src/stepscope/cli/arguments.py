"""Arguments that several commands have."""

from __future__ import annotations

import argparse

MORE = "also print evidence, thresholds, and what could not be judged"
KEPT = "keep what was read in a cache, for the next time (default: yes)"


def add_cache(parser: argparse.ArgumentParser, what: str = KEPT) -> None:
    """Declare ``--cache`` and ``--no-cache``.

    Args:
        parser: Of the command.
        what: The data that is kept, for the help.
    """
    parser.add_argument("--cache", action=argparse.BooleanOptionalAction, default=True, help=what)


def add_verbose(parser: argparse.ArgumentParser, what: str = MORE) -> None:
    """Declare ``-v``.

    Args:
        parser: Of the command.
        what: The details that are added, for the help.
    """
    parser.add_argument("-v", "--verbose", action="store_true", help=what)
