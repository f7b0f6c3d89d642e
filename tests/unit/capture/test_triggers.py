"""Requests as both sides see them: written by the store, taken by the ranks of a job."""

import json
import os
import signal
import time
from types import SimpleNamespace

import pytest
from support.waiting import until

import stepscope as ss
from stepscope.capture import triggers
from stepscope.capture.triggers import Triggers
from stepscope.errors import LogDirectoryError, UsageError
from stepscope.store import captures


class Rank:
    """One rank of a job over a directory; looks when it is told to."""

    def __init__(self, directory, rank=0, *, step=100, seconds=0.1):
        self.orders, self.told = [], []
        self.run = SimpleNamespace(
            log_dir=str(directory),
            role=SimpleNamespace(rank=rank, writes=rank == 0),
            current_step=step,
            step_counter=SimpleNamespace(since=lambda done: [(step - 1, seconds, None)]),
            report=lambda *a, **k: self.told.append(a),
        )
        self.triggers = Triggers(self.run, self.take, poll_secs=0.3, on_signal=None)

    def take(self, order):
        self.orders.append(order)
        return True

    def look(self):
        self.triggers.look()
        return [(order.cause, order.at_step, order.num_steps) for order in self.orders]


def test_the_chief_takes_a_request_for_it_alone_at_its_next_step(tmp_path):
    chief, worker = Rank(tmp_path), Rank(tmp_path, 1)
    request = captures.ask(tmp_path, num_steps=4, by="the page")
    assert worker.look() == []
    assert chief.look() == [("request", None, 4)]
    assert (chief.orders[0].request, chief.orders[0].reason) == (request, "by the page")
    assert chief.look() == [("request", None, 4)], "a request is taken once"
    assert {rank: each["status"] for rank, each in captures.answers(tmp_path, request).items()} == {
        0: "taken"
    }


def test_what_somebody_left_for_a_request_does_not_hold_the_training(tmp_path):
    """Whoever may write to the log directory may leave a pipe there, or numbers beyond all measure."""
    chief = Rank(tmp_path)
    request = captures.ask(tmp_path, num_steps=4)
    folder = tmp_path / "capture"
    os.mkfifo(folder / "aaaaaaa1.request.json")
    with (folder / "aaaaaaa2.request.json").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "aaaaaaa3.request.json").write_text("[" * 200_000)
    (folder / "aaaaaaa4.request.json").write_text('{"num_steps": 3, "wall": 1%s}' % ("0" * 400))
    chief.look()
    assert request in {order.request for order in chief.orders}
    assert {order.num_steps for order in chief.orders} <= {3, 4}


def test_stacks_are_recorded_where_they_are_asked_for(tmp_path):
    chief = Rank(tmp_path)
    captures.ask(tmp_path, num_steps=1, stacks=True)
    chief.look()
    captures.ask(tmp_path, num_steps=1)
    chief.look()
    assert [order.with_stack for order in chief.orders] == [True, None], "else as the hook does"


def test_all_ranks_take_the_same_step_which_the_chief_names(tmp_path):
    ranks = [Rank(tmp_path, rank, step=100 + rank % 2) for rank in range(4)]
    captures.ask(tmp_path, ranks="all", num_steps=2)
    assert [rank.look() for rank in ranks[1:]] == [[], [], []], "nothing before the chief has planned"
    ranks[0].look()
    assert [rank.look() for rank in ranks] == [[("request", 119, 2)]] * 4


def test_ranks_by_number(tmp_path):
    ranks = [Rank(tmp_path, rank) for rank in range(3)]
    captures.ask(tmp_path, ranks=[2, 1], at_step=500)
    for rank in ranks:
        rank.look()
    assert [rank.look() for rank in ranks] == [[], [("request", 500, 0)], [("request", 500, 0)]]


def test_a_plan_is_far_enough_ahead_for_every_poll():
    assert triggers.steps_ahead([0.1], 0.3) == 19
    assert triggers.steps_ahead([60.0], 0.3) == 2
    assert triggers.steps_ahead([], 0.3) == triggers.steps_ahead([float("nan"), 0.0], 0.3) == 100


def test_one_long_step_does_not_make_the_plan_too_near():
    assert triggers.steps_ahead([0.05] * 15 + [1.0], 0.3) == 38  # 1.9 s of steps of 0.05


def test_nobody_waits_long_for_a_plan_where_every_other_step_is_long():
    assert triggers.steps_ahead([0.01, 0.01, 4.0] * 10, 0.3) == 8  # 10 s of 1.34 s
    assert triggers.steps_ahead([0.01] * 99 + [1.0], 0.3) == 190


def test_what_was_asked_before_the_run_began_is_not_taken(tmp_path):
    captures.ask(tmp_path)
    chief = Rank(tmp_path)
    chief.triggers.start()
    chief.triggers.stop()
    assert chief.look() == []


