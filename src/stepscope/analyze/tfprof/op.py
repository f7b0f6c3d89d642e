"""The op view: a flat list of operation types, each with the running total of itself and all later rows."""

from __future__ import annotations

from stepscope.analyze.options import ViewOptions, matches
from stepscope.analyze.tfprof.stats import NOTHING, ROOT, ViewRow, in_order, nodes_row
from stepscope.analyze.tfprof.tree import is_below_least, is_named
from stepscope.trace.tfprof import Profile, ProfileNode, in_byte_order


def op_view(profile: Profile, options: ViewOptions) -> ViewRow:
    """Return a root whose children are the rows; its total is that of the first accounted row."""
    rows = [row for row in _sorted(profile, options) if row.accounted]
    root = ViewRow(ROOT, total=_accumulate(rows))
    root.children = _shown(rows, options)
    if options.account_displayed_op_only:
        for row in root.children:
            row.start_total()
        root.total = _accumulate(root.children)
    return root


def _sorted(profile: Profile, options: ViewOptions) -> list[ViewRow]:
    by_type: dict[str, list[ProfileNode]] = {}
    for node in profile.nodes.values():
        by_type.setdefault(node.op, []).append(node)
    rows = [nodes_row(op, by_type[op], options) for op in in_byte_order(by_type)]
    for row in rows:
        row.start_total()
    return in_order(rows, options, count_nodes=True)


def _accumulate(rows: list[ViewRow]) -> list[int]:
    later: ViewRow | None = None
    for row in reversed(rows):
        if later is not None:
            row.add(later)
        later = row
    return list(later.total) if later is not None else list(NOTHING)


def _shown(rows: list[ViewRow], options: ViewOptions) -> list[ViewRow]:
    kept = []
    for index, row in enumerate(rows[_start(rows, options) :]):
        if index > options.max_depth or matches(row.name, options.trim_name_regexes):
            break
        if not is_below_least(row, options, code=True) and len(row.nodes) >= options.min_occurrence:
            kept.append(row)
    return [row for row in kept if is_named(row.name, options)]


def _start(rows: list[ViewRow], options: ViewOptions) -> int:
    if options.start_name_regexes in ((), (".*",)):
        return 0
    return next((i for i, row in enumerate(rows) if matches(row.name, options.start_name_regexes)), len(rows))
