"""tfprof's views as tables of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from stepscope import text
from stepscope.analyze.options import OPTIONS, ViewOptions
from stepscope.analyze.tfprof.report import show
from stepscope.analyze.views.build import opening
from stepscope.analyze.views.tree import Tree
from stepscope.attribute.step_tree import PARTS
from stepscope.errors import UsageError
from stepscope.serve.profiles.open_profiles import OpenProfile, Steps, command
from stepscope.serve.profiles.types import TreeAnswer, TreeColumn, TreeRow, Unit
from stepscope.serve.reply import Refusal, refusing
from stepscope.serve.routes import get

NO_OPTIONS: Mapping[str, str] = {}
REFUSED = {"output"}
"""Options that write files, which a page does not offer."""
UNITS: dict[Callable[[float], str], Unit] = {
    text.time: "ns", text.share: "ratio", text.size: "bytes", text.quantity: "count", text.flops: "flop",
    text.flop_rate: "flop/s", text.byte_rate: "B/s",
}  # fmt: skip
OP_ROWS = 10_000
"""In the op view -max_depth is a number of rows; a page has room for more than a terminal."""


@get("view")
def tree(
    profile: OpenProfile,
    view: Literal["", "scope", "graph", "op", "code"] = "scope",
    options: Mapping[str, str] = NO_OPTIONS,
    steps: Steps = "",
    by: Literal["", "part"] = "",
) -> TreeAnswer:
    """Return a view: tfprof's own view of its data, Stepscope's of all others.

    Args:
        profile: The profile.
        view: Its name, empty for the one that says most.
        options: tfprof's options by name, as text.
        steps: Steps that count, as :func:`stepscope.analyze.chosen.keep_steps` reads them; empty is all.
        by: Whether the parts of the step stand below the root, with the summary's names and times, each with
            rows of its own; tfprof's data has none.

    Raises:
        Refusal: No such view or option, or the profile lacks the data of the view.
    """
    unknown = sorted(set(options) - set(OPTIONS) | (set(options) & REFUSED))
    if unknown:
        raise Refusal(400, f"unknown option {unknown[0]}", f"options: {', '.join(OPTIONS)}")
    with refusing():
        shown = view or ("scope" if profile.tfprof is not None else opening(profile.trace))
        deep = {"max_depth": str(OP_ROWS)} if by else {}
        changed = ViewOptions().changed(asked(shown, {**deep, **options}))
        chosen = ["--steps", steps] if steps else []
        if steps and profile.tfprof is not None:
            changed = replace(changed, step=one_step(steps))
            chosen = ["-step", str(changed.step)]
        answer = show(shown, profile.tfprof, lambda: profile.chosen(steps), changed, by_part=by == "part")
    words = [word for option in asked(shown, options).items() for word in (f"-{option[0]}", option[1])]
    columns = [TreeColumn(column.key, column.head, UNITS[column.text]) for column in answer.columns]
    values = [column.values for column in answer.columns]
    return TreeAnswer(
        view=shown,
        windows=answer.windows,
        denominator=answer.label,
        notes=answer.notes,
        columns=columns,
        rows=[
            TreeRow(
                name=line.name,
                depth=line.depth,
                values=[number(float(column[at])) for column in values],
                words=[cells[at] for cells in answer.words.values()],
                part=part_of(answer.tree, line.node),
            )
            for at, line in enumerate(answer.lines)
        ],
        command=command("profile", shown, profile.path, *words, *chosen),
        source=answer.source,
        words=list(answer.words),
    )


def one_step(steps: str) -> int:
    """Return the step that was chosen of tfprof's own data, which knows one, or the mean of all.

    Raises:
        UsageError: Several were chosen.
    """
    if not steps.isdecimal():
        raise UsageError(f"steps {steps} of tfprof's own data", hint="choose one step, or all")
    return int(steps)


def part_of(tree: Tree, node: int) -> str | None:
    """Return the part of the step that took most of a node's time."""
    part = int(tree.part[node])
    return PARTS[part] if part >= 0 else None


def asked(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a view: those given, and the page's own defaults."""
    own = {"order_by": "micros", **({"max_depth": str(OP_ROWS)} if name == "op" else {})}
    return {**own, **given}


def number(value: float) -> float | None:
    """Return a number as JSON carries it."""
    return None if math.isnan(value) else value
