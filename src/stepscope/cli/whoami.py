"""``stepscope whoami``: which process of a job this is, and how that is known."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stepscope.cli.output import Output, put
from stepscope.cli.sync import line, waiting

if TYPE_CHECKING:
    from stepscope.record.roles import Role


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope whoami``."""
    parser.add_argument(
        "--chief", default="first", metavar="WHICH", help="which rank writes: first, last or a rank"
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print the rank and role of a ``Run`` created in this environment; no framework is imported.

    Raises:
        UsageError: ``--chief`` names no rank.
    """
    from stepscope.record.roles import detect
    from stepscope.record.roles.role import check_chief

    chief = int(arguments.chief) if arguments.chief.isdecimal() else arguments.chief
    role = detect(environ=os.environ, chief=check_chief(chief))
    waits = waiting()
    data = facts(role) | {"waiting": [asdict(wait) for wait in waits]}
    rows = lines(role) + [("waits", line(wait)) for wait in waits]
    width = max(len(name) for name, _ in rows)
    text = "".join(f"{name:<{width}}  {text}\n" for name, text in rows)
    put(Output(text, data, tuple(map(str, role.problems))), as_json=arguments.json)


def lines(role: Role) -> list[tuple[str, str]]:
    """Return the known facts, a name and a text each."""
    trains = role.name not in ("evaluator", "ps")
    rows = [
        ("rank", f"{role.rank} of {role.world_size}" if trains else "none: it does not train"),
        ("role", f"ps {role.rank}" if role.name == "ps" else role.name),
        ("chief", "yes" if role.chief else f"no, rank {role.chief_rank}" if trains else "no"),
        ("writes", written(role)),
        ("known from", role.source + (f": {', '.join(role.evidence)}" if role.evidence else "")),
    ]
    if role.local_rank is not None:
        of = f" of {role.local_size}" if role.local_size is not None else ""
        rows.append(("on its host", f"{role.local_rank}{of}"))
    if role.node is not None:
        rows.append(("host", str(role.node)))
    if role.restarts:
        rows.append(("restarts", str(role.restarts)))
    return rows + [("overruled", text) for text in role.overruled]


def written(role: Role) -> str:
    """Return the files that a run writes in this process."""
    what = ["event files" + (" under eval/" if role.name == "evaluator" else "")] if role.writes else []
    what += ["telemetry under ranks/"] if role.telemetry else []
    return " and ".join(what) or "nothing"


def facts(role: Role) -> dict[str, Any]:
    """Return the known facts as JSON types; unknown ones are null."""
    return {
        "rank": role.rank,
        "world_size": role.world_size,
        "role": role.name,
        "chief": role.chief,
        "chief_rank": role.chief_rank,
        "writes_events": role.writes,
        "writes_telemetry": role.telemetry,
        "source": role.source,
        "evidence": list(role.evidence),
        "local_rank": role.local_rank,
        "local_size": role.local_size,
        "node": role.node,
        "restarts": role.restarts,
        "overruled": list(role.overruled),
        "problems": [{"text": problem.message, "hint": problem.hint} for problem in role.problems],
    }
