"""Values in what a program prints, logs, writes and shows beside its bars."""

import builtins
import io
import logging
from types import SimpleNamespace

import pytest

from stepscope.launch import printed
from stepscope.launch.path import sitecustomize
from stepscope.launch.plain import Told


@pytest.fixture
def taken(monkeypatch):
    """What is recorded, while all that the program tells is wanted."""
    values = []
    monkeypatch.setattr(
        printed.process, "_run", SimpleNamespace(step_counter=SimpleNamespace(running=True, last=None))
    )
    monkeypatch.setattr(printed.process, "record", lambda source, numbers: numbers and values.append(numbers))
    return values


class Stream(io.StringIO):
    """One whose method can be replaced, as that of a file can."""


def test_values_that_are_written_to_a_stream_are_taken(taken):
    stream = Stream()
    printed.watch_stream(stream)
    for text in (
        "\rEpoch [1/5], Step [10/100], Loss: 0.5",
        "\rEpoch [1/5], Step [10/100], Loss: 0.5",  # drawn again
        "1: loss 0.5\n2: loss 0.25\n",  # of which step each is, is unknown
        "epoch train_loss acc\n",
        "3 0.25 0.5\n",
        "reading\n",
        "one of many lines\n" * printed.MAX_LINES + "loss 0.5\n",
    ):
        assert stream.write(text) == len(text)
    with printed.telling:  # taken where it comes from
        stream.write("loss 0.125\n")
    assert taken == [{"Loss": 0.5}, {"train_loss": 0.25, "acc": 0.5}]
    assert stream.getvalue().count("\n") == 7 + printed.MAX_LINES


def test_a_logged_value_is_taken_once_wherever_it_stands(monkeypatch, taken):
    stream = Stream()
    monkeypatch.setattr(printed, "_installed", False)
    monkeypatch.setattr(builtins, "print", print)
    monkeypatch.setattr(logging.Logger, "handle", logging.Logger.handle)
    monkeypatch.setattr(printed.process, "begins", [])
    printed.install()
    printed.watch_stream(stream)
    log = logging.Logger("train")
    log.addHandler(logging.StreamHandler(stream))
    log.info("progress", extra={"step": 3, "loss": 0.5})
    log.info("loss %.2f", 0.25)
    print("acc", 0.75, file=stream)
    assert stream.getvalue() == "progress\nloss 0.25\nacc 0.75\n"
    assert taken == [{"loss": 0.5}, {"loss": 0.25}, {"acc": 0.75}]


def test_what_is_written_before_there_is_a_run_is_taken_once(monkeypatch):
    """A program that updates by hand never has steps: its lines alone tell."""
    streams = SimpleNamespace(stdout=Stream(), stderr=Stream())
    lines = []
    monkeypatch.setattr(sitecustomize, "sys", streams)
    monkeypatch.setattr(builtins, "print", lambda *values: streams.stdout.write(" ".join(values)))
    monkeypatch.setattr(logging.Logger, "handle", logging.Logger.handle)
    monkeypatch.setattr(printed, "_installed", False)
    monkeypatch.setattr(printed, "told", printed.told)
    monkeypatch.setattr(printed.process, "begins", [])
    monkeypatch.setattr(printed.process, "before", [])
    monkeypatch.setattr(Told, "line", lambda self, line: lines.append(line))
    made = sitecustomize._Lines()
    monkeypatch.setattr(made, "_now", lambda: 0.0)
    made.SHARE = 1e9  # a look takes no time here
    printed.install()
    print("step 1 loss 0.5")
    streams.stdout.write('{"step": 2, "loss": 0.25}\n')
    assert lines == ["step 1 loss 0.5", '{"step": 2, "loss": 0.25}']
    for prepare in printed.process.before:
        prepare()
    assert "write" not in vars(streams.stdout)


