"""The lines of a view: heads, then one line per row, with tfprof's units, order and padding."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.stats import (
    ACCELERATOR,
    BYTES,
    CPU,
    FLOPS,
    MICROS,
    OCCURRENCE,
    OUTPUT,
    PARAMS,
    PEAK,
    RESIDUAL,
    ViewRow,
    numbers,
)
from stepscope.trace.tfprof import Profile, in_byte_order

_NAME_WIDTH = 25

_MEMORY = (
    ("bytes", "requested bytes", BYTES),
    ("peak_bytes", "peak bytes", PEAK),
    ("residual_bytes", "residual bytes", RESIDUAL),
    ("output_bytes", "output bytes", OUTPUT),
)
_TIME = (
    ("micros", "total execution time", MICROS),
    ("accelerator_micros", "accelerator execution time", ACCELERATOR),
    ("cpu_micros", "cpu execution time", CPU),
)
_STATIC = (("params", "# parameters", PARAMS), ("float_ops", "# float_ops", FLOPS))


def number(count: int) -> str:
    """Format a count: ``999``, ``1.00k``, ``1.00m``, ``1.00b``."""
    if count < 1_000:
        return str(count)
    if count < 1_000_000:
        return f"{count / 1e3:.2f}k"
    return f"{count / 1e6:.2f}m" if count < 1_000_000_000 else f"{count / 1e9:.2f}b"


def micros(count: int) -> str:
    """Format microseconds; there is no unit above the second."""
    if count < 1_000:
        return f"{count}us"
    return f"{count / 1e3:.2f}ms" if count < 1_000_000 else f"{count / 1e6:.2f}sec"


def memory(count: int) -> str:
    """Format bytes in powers of ten; there is no unit above the megabyte."""
    if count < 1_000:
        return f"{count}B"
    return f"{count / 1e3:.2f}KB" if count < 1_000_000 else f"{count / 1e6:.2f}MB"


def lines(view: str, root: ViewRow, options: ViewOptions, profile: Profile) -> Iterator[str]:
    """Yield the legend and every line, each with its line end."""
    selected = set(options.select)
    yield f"node name | {' | '.join(_heads(view, selected))}\n"
    if view == "op":
        for row in root.children:
            yield _op_line(row, root, selected, profile, options.step)
        return
    for row in preorder(root):
        attributes = (
            _code_attributes(row, selected) if view == "code" else _node_attributes(row, selected, profile)
        )
        yield f"{' ' * row.indent}{row.name} ({', '.join(attributes)})\n"


def preorder(root: ViewRow) -> Iterator[ViewRow]:
    """Yield a row, then all below it, in the order of the lines."""
    stack = [root]
    while stack:
        row = stack.pop()
        yield row
        stack.extend(reversed(row.children))


def _heads(view: str, selected: AbstractSet[str]) -> list[str]:
    static = [head for column, head, _ in _STATIC if column in selected]
    measured = [head for column, head, _ in _MEMORY if column in selected] + [
        head for _, head, _ in _times(selected)
    ]
    of_nodes = view in ("scope", "graph")
    rest = (
        ("device", "assigned devices"),
        ("op_types", "op types"),
        ("occurrence", f"op {'count' if of_nodes else 'occurrence'} (run|defined)"),
        ("input_shapes", "input shapes"),
    )
    first = [*static, *measured] if of_nodes else [*measured, *static]
    return first + [head for column, head in rest if column in selected]


def _times(selected: AbstractSet[str]) -> list[tuple[str, str, int]]:
    return [time for time in _TIME if "micros" in selected or time[0] in selected]


# --- scope, graph, code: name (own/total, …) ----------------------------------------------------------


def _node_attributes(row: ViewRow, selected: AbstractSet[str], profile: Profile) -> list[str]:
    static = _static(row, selected)
    if "params" in selected and row.node is not None and row.node.shape:
        static.insert(0, _shape(row.node.shape))
    attributes = static + _measured(row, selected)
    if "device" in selected and row.devices:
        attributes.append("|".join(row.devices))
    if "op_types" in selected:
        attributes.append("|".join(in_byte_order(row.types)))
    if "occurrence" in selected:
        attributes.append(_occurrence(row))
    if "input_shapes" in selected and row.node is not None:
        attributes.append("|".join(_inputs(profile, row)))
    return attributes


def _code_attributes(row: ViewRow, selected: AbstractSet[str]) -> list[str]:
    attributes = _measured(row, selected) + _static(row, selected)
    if "device" in selected and row.devices:
        attributes.append("|".join(row.devices))
    if "op_types" in selected:
        attributes.append("|".join(in_byte_order(row.types)))
    return attributes + [
        f"{column} N/A in code view" for column in ("occurrence", "input_shapes") if column in selected
    ]


def _own(row: ViewRow, formatted: str) -> str:
    return f"{formatted if row.accounted else '--'}/"


def _static(row: ViewRow, selected: AbstractSet[str]) -> list[str]:
    return [
        _own(row, number(row.own[metric]))
        + number(row.total[metric])
        + f" {column.replace('float_ops', 'flops')}"
        for column, _, metric in _STATIC
        if column in selected
    ]


def _measured(row: ViewRow, selected: AbstractSet[str]) -> list[str]:
    return [
        _own(row, memory(row.own[metric])) + memory(row.total[metric])
        for column, _, metric in _MEMORY
        if column in selected
    ] + [_own(row, micros(row.own[metric])) + micros(row.total[metric]) for _, _, metric in _times(selected)]


def _occurrence(row: ViewRow) -> str:
    run = _own(row, number(row.own[OCCURRENCE])) + number(row.total[OCCURRENCE])
    return f"{run}|{_own(row, '1')}{number(row.defined)}"


def _shape(shape: list[int]) -> str:
    return "x".join(map(str, shape))


def _inputs(profile: Profile, row: ViewRow) -> list[str]:
    if row.node is None:
        return []
    return [
        f"{index}:{_shape(shape) or 'unknown'}" for index, shape in profile.input_shapes(row.node).items()
    ]


# --- op: padded columns with shares -------------------------------------------------------------------


def _op_line(row: ViewRow, root: ViewRow, selected: AbstractSet[str], profile: Profile, step: int) -> str:
    cells = [
        _share(memory(row.own[metric]), row, root, metric, known=row.own[metric] > 0)
        for column, _, metric in _MEMORY
        if column in selected
    ]
    cells += [
        _share(micros(row.own[metric]), row, root, metric, known=row.total[metric] > 0)
        for _, _, metric in _times(selected)
    ]
    cells += [
        _share(f"{number(row.own[metric])} {column}", row, root, metric, known=row.total[metric] > 0)
        for column, _, metric in _STATIC
        if column in selected
    ]
    if "device" in selected:
        cells.append("|".join(row.devices))
    if "op_types" in selected:
        cells.append("|".join(in_byte_order(row.types)))
    if "occurrence" in selected:
        cells.append(
            f"{sum(numbers(node, step)[OCCURRENCE] for node in row.nodes)}|{len(row.nodes)}".rjust(10)
        )
    padding = " " * (_NAME_WIDTH - len(row.name.encode("utf-8", "surrogateescape")))
    line = f"{row.name}{padding}{', '.join(cells)}\n"
    if "input_shapes" in selected and row.nodes:
        line += f"\n{_input_types(row, profile, step)}\n\n"
    return line


def _input_types(row: ViewRow, profile: Profile, step: int) -> str:
    counted: dict[str, list[int]] = {}
    for node in row.nodes:
        measured = numbers(node, step)
        shapes = profile.input_shapes(node).items()
        key = "input_type: " + ",\t".join(f"{index}:{_shape(shape) or 'unknown'}" for index, shape in shapes)
        defined, runs, time = counted.get(key, (0, 0, 0))
        counted[key] = [defined + 1, runs + measured[OCCURRENCE], time + measured[MICROS]]
    ordered = sorted(sorted(counted.items()), key=lambda item: -item[1][1])
    return "\n".join(
        f"{key}\t(run*{runs}|defined*{defined})\texec_time: {micros(time)}"
        for key, (defined, runs, time) in ordered
    )


def _share(formatted: str, row: ViewRow, root: ViewRow, metric: int, *, known: bool) -> str:
    whole = root.total[metric]
    running, own = (
        (100.0 * row.total[metric] / whole, 100.0 * row.own[metric] / whole)
        if known and whole
        else (0.0, 0.0)
    )
    return f"{formatted} ({running:.2f}%, {own:.2f}%)".rjust(30)
