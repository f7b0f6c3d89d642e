"""Disks full, read-only or gone: training goes on, it is told once, nothing is lost that need not be."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from support import programs
from support.records import decoded, decoded_files

import stepscope as ss
from stepscope.store.ranks import Ranks

PRELUDE = """
import errno, glob, os, resource, shutil, sys, warnings
import stepscope as ss
from stepscope.events import EventWriter
from stepscope.record import sink

warnings.simplefilter("always")
sink.LONGEST_RETRY_SECS = sink.FIRST_RETRY_SECS = 0.01
log_dir = sys.argv[1]
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

def fail(number):
    # The next three writes fail, and each takes one from what this returns.
    flush, left = EventWriter.flush, [None] * 3
    def failing(self, sync=False):
        if not left:
            return flush(self, sync)
        left.pop()
        raise OSError(number, os.strerror(number))
    EventWriter.flush = failing
    return left
"""


def train(directory, program):
    """Run a training program; return what it wrote to stderr."""
    done = programs.run(
        ["-c", PRELUDE + textwrap.dedent(program), str(directory)],
        modules=programs.RECORDING,
        env={**os.environ, "STEPSCOPE_STRICT": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def points(directory, tag):
    """Steps of a tag; every byte of every file belongs to a record with good checksums."""
    return steps(decoded_files(directory), tag)


def steps(events, tag):
    return [event.step for event in events for value in event.values if value.tag == tag]


def test_a_full_file_is_left_whole_and_a_new_one_goes_on(tmp_path):
    told = train(
        tmp_path / "run",
        """
        run = ss.Run(log_dir, flush_secs=0.01)
        limit(50_001)  # in the middle of a record
        for step in range(5_000):
            run.scalar("loss", 1.0, step)
        assert run.flush() is True
        paths = sorted(glob.glob(log_dir + "/*tfevents*"))
        assert len(paths) > 2, paths
        assert {os.path.getsize(path) > 49_000 for path in paths[:-1]} == {True}
        limit(hard)
        for step in range(5_000, 6_000):
            run.scalar("loss", 1.0, step)
        assert run.flush() is True
        assert run.problems == {}, run.problems
        run.close()
        """,
    )
    assert points(tmp_path / "run", "loss") == list(range(6_000)), "and every record is whole"
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("run")
        assert [series.step.tolist() for series in run.columns("loss")] == [list(range(6_000))]
        assert run.problems == []
    assert told.count("the event file may grow no further: File too large") == 1
    assert "<string>:" in told, "at a line of the user"


def test_files_that_one_burst_fills_are_one_attempt_each_with_what_the_run_says(tmp_path):
    train(
        tmp_path / "run",
        """
        limit(50_000)
        run = ss.Run(log_dir)
        for step in range(20_000):
            run.scalar("loss", step, step)
        run.close()
        assert run.problems == {}, run.problems
        """,
    )
    own = sorted((tmp_path / "run").glob("events.out.stepscope.*"))
    assert len(own) > 4
    assert all(path.stat().st_size for path in own)
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("run")
        assert [len(writer.attempts) for writer in run.writers] == [len(own)]
        assert {attempt.number for writer in run.writers for attempt in writer.attempts} == {1}
        assert [series.step.tolist() for series in run.columns("loss")] == [list(range(20_000))]
        assert run.problems == []


def test_a_disk_that_refuses_all_and_gets_room_again_loses_nothing(tmp_path):
    told = train(
        tmp_path / "run",
        """
        limit(100)  # no room for what a run says of itself
        run = ss.Run(log_dir, flush_secs=0.01)
        for step in range(5_000):
            run.scalar("loss", 1.0, step)
        assert run.flush() is False
        assert len(glob.glob(log_dir + "/*tfevents*")) == 1, "a new file would not help"
        limit(hard)
        assert run.flush() is True
        assert run.problems == {}, run.problems
        run.close()
        """,
    )
    assert points(tmp_path / "run", "loss") == list(range(5_000))
    assert told.count("cannot write the run: File too large") == 1


def test_a_disk_that_stays_full_is_counted_at_the_end(tmp_path):
    told = train(
        tmp_path / "run",
        """
        run = ss.Run(log_dir, flush_secs=0.01)
        limit(300)  # no room for what a new file begins with
        for step in range(5_000):
            run.scalar("loss", 1.0, step)
        run.close()
        lost = run.problems["unwritten"]
        assert 3_000 < lost < 5_100, lost
        print(lost, file=sys.stderr)
        """,
    )
    assert "points could be written" in told


@pytest.mark.parametrize("fault", ["EIO", "ESTALE", "ENOSPC"])
def test_a_fault_of_the_last_write_is_outlived(tmp_path, fault):
    told = train(
        tmp_path / "run",
        f"""
        run = ss.Run(log_dir, flush_secs=3600.0)
        for step in range(1_000):
            run.scalar("loss", 1.0, step)
        assert run.flush()
        for step in range(1_000, 2_000):
            run.scalar("loss", 1.0, step)
        left = fail(errno.{fault})
        run.close()
        assert left == []
        assert run.problems == {{}}, run.problems
        """,
    )
    assert points(tmp_path / "run", "loss") == list(range(2_000))
    assert told.count("cannot write the run") == 1
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("run")
        assert (run.state, run.problems) == ("finished", [])


@pytest.mark.parametrize("fault", ["EIO", "ENOSPC"])
def test_a_fault_of_the_last_write_of_a_rank_is_outlived(tmp_path, fault):
    train(
        tmp_path / "run",
        f"""
        os.environ.update(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
        run = ss.Run(log_dir, flush_secs=3600.0)
        for step in run.steps(range(50)):
            if step == 25:
                assert run.flush()
        left = fail(errno.{fault})
        run.close()
        assert left == []
        assert run.problems == {{}}, run.problems
        """,
    )
    ranks = Ranks(str(tmp_path / "run"))
    assert [member.state for member in ranks.members()] == ["finished"]
    assert ranks.steps(1).step.tolist() == list(range(50))


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs the right to mount")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_real_full_disk(small_disk):
    told = train(
        small_disk / "run",
        """
        run = ss.Run(log_dir, flush_secs=0.01)
        big = os.path.join(os.path.dirname(log_dir), "big")
        with open(big, "wb") as file:
            file.write(bytes(45_000))
        for step in range(2_000):
            run.scalar("loss", 1.0, step)
        assert run.flush() is False
        os.remove(big)
        for step in range(800):
            run.scalar("more", 1.0, step)
        run.flush()
        run.close()
        """,
    )
    assert told.count("No space left on device") >= 1
    found = points_before_the_tear(small_disk / "run", "loss")
    assert found == list(range(len(found)))
    assert len(found) > 500


def points_before_the_tear(directory, tag):
    [path] = directory.glob("*tfevents*")
    return steps(decoded(path.read_bytes(), torn=True), tag)


@pytest.fixture
def read_only():
    """A directory that an ordinary user cannot write."""
    directory = Path(tempfile.mkdtemp(prefix="stepscope-read-only-"))
    directory.chmod(0o555)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


def test_a_read_only_directory(read_only):
    told = train(
        read_only / "run",
        """
        from stepscope.record import Run
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        run = Run(log_dir, flush_secs=0.01)
        for _ in run.steps(range(1_000)):
            run.scalar("loss", 1.0)
        run.close()
        assert run.problems == {"unwritten": 3_000}, run.problems
        """,
    )
    assert told.count("cannot write the run: Permission denied") == 1
    assert "hint: make the directory writable; what waits" in told
    assert f"file: {read_only}/run" in told
    assert list(read_only.iterdir()) == []


def test_a_directory_deleted_while_the_run_goes_on(tmp_path):
    told = train(
        tmp_path / "run",
        """
        run = ss.Run(log_dir, flush_secs=0.01)
        run.scalar("loss", 1.0, 0)
        assert run.flush()
        shutil.rmtree(log_dir)
        run.scalar("loss", 1.0, 1)
        assert not run.flush()
        run.scalar("loss", 1.0, 2)
        assert run.flush()
        assert run.problems == {"file_deleted": 1}, run.problems
        run.close()
        """,
    )
    assert points(tmp_path / "run", "loss") == [2]
    assert told.count("deleted or replaced") == 1


HOLDER = """
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], "r+b")
try:
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError as error:
    print("refused", error, flush=True)
