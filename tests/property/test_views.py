"""The vectorised tree and its selection against the slow and obvious way."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.options import ViewOptions, matches
from stepscope.analyze.views.choose import choose, terms_of_trace
from stepscope.analyze.views.tree import Tree, below_added, depths


@st.composite
def forests(draw: st.DrawFn) -> Tree:
    count = draw(st.integers(1, 25))
    parent = np.array([-1, *(draw(st.integers(0, i - 1)) for i in range(1, count))], np.int32)
    own = np.array([draw(st.integers(0, 9)) for _ in range(count)], float)
    names = ["(all)", *(draw(st.sampled_from("abcdef")) + str(i) for i in range(1, count))]
    sums = {"calls": np.ones(count), "device_ns": own * 1000, "host_ns": np.zeros(count)}
    totals = {name: below_added(values, parent) for name, values in sums.items()}
    return Tree(names, parent, depths(parent), sums, totals)


def children(tree: Tree, node: int) -> list[int]:
    return [i for i in range(len(tree)) if tree.parent[i] == node]


def everything_below(tree: Tree, node: int) -> list[int]:
    return [node, *(other for child in children(tree, node) for other in everything_below(tree, child))]


@given(forests())
def test_totals_hold_everything_below(tree: Tree) -> None:
    for node in range(len(tree)):
        assert tree.total["device_ns"][node] == tree.own["device_ns"][everything_below(tree, node)].sum()
        assert tree.depth[node] == 1 + (tree.depth[tree.parent[node]] if node else 0)


options = st.builds(
    ViewOptions,
    max_depth=st.integers(1, 6),
    min_micros=st.integers(0, 12),
    order_by=st.sampled_from(["name", "micros", "occurrence"]),
    start_name_regexes=st.sampled_from([(".*",), ("a.*",), ("[ab].*", "c.*"), ()]),
    trim_name_regexes=st.sampled_from([(), ("d.*",)]),
    show_name_regexes=st.sampled_from([(".*",), ("[a-e].*",)]),
    hide_name_regexes=st.sampled_from([(), ("b.*",)]),
    account_displayed_op_only=st.booleans(),
)


def slowly(tree: Tree, options: ViewOptions) -> list[tuple[str, int]]:
    """tfprof's selection, as a recursion over the tree."""

    def started(node: int) -> list[int]:
        if options.start_name_regexes == (".*",):
            return [node]
        if node and matches(tree.names[node], options.start_name_regexes):
            return [node]
        return [found for child in children(tree, node) for found in started(child)]

    def allowed(node: int, depth: int) -> bool:
        return (
            depth <= options.max_depth
            and tree.total["device_ns"][node] >= options.min_micros * 1000
            and matches(tree.names[node], options.show_name_regexes)
            and not matches(tree.names[node], options.hide_name_regexes)
        )

    def shown(node: int, depth: int) -> list[tuple[int, list]]:
        below = []
        if not matches(tree.names[node], options.trim_name_regexes):
            below = [found for child in children(tree, node) for found in shown(child, depth + 1)]
        return [(node, below)] if allowed(node, depth) else below

    def key(entry: tuple[int, list]):
        name = tree.names[entry[0]]
        if options.order_by == "micros":
            return (-totals(entry)["device_ns"], name)
        return (-totals(entry)["calls"], name) if options.order_by == "occurrence" else (name,)

    def totals(entry: tuple[int, list]) -> dict[str, float]:
        node, below = entry
        if not options.account_displayed_op_only:
            return {name: values[node] for name, values in tree.total.items()}
        sums = [totals(child) for child in below]
        return {name: values[node] + sum(one[name] for one in sums) for name, values in tree.own.items()}

    def lines(entries: list[tuple[int, list]], depth: int) -> list[tuple[str, int]]:
        found = []
        for node, below in sorted(entries, key=key):
            found += [(tree.names[node], depth), *lines(below, depth + 1)]
        return found

    roots = started(0) if options.start_name_regexes != (".*",) else children(tree, 0)
    return [("(all)", 0), *lines([found for root in roots for found in shown(root, 2)], 1)]


@given(forests(), options)
def test_the_selection_is_tfprofs(tree: Tree, options: ViewOptions) -> None:
    chosen = choose(tree, options, terms_of_trace(1))
    assert [(line.name, line.depth) for line in chosen.lines] == slowly(tree, options)
