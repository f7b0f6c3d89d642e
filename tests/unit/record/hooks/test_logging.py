"""LoggingHook: its lines, on a clock that only the tests move."""

import io
import logging
import re
import threading

import pytest

import stepscope as ss


@pytest.fixture
def told():
    return []


def train(run, time, steps, *, waiting=0.0, logged=True, drain=True):
    def data():
        for step in steps:
            time.pass_(waiting)
            yield step

    for step in run.steps(data()):
        time.pass_(1 - waiting)
        if logged:
            run.scalar("train/loss", 1 / (step + 1))
    if drain:
        run.drain()


def test_a_line_tells_progress_values_speed_and_time_left(fake, time, told):
    train(fake(total_steps=200, hooks=[ss.LoggingHook(10, to=told.append)]), time, range(20))
    assert told == [
        "step 10/200 5 % · train/loss 0.1 · 1 steps/s · 3 min 10 s left",
        "step 20/200 10 % · train/loss 0.05 · 1 steps/s · 3 min left",
    ]


def test_values_are_those_of_the_lines_own_step(fake, time, told):
    """Though later ones are known by the time that it is written."""
    train(fake(hooks=[ss.LoggingHook(10, to=told.append)]), time, range(19))
    assert told == ["step 10 · train/loss 0.1 · 1 steps/s"]


def test_slow_steps_and_slow_data_are_told(fake, time, told):
    run = fake(hooks=[ss.LoggingHook(2, to=told.append)])
    train(run, time, range(2), waiting=0.25, drain=False)
    time.pass_(6)
    train(run, time, range(2), logged=False)
    assert told == [
        "step 2 · train/loss 0.5 · 1 steps/s · data 25 %",
        "step 4 · train/loss 0.5 · 4 s/step",
    ]


def test_chosen_tags_in_their_order(fake, time, told):
    run = fake(hooks=[ss.LoggingHook(1, tags=["b", "speed/step_time_ms", "missing", "a"], to=told.append)])
    with run.step():
        time.pass_(0.5)
        run.scalars({"a": 1, "b": 2, "c": 3})
    run.drain()
    assert told == ["step 1 · b 2 · speed/step_time_ms 500 · a 1 · 2 steps/s"]


def test_by_default_six_tags_that_no_hook_records(fake, time, told):
    run = fake(hooks=[ss.StepCounterHook(1), ss.LoggingHook(1, to=told.append)])
    with run.step():
        time.pass_(1)
        run.scalars({f"t{number}": number for number in range(9)})
    run.drain()
    assert told == ["step 1 · t0 0 · t1 1 · t2 2 · t3 3 · t4 4 · t5 5 · 1 steps/s"]


def test_the_last_line_says_how_it_ended(real, told):
    with real(total_steps=5, hooks=[ss.LoggingHook(100, to=told.append)]) as run:
        for _ in run.steps(range(5)):
            run.scalar("loss", 0.5)
    [line] = told
    assert re.fullmatch(r"step 5/5 100 % · loss 0\.5 · finished after [\d.]+ (µs|ms|s)", line)


def test_at_end_may_be_left_out(real, told):
    with real(hooks=[ss.LoggingHook(100, to=told.append, at_end=False)]) as run:
        list(run.steps(range(5)))
    assert told == []


def test_it_writes_to_stderr(real, capsys):
    with real(hooks=[ss.LoggingHook(1, at_end=False)]) as run:
        list(run.steps(iter("a")))
    shown = capsys.readouterr()
    assert shown.err.startswith("step 1 · ")
    assert shown.err.endswith("\n")
    assert shown.out == ""


def test_it_writes_to_a_logger_or_a_stream(real, caplog):
    stream = io.StringIO()
    logger = logging.getLogger("training")
    hooks = [ss.LoggingHook(1, to=logger, at_end=False), ss.LoggingHook(1, to=stream, at_end=False)]
    with caplog.at_level(logging.INFO, "training"), real(hooks=hooks) as run:
        list(run.steps(iter("a")))
    assert [record.getMessage()[:7] for record in caplog.records] == ["step 1 "]
    assert stream.getvalue().startswith("step 1 · ")


def test_a_line_goes_above_the_bars_of_tqdm(real):
    tqdm = pytest.importorskip("tqdm").tqdm
    screen = io.StringIO()
    with real(hooks=[ss.LoggingHook(2, to=screen, at_end=False)]) as run:
        for _ in tqdm(run.steps(iter("ab")), total=2, file=screen, mininterval=0):
            pass
        bar = tqdm(total=1, file=screen)
        run.flush()
        bar.close()
    line = next(line for line in screen.getvalue().split("\n") if "step 2" in line)
    assert line.rpartition("\r")[2].startswith("step 2 · ")


def test_a_terminal_that_blocks_does_not_make_the_training_wait(real):
    gate, seen = threading.Event(), []

    def slow(line):
        gate.wait(20)
        seen.append(line)

    run = real(hooks=[ss.LoggingHook(1, to=slow, at_end=False)])
    for _ in run.steps(range(3)):
        run.scalar("x", 1.0)
    assert run.last_step.step == 2  # the loop is over while the first line still waits
    assert seen == []
    gate.set()
    run.close()
    assert len(seen) == 3


def test_a_console_that_fails_is_told_of_and_the_run_goes_on(real, lenient, read):
    def broken(line):
        raise OSError("closed")

    def train():
        with real(hooks=[ss.LoggingHook(1, to=broken)]) as run:
            for _ in run.steps(range(2)):
                run.scalar("x", 1.0)
        return run

    with pytest.warns(RuntimeWarning, match="a line of LoggingHook: OSError: closed"):
        run = train()
    assert read(run)["x"] == [(0, 1.0), (1, 1.0)]