else:
    print("held", flush=True)
    sys.stdin.readline()
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"""


@pytest.fixture
def hung_file(tmp_path):
    """An event file of an earlier attempt: who opens it hangs in the kernel until its holder lets go."""
    path = tmp_path / "run" / "events.out.tfevents.1.host.1.0"
    path.parent.mkdir()
    path.write_bytes(b"")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        said = holder.stdout.readline()
        if not said.startswith("held"):
            pytest.skip(f"no lease on this file system: {said}")
        yield holder.pid
        holder.kill()


def test_a_call_that_hangs_in_the_kernel_does_not_hold_the_training(tmp_path, hung_file):
    told = train(
        tmp_path / "run",
        f"""
        import signal, time
        from stepscope.record import parts as module
        module.OPEN_SECS = 0.1
        begun = time.monotonic()
        run = ss.Run(log_dir)
        assert run.attempt == 0, "nothing hung"
        for step in range(1_000):
            run.scalar("loss", 1.0, step)
        took = time.monotonic() - begun
        os.kill({hung_file}, signal.SIGKILL)  # its lease ends with it
        assert run.flush(timeout=60)
        run.close()
        print("took", took, file=sys.stderr)
        """,
    )
    assert points(tmp_path / "run", "loss") == list(range(1_000))
    assert told.count("the disk does not answer") == 1
    assert float(told.split("took ")[1].split()[0]) < 30, "the kernel itself lets go after 45 s"
