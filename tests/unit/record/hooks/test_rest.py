"""Hooks that act every so often are not called at every step, and miss nothing by it."""

import pytest

import stepscope as ss
from stepscope.record.clock import NO_DEADLINE


def counted(hook):
    """The numbers of the steps at whose end a hook is called."""
    calls, after = [], hook.after_step

    def called(step):
        calls.append(step)
        after(step)

    hook.after_step = called
    return calls


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        # At the first step, at which it knows when it is due, and then.
        (lambda: ss.SummarySaverHook(print, 100), [0, 100, 200, 300, 400]),
        (lambda: ss.CheckpointHook(lambda done: None, 100), [0, 99, 199, 299, 399]),
        (lambda: ss.StopAtStepHook(300), [0, 299]),
        # These also look at the steps in between before they are forgotten.
        (lambda: ss.LoggingHook(100, to=print), [0, 65, 99, 164, 199, 264, 299, 364, 399]),
        (lambda: ss.StepCounterHook(100), [0, 65, 99, 164, 199, 264, 299, 364, 399]),
        (lambda: ss.StepCounterHook(every_secs=50), [0, *range(49, 410, 50)]),
    ],
)
def test_hooks_are_called_when_they_may_have_to_act(fake, time, make, expected):
    hook = make()
    calls = counted(hook)
    for _ in fake(hooks=[hook]).steps(range(410)):
        time.pass_(1.0)
    assert calls == expected


def test_a_hook_with_several_windows_between_two_calls_counts_every_step(fake, time):
    run = fake(hooks=[ss.StepCounterHook(200)])
    for number in range(400):
        with run.step():
            time.pass_(2.0 if number == 250 else 0.5)
    run.drain()
    assert run.writers[-1].series("speed/steps_per_second") == [
        (199, 2.0),
        (399, pytest.approx(200 / 101.5)),
    ]
    assert run.writers[-1].series("speed/step_time_max_ms") == [(199, 500.0), (399, 2000.0)]


def test_what_a_hook_slept_through_is_recorded_at_the_end(fake, time):
    run = fake(hooks=[ss.StepCounterHook(1000)])
    for _ in range(30):
        with run.step():
            time.pass_(0.25)
    run._writer.close_hooks("finished", NO_DEADLINE)
    run.drain()
    assert run.writers[-1].series("speed/steps_per_second") == [(29, 4.0)]


def test_a_function_that_fails_three_times_in_a_row_is_called_no_more(tmp_path, monkeypatch):
    """Whatever the number of steps between."""
    monkeypatch.setenv("STEPSCOPE_STRICT", "0")
    for every in (10, 100):
        calls = []

        def save(step, calls=calls):
            calls.append(step)
            raise OSError("no")

        with (
            pytest.warns(RuntimeWarning, match=r"OSError: no"),
            ss.Run(tmp_path / str(every), hooks=[ss.SummarySaverHook(save, every)]) as run,
        ):
            for _ in run.steps(range(8 * every)):
                pass
        assert calls == [0, every, 2 * every]
