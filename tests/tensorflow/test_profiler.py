"""Profiles of sessions and of TensorFlow 2, captured by the hook and read back by the readers."""

import importlib
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tfprof import options_of
from support.waiting import until

import stepscope as ss
from stepscope.trace.tfprof import find_profile

tf = pytest.importorskip("tensorflow", reason="captures TensorFlow's steps")
training_util: Any = importlib.import_module("tensorflow.python.training.training_util")
pytestmark = pytest.mark.filterwarnings("default")
STEPS = 20


def pointers(run: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((run / "profiles").glob("*.profile.json"))]


def estimator(folder: Path, *, reads_first: bool = False) -> tuple[Any, Any]:
    v1 = tf.compat.v1

    def model(features: Any, labels: Any, mode: str) -> Any:
        hidden = v1.layers.dense(features, 16, activation=tf.nn.relu, name="hidden")
        loss = tf.reduce_mean((v1.layers.dense(hidden, 1, name="out") - labels) ** 2)
        if mode == "eval":
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        step = v1.train.get_global_step()
        # TensorFlow's hook counts from a step that it reads beside the training, sometimes after it was
        # increased: its captures then come one step early. With ``reads_first`` they cannot.
        read = training_util._get_or_create_global_step_read()
        with tf.control_dependencies([read] if reads_first else []):
            train = v1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def data() -> Any:
        pair = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
        return tf.data.Dataset.from_tensors(pair).repeat()

    return tf.estimator.Estimator(model, str(folder / "model")), data


needs_estimator = pytest.mark.skipif(
    not tf.__version__.startswith("2.15."), reason="the Estimator is in 2.15"
)


@needs_estimator
def test_captures_steps_of_an_estimator_in_training_and_evaluation(tmp_path: Path) -> None:
    from stepscope.integrations.tensorflow import ProfilerHook

    made, data = estimator(tmp_path)
    run = tmp_path / "run"
    hook = ProfilerHook(save_steps=6, num_steps=2, run=run, analyse=False)
    made.train(data, steps=STEPS, hooks=[hook])
    made.evaluate(data, steps=STEPS, hooks=[hook])
    assert [each["steps"] for each in pointers(run)] == [[6, 7], [12, 13], [18, 19]]
    (train,), (evaluation,) = pointers(run)[:1], pointers(run / "eval")[:1]
    assert train["path"] == "profiles/step00000006/chief_rank0_step00000006.tfprof"
    assert train["steps"] == evaluation["steps"] == [6, 7]
    folder = run / train["path"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "profile.context", "run_meta_6", "run_meta_7", "timeline-6.json", "timeline-7.json",
    ]  # fmt: skip
    read = find_profile(folder / "profile.context")
    assert read is not None
    profile = read()
    assert sorted(profile.steps) == [6, 7]
    assert "hidden/MatMul" in profile.nodes
    assert ss.load_trace(folder / "timeline-6.json", cache=False).steps.number.tolist() == [6]
    whole = ss.load_trace(folder, cache=False)
    assert (whole.format, whole.steps.number.tolist(), whole.notes) == ("step_stats", [6, 7], ())


def taken(folder: Path) -> list[int]:
    """Return the steps of which there are timelines below a folder."""
    return sorted(int(path.stem.rpartition("-")[2]) for path in folder.rglob("timeline-*.json"))


