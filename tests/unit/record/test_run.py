import contextlib
import copy
import gc
import os
import pickle
import re
import sys
import threading
import time
import warnings
import weakref
from pathlib import Path

import pytest

from stepscope.errors import LogDirectoryError, RecordError, UsageError
from stepscope.record import Run, exits
from stepscope.record.protocol import Hook

# --- arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log_dir": None}, "log_dir must be a path, got None"),
        ({"log_dir": 3}, "log_dir must be a path, got int 3"),
        ({"log_dir": ""}, "log_dir must be a path"),
        ({"tags": "baseline"}, "tags must be a list of strings, got str"),
        ({"tags": [1]}, "tags must be strings, got int 1"),
        ({"tags": 1}, "tags must be a list of strings, got int"),
        ({"flush_secs": 0}, "flush_secs must be a number of seconds above 0, got int 0"),
        ({"flush_secs": "1"}, "flush_secs must be a number of seconds above 0, got str '1'"),
        ({"flush_secs": True}, "flush_secs"),
        ({"flush_every_n_steps": 0}, "flush_every_n_steps must be 1 or more"),
        ({"total_steps": -1}, "total_steps must be an integer, 0 or more, got int -1"),
        ({"total_steps": 1.5}, "total_steps must be an integer"),
        ({"start_step": -1}, "start_step must be an integer, 0 or more"),
        ({"max_queue_bytes": "1G"}, "max_queue_bytes must be an integer"),
        ({"rank": 2, "world_size": 2}, "rank must be from 0"),
    ],
)
def test_arguments_that_cannot_be_right(tmp_path, arguments, message):
    with pytest.raises(UsageError) as caught:
        Run(**{"log_dir": tmp_path, **arguments})
    assert message in str(caught.value)
    assert "hint:" in str(caught.value)


def test_the_directory_may_be_text_or_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given in (str(tmp_path / "a"), tmp_path / "a"):
        with Run(given, rank=1) as run:
            assert run.log_dir == str(tmp_path / "a")
    with Run("relative", rank=1) as run:
        assert Path(run.log_dir) == tmp_path / "relative"


# --- logging ------------------------------------------------------------------------------------------


def test_numbers_reach_the_file(real, read):
    with real() as run:
        run.scalar("train/loss", 0.5, 1)
        run.scalar("train/loss", 0.25, 2)
        run.scalars({"a": 1, "b": 2.0}, step=2)
    found = read(run)
    assert found["train/loss"] == [(1, 0.5), (2, 0.25)]
    assert (found["a"], found["b"]) == ([(2, 1.0)], [(2, 2.0)])
    assert run.problems == {}


def test_non_finite_numbers_are_recorded_as_such(real, read):
    with real() as run:
        for step, value in enumerate([float("nan"), float("inf"), float("-inf")]):
            run.scalar("loss", value, step)
    [(_, nan), *rest] = read(run)["loss"]
    assert nan != nan
    assert rest == [(1, float("inf")), (2, float("-inf"))]


@pytest.mark.parametrize("kind", ["torch", "jax", "numpy"])
def test_scalars_of_frameworks(real, read, kind):
    pytest.importorskip(kind)
    if kind == "torch":
        import torch

        values = [torch.tensor(0.5), torch.nn.Parameter(torch.tensor([1.5])) * 2, torch.tensor(True)]
    elif kind == "jax":
        import jax

        values = [jax.numpy.float32(0.5), jax.jit(lambda x: x * 2)(1.5), jax.numpy.bool_(True)]
    else:
        import numpy as np

        values = [np.float32(0.5), np.array([3.0]), np.bool_(True)]
    with real() as run:
        for step, value in enumerate(values):
            run.scalar("loss", value, step)
    assert read(run)["loss"] == [(0, 0.5), (1, 3.0), (2, 1.0)]


