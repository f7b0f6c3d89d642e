"""``stepscope ask``: one question about runs and profiles, answered within a budget of tokens."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.arguments import add_budget, add_cache
from stepscope.cli.output import Output, complain, json_text, put
from stepscope.errors import UsageError
from stepscope.files import writing

if TYPE_CHECKING:
    from stepscope.serve.questions.answer import Answer


def add_arguments(parser: argparse.ArgumentParser, words: Sequence[str] = ()) -> None:
    """Declare a command for each question, with an option for each of its parameters.

    Args:
        parser: Of the command.
        words: Of the command line. If they name questions, only those get their options: the modules of the
            others need not be imported.
    """
    from stepscope.serve.questions.answer import BUDGET
    from stepscope.serve.questions.declare import HOMES, question_of

    named = HOMES.keys() & set(words) or HOMES.keys()
    parser.add_argument("--json", action="store_true", help="print JSON")
    commands = parser.add_subparsers(dest="question", metavar="QUESTION", title="questions", required=True)
    for name in HOMES:
        if name not in named:
            commands.add_parser(name)
            continue
        asked = question_of(name)
        command = commands.add_parser(name, help=asked.about, description=asked.about, allow_abbrev=False)
        command.add_argument(
            "place",
            nargs="?",
            default=".",
            metavar="PLACE",
            help="log directory, its URL, a profile, or the address of a running server (default: .)",
        )
        for key, about in asked.schema["properties"].items():
            command.add_argument(
                f"--{key}",
                dest=f"given_{key}",
                metavar=key.upper(),
                help=described(about),
                required=key in asked.schema.get("required", ()),
            )
        add_budget(command, BUDGET)
        command.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )  # given here or before the question
        command.add_argument("-o", "--output", metavar="FILE", help="write the picture of image to a file")
        add_cache(command)


def described(schema: dict[str, Any]) -> str:
    """Return the help of a parameter."""
    text = str(schema.get("description", ""))
    words = [str(choice) for choice in schema.get("enum", ())]
    text = f"{text}: {', '.join(words)}" if words else text
    default = schema.get("default")
    return (text + (f" (default: {default})" if default else "")).replace("%", "%%")


def run(arguments: argparse.Namespace) -> None:
    """Print the answer.

    Raises:
        StepscopeError: It cannot be answered.
        UsageError: A picture has nowhere to go.
    """
    from stepscope.serve.questions.answer import as_text
    from stepscope.serve.questions.asked import answer_at

    given = {
        name.removeprefix("given_"): value
        for name, value in vars(arguments).items()
        if name.startswith("given_") and value is not None
    }
    if arguments.question == "image" and not arguments.output:
        raise UsageError("image makes a picture: where to?", hint="-o picture.png")
    written = json_answer if arguments.json else as_text
    answer = answer_at(
        arguments.question, arguments.place, given, arguments.budget, cache=arguments.cache, written=written
    )
    if answer.image:
        with writing("the picture", arguments.output):
            Path(arguments.output).write_bytes(answer.image)
        complain(f"written to {arguments.output}")
    put(Output(answer.text, answer_data(answer)), as_json=arguments.json)


def answer_data(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON types, without its picture."""
    data = dataclasses.asdict(answer)
    del data["image"]
    return data


def json_answer(answer: Answer) -> str:
    """Return an answer as the JSON that is printed, its last line end included."""
    return json_text(answer_data(answer)) + "\n"
