"""``stepscope changes``: what changed in a run, when and in which order, or in one run and not another."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.arguments import add_cache
from stepscope.cli.output import Output, put
from stepscope.errors import UnknownRunError

if TYPE_CHECKING:
    from stepscope.health.changes import ChangeGroup
    from stepscope.store import Log, StoredRun
    from stepscope.store.info import RunInfo


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope changes``."""
    parser.add_argument("run", metavar="RUN", help="directory of a run, or of a log with one run")
    parser.add_argument("other", metavar="RUN2", nargs="?", help="say what changed in one of the two alone")
    parser.add_argument(
        "--all", action="store_true", help="also changes of side series alone, such as layers"
    )
    parser.add_argument("--json", action="store_true", help="print all changes as JSON")
    add_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the changes.

    Raises:
        LogDirectoryError: Not a directory, or one that cannot be listed.
        UnknownRunError: No run is there, or several are.
    """
    from stepscope.health.changes import only_in
    from stepscope.store.changes import settings_between

    groups, info = changes_at(arguments.run, cache=arguments.cache)
    if arguments.other is None:
        data = {"groups": [group.as_dict() for group in groups]}
        put(Output(listed(groups, every=arguments.all), data), as_json=arguments.json)
        return 0
    others, its_info = changes_at(arguments.other, cache=arguments.cache)
    settings = settings_between(info, its_info)
    sides = {arguments.run: only_in(groups, others), arguments.other: only_in(others, groups)}
    text = f"settings from {arguments.run} to {arguments.other}\n"
    text += "".join(f"  {one}\n" for one in settings or ["no recorded one differs"])
    text += "".join(f"only in {name}\n{listed(one, every=arguments.all)}" for name, one in sides.items())
    compared: dict[str, Any] = {
        "settings": settings,
        "only": [
            {"run": name, "groups": [group.as_dict() for group in groups]} for name, groups in sides.items()
        ],
    }
    put(Output(text, compared), as_json=arguments.json)
    return 0


def changes_at(path: str, *, cache: bool) -> tuple[list[ChangeGroup], RunInfo]:
    """Return the changes of the run in a directory, and how it was started.

    Raises:
        LogDirectoryError: Not a directory, or one that cannot be listed.
        UnknownRunError: No run is there, or several are.
    """
    from stepscope import store

    with store.open(path, cache=cache) as log:
        stored = run_at(log, path)
        return stored.changes(), stored.info


def run_at(log: Log, path: str) -> StoredRun:
    """Return the only run of a log directory.

    Raises:
        UnknownRunError: There is none, or there are several.
    """
    runs = [run for run in log.runs() if run.whole is run]
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise UnknownRunError(f"no run in {path!r}", hint="pass the directory that a run writes to")
    first = Path(path) / runs[0].name
    raise UnknownRunError(f"{len(runs)} runs in {path!r}", hint=f"pass one of them, such as {first}")


def listed(groups: list[ChangeGroup], *, every: bool) -> str:
    """Return groups as lines, those of side series alone only if wanted."""
    shown = [group for group in groups if every or group.main]
    lines = [f"  {group.text}\n" for group in shown] or ["  nothing changed\n"]
    if more := len(groups) - len(shown):
        lines.append(f"  and {more:,} of other series alone; --all shows them\n")
    return "".join(lines)
