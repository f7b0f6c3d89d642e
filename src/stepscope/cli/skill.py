"""``stepscope skill``: the skill for coding agents, printed or put into the folder of an agent's skills."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepscope.cli.output import Output, put
from stepscope.errors import StepscopeError
from stepscope.files import writing

NAME = "SKILL.md"
BUILT = Path(__file__).resolve().parents[1] / "skills" / "stepscope" / NAME
"""In an installed package."""
SOURCE = Path(__file__).resolve().parents[3] / "skills" / "stepscope" / NAME
"""In a checkout."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--install",
        nargs="?",
        const=".claude/skills",
        metavar="DIR",
        help="write it below a folder of skills instead (default: .claude/skills)",
    )
    parser.add_argument("--json", action="store_true", help="print the skill or its file as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print or install the skill.

    Raises:
        StepscopeError: The package was built without it.
        UsageError: The folder cannot be written.
    """
    text = skill()
    if arguments.install is None:
        put(Output(text, {"skill": text}), as_json=arguments.json)
        return
    path = Path(arguments.install) / "stepscope" / NAME
    with writing("the skill", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    notes = () if arguments.json else (f"written to {path}",)
    put(Output("", {"written": str(path)}, notes), as_json=arguments.json)


def skill() -> str:
    """Return the skill.

    Raises:
        StepscopeError: The package was built without it.
    """
    for path in (BUILT, SOURCE):
        if path.is_file():
            return path.read_text()
    raise StepscopeError("this installation lacks the skill", hint="install stepscope from its wheel")
