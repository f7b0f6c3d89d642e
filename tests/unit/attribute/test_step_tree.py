"""Which thread's frames a step's time goes to, where its marks lie on a lane of their own."""

import json

import numpy as np
import pytest

import stepscope as ss
from stepscope.attribute.step_tree import loading_rows, step_tree
from stepscope.integrations.python.profiler import frame_events, note_event

SAMPLER, OTHER = 10, 20


def frames(lane: int, until_s: float, *names: str) -> list[dict]:
    return frame_events([(0, names), (round(1e9 * until_s), names)], lane)


def note(name: str, begun_s: float, ended_s: float, lane: int) -> dict:
    return note_event(name, round(1e9 * begun_s), round(1e9 * ended_s), lane)


def events(*spans: tuple[str, float, float]) -> list[dict]:
    """What a sampler with a clock of its own writes: frames of a thread, and steps on the lane beside it."""
    called = frames(SAMPLER, 0.9, "train.py(1): train", "svd.py(2): svd")
    return called + [note(*each, SAMPLER + 1) for each in spans]


@pytest.fixture
def of(tmp_path):
    def load(found):
        path = tmp_path / "a.trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": found}))
        trace = ss.load_trace(path, cache=False)
        tree = step_tree(trace)
        named = {trace.strings.texts()[trace.name[row]] for row in tree.row.tolist()}
        return named, int(tree.nothing_ns.sum()), int(tree.length_ns.sum())

    return load


def test_sampled_frames_are_the_time_of_steps_that_are_marked_beside_them(of):
    """The lane of the marks holds nothing else: a step was its loading alone, or nothing recorded."""
    named, nothing, length = of(events(("ProfilerStep#0", 0.0, 1.0), ("data_loading", 0.0, 0.1)))
    assert named == {"svd.py(2): svd", "data_loading"}
    assert (nothing, length) == (0, 900_000_000)


def test_frames_of_another_thread_are_not_where_the_stepping_thread_has_its_own(of):
    step = note("ProfilerStep#0", 0.0, 1.0, OTHER + 1)
    own = frames(OTHER + 1, 0.5, "forward.py(3): forward")
    named, nothing, length = of([*events(), step, *own])
    assert named == {"forward.py(3): forward"}
    assert (nothing, length) == (0, 500_000_000)


def test_a_wait_on_a_stream_of_the_device_is_nothing_that_a_step_did(make):
    event, kind = make.event, make.Kind
    trace = make.build([
        event("ProfilerStep#0", kind.STEP, 0, 100, step=0),
        event("cudaLaunchKernel", kind.RUNTIME_CALL, 0, 10, correlation=1),
        event("k", kind.KERNEL, 10, 30, device=0, stream=7, correlation=1),
        event("Stream Wait Event", kind.SYNC, 50, 40, device=0, stream=7),
    ])  # fmt: skip
    tree = step_tree(trace)
    assert {trace.strings[int(trace.name[row])] for row in tree.row.tolist()} == {"cudaLaunchKernel", "k"}
    assert int(tree.nothing_ns.sum()) == 60


LOADS = "torch/utils/data/dataloader.py(700): __next__"


@pytest.mark.parametrize(
    ("called", "loading"),
    [
        # The recorder's own event is known better than the frame around it.
        ([(LOADS, "PYTHON_FRAME", 0, 50), ("data_loading", "DATA_LOADING", 5, 40)], ["data_loading"]),
        ([("data_loading", "DATA_LOADING", 5, 40), ("inner", "DATA_LOADING", 10, 20)], ["data_loading"]),
        ([(LOADS, "PYTHON_FRAME", 0, 50), ("train.py(9): read", "PYTHON_FRAME", 5, 40)], [LOADS]),
        # An evaluation loads its own data.
        ([("train.py(9): evaluate", "PYTHON_FRAME", 0, 50), ("data_loading", "DATA_LOADING", 5, 40)], []),
        ([("aten::mm", "HOST_OP", 0, 50)], []),
    ],
)  # fmt: skip
def test_loading_is_the_outermost_event_that_is_known_best(make, called, loading):
    kinds = make.Kind
    step = make.event("step 1", kinds.STEP, 0, 100, step=1)
    trace = make.build([step, *(make.event(name, kinds[kind], *when) for name, kind, *when in called)])
    rows = loading_rows(trace, np.arange(len(trace)))
    assert [trace.name_of(row) for row in rows.tolist()] == loading