@needs_estimator
@pytest.mark.parametrize(("every", "captured"), [(7, [7, 14, 21, 28]), (1, [*range(2, 22), *range(23, 32)])])
def test_steps_and_files_are_those_of_the_original(tmp_path: Path, every: int, captured: list[int]) -> None:
    from stepscope.integrations.tensorflow import ProfilerHook

    made, data = estimator(tmp_path, reads_first=True)
    run, theirs = tmp_path / "run", tmp_path / "theirs"
    theirs.mkdir()
    for steps in (21, 10):
        with tf.Graph().as_default():  # the original has to have a graph when it is made
            original = tf.compat.v1.train.ProfilerHook(save_steps=every, output_dir=str(theirs))
        hook = ProfilerHook(save_steps=every, output_dir=str(run), max_profiles=100, analyse=False)
        made.train(data, steps=steps, hooks=[original, hook])
    assert taken(run) == taken(theirs) == captured
    found = [each for each in pointers(run) if each["steps"] == captured[1:2]]
    assert [each["path"] for each in found] == [
        f"profiles/step{captured[1]:08d}/chief_rank0_step{captured[1]:08d}.tfprof"
    ]
    one = json.loads(next(run.rglob(f"timeline-{captured[-1]}.json")).read_text())["traceEvents"]
    other = json.loads((theirs / f"timeline-{captured[-1]}.json").read_text())["traceEvents"]
    assert one == other


@needs_estimator
def test_the_last_step_is_captured_however_long_the_one_before_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscope.integrations.tensorflow import ProfilerHook, session_profiler

    made, data = estimator(tmp_path)
    run, ended = tmp_path / "run", threading.Event()
    real = session_profiler.ContextWriter.of
    monkeypatch.setattr(session_profiler.ContextWriter, "of", lambda *all: ended.wait(60) and real(*all))

    class Last(tf.compat.v1.train.SessionRunHook):
        def end(self, session: Any) -> None:
            ended.set()

    made.train(data, steps=STEPS, hooks=[Last(), ProfilerHook(save_steps=5, run=run, analyse=False)])
    assert taken(run) == [5, 10, 15, 20]
    assert [each["failure"] for each in pointers(run)] == [None] * 4


@needs_estimator
def test_one_hook_captures_a_training_and_the_evaluations_within_it(tmp_path: Path) -> None:
    from stepscope.integrations.tensorflow import ProfilerHook

    made, data = estimator(tmp_path)
    made = tf.estimator.Estimator(
        made.model_fn, str(tmp_path / "model"), tf.estimator.RunConfig(save_checkpoints_steps=10)
    )
    hook = ProfilerHook(save_steps=7, run=tmp_path / "run", analyse=False)
    tf.estimator.train_and_evaluate(
        made,
        tf.estimator.TrainSpec(data, max_steps=22, hooks=[hook]),
        tf.estimator.EvalSpec(data, steps=8, hooks=[hook], throttle_secs=0, start_delay_secs=0),
    )
    assert taken(tmp_path / "run" / "profiles") == [7, 14, 21]
    assert set(taken(tmp_path / "run" / "eval")) == {7}
    assert len(taken(tmp_path / "run" / "eval")) > 1


@needs_estimator
def test_the_graph_has_times_memory_and_shapes_of_the_captured_step(tmp_path: Path) -> None:
    from stepscope.integrations.tensorflow import ProfilerHook
    from stepscope.serve.records.graph import costs_of, nodes_of_run

    made, data = estimator(tmp_path)
    hook = ProfilerHook(save_steps=6, num_steps=2, show_memory=True, run=tmp_path / "run", analyse=False)
    made.train(data, steps=10, hooks=[hook])
    with ss.open(tmp_path / "run", cache=False) as log:
        run = log.run(".")
        tags = [each.tag for each in run.records() if each.kind == "run_metadata"]
        costs = {each.name: each for each in costs_of(run.record(tags[0])[-1][-1])}
        nodes = {node.name: node for node in nodes_of_run(run)}
    assert tags == ["step_7"]
    fused = costs["hidden/Relu"]  # TensorFlow runs MatMul, BiasAdd and Relu as one
    assert (fused.duration_us > 0, fused.shapes) == (True, [[8, 16]])
    assert max(each.memory_bytes or 0 for each in costs.values()) >= 8 * 16 * 4
    assert nodes["hidden/MatMul"].shapes == [[8, 16]]
    (found,) = pointers(tmp_path / "run")
    for name in ("timeline-7.json", "run_meta_7"):
        trace = ss.load_trace(tmp_path / "run" / found["path"] / name, cache=False)
        [place] = [
            at
            for at, row in enumerate(trace.operators.row.tolist())
            if trace.scopes.text(int(trace.scope[row])) == "hidden/Relu"
        ]
        assert trace.strings[int(trace.operators.outputs[place])] == '["float[8,16]"]'
        # And its life: allocated by the operation that made it, with a size and, where it ended, an end.
        size = trace.memory.bytes[trace.memory.row == trace.operators.row[place]]
        assert 8 * 16 * 4 <= size.max() <= 2 * 8 * 16 * 4


