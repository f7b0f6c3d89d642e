"""Programs without a framework: which lines tell of a training, and of which step their values are."""

import io
import logging
import os
from types import SimpleNamespace

import pytest
from support.clock import Time

from stepscope.launch import plain
from stepscope.launch.path import sitecustomize
from stepscope.launch.plain import Told
from stepscope.launch.sources import Sources

TRAININGS = {
    "epochs": (["epoch {n} loss 0.{n}"], "loss", [1, 2, 3, 4, 5]),
    "boosting": (["[{n}]\ttrain-logloss:0.{n}\tvalid-logloss:0.{n}"], "valid-logloss", [1, 2, 3, 4, 5]),
    "headings": (["-- Epoch {n}", "Norm: 1.2, Avg. loss: 0.{n}", "Total training time: 0.00 seconds."],
                 "loss", [1, 2, 3, 4, 5]),
    "a table": (["Iter  Train Loss  Time", "{n}  0.{n}  0.1s"], "Train_Loss", [1, 2, 3, 4, 5]),
    "steps of epochs": (["epoch {n} step 10 loss 0.{n}", "epoch {n} step 20 loss 0.5", "epoch {n} acc 0.{n}"],
                        "loss", [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
    "a score": (["Episode {n}  Average Score: {n}.5"], "Average_Score", [1, 2, 3, 4, 5]),
    "a reward": (["Episode {n}\tAverage reward: {n}.5"], "Average_reward", [1, 2, 3, 4, 5]),
}  # fmt: skip
OTHERS = (
    "Downloading wheel {n}: {n}.3 MB {n}.5% eta 0:00:0{n}",
    "2024-05-01 12:00:0{n} request {n} took 0.{n} s, error rate 0.{n}",
    "step {n} of the installation took 0.{n} s",
    "[{n}/30] Building CXX object a{n}.o in 0.{n} s",
    "test_{n}.py::test_loss PASSED [ {n}%] 0.{n} s",
    "{n}: score 0.{n} document",
    "[{n}] score 0.{n} document",
    "run {n} accuracy 0.{n}",
    "fold {n} accuracy 0.{n}",
    "Trial {n}: val loss 0.{n}",
    "iteration {n}: 1.{n} ns per loop",
    "step {n}: residual 0.{n}, dt 0.{n}",
    "episode {n}: rating 8.{n}",
    "generation {n} of the backup, 12.{n} GB",
    "round {n}: player 1 score {n} player 2 score 3",
    "loss 0.{n}",
    "epoch 3 loss 0.{n}",
)


class Run(SimpleNamespace):
    """Keeps what it is given."""

    def __init__(self):
        super().__init__(recording=True, values=[], hooks=[])
        self.add_hook, self.describe = self.hooks.append, dict

    def scalars(self, values, step):
        self.values.append((step, values))

    def record(self, values, step, *, wall):
        self.values.append((step, values))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The run of the process, once it is asked for."""
    from stepscope.launch.process import process

    made = Run()
    monkeypatch.setattr(process, "given", lambda environ: None)
    monkeypatch.setattr(process, "_made", lambda: made)
    monkeypatch.setattr(process, "sources", Sources())
    for name in ("_run", "step_of_values", "off", "led"):
        monkeypatch.setattr(process, name, getattr(process, name))
    return made


@pytest.fixture
def told(tmp_path):
    return Told({"STEPSCOPE_RUN_SESSION": str(tmp_path)})


def tell(told, lines, times=5):
    for n in range(1, times + 1):
        for line in lines:
            told.line(line.format(n=n))


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_is_recorded_from_its_first_value_on(run, told, name):
    lines, tag, steps = TRAININGS[name]
    tell(told, lines)
    assert [step for step, values in run.values if tag in values] == steps


@pytest.mark.parametrize("line", OTHERS)
def test_what_is_no_training_makes_no_run(run, told, line):
    tell(told, [line])
    assert not told.leads
    assert run.values == []


def test_two_values_make_no_run(run, told):
    tell(told, ["epoch {n} loss 0.{n}"], times=2)
    assert not told.leads


@pytest.mark.parametrize("counted", [False, True], ids=["no steps", "steps"])
def test_a_run_that_a_tracker_made_has_the_values_from_the_first_on(monkeypatch, run, told, counted):
    """Unless steps are counted, of which the values are then."""
    from stepscope.launch.process import process

    told.line("epoch 1 loss 0.5")
    run.step_counter = SimpleNamespace(running=counted, last=None)
    monkeypatch.setattr(process, "_run", run)
    told.line("epoch 2 loss 0.25")
    told.line("best loss 0.25")
    waiting = [(1, {"loss": 0.5}), (2, {"loss": 0.25}), (2, {"best_loss": 0.25})]
    assert run.values == ([] if counted else waiting)


def test_a_second_training_goes_on_with_the_numbers(run, told):
    for _ in range(2):
        tell(told, ["epoch {n} loss 0.{n}"], times=3)
    assert [step for step, _ in run.values] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("reason", ["the steps: no optimizer stepped", ""])
def test_why_steps_are_unknown_is_said_once(run, told, monkeypatch, reason):
    """A framework that was used knows it better."""
    from stepscope.launch.process import process

    sentences = []
    monkeypatch.setattr(process, "say", sentences.append)
    monkeypatch.setattr(process, "reasons", [lambda: "", lambda: reason])
    tell(told, ["epoch {n} loss 0.{n}"])
    [hook] = run.hooks
    hook._end(run, "finished")
    assert sentences == [reason or plain.UNKNOWN]


def test_a_worker_and_a_forked_child_make_no_run(monkeypatch, run, told):
    monkeypatch.setattr("multiprocessing.process.parent_process", object)
    tell(told, ["epoch {n} loss 0.{n}"])
    assert told.over
    assert run.values == []


def test_what_a_child_trains_is_not_recorded_again(monkeypatch, run, told, tmp_path):
    """The program shows what its child prints, which has a run of its own."""
    now = Time(100.0)
    monkeypatch.setattr(plain.time, "monotonic", now)
    monkeypatch.setattr(plain, "_below", lambda pid: pid == 17)
    (tmp_path / "python-17").touch()
    tell(told, ["epoch {n} loss 0.{n}"])
    assert not told.leads
    (tmp_path / "run-17-0.json").touch()
    now.now += plain.CHILD_SECS
    told.line("epoch 6 loss 0.6")
    assert told.over
    assert run.values == []


def test_a_program_with_other_children_is_recorded_late_and_whole(monkeypatch, run, told, tmp_path):
    now = Time(100.0)
    monkeypatch.setattr(plain.time, "monotonic", now)
    monkeypatch.setattr(plain, "_below", lambda pid: pid == 17)
    (tmp_path / "python-17").touch()
    tell(told, ["epoch {n} loss 0.{n}"])
    assert run.values == []
    now.now += plain.CHILD_SECS
    told.line("epoch 6 loss 0.6")
    assert [step for step, _ in run.values] == [1, 2, 3, 4, 5, 6]


def test_which_processes_are_below_this_one():
    assert not plain._below(os.getppid())
    assert not plain._below(1)


@pytest.fixture
def looks(monkeypatch):
    """What looks at lines, on a clock that is moved, with the lines that it passed on."""
    import builtins

    now = Time(100.0)
    monkeypatch.setattr("time.monotonic", now)
    monkeypatch.setattr(builtins, "print", lambda *values, **options: None)
    streams = SimpleNamespace(stdout=Stream(), stderr=Stream())
    monkeypatch.setattr(sitecustomize, "sys", streams)
    made = sitecustomize._Lines()
    passed = []
    monkeypatch.setattr(made, "_taker", lambda: passed.append)
    return made, passed, now


class Stream(io.StringIO):
    """A stream with attributes of its own, as the standard ones have."""


def test_lines_are_passed_on_once_three_differ_in_their_digits_alone(looks):
    made, passed, _ = looks
    made.print("reading data")
    for n in range(5):
        made.print("file", n, "of 300")
        assert passed == []
    for n in range(2):
        made.print("epoch", n, "loss", 0.5 + n)
    made.print("epoch 2 loss 0.25", file=io.StringIO())
    assert passed == []
    made.print("epoch", 2, "loss", 0.25)
    assert passed[0] == "reading data"
    assert passed[-1] == "epoch 2 loss 0.25"
    made.print([0.5] * 99, "loss")
    assert passed[-1] == " loss"


def test_bars_that_a_program_draws_itself_are_passed_on(looks):
    made, passed, _ = looks
    for n in range(1, 5):
        sitecustomize.sys.stdout.write(f"\rEpoch 1/5 [{'#' * n:<20}] {n}/20 - loss: 0.{n}")
    assert passed[2:] == ["\rEpoch 1/5 [###                 ] 3/20 - loss: 0.3", passed[-1]]
    made.replace(lambda *values, **options: sitecustomize.sys.stdout.write(" ".join(values)))
    made.print("epoch 1 loss 0.5")
    assert passed.count("epoch 1 loss 0.5") == 1
    made.off()
    sitecustomize.sys.stdout.write("epoch 2 loss 0.4")
    assert passed[-1] == "epoch 1 loss 0.5"
    assert "write" not in vars(sitecustomize.sys.stdout)


def test_what_is_logged_is_taken_from_the_call_and_not_from_the_streams(looks, monkeypatch):
    made, passed, _ = looks
    monkeypatch.setattr(logging.Logger, "handle", logging.Logger.handle)
    made.logged(logging)
    log = logging.Logger("train")
    handler = logging.StreamHandler(sitecustomize.sys.stderr)
    handler.setFormatter(logging.Formatter("12:30 | %(levelname)s | %(message)s"))
    log.addHandler(handler)
    for epoch in range(3):
        log.info("epoch %d loss 0.%d", epoch, epoch)
    log.info("epoch 3", extra={"loss": 0.5})
    assert passed == ["epoch 0 loss 0.0", "epoch 1 loss 0.1", "epoch 2 loss 0.2", "epoch 3\nloss=0.5"]
    assert sitecustomize.sys.stderr.getvalue().count("INFO") == 4


def test_a_message_that_does_not_fit_its_arguments_does_not_end_the_program(looks, monkeypatch):
    made, passed, _ = looks
    monkeypatch.setattr(logging.Logger, "handle", logging.Logger.handle)
    made.logged(logging)
    logging.Logger("train").info("epoch %d loss %f", 3)
    assert passed == []


def test_an_exception_of_print_leaves_the_streams_watched(looks, monkeypatch):
    made, passed, _ = looks

    def broken(*values, **options):
        raise BrokenPipeError

    made.replace(broken)
    with pytest.raises(BrokenPipeError):
        made.print("epoch 0 loss 0.5")
    for n in range(3):
        sitecustomize.sys.stdout.write(f"epoch {n} loss 0.{n}\n")
    assert len(passed) == 3


def test_the_values_on_a_bar_are_numbered_by_its_batches(told, run):
    for epoch in (1, 2):
        for n in (10, 20):
            told.line(f"\x1b[1mEpoch {epoch}/5 [{'#' * n:<20}] {n}/20 - loss: 0.{n}\x1b[0m")
    assert [step for step, _ in run.values] == [10, 20, 30, 40]


def test_a_flood_of_lines_is_left_alone(looks, monkeypatch):
    import builtins

    made, _, now = looks
    ticks = iter(range(10**9))
    monkeypatch.setattr(
        made, "_now", lambda: now.now + 1e-3 * next(ticks) % 10
    )  # each look takes a millisecond
    for _ in range(4):
        for n in range(made.MOST_SKIPPED // 2):
            made.print("file", n, "of 0.5")
        now.now += 10.0
    assert made.skipped() > made.MOST_SKIPPED
    assert builtins.print is made.bare


def test_values_of_a_step_that_is_known_late_are_the_newest_since(run, told, monkeypatch):
    now = Time(100.0)
    monkeypatch.setattr(plain.time, "time", now)
    for line in ("loss 0.5", "epoch 2 loss 0.25", "epoch 3 acc 0.75"):
        now.now += 1.0
        told.line(line)
    assert told.of_first_step(101.0) == {"loss": 0.25, "acc": 0.75}
    assert told.of_first_step(102.5) == {"acc": 0.75}
    assert told.of_first_step(104.0) == {}


def test_a_value_without_a_number_belongs_to_a_step_that_is_known_late(run, told, monkeypatch):
    """As beside a bar, in a program whose first step is known by its second."""
    monkeypatch.setattr(plain.time, "time", lambda: 100.0)
    told.line("loss 0.5")
    assert told.of_first_step(99.0) == {"loss": 0.5}
    assert told.of_first_step() == told.of_first_step(101.0) == {}
    tell(told, ["epoch {n} loss 0.{n}"])
    assert [step for step, _ in run.values] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("iter 0: train loss 4.57, val loss 4.58", {"train_loss": 4.57, "val_loss": 4.58}),
        ("Epoch 1 | test accuracy 9.8%, lr 0.1", {"test_accuracy": 0.098}),
        ("epochs: 10, loss weight: 0.5, lr: 0.1", {}),
        ("lr 0.1, val loss 4.58", {}),
    ],
)
def test_values_before_the_first_step_are_those_of_an_evaluation_at_the_beginning(run, told, line, values):
    told.line(line)
    assert told.of_first_step() == pytest.approx(values)
