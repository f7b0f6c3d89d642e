"""CheckpointHook: when it saves, and what it records of that."""

from pathlib import Path

import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.events.messages import SessionStatus


class Saver:
    def __init__(self, path="model-{}", time=None, took=0.0, error=None):
        self.done, self._path, self._time, self._took, self.error = [], path, time, took, error

    def __call__(self, done):
        self.done.append(done)
        if self._time:
            self._time.pass_(self._took)
        if self.error:
            raise self.error
        return self._path and self._path.format(done)


def events(run):
    """Paths of TensorFlow's checkpoint events, and the texts, in the file."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    logs, texts = [], []
    for path in Path(run.log_dir).glob("*tfevents*"):
        for event in EventFileLoader(str(path)).Load():
            if event.HasField("session_log") and event.session_log.status == SessionStatus.CHECKPOINT:
                logs.append((event.step, event.session_log.checkpoint_path))
            texts += [
                (event.step, value.tensor.string_val[0].decode())
                for value in event.summary.value
                if value.tag == "checkpoint/saved"
            ]
    return logs, texts


def test_it_saves_by_steps_done_and_at_the_end(real):
    saver = Saver()
    with real(hooks=[ss.CheckpointHook(saver, 4)]) as run:
        list(run.steps(range(10)))
    assert saver.done == [4, 8, 10]


def test_at_the_end_it_saves_nothing_twice_nor_where_it_shall_not(real):
    saver, other = Saver(), Saver()
    with real(hooks=[ss.CheckpointHook(saver, 5), ss.CheckpointHook(other, 4, at_end=False)]) as run:
        list(run.steps(range(10)))
    assert (saver.done, other.done) == ([5, 10], [4, 8])


def test_after_a_resume_it_keeps_the_rhythm(real):
    saver = Saver()
    with real(start_step=5, hooks=[ss.CheckpointHook(saver, 4, at_end=False)]) as run:
        list(run.steps(range(10)))
    assert saver.done == [8, 12]


def test_a_run_without_steps_saves_nothing(real):
    saver = Saver()
    real(hooks=[ss.CheckpointHook(saver)]).close()
    assert saver.done == []


@pytest.mark.parametrize("status", ["failed", "stopped"])
def test_a_step_that_was_cut_in_two_is_not_saved(real, status):
    saver = Saver()
    error = ZeroDivisionError if status == "failed" else KeyboardInterrupt

    def train():
        for step in run.steps(range(10)):
            if step == 3:
                raise error

    with pytest.raises(error), real(hooks=[ss.CheckpointHook(saver)]) as run:
        train()
    assert saver.done == []
    assert run.state == status


def test_where_the_last_step_is_whole_a_stopped_run_is_saved(real):
    saver = Saver()

    def train():
        list(run.steps(range(3)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), real(hooks=[ss.CheckpointHook(saver)]) as run:
        train()
    assert saver.done == [3]


def test_a_run_that_was_asked_to_stop_is_saved(real):
    saver = Saver()
    with real(hooks=[ss.CheckpointHook(saver), ss.StopAtStepHook(3)]) as run:
        list(run.steps(range(10)))
    assert saver.done == [3]


def test_where_and_when_is_recorded(real, read):
    with real(hooks=[ss.CheckpointHook(Saver(), 2)]) as run:
        list(run.steps(range(2)))
    logs, [(step, text)] = events(run)
    assert logs == [(1, "model-2")]
    assert step == 1
    assert text.startswith("2 steps done: model-2 in ")
    [(step, seconds)] = read(run)["checkpoint/save_time_s"]
    assert step == 1
    assert seconds >= 0


def test_a_saver_may_keep_the_path_to_itself(real):
    with real(hooks=[ss.CheckpointHook(Saver(path=None), 2)]) as run:
        list(run.steps(range(2)))
    logs, [(_, text)] = events(run)
    assert logs == []
    assert text.startswith("2 steps done: saved in ")


def test_a_saver_that_raises_is_told_once_and_tried_again(real, lenient):
    saver = Saver(error=OSError("no space"))
    run = real(hooks=[ss.CheckpointHook(saver, 1, at_end=False)])

    def train():
        for step in run.steps(range(7)):
            saver.error = None if step == 5 else saver.error

    with pytest.warns(RuntimeWarning, match="the checkpoint after 1 step was not saved: OSError: no space"):
        train()
    run.close()
    assert saver.done == [1, 2, 3, 4, 5, 6, 7]
    logs, texts = events(run)
    assert [path for _, path in logs] == ["model-6", "model-7"]
    assert texts[0] == (0, "1 step done: not saved, OSError: no space")
    assert run.problems == {}


def test_its_time_is_neither_a_steps_nor_ours(fake, time):
    run = fake(hooks=[ss.CheckpointHook(Saver(time=time, took=30.0), 1)])
    for _ in run.steps(range(3)):
        time.pass_(1)
    assert run.last_step == (2, 1.0, 0.0)
    run.drain()
    assert run.writers[-1].series("speed/data_wait_ms") == [(0, 0.0), (1, 0.0), (2, 0.0)]
    assert run.writers[-1].series("checkpoint/save_time_s") == [(0, 30.0), (1, 30.0), (2, 30.0)]
    assert run.cost.seconds == 0


def test_by_default_every_ten_minutes(fake, time):
    saver = Saver()
    for _ in fake(hooks=[ss.CheckpointHook(saver)]).steps(range(30)):
        time.pass_(60)
    assert saver.done == [10, 20, 30]


def test_a_saver_is_a_function():
    with pytest.raises(UsageError, match="save must be a function, got None"):
        ss.CheckpointHook(None)
    with pytest.raises(UsageError, match="save must be a function, got str 'model'"):
        ss.CheckpointHook("model")
