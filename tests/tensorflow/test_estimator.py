"""The Estimator in one process; the oracle is what the Estimator itself writes."""

import os
from pathlib import Path

import numpy as np
import pytest
from support import hooks

import stepscope as ss
from stepscope.store.charts import charts

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("the Estimator left with TensorFlow 2.16", allow_module_level=True)

from stepscope.integrations.tensorflow import (  # noqa: E402
    CheckpointSaverListener,
    StepscopeHook,
    SummarySaverHook,
)

tf.compat.v1.logging.set_verbosity("ERROR")


pytestmark = pytest.mark.usefixtures("strict")


def batches(repeat=True):
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, (x.sum(1) > 0).astype("int64"))).batch(16)
    return data.repeat() if repeat else data


def estimator(directory, **config):
    columns = [tf.feature_column.numeric_column("x", (3,))]
    run_config = tf.estimator.RunConfig(model_dir=str(directory), save_summary_steps=5, **config)
    return tf.estimator.DNNClassifier([8], columns, n_classes=2, config=run_config)


def theirs(directory):
    """Values by tag that the Estimator itself has written, as TensorFlow reads them."""
    found = {}
    for path in sorted(Path(directory).glob("events.out.*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def ours(directory, name="."):
    with ss.open(directory, cache=False) as log:
        run = log.run(name)
        frames = {tag: run.series(tag) for tag in run.tags()}
        points = {
            tag: list(zip(frame["step"].tolist(), frame["value"].tolist(), strict=True))
            for tag, frame in frames.items()
        }
        return points, run.state, run.records()


def until_as_named(directory, train, steps):
    """Train until summaries were saved at the steps that TensorFlow's manual names, and return all else.

    Its hook reads the step beside the operation that counts it, and so once in a while takes another one.

    Args:
        directory: A folder for all attempts.
        train: Trains in a folder of its own, and returns the steps and all else.
        steps: Those that the manual names.
    """
    for attempt in range(10):
        saved, *rest = train(directory / str(attempt))
        if saved == steps:
            return rest
    pytest.fail("the Estimator never saved at the steps that its manual names")


def trained(directory):
    """A training that the Estimator saved at steps 1, 6, 11 and 16."""

    def train(folder):
        hook = StepscopeHook(folder / "run", save_steps=5)
        estimator(folder / "model").train(batches, steps=20, hooks=[hook])
        expected = theirs(folder / "model")
        saved = [step for step, _ in expected["dnn/logits/fraction_of_zero_values"]]
        return saved, expected, ours(folder / "run")

    return until_as_named(directory, train, [1, 6, 11, 16])


def test_training_has_the_values_and_tags_of_the_estimator(tmp_path):
    expected, (found, state, records) = trained(tmp_path)
    assert state == "finished"
    assert [step for step, _ in found["loss"]] == list(range(1, 21))
    assert set(expected["loss"]) <= set(found["loss"])
    for tag in expected.keys() - {"loss", "global_step/sec"}:
        assert found[tag] == expected[tag], tag
    assert "dnn/hiddenlayer_0/fraction_of_zero_values" in found
    assert [step for step, _ in found["speed/step_time_ms"]] == list(range(1, 21))
    assert {record.tag for record in records} >= {"dnn/hiddenlayer_0/activation", "dnn/logits/activation"}


def test_training_goes_on_at_the_step_of_the_checkpoint(tmp_path):
    model, hook = estimator(tmp_path / "model"), StepscopeHook(tmp_path / "run")
    model.train(batches, steps=5, hooks=[hook])
    model.train(batches, steps=5, hooks=[hook])
    with ss.open(tmp_path / "run", cache=False) as log:
        loss = log.run(".").series("loss")
    assert loss["step"].tolist() == list(range(1, 11))
    assert loss["attempt"].tolist() == [1] * 5 + [2] * 5


@pytest.mark.parametrize("name", [None, "more"])
def test_train_and_evaluate(tmp_path, name):
    hook = StepscopeHook(tmp_path / "run", eval_name=name)
    model = estimator(tmp_path / "model", save_checkpoints_steps=10)
    train = tf.estimator.TrainSpec(batches, max_steps=30, hooks=[hook])
    evaluate = tf.estimator.EvalSpec(
        lambda: batches(False), steps=None, name=name, hooks=[hook], start_delay_secs=0, throttle_secs=0
    )
    metrics, _ = tf.estimator.train_and_evaluate(model, train, evaluate)
    folder = f"eval_{name}" if name else "eval"
    expected, (found, _, _) = theirs(tmp_path / "model" / folder), ours(tmp_path / "run", folder)
    own = ("stepscope/", "system/")  # a run that lasts long enough records how its process waits, too
    assert {tag for tag in found if not tag.startswith(own)} == expected.keys()
    for tag, points in expected.items():
        assert found[tag] == points, tag
    assert found["loss"][-1] == (30, pytest.approx(metrics["loss"]))
    assert [step for step, _ in ours(tmp_path / "run")[0]["loss"]] == list(range(1, 31))
    with ss.open(tmp_path / "run", cache=False) as log:
        assert log.run(folder).base == "."
        assert log.run(folder).split == "eval"
        [chart] = [chart for chart in charts(log) if chart.title == "loss"]
        assert [line.tag for line in chart.lines] == ["loss"]


@pytest.mark.parametrize("hooks_of_evaluation", [True, False])
def test_evaluations_and_checkpoints_are_no_part_of_the_steps(tmp_path, hooks_of_evaluation):
    model = estimator(tmp_path / "model", save_checkpoints_steps=5)
    hook = StepscopeHook(tmp_path / "run")
    train = tf.estimator.TrainSpec(batches, max_steps=17, hooks=[hook])
    evaluate = tf.estimator.EvalSpec(
        lambda: batches(False), steps=2, hooks=[hook] * hooks_of_evaluation, throttle_secs=0
    )
    tf.estimator.train_and_evaluate(model, train, evaluate)
    points, *_ = ours(tmp_path / "run")
    took = {tag: dict(points[f"speed/{tag}"]) for tag in ("step_time_ms", "time_in_evaluation_s")}
    within = sorted(took["time_in_evaluation_s"].keys() & took["step_time_ms"].keys())
    assert len(took["step_time_ms"]) == 17
    assert len(within) >= 3
    for step in within:  # an evaluation builds a graph and restores a checkpoint
        assert took["step_time_ms"][step] < 1e3 * took["time_in_evaluation_s"][step]
    saved = dict(points["speed/time_in_checkpoint_s"])
    assert saved.keys() >= set(within)
    assert all(0 < seconds < 60 for seconds in saved.values())


def test_evaluations_by_a_hook_are_no_part_of_the_steps(tmp_path):
    model = estimator(tmp_path / "model")
    every = tf.estimator.experimental.InMemoryEvaluatorHook(
        model, lambda: batches(False), steps=2, every_n_iter=5
    )
    model.train(batches, steps=12, hooks=[every, StepscopeHook(tmp_path / "run")])
    points, *_ = ours(tmp_path / "run")
    assert len(points["speed/time_in_evaluation_s"]) >= 2
    assert len(points["speed/step_time_ms"]) == 12


def test_evaluation_alone(tmp_path):
    model = estimator(tmp_path / "model")
    model.train(batches, steps=3)
    with ss.Run(tmp_path / "run") as run:
        metrics = model.evaluate(lambda: batches(False), hooks=[StepscopeHook(run)])
    found, _, _ = ours(tmp_path / "run", "eval")
    assert found["accuracy"] == [(3, pytest.approx(metrics["accuracy"]))]
    assert "global_step" not in found


def test_in_the_directory_of_the_model_nothing_is_there_twice(tmp_path):
    estimator(tmp_path).train(batches, steps=10, hooks=[StepscopeHook(tmp_path)])
    found, _, _ = ours(tmp_path)
    assert [step for step, _ in found["loss"]] == [1, 6]  # the Estimator's own
    assert len(found["speed/step_time_ms"]) == 10


def test_in_the_directory_of_the_model_the_chief_of_a_job_has_its_loss_in_its_telemetry(tmp_path):
    estimator(tmp_path).train(batches, steps=10, hooks=[StepscopeHook(tmp_path, rank=0, world_size=2)])
    with ss.open(tmp_path, cache=False) as log:
        steps = log.run(".").ranks.steps(0)
    expected = theirs(tmp_path)["loss"]
    assert [step for step, _ in expected] == [step for step, _ in ours(tmp_path)[0]["loss"]]  # there once
    assert len(steps.step) == 10
    assert np.isfinite(steps.loss).all()
    assert all(np.isclose(steps.loss, value).any() for _, value in expected)


@pytest.mark.parametrize("name", [None, "dev"])
def test_in_the_directory_of_the_model_an_evaluation_is_there_once(tmp_path, name):
    hook = StepscopeHook(tmp_path, eval_name=name)
    model = estimator(tmp_path, save_checkpoints_steps=10)
    train = tf.estimator.TrainSpec(batches, max_steps=20, hooks=[hook])
    evaluate = tf.estimator.EvalSpec(
        lambda: batches(False), steps=None, name=name, hooks=[hook], start_delay_secs=0, throttle_secs=0
    )
    metrics, _ = tf.estimator.train_and_evaluate(model, train, evaluate)
    with ss.open(tmp_path, cache=False) as log:
        run = log.run(f"eval_{name}" if name else "eval")
        points = run.series("loss")
        assert points["step"].tolist() == sorted(set(points["step"].tolist()))
        assert points["step"][-1] == 20
        assert points["value"][-1] == pytest.approx(metrics["loss"])
        assert len(run.columns("loss")) == 1


def test_a_request_to_stop(tmp_path):
    model = estimator(tmp_path / "model")
    model.train(batches, max_steps=100, hooks=[StepscopeHook(tmp_path / "run", hooks=[hooks.Stops(after=7)])])
    assert model.get_variable_value("global_step") == 7
    assert [step for step, _ in ours(tmp_path / "run")[0]["loss"]] == list(range(1, 8))


def test_an_exception_does_not_end_the_session_of_the_run(tmp_path):
    """A session that fails tells its hooks nothing; the next one goes on in the same run."""

    class Breaks(tf.compat.v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise OSError("elsewhere")

    model, hook = estimator(tmp_path / "model"), StepscopeHook(tmp_path / "run")
    with pytest.raises(OSError, match="elsewhere"):
        model.train(batches, steps=5, hooks=[hook, Breaks()])
    model.train(batches, steps=2, hooks=[hook])
    found, state, _ = ours(tmp_path / "run")
    assert state == "finished"
    assert [step for step, _ in found["loss"]] == [1, 1, 2]


def test_what_is_wrong_here_does_not_stop_the_training(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "0")
    monkeypatch.setattr("stepscope.integrations.tensorflow.recording.record_summary", lambda *_, **__: 1 / 0)
    model = estimator(tmp_path / "model")
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        model.train(batches, steps=5, hooks=[StepscopeHook(tmp_path / "run")])
    assert model.get_variable_value("global_step") == 5


def test_checkpoints_and_other_summaries(tmp_path):
    def train(folder):
        listener = CheckpointSaverListener(folder / "run", str(folder / "model" / "model.ckpt"))
        saver = SummarySaverHook(save_steps=10, run=folder / "run")
        estimator(folder / "model", save_checkpoints_steps=10).train(
            batches, steps=20, hooks=[saver], saving_listeners=[listener]
        )
        found, state, records = ours(folder / "run")
        return [step for step, _ in found["loss"]], found, state, records

    found, state, records = until_as_named(tmp_path, train, [1, 11])
    assert state == "finished"
    assert [step for step, _ in found["checkpoint/save_time_s"]] == [0, 10, 20]
    assert "checkpoint/saved" in {record.tag for record in records}


def test_the_example(tmp_path, processes):
    example = Path(__file__).resolve().parents[2] / "examples" / "estimator_train.py"
    output = tmp_path / "output.txt"
    job = processes.start(str(example), str(tmp_path / "run"), str(tmp_path / "model"), output=output)
    assert job.wait(300) == 0, output.read_text()
    found, state, _ = ours(tmp_path / "run")
    evaluated = ours(tmp_path / "run", "eval")[0]["loss"]
    assert state == "finished"
    assert [step for step, _ in found["loss"]] == list(range(1, 161))
    assert evaluated[-1][0] == 160
    assert evaluated[-1][1] < evaluated[0][1]
