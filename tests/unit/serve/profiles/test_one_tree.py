"""Summary, flame graph, operations, A/B and ranks tell one tree of a step: the same nodes and times."""

import shutil
from collections import defaultdict

import pytest
from support.addresses import Addresses
from support.recordings import recorded

from stepscope.attribute.step_tree import PARTS

RESNET, DLRM = "resnet50_v100_workers0.json.gz", "dlrm"
WHOLE = "max_depth=10000"


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Asks as the page does: two steps of one device, and one step of eight ranks."""
    log = tmp_path_factory.mktemp("log")
    shutil.copy(recorded(f"traces/kineto/{RESNET}"), log)
    shutil.copytree(recorded("traces/dlrm_8xv100"), log / DLRM)
    addresses = Addresses(log)

    def asked(name, query):
        return addresses.ask(name, query)

    return asked


@pytest.fixture(params=[RESNET, DLRM])
def views(ask, request):
    path = request.param
    return (
        ask("profile", f"path={path}"),
        {name: ask("view", f"path={path}&view={name}&{WHOLE}") for name in ("scope", "graph", "op")},
        ask("profile/diff", f"a={path}&b={path}"),
    )


def mean(summary, key):
    return sum(step.parts_ns[key] or 0 for step in summary.steps) / len(summary.steps)


def column(tree, key):
    at = [each.key for each in tree.columns].index(key)
    return [(row.name, row.values[at] or 0) for row in tree.rows]


def test_the_step_is_as_long_everywhere(views):
    summary, trees, difference = views
    wall = sum(step.wall_ns for step in summary.steps) / len(summary.steps)
    assert wall == pytest.approx(sum(mean(summary, key) for key in PARTS))
    assert difference.step.a.mean_ns == difference.step.b.mean_ns == pytest.approx(wall)
    for name in ("scope", "graph"):
        assert column(trees[name], "step_total_ns")[0][1] == pytest.approx(wall)
        assert sum(ns for _, ns in column(trees[name], "step_self_ns")) == pytest.approx(wall, rel=1e-6)
    assert column(trees["op"], "step_ns")[0][1] == pytest.approx(wall)
    assert sum(ns for _, ns in column(trees["op"], "step_ns")[1:]) == pytest.approx(wall, rel=1e-6)


def test_parts_of_the_summary_are_those_that_are_compared(views):
    summary, _, difference = views
    [parts] = [table.rows for table in difference.tables if table.key == "parts"]
    assert [row.name for row in parts] == list(PARTS)
    for row in parts:
        assert row.a.mean_ns == row.b.mean_ns == pytest.approx(mean(summary, row.name))
        assert row.difference_ns == 0
        assert row.verdict in ("same", "unclear"), "of few steps it cannot be told"


def compared(difference, key):
    """Mean nanoseconds of a step by name, where both sides are the same profile."""
    [rows] = [table.rows for table in difference.tables if table.key == key]
    assert all(row.a.mean_ns == row.b.mean_ns for row in rows)
    return {row.name: row.a.mean_ns for row in rows}


def test_operators_are_the_same_nodes_with_the_same_times_in_the_list_and_in_the_comparison(views):
    _, trees, difference = views
    listed, operators = dict(column(trees["op"], "step_ns")), compared(difference, "operators")
    assert len(operators) > 20
    assert {name: listed[name] for name in operators} == pytest.approx(operators)


def test_operators_are_the_same_nodes_with_the_same_times_in_the_graph(ask):
    """A node has its kernels below it; what a step spends in loading is the loader's."""
    graph = ask("view", f"path={RESNET}&view=graph&{WHOLE}")
    operators = compared(ask("profile/diff", f"a={RESNET}&b={RESNET}"), "operators")
    found: dict[str, float] = defaultdict(float)
    above: list[str] = []
    for row, (name, ns) in zip(graph.rows, column(graph, "step_self_ns"), strict=True):
        above[row.depth :] = [name]
        loading = [each for each in above if each.startswith("enumerate(DataLoader)")]
        known = [each for each in above if each in operators]
        found[(loading[:1] or known[-1:] or [name])[0]] += ns
    assert {name: found[name] for name in operators} == pytest.approx(operators)


def test_modules_are_the_same_nodes_with_the_same_times_in_the_flame_graph_and_in_the_comparison(ask):
    drawn = dict(column(ask("view", f"path={DLRM}&view=scope&{WHOLE}"), "step_total_ns"))
    modules = compared(ask("profile/diff", f"a={DLRM}&b={DLRM}"), "scopes")
    assert len(modules) > 20
    within = {name: ns for name, ns in modules.items() if name != "(no scope)"}
    assert {name: drawn[name] for name in within} == pytest.approx(within)


def test_boxes_of_a_flame_graph_lie_within_their_parent(views):
    """Its widths are the totals of the rows of Operations."""
    _, trees, _ = views
    for name in ("scope", "graph"):
        totals, owns = (column(trees[name], f"step_{which}_ns") for which in ("total", "self"))
        open_rows: list[int] = []
        below = [own for _, own in owns]
        for at, row in enumerate(trees[name].rows):
            while open_rows and trees[name].rows[open_rows[-1]].depth >= row.depth:
                open_rows.pop()
            if open_rows:
                below[open_rows[-1]] += totals[at][1]
            open_rows.append(at)
        assert below == pytest.approx([total for _, total in totals], abs=1)


def test_the_ranks_of_a_job_have_the_steps_that_each_of_them_has_alone(ask):
    job = ask("profile", f"path={DLRM}")
    assert len(job.steps) == 8
    for step in job.steps:
        [alone] = ask("profile", f"path={DLRM}/rank{step.rank}.json.gz").steps
        assert (alone.number, alone.wall_ns) == (step.number, step.wall_ns)
        assert alone.parts_ns == step.parts_ns
