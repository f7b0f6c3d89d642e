"""Arguments that several commands have."""

from __future__ import annotations

import argparse

from stepscope.errors import UsageError

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


def add_budget(parser: argparse.ArgumentParser, default: int = 0) -> None:
    """Declare ``--budget``.

    Args:
        parser: Of the command.
        default: Tokens if it is not given; 0: no limit.
    """
    parser.add_argument(
        "--budget",
        type=int,
        default=default,
        metavar="TOKENS",
        help="tokens of four characters that the answer may take, the most important first; 0: no limit "
        f"(default: {default or 'no limit'})",
    )


def budget_of(text: str) -> int:
    """Return a budget that was given as a word.

    Raises:
        UsageError: It is not a number of tokens.
    """
    if not text.isdecimal():
        raise UsageError(f"--budget {text!r:.40}: expected a number of tokens", hint="--budget 4000")
    return int(text)