@pytest.mark.parametrize(
    "facts",
    [
        "{",
        "[]",
        '{"ranks": "some"}',
        '{"ranks": [-1]}',
        '{"ranks": "chief", "num_steps": 1000000}',
        '{"ranks": "chief", "num_steps": "3"}',
        '{"ranks": "chief", "at_step": "3"}',
        '{"ranks": "chief", "wall": 1.0}',
    ],
)
def test_files_that_are_no_requests_or_too_old_are_passed_over(tmp_path, facts):
    folder = tmp_path / triggers.FOLDER
    folder.mkdir()
    (folder / "0123456789ab.request.json").write_text(facts)
    assert Rank(tmp_path).look() == []


def test_names_that_are_no_ids_are_passed_over(tmp_path):
    captures.ask(tmp_path)
    (path,) = (tmp_path / triggers.FOLDER).iterdir()
    path.rename(path.with_name("..%2f..%2fetc.request.json"))
    assert Rank(tmp_path).look() == []


def test_where_nothing_is_new_one_stat_is_all(tmp_path, monkeypatch):
    captures.ask(tmp_path)
    chief = Rank(tmp_path)
    chief.look()
    old = time.time() - 60
    os.utime(tmp_path / triggers.FOLDER, (old, old))
    chief.look()
    monkeypatch.setattr(chief.triggers, "_files", lambda: pytest.fail("the directory was listed again"))
    chief.look()


def test_a_directory_that_cannot_be_read_is_told_once_a_look(tmp_path, monkeypatch):
    chief = Rank(tmp_path)

    def refuse():
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(chief.triggers, "look", refuse)
    chief.triggers._try_to_look()
    assert "requests cannot be read" in str(chief.told[0][1])


def test_asking_refuses_what_cannot_be_right(tmp_path):
    for arguments in (
        {"ranks": "some"},
        {"ranks": []},
        {"ranks": [-1]},
        {"num_steps": 101},
        {"num_steps": -1},
    ):
        with pytest.raises(UsageError):
            captures.ask(tmp_path, **arguments)
    with pytest.raises(LogDirectoryError):
        captures.ask(tmp_path / "nowhere" / "run")


def test_a_step_that_was_over_is_answered_as_missed(tmp_path, fake):
    hook = ss.ProfilerHook(backend=fake.Backend(), analyse=False, poll_secs=60)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for number in run.steps(range(6)):
            if number == 4:
                request = captures.ask(tmp_path, at_step=2)
                hook._triggers.look()
        until(lambda: captures.answers(tmp_path, request)[0]["status"] == "missed")
    assert captures.answers(tmp_path, request)[0]["step"] == 5


def test_a_request_is_followed_in_a_running_program(tmp_path, fake):
    hook = ss.ProfilerHook(backend=fake.Backend(), analyse=False, poll_secs=60)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for number in run.steps(range(10)):
            if number == 4:
                request = captures.ask(tmp_path, num_steps=2)
                hook._triggers.look()
    (pointer,) = fake.pointers(tmp_path)
    assert (pointer["request"], pointer["steps"], pointer["cause"]) == (request, [5, 6], "request")


def test_a_signal_asks_for_a_capture_and_its_handler_is_put_back(tmp_path, fake):
    seen = []
    earlier = signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))
    try:
        hook = ss.ProfilerHook(backend=fake.Backend(), analyse=False, signal=signal.SIGUSR2, num_steps=1)
        with ss.Run(tmp_path, hooks=[hook]) as run:
            for number in run.steps(range(6)):
                if number == 2:
                    os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, earlier)
    (pointer,) = fake.pointers(tmp_path)
    assert (pointer["cause"], pointer["reason"], pointer["steps"]) == ("signal", "SIGUSR2", [3])
    assert seen == [signal.SIGUSR2] * 2


def test_the_store_lists_captures_newest_first_with_failures_and_summaries(tmp_path, fake, lenient):
    backend = fake.Backend()
    hook = ss.LambdaProfilerHook(lambda step: step in (1, 30), backend=backend, analyse=False)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for number in run.steps(range(40)):
            time.sleep(0.002)
            if number == 20:
                backend.fail["start"] = RuntimeError("boom")
    path = tmp_path / "profiles" / "chief_rank0_step00000001.profile.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "summary": "profiles/x.summary.json"}))
    (tmp_path / "profiles" / "x.summary.json").write_text('{"steps": {"count": 1}}')
    with ss.open(tmp_path, cache=False) as log:
        failed, made = captures.captures(log.run("."), tmp_path, log)
        assert "boom" in failed.facts["failure"]
        assert made.summary == {"steps": {"count": 1}}
        (tmp_path / made.facts["path"]).unlink()
        assert len(captures.captures(log.run("."), tmp_path, log)) == 1, "what was deleted is not listed"


def test_a_summary_outside_of_the_run_is_not_read(tmp_path):
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "run").mkdir()
    assert captures.summary_of({"summary": "../secret.json"}, tmp_path / "run") is None
    assert captures.summary_of({"summary": str(tmp_path / "secret.json")}, tmp_path / "run") is None
