"""tfprof's views as tables of the page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping

from stepscope.analyze.options import OPTIONS, VIEWS, ViewOptions
from stepscope.analyze.step_tree import PARTS
from stepscope.analyze.views import view
from stepscope.analyze.views.tree import Tree
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.tfprof_tree import of_tfprof
from stepscope.serve.profiles.types import TreeAnswer, TreeColumn, TreeRow, Unit
from stepscope.serve.reply import Refusal, refusing

REFUSED = {"output"}
"""Options that write files, which a page does not offer."""
OP_ROWS = 10_000
"""In the op view -max_depth is a number of rows; a page has room for more than a terminal."""


def tree(profile: OpenProfile, name: str, given: Mapping[str, str], steps: str = "") -> TreeAnswer:
    """Return a view: of tfprof's own data what tfprof says, of all others Stepscope's.

    Args:
        profile: The profile.
        name: scope, graph, op or code.
        given: tfprof's options by name, as text.
        steps: Steps that count, as :func:`stepscope.analyze.chosen.keep_steps` reads them; empty is all.

    Raises:
        Refusal: No such view or option, or the profile lacks what the view shows.
    """
    unknown = sorted(set(given) - set(OPTIONS) | (set(given) & REFUSED))
    if unknown:
        raise Refusal(400, f"unknown option {unknown[0]}", f"options: {', '.join(OPTIONS)}")
    with refusing():
        options = ViewOptions().changed(asked(name, given))
        if name in VIEWS and profile.tfprof is not None:
            return of_tfprof(profile, name, options, steps, command(profile.path, name, given, ""))
        answer = view(name, profile.chosen(steps), options)
    columns = [TreeColumn(column.key, column.head, unit(column.key)) for column in answer.columns]
    values = [column.values for column in answer.columns]
    return TreeAnswer(
        view=name,
        windows=answer.windows,
        denominator=answer.label,
        notes=answer.notes,
        columns=columns,
        rows=[
            TreeRow(
                name=line.name,
                depth=line.depth,
                values=[number(float(column[at])) for column in values],
                words=[],
                part=part_of(answer.tree, line.node),
            )
            for at, line in enumerate(answer.lines)
        ],
        command=command(profile.path, name, given, steps),
        source="trace",
        words=[],
    )


def part_of(tree: Tree, node: int) -> str | None:
    """Return the part of the step that took most of a node's time."""
    part = int(tree.part[node])
    return PARTS[part] if part >= 0 else None


def asked(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a view: those given, and the page's own defaults."""
    own = {"order_by": "micros", **({"max_depth": str(OP_ROWS)} if name == "op" else {})}
    return {**own, **given}


def unit(key: str) -> Unit:
    """Return the unit of a column."""
    for end, name in (("flops_per_second", "flop/s"), ("bytes_per_second", "B/s"), ("_ns", "ns"),
                      ("_ratio", "ratio"), ("bytes", "bytes"), ("flops", "flop")):  # fmt: skip
        if key.endswith(end):
            return name  # type: ignore[return-value]
    return "count"


def number(value: float) -> float | None:
    """Return a number as JSON carries it."""
    return None if math.isnan(value) else value


def command(path: str, name: str, given: Mapping[str, str], steps: str) -> str:
    """Return the same in a terminal, in the log directory."""
    words = [word for key, value in asked(name, given).items() for word in (f"-{key}", value)]
    chosen = ["--steps", steps] if steps else []
    return shlex.join(["stepscope", "profile", name, path, *words, *chosen])
