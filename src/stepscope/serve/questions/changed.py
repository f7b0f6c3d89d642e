"""The question what changed in a run, when and in which order, or in one run and not in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from stepscope.health.changes import only_in, steps_of
from stepscope.serve.questions.answer import Answer, Table
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.runs import Run
from stepscope.store.changes import settings_between
from stepscope.text import counted, scrub_text

if TYPE_CHECKING:
    from stepscope.health.changes import ChangeGroup


@question
def changes(
    desk: Desk,
    run: Run = "",
    other: Annotated[str, Meta(description="another run: only what did not change in it, too")] = "",
    side: Annotated[bool, Meta(description="also changes of side series alone, such as layers")] = False,
) -> Answer:
    """List what changed in a run, when and in which order, or in one run and not in another."""
    stored = desk.run(run)
    groups = stored.changes()
    if not other:
        return Answer("changes", _counted(stored.name, groups), _tables("changes", groups, side=side))
    than = desk.run(other)
    others = than.changes()
    sides = {stored.name: only_in(groups, others), than.name: only_in(others, groups)}
    settings = settings_between(stored.info, than.info)
    lines: tuple[str, ...] = (
        f"settings from {stored.name} to {than.name}: "
        + (scrub_text("; ".join(settings)) if settings else "no recorded one differs"),
    )
    lines += tuple(line for name, groups in sides.items() for line in _counted(f"only in {name}", groups))
    tables = [
        table for name, groups in sides.items() for table in _tables(f"only in {name}", groups, side=side)
    ]
    return Answer("changes", lines, tuple(tables))


def _counted(name: str, groups: Sequence[ChangeGroup]) -> tuple[str, ...]:
    main = sum(group.main for group in groups)
    more = len(groups) - main
    rest = f", and {more:,} of side series alone (side=true)" if more else ""
    changed = f"changes at {counted(main, 'time')}" if main else "no change"
    return (f"{name}: {changed}{rest}",)


def _tables(name: str, groups: Sequence[ChangeGroup], *, side: bool) -> tuple[Table, ...]:
    rows = tuple(
        (steps_of(logged.change), number, logged.source, scrub_text(logged.text))
        for number, group in enumerate(groups, 1)
        if side or group.main
        for logged in group.changes
    )
    return (Table(name, ("step", "group", "kind", "change"), rows),) if rows else ()
