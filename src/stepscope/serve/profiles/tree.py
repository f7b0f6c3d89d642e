"""tfprof's views as tables of the page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Literal

from stepscope.analyze.options import OPTIONS, VIEWS, ViewOptions
from stepscope.analyze.step_tree import PARTS
from stepscope.analyze.views import view as view_of
from stepscope.analyze.views.tree import Tree
from stepscope.serve.profiles.open_profiles import OpenProfile, Steps
from stepscope.serve.profiles.tfprof_tree import of_tfprof
from stepscope.serve.profiles.types import TreeAnswer, TreeColumn, TreeRow, Unit
from stepscope.serve.reply import Refusal, refusing
from stepscope.serve.routes import get

NO_OPTIONS: Mapping[str, str] = {}
REFUSED = {"output"}
"""Options that write files, which a page does not offer."""
OP_ROWS = 10_000
"""In the op view -max_depth is a number of rows; a page has room for more than a terminal."""


@get("view")
def tree(
    profile: OpenProfile,
    view: Literal["scope", "graph", "op", "code"] = "scope",
    options: Mapping[str, str] = NO_OPTIONS,
    steps: Steps = "",
) -> TreeAnswer:
    """Return a view: of tfprof's own data what tfprof says, of all others Stepscope's.

    Args:
        profile: The profile.
        view: Its name.
        options: tfprof's options by name, as text.
        steps: Steps that count, as :func:`stepscope.analyze.chosen.keep_steps` reads them; empty is all.

    Raises:
        Refusal: No such view or option, or the profile lacks what the view shows.
    """
    unknown = sorted(set(options) - set(OPTIONS) | (set(options) & REFUSED))
    if unknown:
        raise Refusal(400, f"unknown option {unknown[0]}", f"options: {', '.join(OPTIONS)}")
    with refusing():
        changed = ViewOptions().changed(asked(view, options))
        if view in VIEWS and profile.tfprof is not None:
            return of_tfprof(profile, view, changed, steps, command(profile.path, view, options, ""))
        answer = view_of(view, profile.chosen(steps), changed)
    columns = [TreeColumn(column.key, column.head, unit(column.key)) for column in answer.columns]
    values = [column.values for column in answer.columns]
    return TreeAnswer(
        view=view,
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
        command=command(profile.path, view, options, steps),
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
