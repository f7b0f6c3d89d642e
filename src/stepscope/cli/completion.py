"""``stepscope completion``: print a completion script for a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from stepscope.cli.output import Output, put

SHELLS = ("bash", "zsh", "tcsh", "fish")
DIRECTORIES = frozenset({"log_dir"})
"""Arguments that name a directory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")
    parser.add_argument("--json", action="store_true", help="print the script as JSON, with the shell's name")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    text = script(arguments.shell)
    put(Output(f"{text}\n", {"shell": arguments.shell, "script": text}), as_json=arguments.json)
    return 0


def script(shell: str) -> str:
    """Return the completion script of all commands and their options."""
    import shtab

    from stepscope.cli import build_parser

    parser = build_parser(only="*")
    for action in actions(parser):
        if action.dest in DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell))


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions(command)