@needs_estimator
def test_a_function_says_which_steps_of_a_session_are_captured(tmp_path: Path) -> None:
    from stepscope.integrations.tensorflow import LambdaProfilerHook

    made, data = estimator(tmp_path)
    hook = LambdaProfilerHook(lambda step: 10 <= step < 13, run=tmp_path / "run", analyse=False)
    made.train(data, steps=STEPS, hooks=[hook])
    (found,) = pointers(tmp_path / "run")
    assert (found["steps"], found["cause"], found["path"]) == (
        [10, 11, 12], "predicate", "profiles/step00000010/chief_rank0_step00000010.tfprof",
    )  # fmt: skip
    assert len(list((tmp_path / "run" / found["path"]).glob("timeline-*.json"))) == 3


@needs_estimator
def test_fifty_steps_are_one_profile_as_profile_context_made(tmp_path: Path) -> None:
    from stepscope.analyze.tfprof.report import profile
    from stepscope.integrations.tensorflow import LambdaProfilerHook

    made, data = estimator(tmp_path)
    run = tmp_path / "run"
    hook = LambdaProfilerHook(lambda step: 10 <= step < 60, run=run, timelines=False, analyse=False)
    with ss.Run(run):  # a profile that is still being written is not waited for without end
        made.train(data, steps=70, hooks=[hook])
        until(lambda: pointers(run), "the profile is written")
    [found] = pointers(run)
    assert found["steps"] == list(range(10, 60))
    read = find_profile(run / found["path"] / "profile.context")
    assert read is not None
    source = read()
    assert sorted(source.steps) == list(range(10, 60))
    options = {"order_by": "micros", "select": ["micros", "occurrence"], "max_depth": 3}
    assert "MatMul" in profile("op", source, options_of(options)).text


@needs_estimator
def test_captures_of_an_estimator_every_so_many_seconds(tmp_path: Path) -> None:
    from stepscope.integrations.tensorflow import ProfilerHook

    run, now = tmp_path / "run", [0.0]

    class ASecondAStep(tf.compat.v1.train.SessionRunHook):
        """And no step is taken while a profile that must be there is still being written."""

        def after_run(self, run_context: Any, run_values: Any) -> None:
            now[0] += 1
            due = sum(now[0] >= step for step in (10, 18))
            until(lambda: len(pointers(run)) >= due, "the profile is written")

    made, data = estimator(tmp_path)
    options = {"num_steps": 1, "analyse": False, "_steady": lambda: now[0]}
    hook = ProfilerHook(save_secs=8, run=run, **options)
    made.train(data, steps=STEPS, hooks=[hook, ASecondAStep()])
    found = pointers(run)
    assert [each["steps"] for each in found] == [[10], [18]]
    assert {each["cause"] for each in found} == {"schedule"}
    assert all(len(list((run / each["path"]).glob("timeline-*.json"))) == 1 for each in found)


