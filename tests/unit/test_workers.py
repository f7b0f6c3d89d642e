"""Tasks that are spread over processes: what dies is told, and the others go on."""

import ctypes
import inspect
import math
import os
import resource
import socket
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from stepscope.errors import UsageError, WorkerError
from stepscope.workers import DIED, spread


def square_or_die(number):
    """Give a square; the process that is asked for that of 3 ends."""
    if number == 3:
        os._exit(9)
    return number * number


def test_every_task_is_done_in_processes():
    assert sorted(spread(math.sqrt, [float(n * n) for n in range(20)], processes=3)) == list(range(20))


def test_one_process_is_this_one():
    assert set(spread(_process, [1], processes=4)) == {os.getpid()}
    assert set(spread(_process, [1, 2], processes=1)) == {os.getpid()}
    assert os.getpid() not in set(spread(_process, [1, 2], processes=2))


def _process(_task):
    return os.getpid()


@pytest.mark.slow
def test_a_task_at_which_a_process_dies_is_told_and_the_others_are_done():
    told = []
    found = list(
        spread(square_or_die, range(8), processes=2, failed=lambda task, why: told.append((task, why)))
    )
    assert told == [(3, DIED)]
    assert sorted(each for each in found if each is not None) == [0, 1, 4, 16, 25, 36, 49]
    with pytest.raises(WorkerError, match="the process that worked on it died"):
        list(spread(square_or_die, range(8), processes=2))


def test_what_the_function_raises_is_raised_here():
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        list(spread(math.sqrt, [1.0, -1.0, 4.0], processes=2, failed=lambda task, why: 0.0))


def bound_of(_task):
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def test_processes_share_the_bound_of_memory_of_the_one_that_asks():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, before[1]))
    try:
        assert set(spread(bound_of, range(4), processes=2)) == {4 << 30}
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def test_processes_end_when_nobody_asks_further():
    found = spread(_process, range(50), processes=2)
    process = next(found)
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_cluster_that_nobody_listens_at_is_told_at_once():
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"no Ray cluster can be reached at {address}") as told:
            list(spread(math.sqrt, [1.0], ray=address))
    assert "without --ray processes of this machine do it" in told.value.hint
    with pytest.raises(UsageError, match="no Ray cluster can be reached at nonsense"):
        list(spread(math.sqrt, [1.0], ray="nonsense"))


def test_a_cluster_that_ray_remembers_and_that_is_gone_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:9")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for asked in ("auto", True):
        with pytest.raises(UsageError, match=r"reached at 127\.0\.0\.1:9"):
            list(spread(math.sqrt, [1.0], ray=asked))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:10")
    with pytest.raises(UsageError, match=r"reached at 127\.0\.0\.1:10"):
        list(spread(math.sqrt, [1.0], ray="auto"))


def test_ray_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray cannot be imported") as told:
        list(spread(math.sqrt, [1.0], ray="local"))
    assert told.value.hint.startswith('pip install "stepscope[ray]"')


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="needs glibc")
def test_processes_of_ours_keep_what_they_free():
    faults = list(spread(_faults, range(4), processes=2))
    program = f"{inspect.getsource(_faults)}\nimport resource, numpy as np\nprint(_faults(0))"
    usual = int(subprocess.check_output([sys.executable, "-c", program]))
    assert max(faults) * 10 < usual


def _faults(_task):
    """Allocate and free twice what is more together than is kept by default; count the second time."""
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        [np.ones(130_000) for _ in range(40)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
