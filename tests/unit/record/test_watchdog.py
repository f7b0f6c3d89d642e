"""Writing that stops is said, with what holds it up; user code does not end the thread that writes."""

import sys
import threading
import warnings

import pytest
from support.waiting import until

from stepscope.health import Alert
from stepscope.record import exits, watchdog
from stepscope.record.hooks.health import HealthHook
from stepscope.record.protocol import Hook
from stepscope.record.run import Run
from stepscope.record.watchdog import Watchdog


class Writer:
    """A thread as the watchdog sees it."""

    opened = taking = alive = True
    beats, ident, directory = 0, 0, "runs/a"

    def __init__(self):
        self.posted, self.forgiven, self.attracted = [], [], 0
        self.problems = self

    def post(self, reason, error):
        self.posted.append(str(error))

    def forgive(self, reason):
        self.forgiven.append(reason)

    def attract(self):
        self.attracted += 1


def test_a_thread_without_a_sign_of_life_is_said_once_until_it_goes_on():
    writer, now = Writer(), [0.0]
    dog = Watchdog(lambda: [writer], lambda: now[0])
    for now[0] in (0.0, 3.0, 4.9):
        dog.look()
    assert not writer.posted
    for now[0] in (5.1, 6.0, 20.0):
        dog.look()
    [said] = writer.posted
    assert "the run is not written: for 5 s the disk has not answered" in said
    assert writer.attracted == 1
    writer.beats = 1
    dog.look()
    assert writer.forgiven == ["writer"]
    now[0] = 30.0
    dog.look()
    assert len(writer.posted) == 2


def test_one_that_turns_is_never_said():
    writer, now = Writer(), [0.0]
    dog = Watchdog(lambda: [writer], lambda: now[0])
    for number in range(100):
        now[0], writer.beats = 4.0 * number, number
        dog.look()
    assert not writer.posted


def test_a_thread_that_ended_is_said_at_once_but_not_at_the_end_of_a_run():
    writer = Writer()
    writer.alive = False
    dog = Watchdog(lambda: [writer], lambda: 0.0)
    writer.taking = False
    dog.look()
    assert not writer.posted
    writer.taking = True
    dog.look()
    dog.look()
    assert "its thread has ended" in writer.posted[0]


@pytest.mark.slow
def test_the_function_that_holds_up_the_thread_is_named(tmp_path, lenient, monkeypatch):
    monkeypatch.setattr(watchdog, "STUCK_SECS", 1.0)
    monkeypatch.setattr(watchdog, "LOOK_SECS", 0.05)
    released = threading.Event()

    def never_returns(tag, steps, values, walls):
        released.wait(60)

    run = Run(tmp_path / "run")
    run.listen(never_returns)
    run.scalar("loss", 1.0, 0)
    until(lambda: run.problems.get("writer"), "the watchdog looks")
    with pytest.warns(RuntimeWarning, match="has waited for never_returns in .*test_watchdog.py"):
        run.scalar("loss", 1.0, 1)
    released.set()
    run.close()


class Leaves(BaseException):
    """What no ``except Exception`` catches."""


@pytest.mark.parametrize("leave", [lambda: sys.exit("no"), lambda: (_ for _ in ()).throw(Leaves())])
def test_user_code_that_leaves_does_not_end_the_recording(tmp_path, lenient, read, leave):
    class Odd:
        """A value that is still on a device."""

        def ready(self):
            return True

        def read(self):
            leave()

    from stepscope.record import values

    values._readers[Odd] = lambda value: value
    hook = HealthHook(call=lambda finding: leave())
    alert = Alert(lambda last: leave(), name="mine", tags=["train/loss"], keep=50)
    with warnings.catch_warnings(record=True) as made:
        warnings.simplefilter("always")
        run = Run(tmp_path / "run", hooks=[hook], alerts=[alert])
        run.listen(lambda *columns: leave())
        run.event(lambda: leave(), 0, tag="a summary")
        run.scalar("device", Odd(), 0)
        for step in run.steps(range(600)):
            run.scalar("train/loss", float("nan") if step == 300 else 1.0 / (step + 1))
        run.close()
    assert any("is not called again" in str(each.message) for each in made)
    assert [step for step, _ in read(run)["train/loss"]] == list(range(600))
    assert run.state == "finished"
    assert {"alert", "hook", "summary", "device"} <= set(run.problems)


def test_a_hook_that_does_not_end_does_not_hold_up_the_close(tmp_path, lenient):
    released = threading.Event()
    ended = []

    class Hangs(Hook):
        def end(self, run, status, deadline=None):
            released.wait(60)

    class Earlier(Hook):
        def end(self, run, status, deadline):
            ended.append(status)

    run = Run(tmp_path / "run", hooks=[Earlier(), Hangs()])
    run.scalar("loss", 1.0, 0)
    with pytest.warns(RuntimeWarning, match="Hangs.end has not returned in time"):
        run.close(timeout=0.5)
    assert run.state == "finished"
    assert ended == ["finished"]
    released.set()


def test_what_a_hook_raises_at_its_end_is_said_of_it(tmp_path, lenient):
    class Raises(Hook):
        def end(self, run, status, deadline):
            run.scalar("last", 1.0, 0)
            raise ValueError("no model")

    run = Run(tmp_path / "run", hooks=[Raises()])
    with pytest.warns(RuntimeWarning, match="Raises.end raised ValueError: no model"):
        run.close()


def test_the_watchdog_ends_with_the_last_run(tmp_path):
    with Run(tmp_path / "run"):
        assert exits._watchdog._thread.is_alive()
        thread = exits._watchdog._thread
    thread.join(10)
    assert not thread.is_alive()
