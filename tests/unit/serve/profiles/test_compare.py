"""What the page gets of two profiles side by side."""

import json

import msgspec
import numpy as np
import pytest
from support.addresses import Addresses
from support.errors import raises
from support.records import write_series

from stepscope import store
from stepscope.analyze.diff import Change, DiffSide
from stepscope.serve.profiles.compare import MOST_ROWS, MOST_STEPS, compare, explained, outermost, thinned
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.reply import Refusal
from stepscope.serve.run_series import recorded_beside


def profile(make, path, lasts, *, steps=4, **more):
    """Steps of 1000 ns and ``lasts``; an operator of a module launches a kernel that takes ``lasts`` ns."""
    event, kind = make.event, make.Kind
    events = []
    for step in range(steps):
        at = step * 2000
        events += [
            event(f"step {step}", kind.STEP, at, 1000 + more.get("longer", 0), step=step),
            event("aten::mm", kind.HOST_OP, at + 10, 100, scope="model/head"),
            event("launch", kind.RUNTIME_CALL, at + 20, 10, correlation=step + 1, scope="model/head"),
            event("gemm", kind.KERNEL, at + 40, lasts + step, device=0, stream=7, correlation=step + 1,
                  scope="model/head"),
        ]  # fmt: skip
        for name in more.get("extra", ()):
            events.append(event(name, kind.KERNEL, at + 800, 50, device=0, stream=7, scope="model/tail"))
    return OpenProfile(path, make.build(events))


def test_each_table_says_what_changed_and_what_explains_it(make):
    found = compare(
        None, profile(make, "a.json", 200), profile(make, "b.json", 500, extra=["relu"], longer=350)
    )
    tables = {table.key: table for table in found.tables}
    assert set(tables) == {"parts", "scopes", "launched", "operators", "kernels"}
    kernels = {row.name: row for row in tables["kernels"].rows}
    assert kernels["gemm"].difference_ns == 300
    assert (kernels["gemm"].verdict, kernels["relu"].verdict) == ("slower", "added")
    assert kernels["relu"].a is None
    assert kernels["gemm"].explains_ratio == pytest.approx(300 / 350)
    assert tables["kernels"].slower_ns == 350
    assert [row.name for row in tables["launched"].rows] == ["aten::mm"]
    # The model holds both modules: its time counts once.
    assert tables["scopes"].slower_ns == 350
    assert {row.name: row.difference_ns for row in tables["scopes"].rows}["model"] == 350
    assert found.on_device
    assert found.command == "stepscope diff a.json b.json"
    json.dumps(msgspec.to_builtins(found))


def test_the_way_back_is_the_same_with_the_other_sign(make):
    a, b = profile(make, "a", 200), profile(make, "b", 500, extra=["relu"])
    there = {row.name: row.difference_ns for table in compare(None, a, b).tables for row in table.rows}
    back = {row.name: -row.difference_ns for table in compare(None, b, a).tables for row in table.rows}
    assert there == back
    verdicts = {row.name: row.verdict for table in compare(None, b, a).tables for row in table.rows}
    assert (verdicts["relu"], verdicts["gemm"]) == ("removed", "faster")


def test_steps_of_one_profile_are_compared(make):
    one = profile(make, "a.json", 200)
    found = compare(None, one, one, "0", "2-3")
    assert (found.a.numbers, found.b.numbers) == ([0], [2, 3])
    (gemm,) = next(table for table in found.tables if table.key == "kernels").rows
    assert (gemm.difference_ns, gemm.verdict, gemm.p_value) == (2.5, "unclear", None)
    assert found.notes
    assert found.command.endswith("--steps-a 0 --steps-b 2-3")


def test_every_step_is_given_and_of_many_the_shortest_and_the_longest(make):
    assert len(compare(None, profile(make, "a", 200), profile(make, "b", 200, steps=7)).b.steps_ns) == 7
    many = thinned([float(at) for at in range(3 * MOST_STEPS, 0, -1)])
    assert (len(many), many[0], many[-1]) == (MOST_STEPS, 1.0, 3.0 * MOST_STEPS)
    assert thinned([3.0, 1.0]) == [3.0, 1.0]


def test_nothing_changed_explains_nothing(make):
    one = profile(make, "a.json", 200)
    rows = [row for table in compare(None, one, one).tables for row in table.rows]
    assert {(row.difference_ns, row.explains_ratio) for row in rows} == {(0.0, None)}


def test_what_goes_the_other_way_explains_nothing_of_a_slower_step(make):
    slower = profile(make, "b.json", 500, longer=400)
    rows = {
        row.name: row
        for table in compare(None, profile(make, "a.json", 900), slower).tables
        for row in table.rows
    }
    assert rows["gemm"].difference_ns == -400
    assert rows["gemm"].explains_ratio is None
    equal = compare(None, profile(make, "a.json", 200), profile(make, "b.json", 500))
    assert {row.explains_ratio for table in equal.tables for row in table.rows} == {None}


