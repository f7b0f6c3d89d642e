"""The card at the end of a run: when it is printed, and by whom; its parts sum to the run's time."""

import io
import re
import sys

import numpy as np
import pytest

import stepscope as ss
from stepscope.health.coverage import Covered
from stepscope.health.finding import Finding
from stepscope.record.card import (
    BEFORE,
    DATA_WAIT,
    MAX_LINES,
    MAX_TIMES,
    OUTSIDE,
    OWNER,
    Best,
    Card,
    StepSums,
    Tally,
)
from stepscope.record.waits import CPU_WAIT

NAN = float("nan")


class Terminal(io.StringIO):
    """A stream whose methods can be replaced."""


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes the standard error a terminal; pytest replaces it between set-up and call."""
    monkeypatch.delenv(OWNER, raising=False)

    def make(*, is_one=True):
        stream = Terminal()
        monkeypatch.setattr(stream, "isatty", lambda: is_one)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return make


def train(path, **options):
    with ss.Run(path, **options) as run:
        for step in run.steps(range(4)):
            with run.stage("forward"):
                run.scalar("train/loss", 1.0 / (1 + step))


def rows(text):
    return dict(reversed([(line[:8].strip(), line[8:].strip()) for line in text.splitlines()]))


def test_a_terminal_gets_a_card(tmp_path, terminal):
    stream = terminal()
    train(tmp_path / "a")
    lines = stream.getvalue().splitlines()
    assert len(lines) <= MAX_LINES
    assert lines[1].startswith("state    finished after")
    assert lines[2].startswith("steps    4 ·")
    assert "best     train/loss 0.25 at step 3" in lines
    assert lines[-1] == f"more     stepscope serve {tmp_path}"


@pytest.mark.parametrize(
    ("options", "environ", "is_one", "printed"),
    [
        ({}, None, True, True),
        ({}, None, False, False),
        ({"card": True}, None, False, True),
        ({"card": False}, None, True, False),
        ({"card": True}, "1", True, False),
        ({"card": True, "rank": 0, "world_size": 2}, None, True, True),
        ({"card": True, "rank": 1, "world_size": 2}, None, True, False),
        ({"card": True, "role": "evaluator"}, None, True, False),
    ],
    ids=["terminal", "pipe", "asked", "refused", "child", "chief", "worker", "evaluator"],
)
def test_who_prints_it(tmp_path, terminal, monkeypatch, options, environ, is_one, printed):
    stream = terminal(is_one=is_one)
    if environ:
        monkeypatch.setenv(OWNER, environ)
    train(tmp_path / "a", **options)
    assert ("state" in stream.getvalue()) == printed


def test_the_state_is_that_of_the_run(tmp_path, terminal):
    stream = terminal()
    with ss.Run(tmp_path / "a") as run:
        run.close("failed", "ZeroDivisionError: by zero")
    assert re.search(r"state +failed after .*: ZeroDivisionError: by zero", stream.getvalue())


def test_a_run_without_steps_says_so(tmp_path, terminal):
    stream = terminal()
    with ss.Run(tmp_path / "a") as run:
        run.scalar("loss", 1.0, 0)
    told = rows(stream.getvalue())
    assert told["steps"] == "none was counted"
    assert "time" not in told
    assert "unknown  the steps: loop over run.steps(loader)" in stream.getvalue()


def test_a_stream_that_fails_does_not_matter(tmp_path, terminal, monkeypatch):
    stream = terminal()

    def write(text):
        raise RuntimeError("reentrant call")

    monkeypatch.setattr(stream, "write", write)
    train(tmp_path / "a")


def test_the_parts_sum_to_the_duration():
    sums = StepSums()
    sums.add(0, 105.0, 2.0, 0.5, [("forward", 1.0), ("evaluation", 0.25)])
    sums.add(1, 106.0, 1.0, NAN, [])
    parts = sums.parts_of(10.0, 101.0)
    assert parts == {
        "data": 0.5,
        "forward": 1.0,
        "evaluation": 0.25,
        "rest of the step": 0.25,
        "not divided": 1.0,
        BEFORE: 2.0,
        OUTSIDE: 5.0,
    }
    assert sum(parts.values()) == 10.0
    late, early = sums.parts_of(10.0, 90.0), sums.parts_of(10.0, 104.0)
    assert (late[BEFORE], late[OUTSIDE], early[BEFORE]) == (7.0, 0.0, 0.0)
    assert (sums.slowest_s, sums.slowest_step) == (2.0, 0)


@pytest.mark.parametrize("parts", [[1, 1, 1], [0.004, 0.99, 0.006], [1], [5, 5, 3, 3, 3, 7, 11], [1e-9, 1]])
def test_shares_sum_to_a_hundred(parts):
    named = {f"part {at}": part for at, part in enumerate(parts)}
    card = Card("a", "finished", None, sum(parts), 1, 1.0, 1.0, 0, named, [], [], [], "x")
    text = " ".join(line for line in card.lines() if "part" in line)
    assert sum(int(share) for share in re.findall(r"(?<!<)\b(\d+) %", text)) in (100, 101)
    assert sum([int(share) for share in re.findall(r" (\d+) %", text)]) == 100


def test_columns_of_steps_give_the_sums_of_single_steps():
    rng = np.random.default_rng(0)
    seconds, waited = rng.uniform(0, 2, 500), rng.uniform(0, 1, 500)
    walls = 100.0 + np.arange(500)
    stages = {name: rng.uniform(-0.2, 0.8, 500) for name in ("forward", "backward")}
    for values, some in ((seconds, 7), (waited, 3), (stages["forward"], 5)):
        values[::some] = np.nan
    single, many = StepSums(), StepSums()
    for at in range(500):
        single.add(
            at, walls[at], seconds[at], waited[at], [(name, each[at]) for name, each in stages.items()]
        )
    many.add_columns(np.arange(500), walls, seconds, waited, stages)
    assert many.parts_s == pytest.approx(single.parts_s)
    for name in ("steps", "slowest_s", "slowest_step", "data_known", "median_s", "begun"):
        assert getattr(many, name) == getattr(single, name)
    assert many.seconds == pytest.approx(single.seconds)
    many.add_columns(np.arange(0), np.empty(0), np.empty(0), np.empty(0), {})
    assert many.steps == single.steps


def test_the_median_of_many_steps():
    sums = StepSums()
    for step in range(5 * MAX_TIMES):
        sums.add(step, 100.0 + step, 1.0 if step % 10 else 9.0, NAN, [])
    assert sums.median_s == 1.0
    assert sums.steps == 5 * MAX_TIMES


def test_what_is_best(tmp_path):
    tally = Tally(100.0)

    def take(tag, *values):
        tally.take(tag, np.arange(len(values)), np.array(values, float), np.zeros(len(values)))

    take("speed/step_time_ms", 1, 2)
    take("train/loss", 3, 1, 2)
    take("train/accuracy", 0.1, 0.9)
    take("Val_Acc", 0, 0)
    take("Val_Acc", 0)
    take("eval/accuracy", 0.3, NAN, 0.7, 0.6)
    take("eval/accuracy", 0.5)
    take("learning_rate", 1, 2)
    take("test/loss", 0.5)
    assert tally.best(str(tmp_path))[-1] == Best("test/loss", 0.5, 0)
    take("eval/loss", 1.5)
    assert tally.best(str(tmp_path))[-1] == Best("eval/loss", 1.5, 0)
    take("rollout/ep_rew_mean", -3, 5, 4)
    assert tally.best(str(tmp_path)) == [
        Best("rollout/ep_rew_mean", 5.0, 1), Best("eval/accuracy", 0.7, 2), Best("eval/loss", 1.5, 0)
    ]  # fmt: skip


def test_lines_of_the_program_that_take_the_time():
    places = {"a.py:1": 5.0, "a.py:2": 1.5, "a.py:3": 1.2, "a.py:4": 0.5}

    def rows(places):
        card = Card("a", "finished", None, 10.0, 1, 1.0, 1.0, 0, {"data": 10.0}, [], [], [], "x", places)
        lines = card.lines()
        begin = next((at for at, line in enumerate(lines) if line.startswith("lines")), len(lines))
        return [" ".join(line.split()) for line in lines[begin:-1]]

    assert rows(places) == ["lines 50.0 % a.py:1", "15.0 % a.py:2"]
    assert rows({"a.py:4": 0.5}) == []
    assert rows({}) == []


def test_waits_for_a_processor_are_said_if_they_took_a_tenth_of_the_time():
    tally = Tally(99.5)
    for readings, walls in (([2.0, 1.0], [101.0, 102.0]), ([3.0], [104.0])):
        tally.take(CPU_WAIT, np.arange(len(walls)), np.array(readings), np.array(walls))
    assert tally.waited_s == 2 * 1.5 + 1 + 6

    def rows(waited):
        card = Card("a", "finished", None, 10.0, 1, 1.0, 1.0, 0, {}, [], [], [], "x", waited_s=waited)
        return [line for line in card.lines() if line.startswith("waited")]

    why = "other programs, a limit, or too many threads"
    assert rows(20.0) == [f"waited  20.0 s for a processor, 2 threads at a time: {why}"]
    assert rows(10.0) == [f"waited  10.0 s for a processor, 1 thread at a time: {why}"]
    assert rows(1.0) != []
    assert rows(0.9) == rows(0.0) == []


def test_sentences_are_folded_and_paths_and_code_are_not():
    why = "not recorded: a loss, as train/loss or a part of a loss, " + "which their telemetry holds " * 4
    card = Card(
        "/a b/" + "c" * 90, "finished", None, 10.0, 1, 1.0, 1.0, 0, {}, [], [], [why], "serve " + "d " * 50,
        {"a.py:1  " + "code " * 40: 5.0},
    )  # fmt: skip
    lines = card.lines(80)
    assert max(map(len, lines)) == 80
    start = next(at for at, line in enumerate(lines) if line.startswith("unknown"))
    assert " ".join(line[9:] for line in lines[start:-1]) == why.strip()
    cut = [line.split()[0] for line in lines if line.endswith("…")]
    assert cut == ["run", "lines", "more"]


@pytest.mark.parametrize(
    ("unknown", "shown"), [([], True), (["the stages"], True), ([f"{DATA_WAIT}: no loader"], False)]
)
def test_that_the_wait_for_data_is_unknown_is_said_once(unknown, shown):
    lack = Covered("cost", "not judged", "not recorded: waits for data, as speed/data_wait_ms")
    card = Card(
        "a", "finished", None, 10.0, 1, 1.0, 1.0, 0, {}, [], [], unknown, "x", covered=[lack]
    )  # fmt: skip
    assert any("waits for data" in line for line in card.lines()) == shown


@pytest.mark.parametrize(("closed", "told"), [(None, "it waits"), (1200, "it waits; over since step 1,200")])
def test_a_finding_that_is_over_is_told_so(closed, told):
    finding = Finding("r", "low", "t", "it waits", "tag", "", None, None, 0, 0, 0.0, closed_step=closed)
    card = Card("a", "finished", None, 10.0, 1, 1.0, 1.0, 0, {}, [finding], [], [], "x")
    assert [line for line in card.lines() if line.startswith("low")] == [f"low    {told}"]


def test_a_long_card_is_cut():
    finding = Finding("r", "high", "t", "s" * 300, "tag", "", None, None, 0, 0, 0.0, action="a" * 300)
    card = Card(
        "a", "failed", "x\ny" * 500, 10.0, 1, 1.0, 1.0, 0, {f"stage {at}": 1.0 for at in range(15)},
        [finding] * 9, [Best("loss", 1.0, 1)], ["a"] * 30, "x",
    )  # fmt: skip
    lines = card.lines(80)
    assert len(lines) == MAX_LINES
    assert max(map(len, lines)) == 80
    assert any("6 more findings" in line for line in lines)
