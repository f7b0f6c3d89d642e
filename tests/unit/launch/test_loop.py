"""Steps of a loop of the user's own: their times, their stages, and the step to which a value belongs."""

import threading
from types import SimpleNamespace

import pytest

from stepscope.kernels.marks import Switches
from stepscope.kernels.steps import Stages, Steps
from stepscope.launch.loop import ELSEWHERE, Loop

MADE = 50.0
"""Seconds that it takes to make the run."""


class Process(Switches):
    opened = step_of_values = None
    counted, uncounted = False, staticmethod(str)


class Program:
    """A program on a clock that its own work moves; a letter is a part of it, of one second.

    f fetches a batch, m calls the model, b computes gradients, u and v are the updates of two optimizers,
    p prints a value, e evaluates, x ends the program.
    """

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.steps = Steps(0, lambda: self.now)
        self.stages = self.steps.stages = Stages(lambda: self.now)
        self.stages.keep = True
        self.hooks, self.sentences = [], []
        self.run = SimpleNamespace(step_counter=self.steps, recording=True, add_hook=self.hooks.append)
        self.process = Process()
        self.process.run, self.process.say = self.made, self.sentences.append
        self.loop = Loop(self.process, steady=lambda: self.now)
        self.values = []

    def made(self):
        if self.process.opened is None:
            self.now += MADE
            self.process.opened = self.run
        return self.run

    def does(self, work):
        for part in work:
            getattr(self, part)()
        return self

    def f(self):
        asked = self.loop.before_fetch()
        self.now += 1
        self.loop.fetched(asked)

    def m(self):
        self.stages.mark(self.stages.number("forward"))
        self.now += 1

    def b(self):
        self.loop.backward_begins()
        self.stages.mark(self.stages.number("backward"))
        self.now += 1
        self.loop.backward_ended()

    def u(self, optimizer="one"):
        self.loop.update_begins(optimizer)
        before = self.stages.mark(self.stages.number("optimizer"))
        self.now += 1
        self.stages.mark(before)
        self.loop.update_ended(optimizer)

    def v(self):
        self.u("two")

    def c(self):
        """An update that computes the gradients itself."""
        self.loop.update_begins("one")
        self.b()
        self.loop.update_ended("one")

    def t(self):
        """The first call of a function, of which it is known afterwards that it updates."""
        begun = self.now
        self.now += 1
        self.loop.take_update("function", begun)

    def w(self):
        """A later call of it."""
        self.loop.update_begins("function")
        self.now += 1
        self.loop.update_ended("function")

    def p(self):
        step = self.process.step_of_values()
        self.values.append(self.steps.current if step is None else step)

    def e(self):
        begun = self.now
        self.now += 1
        self.steps.leave_out(self.now - begun)
        self.loop.evaluated(begun)

    def q(self):
        """An evaluation between ``eval`` and ``train`` that fetches a batch, and prints."""
        self.f()
        self.loop.evaluating = True
        self.p()
        self.loop.evaluating = False

    def x(self):
        for hook in self.hooks:
            hook.end(self.run, "finished", None)


@pytest.mark.parametrize(
    ("work", "times", "values"),
    [
        ("cccx", [1, 1, 1], []),
        ("twwx", [1, 1, 1], []),
        ("twpewx", [1, 1, 1], [1]),
        ("mbup" * 3 + "x", [2, 3, 3], [0, 1, 2]),
        ("mbup" * 3 + "epx", [2, 3, 3], [0, 1, 2, 2]),
        ("mbu" * 3 + "mpbupx", [2, 3, 3, 3], [3, 3]),
        ("fmbup" * 3 + "ex", [4, 4, 4], [0, 1, 2]),
        ("fmbu" * 2 + "q" + "fmbupqx", [4, 4, 4], [1, 2, 2]),
        ("fmbupe" * 2 + "fmbux", [4, 4, 4], [0, 1]),
        ("mbup" + "mebup" * 2 + "x", [2, 3, 3], [0, 1, 2]),
        ("mbubv" * 3 + "ex", [4, 5, 5], []),
        ("mbubve" + "mbubv" * 2 + "x", [4, 5, 5], []),
        ("mbubv" + "mbup" + "mbubvp" + "mbup" + "mbubvpx", [4, 3, 5, 3, 5], [1, 2, 3, 4]),
        ("mbup" * 2 + "mbubvp" + "mbup" + "mbubvpx", [2, 3, 3, 5, 5], [0, 1, 3, 3, 4]),
        ("mbu" * 3 + "mbv" * 3 + "x", [2, 3, 3, 3, 3, 3], []),
    ],
    ids=[
        "closure",
        "function",
        "evaluated by functions",
        "printed",
        "printed at the end",
        "printed before",
        "evaluated",
        "evaluated by a loader",
        "between",
        "within",
        "two",
        "two between",
        "one joins every second",
        "one joins later",
        "one after the other",
    ],
)
def test_times_and_values(monkeypatch, work, times, values):
    program = Program(monkeypatch).does(work)
    assert [(step, seconds) for step, seconds, _ in program.steps.since(0)] == list(enumerate(times))
    assert program.values == values


@pytest.mark.parametrize(("work", "known"), [("mbu" * 4 + "x", [2, 3]), ("c" * 4 + "x", [0, 1, 2, 3])])
def test_stages_of_another_step_are_not_taken_for_those_of_the_first(monkeypatch, work, known):
    """The first step's end is known only in the second update: marks since then belong to no step."""
    rows = Program(monkeypatch).does(work).stages.take()
    assert [step for step, _ in rows] == known
    assert all(spent >= 0 for _, stages in rows for spent in stages)


def in_turns(program, first, second, *, ends):
    """Let one thread work, and then another, when the first has ended or while it is still there."""
    both, worked, go, leave = (threading.Event() for _ in range(4))

    def one():
        assert both.wait(60)  # a thread that ends before the other begins may hand its identity on
        program.does(first)
        worked.set()
        assert ends or leave.wait(60)

    def two():
        assert go.wait(60)
        program.now += 100
        program.does(second)

    threads = [threading.Thread(target=one), threading.Thread(target=two)]
    for thread in threads:
        thread.start()
    both.set()
    assert worked.wait(60)
    if ends:
        threads[0].join(60)
    go.set()
    threads[1].join(60)
    leave.set()
    threads[0].join(60)


@pytest.mark.parametrize(
    ("work", "times"), [("fmbup", [4, 4, 4, 1, 4, 4]), ("mbup", [2, 3, 3, 1, 3, 3])], ids=["loader", "none"]
)
def test_a_thread_that_trains_after_another_has_ended_counts_on(monkeypatch, work, times):
    """Of its first step only the update is seen: until then it might have been anything."""
    program = Program(monkeypatch)
    in_turns(program, 3 * work, 3 * work + "x", ends=True)
    assert [(step, seconds) for step, seconds, _ in program.steps.since(0)] == list(enumerate(times))
    assert ELSEWHERE not in program.sentences


def test_a_thread_that_trains_beside_another_is_named(monkeypatch):
    program = Program(monkeypatch)
    in_turns(program, 3 * "fmbup", 3 * "fmbup" + "x", ends=False)
    assert [step for step, _, _ in program.steps.since(0)] == [0, 1, 2]
    assert ELSEWHERE in program.sentences
