"""What the endpoints of kernels, memory and history answer."""

import json

import msgspec
import pytest
from support.addresses import Addresses
from support.errors import raises

from stepscope.serve.profiles.kernels import kernels
from stepscope.serve.profiles.memory import LARGEST, memory
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.tree import tree
from stepscope.serve.reply import Refusal
from stepscope.trace.tables import MemoryAction


@pytest.fixture
def profile(make):
    """Three steps with a kernel each and an allocation that grows and is freed; one of the allocator's."""
    event, kind = make.event, make.Kind
    events, changes = [], []
    for step in range(3):
        at = step * 1000
        events += [
            event(f"step {step}", kind.STEP, at, 1000, step=step + 5),
            event("aten::mm", kind.HOST_OP, at + 10, 200, scope="model/head"),
            event("launch", kind.RUNTIME_CALL, at + 20, 10, correlation=step + 1, scope="model/head"),
            event("gemm", kind.KERNEL, at + 100, 300 + step, device=0, stream=7, correlation=step + 1),
        ]
    base = make.build(events)
    row = next(at for at in range(len(base)) if base.name_of(at) == "aten::mm")
    for step in range(3):
        at, size = step * 1000, 1000 * (step + 1)
        changes += [
            {"time_ns": at + 30, "bytes": size, "address": 0xF0 + step, "action": MemoryAction.ALLOCATE,
             "device": 0, "allocated_bytes": 500 + size, "reserved_bytes": 8192, "row": row},
            {"time_ns": at + 900, "bytes": -size, "address": 0xF0 + step, "action": MemoryAction.FREE,
             "device": 0, "allocated_bytes": 500, "reserved_bytes": 8192},
        ]  # fmt: skip
    changes.append({
        "time_ns": 2950, "bytes": 4096, "address": 1, "action": MemoryAction.SEGMENT_ALLOCATE, "device": 0,
        "allocated_bytes": 500, "reserved_bytes": 12288,
    })  # fmt: skip
    found = {"timeline", "steps", "device", "launches", "memory"}
    return OpenProfile("run/trace.json", make.build(events, memory=changes, recorded=found))


def test_kernels_are_rows_that_lead_to_their_longest_call(profile):
    said = kernels(profile)
    (gemm,) = said.rows
    assert (said.total, said.windows, said.steps, said.step_mean_ns) == (1, 3, [5, 6, 7], 301)
    assert (gemm.longest.name, gemm.longest.duration_ns, gemm.longest.start_ns) == ("gemm", 302, 2100)
    assert gemm.grid_most is None
    assert "-order_by micros" in said.command
    assert any(line.startswith("occupancy") for line in said.not_recorded)
    assert any(line.startswith("FLOP/s") for line in said.not_recorded)
    one = kernels(profile, "6-7")
    assert (one.windows, one.rows[0].step_mean_ns, one.left_out) == (2, 301.5, 1)
    assert one.command.endswith("--steps 6-7")
    json.dumps(msgspec.to_builtins(said))


def test_memory_has_its_curve_peak_steps_and_largest(profile):
    (device,) = memory(profile).devices
    assert (device.peak_bytes, device.peak_step, device.peak_ns) == (3500, 7, 2030)
    assert (device.baseline_bytes, device.before_bytes, device.reserved_bytes) == (500, 500, 12288)
    assert (device.level, device.by_address, device.allocations) == ("recorded", True, 3)
    assert device.most_bytes == [1500, 500, 2500, 500, 3500, 500, 500]
    assert device.reserved[-1] == 12288
    assert [(step.number, step.peak_bytes, step.allocated_bytes) for step in device.steps] == [
        (5, 1500, 1000), (6, 2500, 2000), (7, 3500, 3000),
    ]  # fmt: skip
    assert [(one.bytes, one.operator, one.step, one.at_peak) for one in device.largest] == [
        (3000, "aten::mm", 7, True), (2000, "aten::mm", 6, False), (1000, "aten::mm", 5, False),
    ]  # fmt: skip
    assert device.largest[0].freed_ns == 2900
    assert device.largest[0].scope == "model/head"
    assert {key: holders[0].bytes for key, holders in device.holders.items()} == {
        "scope": 3000,
        "operator": 3000,
    }
    assert [(one.action, one.bytes) for one in device.allocator] == [("segment_allocate", 4096)]
    assert device.counts == {"allocate": 3, "free": 3, "segment_allocate": 1}


def test_memory_of_a_step_has_that_steps_peak(profile):
    (device,) = memory(profile, "6").devices
    assert (device.peak_bytes, device.peak_step, device.allocations) == (2500, 6, 1)
    assert [step.number for step in device.steps] == [6]


