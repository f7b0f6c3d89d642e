"""TensorFlow 1's hooks under their own names, in a session; the originals beside them are the oracle."""

import json
import os

import pytest

import stepscope as ss
from stepscope.errors import UsageError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

from stepscope.events import EventFile  # noqa: E402
from stepscope.integrations.tensorflow import (  # noqa: E402
    CheckpointSaverHook,
    LoggingTensorHook,
    NanTensorHook,
    StepCounterHook,
    StepscopeHook,
    StopAtStepHook,
    SummarySaverHook,
    recording,
    runs,
)

v1 = tf.compat.v1
v1.logging.set_verbosity("ERROR")


@pytest.fixture(autouse=True)
def every_hook_leaves_its_run(strict):
    yield
    assert not runs._runs


def train(*hooks, steps=12, poison=None):
    """Train one weight; from step ``poison`` on the loss is NaN."""
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("w", [], initializer=v1.constant_initializer(2.0))
        read = v1.train.get_or_create_global_step().read_value()
        bad = tf.where(read >= (poison or 10**6), float("nan"), 0.0)
        loss = tf.identity(weight * weight + bad, name="loss")
        v1.losses.add_loss(loss)
        v1.summary.scalar("weight", weight)
        v1.summary.histogram("spread", tf.stack([weight, loss]))
        with tf.control_dependencies([loss]):
            move = weight.assign(weight * 0.9)
        with tf.control_dependencies([move]):
            operation = step.assign_add(1)
        with v1.train.MonitoredTrainingSession(
            hooks=[*hooks, v1.train.StopAtStepHook(last_step=steps)],
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
        ) as session:
            while not session.should_stop():
                session.run(operation)


def recorded(directory):
    with ss.open(directory, cache=False) as log:
        run = log.run(".")
        frames = {tag: run.series(tag) for tag in run.tags()}
        points = {
            tag: list(zip(frame.step.tolist(), frame.value.tolist(), strict=True))
            for tag, frame in frames.items()
        }
        return points, run


def test_steps_per_second(tmp_path):
    train(StepCounterHook(every_n_steps=4, output_dir=tmp_path / "ours"))
    points, run = recorded(tmp_path / "ours")
    assert [step for step, _ in points["global_step/sec"]] == [5, 9]
    assert all(speed > 0 for _, speed in points["global_step/sec"])
    assert run.state == "finished"


def test_summaries_are_those_of_the_original(tmp_path):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(tmp_path / "theirs"))
    train(
        SummarySaverHook(save_steps=5, run=tmp_path / "ours"),
        v1.train.SummarySaverHook(save_steps=5, summary_writer=writer, scaffold=SCAFFOLD),
    )
    writer.close()
    points, run = recorded(tmp_path / "ours")
    [path] = (tmp_path / "theirs").glob("*tfevents*")
    expected = {column.tag: column for column in EventFile(path).read().scalars}["weight"]
    assert points["weight"] == list(zip(expected.step.tolist(), expected.value.tolist(), strict=True))
    assert [record.tag for record in run.records() if record.tag == "spread"] == ["spread"]


class Scaffold:
    """Gives the original the session's own summaries, as ours finds them by itself."""

    @property
    def summary_op(self):
        return v1.get_collection(v1.GraphKeys.SUMMARY_OP)[0]


SCAFFOLD = Scaffold()


def test_tensors_are_printed_and_recorded(tmp_path):
    lines = []
    hook = LoggingTensorHook(
        {"loss": "loss:0"},
        every_n_iter=5,
        formatter=lambda values: lines.append(dict(values)) or "",
        run=tmp_path,
    )
    train(hook)
    points, _ = recorded(tmp_path)
    assert [value for _, value in points["loss"]] == pytest.approx([float(line["loss"]) for line in lines])
    assert [step for step, _ in points["loss"]] == [1, 6, 11]


def test_a_loss_that_is_nan_fails(tmp_path):
    with pytest.raises(v1.train.NanLossDuringTrainingError), ss.Run(tmp_path) as run:
        train(NanTensorHook(run=run), poison=3)
    _, stored = recorded(tmp_path)
    assert stored.state == "failed"
    assert "NaN loss during training" in stored.info.reason


