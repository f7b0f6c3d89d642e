import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from stepscope.events.processes import own_start_ticks, pid_namespace
from stepscope.store.info import RunInfo, age, parse_info, process_alive, process_began, state_of


def test_every_fact_is_taken():
    facts = {
        "status": "failed",
        "reason": "ValueError: x",
        "attempt": 2,
        "rank": 1,
        "world_size": 8,
        "role": "worker",
        "config": {"lr": 0.1},
        "tags": ["a", "b"],
        "total_steps": 100,
        "host": "h",
        "pid": 7,
        "pid_namespace": "boot pid:[1]",
        "start_ticks": 4711,
        "python": "3.11",
        "command": "train.py",
        "started": 1.5,
        "ended": 2,
        "frameworks": {"torch": "2.13.0"},
        "version": "0.1.0",
        "problems": {"device": 2},
    }
    info = parse_info(json.dumps({"schema": 1, **facts}).encode())
    assert info.recorded
    assert info.labels == ("a", "b")
    for name, value in facts.items():
        if name != "tags":
            assert getattr(info, name) == value


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe"])
def test_what_is_no_record(text):
    assert parse_info(text) is None


def test_facts_of_an_unexpected_type_are_not_recorded():
    """A later schema must not hide a run."""
    strange = {
        "status": 3,
        "rank": "zero",
        "attempt": True,
        "config": [],
        "tags": {},
        "started": "now",
        "total_steps": 1.5,
    }
    assert parse_info(json.dumps(strange).encode()) == RunInfo(recorded=True)


@pytest.mark.parametrize(
    ("status", "quiet", "alive", "expected"),
    [
        ("running", 10, None, "running"),
        ("running", 2, False, "running"),
        ("running", 4, False, "stalled"),
        ("running", 61, True, "running"),
        ("running", 61, None, "stalled"),
        ("running", 61, False, "stalled"),
        ("finished", 9999, None, "finished"),
        ("failed", 1, True, "failed"),
        ("stopped", 1, None, "stopped"),
        (None, 59, None, "running"),
        (None, 61, None, "ended"),
        ("dancing", 61, None, "ended"),
    ],
)
def test_states(status, quiet, alive, expected):
    state, _ = state_of(RunInfo(status=status), written=1000, now=1000 + quiet, alive=alive)
    assert state == expected


def test_a_reason_is_passed_on():
    info = RunInfo(status="failed", reason="MemoryError")
    assert state_of(info, written=0, now=0) == ("failed", "MemoryError")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 days"),
    ],
)
def test_ages(seconds, text):
    assert age(seconds) == text


def test_whether_a_process_lives():
    host = os.uname().nodename
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        info = RunInfo(host=host, pid=process.pid, started=time.time())
        assert process_alive(info) is True
    finally:
        process.communicate(b"\n")
    assert process_alive(info) is False
    assert process_alive(RunInfo(host="elsewhere.example", pid=os.getpid())) is None
    assert process_alive(RunInfo(host=host, pid=None)) is None
    assert process_alive(RunInfo(host=host, pid=0)) is None


def test_when_a_process_began():
    began = process_began(os.getpid())
    if began is None:
        pytest.skip("this system does not tell when a process began")
    assert 0 <= time.time() - began < 24 * 3600
    assert process_began(2**22 - 1) is None


def test_a_process_is_looked_for_only_where_its_number_means_it():
    """Containers share names of hosts, machines are named alike, and the first process always lives."""
    host, pid, here = os.uname().nodename, os.getpid(), pid_namespace()
    if here is None:
        pytest.skip("this system does not name its boot and namespaces")
    elsewhere = f"{here} of another container"
    assert process_alive(RunInfo(host=host, pid=pid, pid_namespace=elsewhere)) is None
    assert process_alive(RunInfo(host=host, pid=1, pid_namespace=elsewhere, started=time.time())) is None
    assert process_alive(RunInfo(host=host, pid=2**22 - 1, pid_namespace=elsewhere)) is None
    assert process_alive(RunInfo(host="renamed", pid=pid, pid_namespace=here)) is True
    assert process_alive(RunInfo(host="renamed", pid=2**22 - 1, pid_namespace=here)) is False


def test_a_process_whose_clock_was_set_is_still_the_same():
    host, pid, ticks = os.uname().nodename, os.getpid(), own_start_ticks(os.getpid())
    if ticks is None:
        pytest.skip("this system does not tell when a process began")
    set_back = RunInfo(host=host, pid=pid, started=time.time() - 50 * 60 * 60)
    assert process_alive(set_back) is False  # all that a run without ticks can say
    assert process_alive(replace(set_back, start_ticks=ticks)) is True
    assert process_alive(RunInfo(host=host, pid=pid, started=time.time(), start_ticks=ticks - 1)) is False


def test_a_process_that_nobody_has_waited_for_is_dead():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    info = RunInfo(host=os.uname().nodename, pid=process.pid, started=time.time())
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is not free yet
    assert process_alive(info) is (own_start_ticks(os.getpid()) is None)
    process.communicate()


def test_where_namespaces_are_not_told_the_name_of_the_host_decides(monkeypatch):
    monkeypatch.setattr("stepscope.store.info.pid_namespace", lambda: None)
    there = RunInfo(host=os.uname().nodename, pid=os.getpid(), pid_namespace="recorded elsewhere")
    assert process_alive(there) is True
    assert process_alive(replace(there, host="elsewhere.example")) is None
