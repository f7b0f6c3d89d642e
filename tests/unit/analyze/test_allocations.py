"""What was held when, by address or by size, and what it was for."""

import numpy as np
import pytest

from stepscope.analyze.allocations import NEVER, freed_at, live_allocations
from stepscope.analyze.memory import memory, memory_rows
from stepscope.analyze.memory_category import Category, categories
from stepscope.trace.tables import MemoryAction

ALLOCATE, FREE = MemoryAction.ALLOCATE, MemoryAction.FREE


def change(time, size, address=0, **more):
    action = ALLOCATE if size > 0 else FREE
    return {"time_ns": time, "bytes": size, "address": address, "action": action, "device": 0, **more}


def trace_of(make, memory, events=(), **facts):
    kind = make.Kind
    events = events or [make.event("op", kind.HOST_OP, 0, 1000)]
    return make.build(events, memory=memory, recorded={"timeline", "memory"}, **facts)


def test_frees_are_matched_by_address(make):
    trace = trace_of(
        make,
        [change(1, 8, 0xA), change(2, 8, 0xB), change(3, -8, 0xA), change(4, 8, 0xA), change(9, -8, 0xC)],
    )
    rows = memory_rows(trace, 0, 0)
    assert live_allocations(trace, rows, 2).tolist() == [0, 1]
    assert live_allocations(trace, rows, 3).tolist() == [1]
    assert live_allocations(trace, rows, 9).tolist() == [1, 3]
    assert freed_at(trace, rows).tolist() == [3, NEVER, NEVER, NEVER, NEVER]
    assert memory(trace)[0].by_address


def test_without_addresses_a_free_is_of_the_newest_of_its_size(make):
    # Two of 8 and one of 4; the 8s go in the opposite order, as a backward pass frees them.
    trace = trace_of(
        make, [change(1, 8), change(2, 4), change(3, 8), change(5, -8), change(6, -8), change(7, 8)]
    )
    rows = memory_rows(trace, 0, 0)
    assert freed_at(trace, rows).tolist() == [6, NEVER, 5, NEVER, NEVER, NEVER]
    assert live_allocations(trace, rows, 5).tolist() == [0, 1]
    assert live_allocations(trace, rows, 9).tolist() == [1, 5]
    assert not memory(trace)[0].by_address


def test_a_free_of_what_was_there_before_takes_nothing(make):
    trace = trace_of(make, [change(1, -8), change(2, 8), change(3, -8), change(4, 8)])
    rows = memory_rows(trace, 0, 0)
    assert live_allocations(trace, rows, 9).tolist() == [3]
    assert freed_at(trace, rows).tolist() == [NEVER, 3, NEVER, NEVER]


def test_what_is_held_adds_up_to_the_level_whatever_the_order(make):
    generator = np.random.default_rng(7)
    sizes, held, events = [4, 8, 16], [], []
    for time in range(400):
        if held and generator.random() < 0.45:
            events.append(change(time, -held.pop(generator.integers(len(held)))))
        else:
            held.append(int(generator.choice(sizes)))
            events.append(change(time, held[-1]))
    trace = trace_of(make, events)
    rows = memory_rows(trace, 0, 0)
    level = np.cumsum(trace.memory.bytes[rows])
    for time in (0, 57, 200, 399):
        live = live_allocations(trace, rows, time)
        assert trace.memory.bytes[live].sum() == level[time]


# --- what for ---------------------------------------------------------------------------------------------


@pytest.fixture
def trained(make):
    """Two steps of 1000: forward to 400, backward to 800, the optimizer to 950."""
    event, kind = make.event, make.Kind
    events, memory = [], []
    rows = {}
    for step in range(2):
        at = step * 1000
        events += [
            event(f"step {step}", kind.STEP, at, 1000, step=step),
            event("aten::mm", kind.HOST_OP, at + 10, 380),
            event("autograd::engine::evaluate_function: Mm", kind.HOST_OP, at + 400, 400),
            event("Optimizer.step#Adam.step", kind.ANNOTATION, at + 800, 150),
        ]
    base = make.build(events)
    for row in range(len(base)):
        rows[base.name_of(row), int(base.step[row])] = row
    forward, backward, optimizer = (
        "aten::mm",
        "autograd::engine::evaluate_function: Mm",
        "Optimizer.step#Adam.step",
    )

    def made(time, size, address, name, step):
        return change(time, size, address, row=rows[name, step])

    memory = [
        made(20, 100, 1, forward, 0), made(30, 10, 2, forward, 0), made(40, -10, 2, forward, 0),
        made(410, 50, 3, backward, 0), made(420, 7, 4, backward, 0), made(430, -7, 4, backward, 0),
        made(500, -100, 1, backward, 0),
        made(810, 60, 5, optimizer, 0), made(820, 5, 6, optimizer, 0), made(830, -5, 6, optimizer, 0),
        made(1020, 100, 1, forward, 1), made(1100, -50, 3, forward, 1),
    ]  # fmt: skip
    return make.build(events, memory=memory, recorded={"timeline", "memory", "steps"})


def test_categories_follow_phase_and_lifetime(trained):
    rows = memory_rows(trained, 0, 0)
    found = categories(trained, rows)
    made = [row for row in rows.tolist() if trained.memory.bytes[row] > 0]
    names = [(int(trained.memory.bytes[row]), Category(int(found.category[row])).name) for row in made]
    assert names == [
        (100, "ACTIVATION"), (10, "TEMPORARY"), (50, "GRADIENT"), (7, "TEMPORARY"), (60, "OPTIMIZER_STATE"),
        (5, "TEMPORARY"), (100, "ACTIVATION"),
    ]  # fmt: skip


def test_the_peak_is_told_by_category_and_within_a_range(trained):
    (device,) = memory(trained)
    held = {one.name: one.bytes for one in device.peak.by_category}
    assert (device.peak.time_ns, device.peak.bytes) == (1020, 210)
    assert held == {"activation": 100, "optimizer_state": 60, "gradient": 50}
    (first,) = memory(trained, within=(0, 1000))
    assert (first.peak.time_ns, first.peak.bytes) == (420, 157)
    assert first.peak.step == 0


def test_nothing_is_told_where_no_phase_was_seen(make):
    trace = trace_of(make, [change(1, 8, 0xA)])
    assert categories(trace, memory_rows(trace, 0, 0)) is None
    assert memory(trace)[0].peak.by_category is None
