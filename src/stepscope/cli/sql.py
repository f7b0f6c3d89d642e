"""``stepscope sql``: a query over runs, series, findings, settings, ranks and profile events."""

from __future__ import annotations

import argparse

from stepscope.cli.arguments import add_budget, add_cache
from stepscope.cli.output import Output, aligned, put


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "query", nargs="?", default="", metavar="QUERY", help="a SELECT; without one the tables are listed"
    )
    parser.add_argument(
        "place",
        nargs="?",
        default=".",
        metavar="PLACE",
        help="log directory, its URL, a profile, or the address of a running server (default: .)",
    )
    parser.add_argument(
        "--profile", default="", metavar="PATH", help="the profile of the table events (default: the newest)"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON objects")
    add_budget(parser)
    add_cache(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the rows.

    Raises:
        StepscopeError: The query is wrong, or the directory cannot be read.
    """
    from stepscope.cli.ask import answer_data, json_answer
    from stepscope.serve.questions.answer import as_text
    from stepscope.serve.questions.asked import answer_at

    given = {"query": arguments.query, "profile": arguments.profile}
    written = json_answer if arguments.json and arguments.budget else as_text
    answer = answer_at(
        "sql", arguments.place, given, arguments.budget, cache=arguments.cache, written=written
    )
    if arguments.budget:
        put(Output(answer.text, answer_data(answer)), as_json=arguments.json)
        return
    heads = [list(table.columns) for table in answer.tables]
    rows = [list(row) for table in answer.tables for row in table.rows]
    texts = [*heads, *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    numbers = {
        at
        for at in range(len(heads[0]) if heads else 0)
        if all(row[at] is None or isinstance(row[at], (int, float)) for row in rows)
    }
    lines = aligned(texts, right=numbers) + "\n" if rows else ""
    objects = [dict(zip(heads[0], row, strict=True)) for row in rows]
    put(Output(lines, objects, (answer.lines[0],)), as_json=arguments.json)
