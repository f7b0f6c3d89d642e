"""Hooks of a run: which methods are called when, and what becomes of what they raise."""

import pytest
from support import hooks

import stepscope as ss
from stepscope.errors import HaltError, RecordError, UsageError
from stepscope.events.messages import Event, Summary, Value


@pytest.fixture(autouse=True)
def _lenient(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "0")


class Told(ss.Hook):
    def __init__(self, calls, name=""):
        self.calls, self.name = calls, name

    def begin(self, run):
        self.calls.append((self.name, "begin"))

    def before_step(self, step):
        self.calls.append((self.name, "before", step))

    def after_step(self, step):
        self.calls.append((self.name, "after", step))

    def end(self, run, status):
        self.calls.append((self.name, "end", status))


def test_hooks_are_called_in_order_and_ended_in_reverse(tmp_path):
    calls = []
    with ss.Run(tmp_path, hooks=[Told(calls, "a"), Told(calls, "b")]) as run:
        for _ in run.steps(range(1)):
            calls += ["work"]
    assert calls == [
        ("a", "begin"), ("b", "begin"), ("a", "before", 0), ("b", "before", 0), "work",
        ("a", "after", 0), ("b", "after", 0), ("b", "end", "finished"), ("a", "end", "finished"),
    ]  # fmt: skip


def test_a_hook_knows_the_times_of_the_step(tmp_path):
    seen = []

    class Times(ss.Hook):
        def begin(self, run):
            self.run = run

        def after_step(self, step):
            seen.append(self.run.last_step)

    with ss.Run(tmp_path, hooks=[Times()]) as run:
        for _ in run.steps(range(2)):
            pass
        run.step()
        run.step()
    assert [facts.step for facts in seen] == [0, 1, 2]
    assert all(facts.seconds >= (facts.waited or 0.0) >= 0 for facts in seen)
    assert seen[2].waited is None


def test_a_hook_that_fails_is_reported_once_and_again_when_it_is_switched_off(tmp_path):
    calls = []

    class Bad(Told):
        def after_step(self, step):
            super().after_step(step)
            raise ZeroDivisionError("mine")

    run = ss.Run(tmp_path, hooks=[Bad(calls)])
    with pytest.warns(RuntimeWarning, match=r"Bad\.after_step raised ZeroDivisionError: mine") as told:
        list(run.steps(range(6)))
    run.close()
    ends = [str(warning.message).split("\n")[0].rpartition("; ")[2] for warning in told]
    assert ends == ["training goes on", "it is switched off"]
    assert run.problems == {"hook": 3}
    assert sum(call[1] == "after" for call in calls) == 3


def test_strict_mode_raises_what_a_hook_raises(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")

    class Bad(ss.Hook):
        def before_step(self, step):
            raise ZeroDivisionError

    with pytest.raises(RecordError, match=r"Bad\.before_step"), ss.Run(tmp_path, hooks=[Bad()]) as run:
        run.step()


def test_halt_passes_into_the_loop(tmp_path):
    with pytest.raises(HaltError, match="no further"), ss.Run(tmp_path, hooks=[hooks.Halts()]) as run:
        for _ in run.steps(range(9)):
            pass
    assert run.state == "failed"


def test_a_request_to_stop_ends_the_loop_after_the_step(tmp_path):
    with ss.Run(tmp_path) as run:
        for number in run.steps(range(9)):
            if number == 3:
                run.request_stop("early stopping")
                run.request_stop("another")
    assert (run.current_step, run.should_stop, run.stop_reason) == (3, True, "early stopping")
    with ss.open(tmp_path) as log:
        assert log.runs()[0].info.reason == "early stopping"


def test_what_is_no_hook_is_refused(tmp_path):
    with ss.Run(tmp_path) as run, pytest.raises(UsageError, match="must be a Hook"):
        run.add_hook(Told)


def test_on_other_ranks_only_hooks_for_all_are_called(tmp_path):
    calls = []
    everywhere = Told(calls, "all")
    everywhere.ranks = "all"
    with ss.Run(tmp_path, rank=1, world_size=2, hooks=[Told(calls, "chief"), everywhere]) as run:
        run.step()
    assert {call[0] for call in calls} == {"all"}
    assert calls[-1] == ("all", "end", "finished")


def test_listeners_hear_every_number_in_order(tmp_path):
    heard = {}

    def take(tag, steps, values, walls):
        heard.setdefault(tag, []).extend(zip(steps.tolist(), values.tolist(), strict=True))
        assert len(walls) == len(steps)

    with ss.Run(tmp_path) as run:
        run.listen(take, lambda tag: tag.startswith("train/"))
        for number in run.steps(range(100)):
            run.scalar("train/loss", number / 2)
            run.scalar("other", 1)
    assert heard == {"train/loss": [(number, number / 2) for number in range(100)]}


def test_a_listener_that_raises_is_told_no_more(tmp_path):
    def take(tag, steps, values, walls):
        raise KeyError("mine")

    run = ss.Run(tmp_path)
    run.listen(take)
    run.scalar("a", 1)
    with pytest.warns(RuntimeWarning, match="raised KeyError"):
        run.flush()
    run.scalar("a", 1)
    run.close()
    assert run.problems == {"hook": 1}


def test_an_event_is_made_on_another_thread_and_written(tmp_path):
    with ss.Run(tmp_path) as run:
        run.event(lambda: [Value(tag="late", simple_value=2.5)], step=7)
        run.event(lambda: Event(graph_def=b"graph"), step=8)
        run.event(lambda: None)
        assert run.flush()
    with ss.open(tmp_path) as log:
        assert log.runs()[0].series("late")["step"].tolist() == [7]
    assert run.problems == {}


def test_an_event_that_cannot_be_made_is_reported(tmp_path):
    with pytest.warns(RuntimeWarning, match="'weights': ZeroDivisionError"), ss.Run(tmp_path) as run:
        run.event(lambda: 1 / 0, tag="weights")
    assert run.problems == {"summary": 1}


def test_events_beyond_the_memory_are_dropped_and_counted(tmp_path):
    from threading import Event as Flag

    gate = Flag()

    def slow():
        gate.wait(10)
        return Event(summary=Summary([Value(tag="x", simple_value=1.0)]))

    run = ss.Run(tmp_path, max_summary_bytes=1000)
    run.event(slow, nbytes=500, tag="x")
    run.event(slow, nbytes=500, tag="x")
    with pytest.warns(RuntimeWarning, match="max_summary_bytes"):
        run.event(slow, nbytes=500, tag="x")
    gate.set()
    run.close()
    assert run.problems == {"overflow": 1}


def test_a_run_whose_hook_cannot_begin_is_ended_where_that_is_raised(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")

    class Bad(ss.Hook):
        def begin(self, run):
            raise ZeroDivisionError

    with pytest.raises(RecordError, match=r"Bad\.begin"):
        ss.Run(tmp_path, hooks=[Bad()])
    with ss.open(tmp_path) as log:
        assert log.runs()[0].state == "failed"