def test_the_head_of_a_table_is_seen_before_the_first_step(monkeypatch, taken):
    """Only its names are kept: no value has a step yet."""
    monkeypatch.setattr(printed, "told", Told({}))
    with monkeypatch.context() as earlier:
        earlier.setattr(printed.process, "_run", None)
        printed.take(lambda: "loss 0.5\nepoch train_loss acc")
    assert taken == []
    printed.take(lambda: "0 0.25 0.75")
    assert taken == [{"train_loss": 0.25, "acc": 0.75}]


def test_a_series_keeps_the_numbers_that_are_printed(monkeypatch, taken):
    """It began before the first counted step, as the returns of episodes before the first update."""
    points, told = [], Told({})
    monkeypatch.setattr(
        printed.process,
        "record",
        lambda source, values, step=None: values and points.append((step, values)),
    )
    monkeypatch.setattr(printed, "told", told)
    monkeypatch.setattr(told, "_run", SimpleNamespace(recording=True))
    monkeypatch.setattr(printed.process, "step_of_values", told.step)
    monkeypatch.setattr(Told, "_counted_elsewhere", lambda self: False)
    printed.take(lambda: "global_step=80, episodic_return=9.0")
    monkeypatch.setattr(Told, "_counted_elsewhere", lambda self: True)
    printed.take(lambda: "global_step=160, episodic_return=10.5, loss=0.5")
    printed.take(lambda: "loss 0.25")
    of_steps = [(None, {"loss": 0.5}), (None, {"loss": 0.25})]
    assert points == [(80, {"episodic_return": 9.0}), (160, {"episodic_return": 10.5}), *of_steps]


def test_values_beside_a_bar_are_taken(monkeypatch, taken):
    tqdm = pytest.importorskip("tqdm")
    for name in ("set_postfix", "display", *printed.BARS):
        monkeypatch.setattr(tqdm.std.tqdm, name, vars(tqdm.std.tqdm)[name])
    monkeypatch.setattr(printed, "_installed", True)
    printed.install(tqdm.std)  # loaded after the run has begun
    monkeypatch.setattr(printed, "_shown", {})
    stream = Stream()
    printed.watch_stream(stream)
    with tqdm.tqdm(total=3, file=stream) as bar:
        bar.set_postfix(loss=0.123456, samples=3)
        bar.set_postfix({"lr": 0.5}, acc=0.25)
        evaluated = float("0.25")
        for loss in (2, 2):
            bar.set_postfix(loss=loss, val_acc=evaluated)
        bar.set_postfix(val_acc=float("0.25"))
        bar.set_description(f"epoch 3, loss {0.75}")
        bar.set_description(desc="reading")
        bar.set_postfix_str(s="loss=0.5", refresh=False)
        assert bar.postfix == "loss=0.5"
        bar.write("acc 0.5", file=io.StringIO())
    assert taken == [
        {"loss": 0.123456}, {"lr": 0.5, "acc": 0.25},
        {"loss": 2.0, "val_acc": 0.25}, {"loss": 2.0}, {"val_acc": 0.25},  # measured anew, and the same
        {"loss": 0.75}, {"loss": 0.5}, {"acc": 0.5},
    ]  # fmt: skip


def test_what_a_program_has_kept_of_a_stream_is_heard_after_the_run_begins(monkeypatch, taken):
    """As ``csv.writer`` keeps the ``write`` that the stream had when it was made."""
    streams = SimpleNamespace(stdout=Stream(), stderr=Stream())
    monkeypatch.setattr(sitecustomize, "sys", streams)
    monkeypatch.setattr(builtins, "print", builtins.print)
    made = sitecustomize._Lines()
    kept = streams.stdout.write
    made.leave_streams()
    assert kept("loss 0.5\n") == 9
    printed.watch_stream(streams.stdout)
    kept("loss 0.25\n")
    assert taken == [{"loss": 0.25}]
    streams.stdout.write = kept  # given back by whoever kept it: it does not call itself
    kept("loss 0.125\n")
    assert streams.stdout.getvalue() == "loss 0.5\nloss 0.25\nloss 0.125\n"
