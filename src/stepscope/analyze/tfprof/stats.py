"""The numbers of a node, and the row that a view makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import add

from stepscope.analyze.options import ViewOptions, matches
from stepscope.trace.tfprof import Execution, ProfileNode, in_byte_order

METRICS = (
    "occurrence",
    "micros",
    "accelerator_micros",
    "cpu_micros",
    "bytes",
    "peak_bytes",
    "residual_bytes",
    "output_bytes",
    "params",
    "float_ops",
)
"""Order of the values in a list of numbers; ``occurrence`` counts runs."""

OCCURRENCE, MICROS, ACCELERATOR, CPU, BYTES, PEAK, RESIDUAL, OUTPUT, PARAMS, FLOPS = range(10)
NOTHING = (0,) * len(METRICS)

ROOT = "_TFProfRoot"

LEAST = (
    ("min_bytes", BYTES),
    ("min_peak_bytes", PEAK),
    ("min_residual_bytes", RESIDUAL),
    ("min_output_bytes", OUTPUT),
    ("min_micros", MICROS),
    ("min_accelerator_micros", ACCELERATOR),
    ("min_cpu_micros", CPU),
)
"""The thresholds that every view compares with totals."""


@dataclass(slots=True, eq=False)
class ViewRow:
    """One line of a view.

    Attributes:
        name: What it stands for.
        node: The graph node of the scope and graph views.
        nodes: The counted graph nodes of the op and code views, in name order.
        devices: And ``types``: of the counted nodes.
        own: Its own numbers, as in :data:`METRICS`.
        total: With everything below it; in the op view, with every later row.
        defined: Graph nodes in ``total``.
        accounted: Whether it counts itself, or only passes on what is below.
        children: The rows below, all of them before, the shown ones after the view is made.
        indent: Spaces before the name.
    """

    name: str
    node: ProfileNode | None = None
    nodes: list[ProfileNode] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    types: AbstractSet[str] = frozenset()
    own: Sequence[int] = NOTHING
    total: Sequence[int] = NOTHING
    defined: int = 0
    accounted: bool = False
    children: list[ViewRow] = field(default_factory=list)
    indent: int = 0

    def start_total(self) -> None:
        """Let the total be what the row has itself."""
        self.total, self.defined = self.own, 1

    def add(self, other: ViewRow) -> None:
        """Add another row's total."""
        self.total = list(map(add, self.total, other.total))
        self.defined += other.defined


def node_row(node: ProfileNode, options: ViewOptions) -> ViewRow:
    """Return the row of one graph node."""
    return ViewRow(
        node.name,
        node=node,
        own=numbers(node, options.step),
        devices=[node.canonical_device] if node.canonical_device else [],
        types=node.types,
        accounted=is_accounted(node, options),
    )


def nodes_row(name: str, nodes: Sequence[ProfileNode], options: ViewOptions) -> ViewRow:
    """Return the row of several graph nodes.

    A node that several type expressions match is counted once for each, as tfprof does.
    """
    picked = pick(nodes, options.account_type_regexes)
    unique = {node.name: node for node in picked}
    own = NOTHING
    for node in picked:
        own = tuple(map(add, own, numbers(node, options.step)))
    return ViewRow(
        name,
        nodes=[unique[key] for key in in_byte_order(unique)],
        devices=in_byte_order({node.canonical_device for node in picked}),
        types=set().union(*(node.types for node in picked)),
        own=own,
        accounted=bool(picked) or options.account_type_regexes == (".*",),
    )


def pick(nodes: Sequence[ProfileNode], type_regexes: Sequence[str]) -> list[ProfileNode]:
    """Return the nodes whose types are matched, one expression after the other."""
    if tuple(type_regexes) == (".*",):
        return list(nodes)
    return [
        node
        for regex in type_regexes
        for node in nodes
        if any(matches(kind, (regex,)) for kind in node.types)
    ]


def is_accounted(node: ProfileNode, options: ViewOptions) -> bool:
    """Return whether the node counts."""
    return options.account_type_regexes == (".*",) or any(
        matches(kind, options.account_type_regexes) for kind in node.types
    )


def numbers(node: ProfileNode, step: int) -> tuple[int, ...]:
    """Return a node's numbers at a step; below 0, the average of the steps in which it ran, rounded down."""
    found = node.numbers.get(step)
    if found is None:
        found = node.numbers[step] = _numbers(node, step)
    return found


def _numbers(node: ProfileNode, step: int) -> tuple[int, ...]:
    if not node.executions:
        return (*NOTHING[:PARAMS], node.parameters, node.float_ops)
    if step >= 0:
        one = node.executions.get(step)
        measured = _measured(one) if one is not None else NOTHING[:PARAMS]
    else:
        count = len(node.executions)
        every = [_measured(execution) for execution in node.executions.values()]
        # Rounded towards 0, as C++ divides.
        measured = tuple([int_divided(sum(column), count) for column in zip(*every, strict=True)])
    return (*measured, node.parameters, node.float_ops * measured[OCCURRENCE])


def int_divided(total: int, count: int) -> int:
    """Divide as C++ does."""
    return total // count if total >= 0 else -(-total // count)


def _measured(execution: Execution) -> tuple[int, ...]:
    accelerator = execution.accelerator_micros if execution.accelerator else 0
    cpu = execution.cpu_micros
    requested = peak = residual = output = 0
    for memory in execution.memory:
        requested += memory.requested
        peak += memory.peak
        residual += memory.residual
        output += memory.output
    return (execution.run_count, accelerator + cpu, accelerator, cpu, requested, peak, residual, output)


def in_order(rows: Sequence[ViewRow], options: ViewOptions, *, count_nodes: bool) -> list[ViewRow]:
    """Sort siblings; equal ones keep their order.

    Args:
        rows: What to sort.
        options: ``order_by`` decides.
        count_nodes: Whether ``occurrence`` sorts by the number of graph nodes; else it falls back to names.
    """
    order = options.order_by
    if order == "occurrence" and count_nodes:
        return sorted(rows, key=lambda row: -len(row.nodes))
    if order in ("name", "occurrence"):
        return sorted(rows, key=lambda row: row.name.encode("utf-8", "surrogateescape"))
    metric = METRICS.index(order)
    return sorted(rows, key=lambda row: -row.total[metric])
