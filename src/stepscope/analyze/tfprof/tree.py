"""Shared by the scope, graph and code views: choosing the rows to show of a tree with known totals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stepscope.analyze.options import ViewOptions, matches
from stepscope.analyze.tfprof.stats import FLOPS, LEAST, OCCURRENCE, PARAMS, ROOT, ViewRow, in_order


def start_rows(rows: Sequence[ViewRow], options: ViewOptions) -> list[ViewRow]:
    """Return the first row on each branch that ``start_name_regexes`` match."""
    if options.start_name_regexes == (".*",):
        return list(rows)
    found: list[ViewRow] = []
    stack = list(reversed(rows))
    while stack:
        row = stack.pop()
        if matches(row.name, options.start_name_regexes):
            found.append(row)
        else:
            stack.extend(reversed(row.children))
    return found


def shown(root: ViewRow, options: ViewOptions, *, code: bool = False) -> ViewRow:
    """Leave only what is to be shown below a root, sorted and indented.

    A row that is not shown hands its shown children to the nearest shown one above it.

    Args:
        root: The whole tree, totals included; it is changed and returned.
        options: Which rows, and in which order.
        code: Follow the code view: a trimmed row goes with all below it, thresholds look at totals, and
            ``account_displayed_op_only`` does nothing.
    """
    # Frames instead of recursion: a graph can be deeper than Python's stack.
    frames = [_Frame(root, depth=1, indent=0, show=True, options=options, code=code)]
    while True:
        frame = frames[-1]
        child = next(frame.below, None)
        if child is not None:
            depth = frame.depth + 1
            if code and _is_cut(child, depth, options):
                continue
            show = _is_shown(child, depth, options, code=code)
            indent = frame.indent + (2 if frame.show else 0)
            frames.append(_Frame(child, depth=depth, indent=indent, show=show, options=options, code=code))
            continue
        frames.pop()
        if frame.show:
            _finish(frame, options, code=code)
        if not frames:
            return root
        frames[-1].kept.extend([frame.row] if frame.show else frame.kept)


class _Frame:
    __slots__ = ("below", "depth", "indent", "kept", "row", "show")

    def __init__(
        self, row: ViewRow, *, depth: int, indent: int, show: bool, options: ViewOptions, code: bool
    ) -> None:
        self.row, self.depth, self.indent, self.show = row, depth, indent, show
        self.kept: list[ViewRow] = []
        self.below = iter([] if _is_cut(row, depth, options) else row.children)


def _is_cut(row: ViewRow, depth: int, options: ViewOptions) -> bool:
    return depth > options.max_depth or matches(row.name, options.trim_name_regexes)


def _finish(frame: _Frame, options: ViewOptions, *, code: bool) -> None:
    row = frame.row
    row.indent = frame.indent
    row.children = in_order(frame.kept, options, count_nodes=code)
    if options.account_displayed_op_only and not code:
        row.start_total()
        for child in row.children:
            row.add(child)


def _is_shown(row: ViewRow, depth: int, options: ViewOptions, *, code: bool) -> bool:
    if row.name == ROOT:
        return True
    if depth > options.max_depth or is_below_least(row, options, code=code):
        return False
    return is_named(row.name, options)


@lru_cache(maxsize=4)
def least_of(options: ViewOptions) -> tuple[tuple[int, int], ...]:
    """Return the thresholds that can hide anything."""
    found = ((metric, getattr(options, name)) for name, metric in LEAST)
    return tuple((metric, least) for metric, least in found if least > 0)


def is_below_least(row: ViewRow, options: ViewOptions, *, code: bool) -> bool:
    """Return whether a threshold hides the row.

    Code and op views compare totals of parameters and FLOPs, where the others compare the row's own.
    """
    total = row.total
    if any(total[metric] < least for metric, least in least_of(options)):
        return True
    static = row.total if code else row.own
    if static[PARAMS] < options.min_params or static[FLOPS] < options.min_float_ops:
        return True
    return not code and row.own[OCCURRENCE] < options.min_occurrence


def is_named(name: str, options: ViewOptions) -> bool:
    """Return whether the name is one to show."""
    return matches(name, options.show_name_regexes) and not matches(name, options.hide_name_regexes)
