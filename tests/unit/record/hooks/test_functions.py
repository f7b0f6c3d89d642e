"""Hooks that call the user's functions."""

import os

import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.record.hooks.functions import LambdaHook
from stepscope.record.intake import Intake


def test_functions_instead_of_methods(real):
    calls = []
    hook = ss.LambdaHook(
        begin=lambda run: calls.append(("begin", run.log_dir)),
        before_step=lambda step: calls.append(("before", step)),
        after_step=lambda step: calls.append(("after", step)),
        end=lambda run, status: calls.append(("end", status)),
    )
    with real(hooks=[hook]) as run:
        list(run.steps(range(2)))
    assert calls == [
        ("begin", run.log_dir),
        ("before", 0), ("after", 0), ("before", 1), ("after", 1),
        ("end", "finished"),
    ]  # fmt: skip


def test_what_is_not_given_is_not_called(fake):
    run = fake(hooks=[ss.LambdaHook(after_step=print)])
    assert (len(run.step_counter.before), len(run.step_counter.after)) == (0, 1)


def test_their_time_is_not_ours_but_what_they_log_is(fake, time, monkeypatch):
    run = fake(hooks=[ss.LambdaHook(before_step=lambda step: time.pass_(3), after_step=work(time))])
    work.run = run
    record = Intake._record
    monkeypatch.setattr(Intake, "_record", lambda *given: (time.pass_(0.5), record(*given))[1])
    for _ in run.steps(range(2)):
        pass
    # Each step: 3 s before it and 20 s after it are theirs; a tag's first point takes half a second.
    assert run.cost.seconds == pytest.approx(0.5)
    assert run.cost.theirs == pytest.approx(2 * 3 + 2 * 20)


def work(time):
    def after(step):
        time.pass_(20)
        work.run.scalar("mine", 1.0)

    return after


def test_on_every_rank_where_asked(tmp_path):
    calls = []
    hooks = [LambdaHook(after_step=calls.append), LambdaHook(after_step=calls.append, ranks="all")]
    with ss.Run(tmp_path, rank=1, world_size=2, hooks=hooks) as run:
        list(run.steps(range(1)))
    assert calls == [0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"begin": 1}, "begin must be a function, got int 1"),
        ({"before_step": "x"}, "before_step must be a function"),
        ({"after_step": []}, "after_step must be a function"),
        ({"end": 0}, "end must be a function"),
        ({"ranks": "chef"}, "ranks must be 'chief' or 'all', got str 'chef'"),
    ],
)
def test_arguments_that_cannot_be_right(arguments, message):
    with pytest.raises(UsageError, match=message):
        ss.LambdaHook(**arguments)


# --- SummarySaverHook ---------------------------------------------------------------------------------


def test_summaries_are_saved_at_the_first_step_and_every_so_many(fake):
    calls = []
    list(fake(hooks=[ss.SummarySaverHook(calls.append, 10)]).steps(range(25)))
    assert calls == [0, 10, 20]


def test_the_first_step_may_be_left_out(fake):
    calls = []
    list(fake(hooks=[ss.SummarySaverHook(calls.append, 10, first=False)]).steps(range(25)))
    assert calls == [10, 20]


def test_summaries_by_seconds(fake, time):
    calls = []
    for _ in fake(hooks=[ss.SummarySaverHook(calls.append, every_secs=5)]).steps(range(12)):
        time.pass_(1)
    assert calls == [0, 5, 10]


def test_what_is_saved_belongs_to_the_step(real, read):
    with real() as run:
        run.add_hook(ss.SummarySaverHook(lambda step: run.scalar("weights/norm", step), 2))
        list(run.steps(range(4)))
    assert read(run)["weights/norm"] == [(0, 0.0), (2, 2.0)]


def test_a_function_that_raises_is_told_of(real, lenient):
    def bad(step):
        raise ZeroDivisionError("mine")

    run = real(hooks=[ss.SummarySaverHook(bad, 1)])
    with pytest.warns(RuntimeWarning, match=r"SummarySaverHook\.after_step raised ZeroDivisionError: mine"):
        list(run.steps(range(5)))
    run.close()
    assert run.problems == {"hook": 3}
    assert run._problems.lost == 0  # no point was lost by it


def test_it_needs_a_function():
    with pytest.raises(UsageError, match="save must be a function"):
        ss.SummarySaverHook(5)


# --- added later, forked, closed ----------------------------------------------------------------------


def test_a_hook_that_is_added_later_begins_at_once_and_counts_from_there(fake):
    calls = []
    run = fake()
    for step in run.steps(range(30)):
        if step == 14:
            run.add_hook(ss.SummarySaverHook(calls.append, 10, first=False))
    assert calls == [20]


def test_a_hook_may_add_another(fake):
    calls = []

    class Adder(ss.Hook):
        def begin(self, run):
            self.run = run

        def after_step(self, step):
            if step == 1:
                self.run.add_hook(LambdaHook(after_step=calls.append))

    run = fake(hooks=[Adder()])
    list(run.steps(range(4)))
    assert calls == [2, 3]


def test_after_the_end_no_hook_is_called(real):
    calls = []
    run = real(hooks=[LambdaHook(after_step=calls.append, end=lambda run, status: calls.append(status))])
    list(run.steps(range(1)))
    run.close()
    list(run.steps(range(1)))
    run.close()
    assert calls == [0, "finished"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, where another test has imported it
def test_in_a_forked_child_hooks_are_silent(real, tmp_path):
    told = tmp_path / "told"
    told.touch()

    def note(*given):
        with told.open("a") as file:
            file.write(f"{os.getpid()}\n")

    run = real(hooks=[LambdaHook(after_step=note, end=note)])
    with run.step():
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                run.step_counter.end(run.clock.steady())
                list(run.steps(range(3)))
                run.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    run.close()
    assert told.read_text().split() == [str(os.getpid())] * 2
