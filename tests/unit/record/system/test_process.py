"""This process and its children: from written files, and beside psutil on this machine."""

import os
import subprocess
import sys
import threading
import time

import pytest

from stepscope.record.system.portable import Portable
from stepscope.record.system.process import Children, Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_this_process_is_as_psutil_says():
    psutil = pytest.importorskip("psutil")
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


def test_without_its_files_a_process_has_its_time_only(tree):
    process = Process(lambda: 1.0, tree({}))
    process.read(0.0)
    assert set(process.read(1.0)) == {"system/process/cpu_cores", "system/process/cpu_ratio"}


def test_storage_traffic(tree):
    path = tree({"self/io": "rchar: 9\nread_bytes: 100\nwrite_bytes: 0\n"})
    process = Process(lambda: 1.0, path)
    process.read(0.0)
    tree({"self/io": "rchar: 9\nread_bytes: 300\nwrite_bytes: 50\n"})
    found = process.read(2.0)
    assert found["system/process/read_bytes_per_second"] == 100
    assert found["system/process/written_bytes_per_second"] == 25


def stat(pid, parent, *, ticks=0, pages=0, name="a) (b", start=7):
    fields = ["S", parent, *[0] * 9, ticks, ticks, 0, 0, 0, 0, 0, 0, start, 0, pages, *[0] * 9]
    return f"{pid} ({name}) {' '.join(map(str, fields))}\n"


def test_children_and_theirs(tree):
    page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    path = tree(
        {
            "10/stat": stat(10, 1),
            "11/stat": stat(11, 10, pages=5),
            "12/stat": stat(12, 11, pages=2),
            "13/stat": stat(13, 1, pages=100),
            "self/stat": "",
        }
    )
    children = Children(path, 10)
    assert children.read(0.0) == {
        "system/children/process_count": 2,
        "system/children/memory_bytes": 7 * page,
    }
    tree({"11/stat": stat(11, 10, pages=5, ticks=tick)})
    assert children.read(2.0)["system/children/cpu_cores"] == 1.0
    tree({"11/stat": stat(11, 10, pages=5, ticks=0, start=8)})  # another of the same number
    assert children.read(4.0)["system/children/cpu_cores"] == 0.0


def test_without_children_nothing_is_said(tree):
    assert Children(tree({"10/stat": stat(10, 1)}), 10).read(0.0) == {}


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


def test_elsewhere_psutil_says_the_same(tmp_path):
    psutil = pytest.importorskip("psutil")
    portable, process = Portable(psutil, str(tmp_path), lambda: 2.0), Process(lambda: 2.0)
    portable.read(0.0)
    process.read(0.0)
    sum(range(2_000_000))
    theirs, ours = portable.read(1.0), process.read(1.0)
    assert theirs["system/process/memory_bytes"] == pytest.approx(
        ours["system/process/memory_bytes"], rel=0.05
    )
    assert theirs["system/process/cpu_cores"] == pytest.approx(ours["system/process/cpu_cores"], abs=0.05)
    assert 0 <= theirs["system/host/memory_used_ratio"] <= 1
    assert 0 <= theirs["system/host/cpu_ratio"] <= 1
    assert theirs["system/disk/free_bytes"] > 0
