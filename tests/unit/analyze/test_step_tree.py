"""Which thread's frames a step's time goes to, where its marks lie on a lane of their own."""

from __future__ import annotations

import json

import pytest

import stepscope as ss
from stepscope.analyze.step_tree import step_tree
from stepscope.integrations.python.profiler import frame_events, note_event

SAMPLER, OTHER = 10, 20


def frame(name: str, line: int) -> str:
    return "\0".join((name, f"{name}.py", str(line)))


def events(*spans: tuple[str, float, float]) -> list[dict]:
    """What a sampled program writes: frames of the training thread, and steps on the lane beside it."""
    frames = frame_events([([frame("train", 1), frame("svd", 2)], 0.9)], SAMPLER)
    return frames + [note_event(*each, SAMPLER) for each in spans]


@pytest.fixture
def of(tmp_path):
    def load(found):
        path = tmp_path / "a.trace.json"
        document = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": found}
        path.write_text(json.dumps(document))
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
    step = note_event("ProfilerStep#0", 0.0, 1.0, OTHER)
    own = frame_events([([frame("forward", 3)], 0.5)], OTHER + 1)
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