def test_a_loss_that_is_nan_ends_the_training(tmp_path):
    train(NanTensorHook("loss:0", fail_on_nan_loss=False, run=tmp_path), poison=3)
    _, stored = recorded(tmp_path)
    assert (stored.state, stored.info.reason) == ("finished", "Model diverged with loss = NaN.")


@pytest.mark.parametrize("options", [{"num_steps": 5}, {"last_step": 5}])
def test_stopping_at_a_step(tmp_path, options):
    train(StopAtStepHook(**options, run=tmp_path), StepscopeHook(tmp_path))
    points, stored = recorded(tmp_path)
    assert [step for step, _ in points["loss"]] == [1, 2, 3, 4, 5]
    assert stored.info.reason == "stopped at step 5"


def test_checkpoints(tmp_path):
    saved = []

    class Listener(v1.train.CheckpointSaverListener):
        def after_save(self, session, step):
            saved.append(step)

    hook = CheckpointSaverHook(
        str(tmp_path / "model"), save_steps=5, listeners=[Listener()], run=tmp_path / "run"
    )
    train(hook)
    points, _ = recorded(tmp_path / "run")
    assert saved == [0, 5, 10, 12], "a listener of the user's own"
    assert [step for step, _ in points["checkpoint/save_time_s"]] == [0, 5, 10, 12]
    assert {path.name for path in (tmp_path / "model").glob("*.index")} >= {"model.ckpt-12.index"}


def test_one_hook_records_a_session(tmp_path):
    train(StepscopeHook(tmp_path, save_steps=5))
    points, run = recorded(tmp_path)
    assert [step for step, _ in points["loss"]] == list(range(1, 13))
    assert [value for _, value in points["loss"]] == pytest.approx([4 * 0.81**step for step in range(12)])
    assert [step for step, _ in points["weight"]] == [1, 6, 11]
    assert len(points["speed/step_time_ms"]) == 12
    assert run.state == "finished"


def test_no_two_steps_of_a_worker_have_one_number(tmp_path, monkeypatch):
    """A worker reads the step that all share before or after its own train op adds to it, as it happens."""
    with ss.Run(tmp_path) as chief:
        chief.scalar("loss", 1.0, 1)
    hosts = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": hosts, "task": {"type": "worker", "index": 0}}))
    read = iter([1, 1, 3, 3, 5, 5, 7, 7])  # after the first, before the second, after the third, …
    monkeypatch.setattr(
        recording, "step_before", lambda _: tf.numpy_function(lambda: next(read), [], tf.int64)
    )
    train(StepscopeHook(tmp_path), steps=8)
    with ss.open(tmp_path, cache=False) as log:
        assert list(log.run(".").ranks.steps(1).step) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_hooks_of_one_directory_share_a_run(tmp_path):
    train(
        StepscopeHook(tmp_path, save_steps=None),
        StepCounterHook(every_n_steps=4, run=tmp_path),
        SummarySaverHook(save_steps=5, run=tmp_path),
    )
    assert len(list(tmp_path.glob("*tfevents*"))) == 1
    points, _ = recorded(tmp_path)
    assert {"loss", "global_step/sec", "weight"} <= points.keys()


def test_a_writer_of_tensorflow_is_taken_as_it_is(tmp_path):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(tmp_path))
    train(StepCounterHook(every_n_steps=4, summary_writer=writer))
    writer.close()
    [path] = tmp_path.glob("*tfevents*")
    assert [column.tag for column in EventFile(path).read().scalars] == ["global_step/sec"]


def test_a_hook_without_a_run_says_so():
    with pytest.raises(UsageError, match="nowhere to record"):
        train(StepCounterHook(every_n_steps=4))


def test_arguments_are_those_of_the_originals():
    with pytest.raises(ValueError, match="exactly one of every_n_steps and every_n_secs"):
        StepCounterHook(every_n_steps=1, every_n_secs=1, run="x")
    with pytest.raises(ValueError, match="Only one of num_steps or last_step"):
        StopAtStepHook(num_steps=1, last_step=1, run="x")


def test_a_star_import_gives_every_hook():
    names: dict[str, object] = {}
    exec("from stepscope.integrations.tensorflow import *", names)
    assert {"StepscopeHook", "ProfilerHook", "GradientSessionHook", "StopAtStepHook"} <= set(names)