def change(name, difference, verdict="slower"):
    side = DiffSide(5, 10.0, 10.0, 1.0, 1.0)
    return Change(name, side, side, difference, 1.0, verdict, 0.01, 1.0, difference, difference, difference)


def test_no_scope_explains_more_than_all_though_another_within_it_makes_up_for_it():
    scopes = [change("m", 20.0), change("m/slow", 100.0), change("m/fast", -80.0), change("n", 25.0)]
    assert explained(change("step", 45.0), scopes, nested=True) == 125.0
    assert explained(change("step", -45.0), scopes, nested=True) == -80.0
    assert explained(change("step", 0.1, "same"), scopes, nested=True) is None
    assert explained(change("step", 45.0), scopes[1:], nested=False) == 125.0


def test_what_was_left_out_is_counted(make):
    names = [f"kernel {number}" for number in range(MOST_ROWS + 5)]
    one, two = profile(make, "a", 200, steps=1), profile(make, "b", 200, steps=1, extra=names)
    table = next(table for table in compare(None, one, two).tables if table.key == "kernels")
    assert (len(table.rows), table.total) == (MOST_ROWS, MOST_ROWS + 6)


def test_outer_scopes_are_those_in_no_other():
    class Change:
        def __init__(self, name):
            self.name = name

    found = outermost([Change(name) for name in ("a", "a/b", "a/b/c", "ab/c", "/x")])
    assert [one.name for one in found] == ["a", "ab/c", "/x"]


TRACE = json.dumps(
    {"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    ]}
)  # fmt: skip


def test_the_endpoint_answers_and_refuses(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(TRACE)
    addresses = Addresses(tmp_path)
    assert addresses.json("profile/diff", "a=a.json&b=b.json")["step"]["verdict"] == "unclear"
    for query, status in (("a=a.json&b=c.json", 404), ("a=a.json&b=b.json&steps_b=3", 400), ("a=a.json", 400),
                          ("a=../x&b=b.json", 403)):  # fmt: skip
        with raises(Refusal, status=status):
            addresses.ask("profile/diff", query)


NOISE = np.random.default_rng(5).gamma(100.0, 0.1, 700)
"""Milliseconds of steps of 10 ms that vary by 1."""
DRIFT = np.repeat(np.random.default_rng(6).normal(0.0, 1.0, 14), 50)


@pytest.mark.parametrize(
    ("runs", "captured", "expected"),
    [
        # Of two runs the steps that both recorded.
        ({"a": NOISE[:350], "b": NOISE[350:] + 9}, {"a": [5], "b": [5]}, ("worse", "175-349")),
        ({"a": NOISE[:350] + 9, "b": NOISE[350:]}, {"a": [5], "b": [5]}, ("better", "175-349")),
        ({"a": NOISE[:350], "b": NOISE[350:]}, {"a": [5], "b": [5]}, ("same", "175-349")),
        ({"a": NOISE[:350], "b": NOISE[350:500] + 9}, {"a": [5], "b": [5]},
         ("worse", "75-149")),
        # Speed that comes and goes in both is not told apart by its many steps.
        ({"a": NOISE[:350] + DRIFT[:350], "b": NOISE[350:] + DRIFT[350:]}, {"a": [5], "b": [5]},
         ("noise", "175-349")),
        # Of one run the steps around each capture.
        ({"a": np.where(np.arange(700) < 350, NOISE, NOISE + 9)}, {"a": [200, 500]},
         ("worse", "201-349 and 501-649")),
        ({"a": np.where(np.arange(700) < 600, NOISE, NOISE + 9)}, {"a": [200, 500]},
         ("noise", "201-349 and 501-649")),
        # A step of one, or of none.
        ({"a": NOISE[:2], "b": NOISE[2:4]}, {"a": [0], "b": [0]}, ("unknown", "step 1")),
        ({"a": NOISE[:350], "b": None}, {"a": [5], "b": [5]}, None),
    ],
)  # fmt: skip
def test_the_steps_that_runs_recorded_decide(tmp_path, runs, captured, expected):
    for name, ms in runs.items():
        took_ms = [] if ms is None else ms.tolist()
        write_series(tmp_path / name, {"loss": [1.0], "speed/step_time_ms": took_ms})
    sides = [
        (f"{name}/profiles/{step}.json.gz", [step]) for name, steps in captured.items() for step in steps
    ]
    with store.open(tmp_path, cache=False) as log:
        found = recorded_beside(log, tuple(path for path, _ in sides), tuple(steps for _, steps in sides))
    if found is not None:
        steps = found.window.removeprefix("mean of ").removeprefix("steps ").replace("\N{EN DASH}", "-")
        assert (found.verdict, steps) == expected
    else:
        assert expected is None