def test_a_curve_of_few_points_keeps_extremes(profile):
    (device,) = memory(profile, "", 2).devices
    assert len(device.time_ns) == 2
    assert max(device.most_bytes) == 3500
    assert min(device.least_bytes) == 500


def test_the_largest_are_the_largest_of_many(make):
    changes = [
        {"time_ns": at, "bytes": at + 1, "address": at + 1, "action": MemoryAction.ALLOCATE, "device": 0}
        for at in range(LARGEST + 50)
    ]
    changes += [
        {**one, "time_ns": 1000, "bytes": -one["bytes"], "action": MemoryAction.FREE} for one in changes[1:]
    ]
    changes.append({**changes[1], "time_ns": 2000, "bytes": 10**6, "address": 10**6})
    events = [make.event("op", make.Kind.HOST_OP, 0, 10)]
    trace = make.build(events, memory=changes, recorded={"timeline", "memory"})
    (device,) = memory(OpenProfile("a", trace)).devices
    assert device.allocations == LARGEST + 51
    # The first, of one byte, is still held when the last makes the peak; the largest come before it.
    assert [one.bytes for one in device.largest] == [10**6, *range(LARGEST + 50, 51, -1), 1]
    assert [one.bytes for one in device.largest if one.at_peak] == [10**6, 1]


@pytest.mark.parametrize("ask", [kernels, memory])
def test_steps_that_are_not_there_are_refused(profile, ask):
    with raises(Refusal, status=400, hint="steps: 5, 6, 7"):
        ask(profile, "99")


def test_what_was_not_recorded_is_refused_with_what_to_record(make):
    nothing = OpenProfile("a", make.build([make.event("frame", make.Kind.PYTHON_FRAME, 0, 10)]))
    for ask in (kernels, memory):
        with raises(Refusal, status=422):
            ask(nothing)


def test_a_view_counts_the_chosen_steps(profile):
    whole, some = tree(profile, "op", {}), tree(profile, "op", {}, "6-7")
    at = next(at for at, column in enumerate(whole.columns) if column.key == "device_ns")
    assert (whole.rows[0].values[at], some.rows[0].values[at]) == (301, 301.5)
    assert (whole.source, some.windows) == ("trace", 2)
    assert some.command.endswith("--steps 6-7")


TRACES = {
    name: json.dumps({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": dur},
        {"ph": "X", "cat": "cpu_op", "name": f"only {name}", "pid": 1, "tid": 1, "ts": 100, "dur": 1},
    ]}) for name, dur in (("a.json", 2), ("b.json", 7))
}  # fmt: skip


@pytest.fixture
def answers(tmp_path):
    for name, text in TRACES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "broken.json").write_text("{}")

    def ask(name, query):
        return Addresses(tmp_path).json(name, query)

    return ask


def test_history_puts_profiles_side_by_side(answers):
    said = answers("profile/history", "path=a.json&path=b.json&by=operators")
    rows = {row["name"]: (row["mean_ns"], row["change_ns"]) for row in said["rows"]}
    assert rows["aten::mm"] == ([2000, 7000], 5000)
    assert rows["only a.json"] == ([1000, None], -1000)
    assert [one["path"] for one in said["captures"]] == ["a.json", "b.json"]
    # What the operator takes more, the step has less of nothing.
    assert {row["name"] for row in said["rows"][:2]} == {"aten::mm", "(nothing recorded)"}
    assert said["total"] == 4


def test_history_says_which_profile_cannot_be_read(answers):
    said = answers("profile/history", "path=a.json&path=broken.json")
    assert [one["failure"] is None for one in said["captures"]] == [True, False]
    assert all(row["mean_ns"][1] is None for row in said["rows"])


@pytest.mark.parametrize(
    ("query", "status"),
    [("by=operators", 400), ("path=a.json&by=x", 400), ("path=../a.json", 403), ("path=c.json", 404),
     ("&".join(["path=a.json"] * 25), 400)],
)  # fmt: skip
def test_history_that_cannot_be_is_refused(answers, query, status):
    with raises(Refusal, status=status):
        answers("profile/history", query)


def test_the_endpoints_answer(answers):
    assert answers("profile/kernels", "path=a.json")["on_device"] is False
    for query in ("path=a.json", "path=a.json&points=0"):
        with pytest.raises(Refusal):
            answers("profile/memory", query)
    assert answers("view", "path=a.json&view=op&steps=")["windows"] == 1
