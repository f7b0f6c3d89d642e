"""The ranks of a job on a real Ray cluster of several worker processes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from support.ports import free_port
from support.recordings import recorded

from stepscope.cli import main
from stepscope.job import load_ranks
from stepscope.trace.cache import place_of
from stepscope.workers import spread

os.environ["RAY_AUTH_MODE"] = "disabled"  # its token lies in the home folder, which tests do not share
ray = pytest.importorskip("ray")
STARTED_SECS, STARTS = 420.0, 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a cluster of two processors on this machine."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the cluster does not see this file
    folder = tmp_path_factory.mktemp("ray")
    own = tempfile.mkdtemp(prefix="ray-")  # its sockets need short paths, and no other test is to find it
    for attempt in range(STARTS):
        port, log = free_port(), folder / f"log{attempt}"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2",
                    "--node-ip-address=127.0.0.1", f"--port={port}", "--object-store-memory=100000000",
                    "--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={own}",
                ],
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            until = time.monotonic() + STARTED_SECS
            while b"Ray runtime started" not in log.read_bytes() and process.poll() is None:
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.2)
            if process.poll() is None:
                yield f"127.0.0.1:{port}"
                return
            # Ray gives its own processes 30 s to start, which a busy machine may need.
            assert "timed out during startup" in log.read_text(), log.read_text()
        finally:
            end_cluster(process)
            shutil.rmtree(own, ignore_errors=True)
    pytest.fail(f"Ray did not start in {STARTS} attempts")


def end_cluster(process):
    """End a cluster, and what it started."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def process_of(folder):
    """Give this process once another has come, however long a busy machine takes to start it."""
    Path(folder, str(os.getpid())).touch()
    until = time.monotonic() + STARTED_SECS
    while len(list(Path(folder).iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    return os.getpid()


def die(task):
    if task == "fatal":
        os._exit(3)
    return task


def fail(task):
    raise ValueError(f"not {task}")


@pytest.mark.timeout(1800)
def test_ranks_on_a_cluster_are_told_as_here(cluster, tmp_path, capfd):
    place = recorded("traces/dlrm_8xv100")
    here = load_ranks(place, cache=False).data()
    assert load_ranks(place, cache=False, ray=cluster).data() == here
    for path in place.glob("rank*.json*"):
        shutil.copy(path, tmp_path)
    broken = next(tmp_path.glob("rank3.json*"))
    broken.write_bytes(b'{"traceEvents": [{"ph": "X"')
    capfd.readouterr()
    assert main(["ranks", str(tmp_path), "--ray", cluster, "-v"]) == 0
    said = capfd.readouterr()
    assert "not recorded: rank 3" in said.out
    assert "collectives of 7 ranks" in said.out
    assert broken.name in said.err
    cached = [path for path in tmp_path.glob("rank*.json*") if place_of(path).exists()]
    assert len(cached) == 7  # each file's columns are kept by whoever read it


@pytest.mark.timeout(1800)
def test_several_processes_work_and_one_that_dies_is_told(cluster, tmp_path):
    assert len(set(spread(process_of, [str(tmp_path)] * 6, ray=cluster)) - {os.getpid()}) >= 2
    told = []
    found = list(
        spread(die, ["a", "fatal", "b"], ray=cluster, failed=lambda task, why: told.append((task, why)))
    )
    assert sorted(filter(None, found)) == ["a", "b"]
    assert [task for task, _ in told] == ["fatal"]
    assert told[0][1].startswith("the process that worked on it died on the Ray cluster")
    with pytest.raises(ValueError, match="not a"):
        list(spread(fail, ["a"], ray=cluster))


@pytest.mark.timeout(1800)
def test_a_connected_session_is_used_and_left_connected(cluster):
    ray.init(address=cluster, log_to_driver=False, configure_logging=False)
    try:
        assert load_ranks(recorded("traces/dlrm_8xv100"), cache=False, ray=True).stragglers[0].rank == 7
        assert ray.is_initialized()
    finally:
        ray.shutdown()


@pytest.mark.timeout(1800)
def test_a_cluster_that_is_started_here_is_ended():
    """In a process of its own: Ray forks, which JAX warns of where another test imported it."""
    program = """
import os.path
import ray
from stepscope.workers import spread
assert sorted(spread(os.path.basename, ["x/a", "y/b"], ray="local")) == ["a", "b"]
assert not ray.is_initialized()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


def test_the_files_of_a_url_can_be_fetched_by_other_machines(tmp_path, monkeypatch):
    """A task carries the URL of its file, for a machine that lacks the copy of the one that asks."""
    from stepscope.analyze.ranks.many import _loaded, _RankFile

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    there = Path(shutil.copy(next(recorded("traces/dlrm_8xv100").glob("rank5.json*")), tmp_path))
    assert _loaded(_RankFile(0, "/not/here/" + there.name, f"file://{there}", cache=False)).ranks == (5,)
