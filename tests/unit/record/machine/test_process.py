"""This process and its children."""

import subprocess
import sys
import threading
import time
from collections import namedtuple

import psutil
import pytest

from stepscope.record.machine import Children, Process


def test_this_process_is_as_psutil_says():
    process, other = Process(lambda: 4.0), psutil.Process()
    assert "system/process/cpu_cores" not in process.read(10.0)
    before, begun = time.process_time(), 10.0
    while time.process_time() - before < 0.1:
        sum(range(1000))
    used = time.process_time() - before
    found = process.read(begun + 2.0)
    assert found["system/process/cpu_cores"] == pytest.approx(used / 2, rel=0.3)
    assert found["system/process/cpu_ratio"] == found["system/process/cpu_cores"] / 4
    assert found["system/process/memory_bytes"] == pytest.approx(other.memory_info().rss, rel=0.05)
    assert found["system/process/thread_count"] == other.num_threads() >= threading.active_count()
    assert found["system/process/open_file_count"] == pytest.approx(other.num_fds(), abs=2)


def test_storage_traffic(monkeypatch):
    process = Process(lambda: 1.0)
    traffic = iter([(100, 0), (300, 50)])
    read = namedtuple("read", "read_bytes write_bytes")
    monkeypatch.setattr(process._process, "io_counters", lambda: read(*next(traffic)))
    process.read(0.0)
    found = process.read(2.0)
    assert found["system/process/read_bytes_per_second"] == 100
    assert found["system/process/written_bytes_per_second"] == 25


def test_what_a_system_does_not_tell_is_left_out(monkeypatch):
    process = Process(lambda: 1.0)

    def refuse():
        raise psutil.AccessDenied(1)

    for name in ("io_counters", "num_fds"):
        monkeypatch.setattr(process._process, name, refuse)
    process.read(0.0)
    assert set(process.read(1.0)) == {
        f"system/process/{name}" for name in ("cpu_cores", "cpu_ratio", "memory_bytes", "thread_count")
    }


def test_without_children_nothing_is_said():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert Children(child.pid).read(0.0) == {}
        child.communicate(b"\n")


def test_a_real_child_is_found():
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"], stdin=pipe, stdout=pipe
    ) as child:
        assert child.stdout.readline()  # until it runs Python, it is a few pages of a process
        found = Children().read(0.0)
        child.stdin.write(b"\n")
    assert found["system/children/process_count"] >= 1
    assert found["system/children/memory_bytes"] > 1e6