@pytest.mark.parametrize(
    ("call", "reason", "message"),
    [
        (lambda run: run.scalar(3, 1.0), "tag", "a tag must be text, got int 3"),
        (lambda run: run.scalar([], 1.0), "tag", "a tag must be text, got list"),
        (lambda run: run.scalar("", 1.0), "tag", "1 to 1024 characters"),
        (lambda run: run.scalar("a", "x"), "value", "'a' must be one number, got str 'x'"),
        (lambda run: run.scalar("a", None), "value", "'a' must be one number, got None"),
        (lambda run: run.scalar("a", {"b": 1}), "value", "use run.scalars"),
        (lambda run: run.scalar("a", 1.0, 1.5), "step", "a step must be an integer, got float 1.5"),
        (lambda run: run.scalar("a", 1.0, "1"), "step", "a step must be an integer, got str '1'"),
        (lambda run: run.scalar("a", 1.0, 2**70), "step", "must fit into 64 bits"),
        (lambda run: run.scalars([("a", 1)]), "tag", "scalars() takes a mapping"),
        (lambda run: run.scalars({"a": "x"}), "value", "'a' must be one number"),
    ],
)
class TestBadInput:
    def test_strict_raises(self, fake, call, reason, message):
        with pytest.raises(RecordError, match=re.escape(message)):
            call(fake())

    @pytest.mark.usefixtures("lenient")
    def test_else_it_warns_once_at_the_line_and_counts(self, fake, call, reason, message):
        run = fake()
        with pytest.warns(RuntimeWarning) as caught:
            [call(run) for _ in range(3)]
        assert len(caught) == 1
        text = str(caught[0].message)
        assert message in text
        assert "hint: " in text
        assert f"file: {run.log_dir}" in text
        assert caught[0].filename == __file__
        assert run.problems == {reason: 3}
        run.scalar("fine", 1.0, 0)
        run.drain()
        assert run.writers[0].series("fine") == [(0, 1.0)]


@pytest.mark.usefixtures("lenient")
def test_code_of_the_value_that_raises_is_told(fake):
    class Bad:
        def __float__(self) -> float:
            raise RuntimeError("boom")

    run = fake()
    with pytest.warns(RuntimeWarning, match="reading the value of 'a' raised RuntimeError: boom"):
        run.scalar("a", Bad())
    assert run.problems == {"value": 1}


@pytest.mark.usefixtures("lenient")
def test_the_warning_names_this_line(fake):
    run = fake()
    with pytest.warns(RuntimeWarning) as caught:
        run.scalar("a", "x")
    assert caught[0].lineno == sys._getframe().f_lineno - 1