@needs_estimator
def test_a_captured_step_whose_gradients_a_session_fetches_says_so(tmp_path: Path) -> None:
    from stepscope.integrations.tensorflow import GradientSessionHook, ProfilerHook

    made, data = estimator(tmp_path)
    run = tmp_path / "run"
    gradients = ss.GradientHook(every_n_steps=5, dense_steps=0, histograms_every=0)
    hooks = [ProfilerHook(save_steps=8, run=run, analyse=False), GradientSessionHook(run, gradients)]
    made.train(data, steps=STEPS, hooks=hooks)
    first, second = pointers(run)
    assert (first["steps"], second["steps"]) == ([8], [16])
    assert not any("gradients" in note for each in (first, second) for note in each["notes"])
    found = ProfilerHook(save_steps=10, run=tmp_path / "other", analyse=False)
    made.train(data, steps=STEPS, hooks=[found, GradientSessionHook(tmp_path / "other", gradients)])
    assert [each["steps"] for each in pointers(tmp_path / "other")] == [[30], [40]]
    assert all(
        "gradients or activations were measured in step" in " ".join(each["notes"])
        for each in pointers(tmp_path / "other")
    )


@needs_estimator
def test_what_measures_gradients_is_in_the_timeline_and_in_no_cost(tmp_path: Path) -> None:
    """Of a step that the user chose and whose gradients are measured: half of its time was ours."""
    from stepscope.integrations.tensorflow import GradientSessionHook, LambdaProfilerHook
    from stepscope.serve.records.graph import costs_of
    from stepscope.trace.model import Kind

    made, data = estimator(tmp_path)
    run = tmp_path / "run"
    hooks = [
        LambdaProfilerHook(lambda step: 10 <= step < 12, run=run, analyse=False),
        GradientSessionHook(run, ss.GradientHook(every_n_steps=1)),
    ]
    made.train(data, steps=STEPS, hooks=hooks)
    (found,) = pointers(run)
    read = find_profile(run / found["path"] / "profile.context")
    assert read is not None
    ran = [name for name, node in read().nodes.items() if node.executions]
    assert "hidden/Relu" in ran
    assert [name for name in ran if "stepscope_gradients" in name] == []
    with ss.open(run, cache=False) as log:
        [costs] = [each for each in log.run(".").records() if each.kind == "run_metadata"]
        names = [each.name for each in costs_of(log.run(".").record(costs.tag)[-1][-1])]
    assert "hidden/Relu" in names
    assert [name for name in names if "stepscope_gradients" in name] == []
    for path in (run / found["path"] / "run_meta_10", run / found["path"] / "timeline-10.json"):
        trace = ss.load_trace(path, cache=False)
        own = np.array(["stepscope_gradients" in trace.scopes.text(each) for each in trace.scope.tolist()])
        assert set(trace.kind[own].tolist()) == {Kind.OVERHEAD}
        assert Kind.OVERHEAD not in trace.kind[~own].tolist()


def test_captures_steps_of_tensorflow_2(tmp_path: Path) -> None:
    weight = tf.Variable(tf.ones((8, 8)))

    @tf.function
    def step(batch: Any) -> None:
        weight.assign_sub(0.01 * tf.matmul(batch, weight))

    with ss.Run(tmp_path, hooks=[ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False)]) as run:
        for _ in run.steps(range(STEPS)):
            step(tf.ones((8, 8)))
    assert run.problems == {}
    (pointer,) = pointers(tmp_path)
    assert (pointer["backend"], pointer["steps"]) == ("tensorflow", [5, 6])
    path = tmp_path / pointer["path"]
    assert path.parent.relative_to(tmp_path).as_posix() == "profiles/plugins/profile/step00000005"
    trace = ss.load_trace(path, cache=False)
    assert (trace.format, trace.steps.number.tolist()) == ("xplane", [5, 6])


def test_another_profiler_is_left_alone(tmp_path: Path) -> None:
    from stepscope.capture.backend import CaptureOptions
    from stepscope.errors import CaptureError
    from stepscope.integrations.tensorflow.profiler import make_backend

    tf.profiler.experimental.start(str(tmp_path))
    try:
        with pytest.raises(CaptureError, match="another profiler is already active"):
            make_backend().start(CaptureOptions())
    finally:
        tf.profiler.experimental.stop(save=False)