def test_many_threads_lose_nothing(real, read):
    run = real()

    def log(thread: int) -> None:
        for step in range(5_000):
            run.scalar(f"thread/{thread}", float(step), step)
            run.scalars({f"thread/{thread}/x": 1, "all": thread}, step)

    threads = [threading.Thread(target=log, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.close()
    found = read(run)
    for thread in range(6):
        assert found[f"thread/{thread}"] == [(step, float(step)) for step in range(5_000)]
        assert len(found[f"thread/{thread}/x"]) == 5_000
    assert len(found["all"]) == 30_000
    assert run.problems == {}


# --- steps --------------------------------------------------------------------------------------------


class Slow:
    """Data of which each item takes 0.25 s to come."""

    def __init__(self, time, count: int) -> None:
        self.time, self.count = time, count

    def __len__(self) -> int:
        return self.count

    def __iter__(self):
        for item in range(self.count):
            self.time.pass_(0.25)
            yield item


def test_a_step_is_measured_with_its_wait_for_data(fake, time):
    run = fake()
    assert run.current_step is None
    seen = []
    for item in run.steps(Slow(time, 3)):
        seen.append((item, run.current_step))
        run.scalar("loss", float(item))
        time.pass_(0.5)
    run.drain()
    [writer] = run.writers
    assert seen == [(0, 0), (1, 1), (2, 2)]
    assert writer.series("loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert writer.series("speed/step_time_ms") == [(0, 750.0), (1, 750.0), (2, 750.0)]
    assert writer.series("speed/data_wait_ms") == [(0, 250.0), (1, 250.0), (2, 250.0)]
    [first, *_] = [e for e in writer.events if e.values and e.values[0].tag == "speed/step_time_ms"]
    assert [value.tag for value in first.values] == ["speed/step_time_ms", "speed/data_wait_ms"]
    assert run.total_steps == 3


def test_steps_count_on_over_loops_and_from_where_a_run_resumes(fake):
    run = fake(start_step=100)
    assert [run.current_step for _ in run.steps(range(2))] == [100, 101]
    assert run.total_steps == 102
    assert [run.current_step for _ in run.steps(range(3))] == [102, 103, 104]
    assert run.total_steps == 105
    assert [run.current_step for _ in run.steps(range(2), start=7)] == [7, 8]


def test_given_total_steps_are_kept(fake):
    run = fake(total_steps=1_000)
    list(run.steps(range(3)))
    assert run.total_steps == 1_000


def test_data_without_a_length(fake):
    class Endless:
        def __len__(self):
            raise TypeError("IterableDataset has no len()")

        def __iter__(self):
            return iter([1, 2])

    run = fake()
    assert list(run.steps(item for item in range(2))) == [0, 1]
    assert list(run.steps(Endless())) == [1, 2]
    assert run.total_steps is None


def test_a_step_cut_short_has_no_time(fake, time):
    run = fake()
    for item in run.steps(range(5)):
        time.pass_(1.0)
        if item == 2:
            break
    with pytest.raises(ZeroDivisionError):
        [1 / 0 for _ in run.steps(range(5))]
    for _ in run.steps(range(1)):
        time.pass_(1.0)
    run.drain()
    assert [step for step, _ in run.writers[0].series("speed/step_time_ms")] == [0, 1, 4]


def test_errors_of_the_data_pass_through(fake):
    def broken():
        yield 1
        raise OSError("disk of the data")

    with pytest.raises(OSError, match="disk of the data"):
        list(fake().steps(broken()))


def test_a_step_by_hand_as_a_call(fake, time):
    run = fake()
    for _ in range(3):
        run.step()
        time.pass_(0.5)
        run.scalar("loss", 1.0)
    run.drain()
    assert run.writers[0].series("speed/step_time_ms") == [(0, 500.0), (1, 500.0)]
    assert run.writers[0].series("speed/data_wait_ms") == []
    assert [step for step, _ in run.writers[0].series("loss")] == [0, 1, 2]


def test_a_step_by_hand_as_a_context(fake, time):
    run = fake(start_step=4)
    for _ in range(2):
        with run.step() as number:
            time.pass_(0.5)
            run.scalar("loss", float(number))
        time.pass_(10.0)  # an evaluation
    with pytest.raises(KeyError), run.step():
        raise KeyError
    run.drain()
    assert run.writers[0].series("speed/step_time_ms") == [(4, 500.0), (5, 500.0)]
    assert run.writers[0].series("loss") == [(4, 4.0), (5, 5.0)]


def test_without_steps_the_points_of_a_tag_are_numbered(fake):
    run = fake()
    for value in (1.0, 2.0):
        run.scalar("a", value)
        run.scalar("b", value)
    run.scalar("a", 3.0)
    run.drain()
    assert run.writers[0].series("a") == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert run.writers[0].series("b") == [(0, 1.0), (1, 2.0)]


def test_numbers_of_another_thread_keep_their_step_and_time(fake):
    run = fake()
    for _ in run.steps(range(3)):
        pass
    run.record({"a": 1.0}, background=True)
    run.record({"a": 2.0, "b": 3.0}, 7, wall=123.0, background=True)
    run.drain()
    assert run.writers[0].series("a") == [(2, 1.0), (7, 2.0)]
    assert run.writers[0].series("b") == [(7, 3.0)]
    assert {event.wall_time for event in run.writers[0].events if event.step == 7} == {123.0}
    assert run.cost.steps == 3


def test_a_step_of_another_thread_may_be_on_a_device(fake):
    jnp = pytest.importorskip("jax.numpy")
    run = fake()
    run.record({"a": 1.0}, jnp.asarray(5), background=True)
    run.drain()
    assert run.writers[0].series("a") == [(5, 1.0)]


@pytest.mark.usefixtures("lenient")
def test_what_is_no_step_is_told_at_the_next_call(fake):
    run = fake()
    run.record({"a": 1.0, "b": 2.0}, "seven", background=True)
    assert run.problems == {"step": 2}
    with pytest.warns(RuntimeWarning, match="a step must be an integer, got str 'seven'"):
        run.scalar("c", 1.0)
    run.drain()
    assert run.writers[0].series("b") == []


def test_own_cost_of_steps_is_measured(fake, time):
    class Slow(Hook):
        def before_step(self, step):
            time.pass_(0.001)

        def after_step(self, step):
            time.pass_(0.002)

    run = fake(hooks=[Slow()])
    for _ in run.steps(range(10)):
        time.pass_(1)
    assert run.cost.seconds == pytest.approx(10 * 0.003)
    assert run.cost.steps == 10


# --- the end ------------------------------------------------------------------------------------------


def test_flush_waits_until_it_is_in_the_file(real, read):
    run = real(flush_secs=3600.0)
    for step in range(1_000):
        run.scalar("loss", 1.0, step)
    assert run.flush()
    assert len(read(run)["loss"]) == 1_000
    assert run.flush(sync=True)


def test_a_point_is_written_without_a_flush(real, read):
    run = real(flush_secs=0.05)
    run.scalar("loss", 1.0, 0)
    end = time.monotonic() + 20
    while "loss" not in read(run):
        assert time.monotonic() < end
    assert read(run)["loss"] == [(0, 1.0)]


def test_closing_is_final_and_may_be_repeated(real, infos):
    run = real()
    assert run.state == "recording"
    run.close()
    run.close("failed", "too late")
    assert run.state == "finished"
    assert infos(run)[-1]["status"] == "finished"
    assert repr(run) == f"Run({run.log_dir!r}, finished)"
    assert not run.flush()


def test_no_thread_is_left_after_closing(real):
    run = real()
    thread = run._writer._thread
    assert thread.is_alive()
    assert thread.daemon
    run.close()
    assert not thread.is_alive()


@pytest.mark.usefixtures("lenient")
def test_logging_after_closing_is_told_and_counted(real):
    run = real()
    run.scalar("loss", 1.0, 0)
    run.close()
    with pytest.warns(RuntimeWarning, match="the run is closed"):
        run.scalar("loss", 1.0, 1)
    run.scalars({"loss": 1.0}, 2)
    assert run.problems == {"closed": 2}
    assert list(run.steps(range(3))) == [0, 1, 2]


def test_a_run_must_end_in_one_of_three_ways(real):
    with pytest.raises(UsageError, match="finished, failed or stopped"):
        real().close("done")


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (None, "finished", None),
        (ValueError("bad"), "failed", "ValueError: bad"),
        (KeyError(), "failed", "KeyError"),
        (KeyboardInterrupt(), "stopped", "KeyboardInterrupt"),
        (SystemExit(0), "finished", None),
        (SystemExit(), "finished", None),
        (SystemExit(3), "failed", "SystemExit: 3"),
        (RuntimeError("token hf_" + "a" * 30), "failed", "RuntimeError: token [scrubbed]"),
    ],
    ids=repr,
)
def test_the_block_says_how_it_ended(real, infos, error, status, reason):
    run = real()
    with contextlib.ExitStack() as stack:
        if error is not None:
            stack.enter_context(pytest.raises(type(error)))
        with run:
            if error is not None:
                raise error
    info = infos(run)[-1]
    assert (info["status"], info["reason"]) == (status, reason)
    assert info["ended"] >= info["started"]


def test_what_a_run_says_about_itself(real, infos):
    with real(config={"lr": 0.1, "api_key": "k"}, tags=["a"], total_steps=5) as run:
        pass
    first, last = infos(run)
    assert first["status"] == "running"
    assert first["ended"] is None
    assert last["config"] == {"lr": 0.1, "api_key": "[scrubbed]"}
    assert last["tags"] == ["a"]
    assert last["total_steps"] == 5
    assert (last["rank"], last["world_size"], last["role"]) == (0, 1, "chief")
    assert last["pid"] == os.getpid()
    assert last["schema"] == 1
    assert set(last) == {
        "schema", "version", "status", "reason", "attempt", "rank", "world_size", "role", "config", "tags",
        "total_steps", "host", "pid", "pid_namespace", "start_ticks", "python", "command", "started", "ended",
        "frameworks", "hooks", "problems", "code", "log_bytes", "unmeasured", "unmeasured_more",
        "ended_series", "stack", "console", "parent",
    }  # fmt: skip


def test_a_second_process_of_a_directory_is_a_second_attempt(real, infos):
    for attempt in (1, 2, 3):
        with real() as run:
            pass
        assert infos(run)[-1]["attempt"] == attempt
    assert len(list(Path(run.log_dir).iterdir())) == 6


@pytest.mark.slow
def test_a_run_that_is_dropped_is_closed(tmp_path, infos):
    run = Run(tmp_path / "run")
    run.scalar("loss", 1.0, 0)
    thread, left = run._writer._thread, weakref.ref(run)
    del run
    gc.collect()
    assert left() is None
    thread.join(20)
    assert not thread.is_alive()

    class Closed:
        log_dir = tmp_path / "run"

    assert infos(Closed)[-1]["status"] == "finished"
    exits._open.clear()
    exits._uninstall()


def test_a_run_does_not_travel(real):
    run = real()
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(UsageError, match="cannot be pickled or copied"):
            way(run)


def test_points_missing_at_the_end_are_told(fake, monkeypatch):
    run = fake()
    run.scalar("a", 1.0, 0)
    monkeypatch.setattr(type(run._writer), "alive", False)
    with pytest.raises(RecordError, match="closed before 1 point could be written"):
        run.close()
    assert run.problems == {"unwritten": 1}


# --- other ranks --------------------------------------------------------------------------------------


def test_other_ranks_write_telemetry_only_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with Run(tmp_path / "run", config={"lr": 1}) as run:
        for _ in run.steps(range(3)):
            run.scalar("loss", 1.0)
            run.scalars({"loss": 2.0})
        assert run.current_step == 2
        assert run.flush()
        said = "recording telemetry only: worker, rank 2 of 4 (RANK and WORLD_SIZE); rank 0 writes what is"
        assert said in repr(run)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["ranks"]
    assert len(list((tmp_path / "run" / "ranks").iterdir())) == 1
    assert run.problems == {}


# --- directories --------------------------------------------------------------------------------------


@pytest.fixture
def no_directory(tmp_path):
    """A path at which no directory can be made, whoever runs this."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "run"


def test_strict_raises_where_the_directory_cannot_be_written(no_directory):
    with pytest.raises(LogDirectoryError, match="cannot write the run: Not a directory"):
        Run(no_directory)


@pytest.mark.slow
@pytest.mark.usefixtures("lenient")
def test_else_it_is_one_warning_and_training_goes_on(no_directory):
    with pytest.warns(RuntimeWarning, match="cannot write the run: Not a directory") as caught:
        run = Run(no_directory)
    assert caught[0].filename == __file__
    for _ in run.steps(range(100)):
        run.scalar("loss", 1.0)
    assert not run.flush()
    with pytest.warns(RuntimeWarning, match="closed before 300 points could be written"):
        run.close()
    assert run.problems == {"unwritten": 300}


@pytest.mark.usefixtures("lenient")
def test_a_directory_that_comes_later_gets_everything(no_directory, read):
    with pytest.warns(RuntimeWarning, match="cannot write the run"):
        run = Run(no_directory)
    run.scalar("loss", 1.0, 0)
    no_directory.parent.unlink()
    assert run.flush()
    run.close()
    assert read(run)["loss"] == [(0, 1.0)]
    assert run.problems == {}


# --- threads ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("lenient")
def test_where_no_thread_can_be_had_training_goes_on(tmp_path, monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.warns(RuntimeWarning, match="nothing will be recorded: can't start new thread"):
        run = Run(tmp_path / "run")
    run.scalar("loss", 1.0, 0)
    assert run.problems == {"thread": 1}
    assert run.state == "not recording: no thread"
    run.close()


def test_logging_in_a_compiled_function(real, read):
    torch = pytest.importorskip("torch")
    run = real()

    @torch.compile(backend="eager")
    def step(x):
        loss = (x * 2).sum()
        run.scalar("loss", loss)
        return loss + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(3):
            step(torch.full((2,), float(number)))
    run.close()
    assert read(run)["loss"] == [(0, 0.0), (1, 4.0), (2, 8.0)]


# --- others in the place of scalar ------------------------------------------------------------------------


def test_a_subclass_may_override_scalar(fake, monkeypatch):
    class Doubled(Run):
        def scalar(self, tag, value, step=None):
            super().scalar(tag, 2 * value, step)

    run = fake(of=Doubled)
    for step in run.steps(range(2)):
        run.scalar("a", float(step))
    with run.record_if(every_n_steps=2):
        run.scalar("a", 1.0, 3)
        run.scalar("a", 1.0, 4)
    run.drain()
    assert run.writers[0].series("a") == [(0, 0.0), (1, 2.0), (4, 2.0)]


@pytest.mark.parametrize("where", ["class", "instance"])
def test_scalar_and_step_may_be_patched_after_the_run_was_made(fake, monkeypatch, where):
    run, seen = fake(), []
    run.scalar("a", 0.5, 0)
    whom = Run if where == "class" else run
    with monkeypatch.context() as patch:
        patch.setattr(whom, "scalar", lambda *given: seen.append(given[-2:]))
        patch.setattr(whom, "step", lambda *given: seen.append("step"))
        run.scalar("a", 1.5)
        run.step()
        with run.record_if(condition=True):
            run.scalar("a", 2.5)
    assert seen == [("a", 1.5), "step", ("a", 2.5)]
    run.scalar("a", 3.5, 1)
    run.drain()
    assert run.writers[0].series("a") == [(0, 0.5), (1, 3.5)]


def test_a_file_url_is_a_path(tmp_path):
    with Run(f"file://{tmp_path}/a") as run:
        assert run.log_dir == f"{tmp_path}/a"


def log_many_tags(run, count):
    for number in range(count):
        run.scalar(f"layer/{number}", 1.0, step=0)


def test_tags_without_end_are_bounded_and_said(tmp_path, monkeypatch):
    from stepscope import store

    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with Run(tmp_path / "a", max_queue_bytes=1 << 20) as run:
        with pytest.warns(RuntimeWarning, match="different tags already"):
            log_many_tags(run, 6_000)
        run.scalar("layer/0", 2.0, step=1)
        assert len(run._intake.points.names) < 4_200
        lost = run.problems["tags"]
    assert lost > 1_000
    with contextlib.closing(store.open(tmp_path, cache=False)) as log:
        tags = [tag for tag in log.run("a").tags() if tag.startswith("layer/")]
        assert len(tags) + lost == 6_000, "what is said to be lost is what no file holds"
        assert log.run("a").columns("layer/0")[0].points.columns[2].tolist() == [1.0, 2.0]


def test_a_run_that_outlives_the_modules_says_nothing_at_the_end_of_the_interpreter(fake, monkeypatch):
    """As one that JAX's caches hold: the names of modules are None by then, and runs have been ended."""
    run = fake()
    monkeypatch.setattr("stepscope.record.run.exits", None)
    with pytest.raises(AttributeError):
        run.__del__(at_exit=lambda: False)
    run.__del__(at_exit=lambda: True)


def test_a_loop_within_a_step_is_no_training_and_the_run_says_so_once(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with Run(tmp_path) as run, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in run.steps(range(4)):
            if step:
                assert [run.current_step for _ in run.steps(range(8))] == [step] * 8
    assert (run.total_steps, run.current_step) == (4, 3)
    (said,) = [str(each.message) for each in caught]
    assert "run.steps or run.step within a step (step 1)" in said


def test_loops_one_after_the_other_and_a_loop_over_epochs_are_not_mentioned(tmp_path):
    with Run(tmp_path) as run, warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            list(run.steps(range(3)))
        with run.step(10) as number:
            assert number == 10
        list(run.steps(range(2), start=20))
    assert (run.current_step, run.total_steps) == (21, 22)


@pytest.mark.parametrize("number", [-1, 1.5, "2"])
def test_a_number_that_no_step_can_have(tmp_path, number):
    with Run(tmp_path) as run, pytest.raises(UsageError, match="number must be an integer"):
        run.step(number)


@pytest.mark.parametrize("number", [1e-38, 3e-39, 1e-43, -3e-45, 1e-46, 1e-300, 5e-324, -1e39, 1e300])
def test_numbers_that_a_float32_would_change_are_read_as_they_were_logged(tmp_path, number):
    import stepscope as ss

    with Run(tmp_path / "run") as run:
        run.scalar("fast", number, 0)
        run.scalar("fast", number, 1)
        run.scalars({"together": number, "other": 1.0}, 0)
    with ss.open(tmp_path, cache=False) as log:
        [read] = log.runs()
        assert read.columns("fast")[0].value.tolist() == [number, number]
        assert read.columns("together")[0].value.tolist() == [number]


def test_points_without_memory_are_counted_and_raise_nothing(fake, lenient, monkeypatch):
    run = fake()
    run.scalar("loss", 1.0, 0)

    class Full:
        def log_many(self, *words):
            raise MemoryError

    monkeypatch.setattr(run._intake, "_record", Full().log_many)
    run.scalar("new", 1.0, 0)
    run.scalars({"other": 1.0, "third": 2.0}, 0)
    run.turn()
    monkeypatch.undo()
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with pytest.warns(RuntimeWarning, match="no memory for 3 points"):
        run.scalar("newer", 1.0, 0)
    assert run.problems == {"memory": 3}
