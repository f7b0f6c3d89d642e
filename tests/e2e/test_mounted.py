"""Runs on file systems that are really mounted: a bucket by s3fs, a directory of another machine by sshfs."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.ssh import PASSWORD
from support.stores import environment, sftp, store
from support.waiting import until

RECORD = """
import sys, stepscope as ss
from stepscope.record import uploader
uploader.FIRST_SECS = uploader.SEND_SECS = uploader.SEND_SECS_TO_FILES = 0.2
with ss.Run(sys.argv[1], flush_secs=0.1) as run:
    for step in run.steps(range(int(sys.argv[2]))):
        run.scalar("loss", 1 / (step + 1))
        if step % 20 == 19:
            run.flush()
            print(step, flush=True)
            {wait}
"""
WAIT = "import time; time.sleep(0.05)"


@contextmanager
def mounted(command: list[str], place: Path, text: str = "") -> Iterator[Path]:
    """A file system, by a command that stays; where this machine mounts none the test is skipped."""
    if not os.path.exists("/dev/fuse") or shutil.which(command[0]) is None:  # noqa: PTH110  a device
        pytest.skip(f"no {command[0]} or no /dev/fuse here: scripts/mounts.sh")
    place.mkdir()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        process.stdin.write(text)
        process.stdin.close()
        until(lambda: os.path.ismount(place) or process.poll() is not None, "it is mounted")
        if process.poll() is not None:
            pytest.skip(f"nothing can be mounted here: {process.stderr.read()[-300:]}")
        yield place
    finally:
        unmount = ["umount", str(place)] if os.getuid() == 0 else ["fusermount3", "-u", str(place)]
        subprocess.run(unmount, check=False, capture_output=True)
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def bucket(tmp_path):
    """A bucket, mounted by s3fs."""
    with store("s3") as proxy:
        facts, keys = environment(proxy, "s3"), tmp_path / "keys"
        keys.touch(0o600)
        keys.write_text(f"{facts['AWS_ACCESS_KEY_ID']}:{facts['AWS_SECRET_ACCESS_KEY']}")
        options = f"passwd_file={keys},url={proxy.url},use_path_request_style,endpoint=us-east-1"
        place = tmp_path / "bucket"
        with mounted(["s3fs", "bucket", str(place), "-f", "-o", options], place):
            yield place


@pytest.fixture
def elsewhere(tmp_path):
    """A directory of another machine, mounted by sshfs."""
    (tmp_path / "served").mkdir()
    with sftp(tmp_path / "served") as wire:
        options = "password_stdin,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null"
        place = tmp_path / "elsewhere"
        command = ["sshfs", "-f", "-o", options, "-p", str(wire.port), "ada@127.0.0.1:/", str(place)]
        with mounted(command, place, f"{PASSWORD}\n"):
            yield place


class Place:
    """A mounted log directory, and what is done there."""

    def __init__(self, folder: Path, mine: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "STEPSCOPE_SPOOL": str(mine / "spool"),
            "XDG_CACHE_HOME": str(mine / "cache"),
        }

    def start(self, run: str, steps: int, wait: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", RECORD.format(wait=wait), str(self.folder / run), str(steps)],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def kill(self, run: str, steps: int) -> int:
        """Record until so many steps are flushed, kill the process, and return the last that was."""
        process = self.start(run, 10**6, WAIT)
        assert process.stdout is not None
        last = next(step for line in process.stdout if (step := int(line)) >= steps)
        until(lambda: any("tfevents" in name for name in self.names(run)), "some of it is there")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return last

    def stepscope(self, *words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "stepscope", *words],
            env=self.environment, capture_output=True, text=True, timeout=300, check=True,
        ).stdout  # fmt: skip

    def steps(self, run: str) -> list[int]:
        words = ["export", str(self.folder), "--runs", f"^{run}$", "--tags", "^loss$", "--format", "json"]
        return [step for row in json.loads(self.stepscope(*words)) for step in row["step"]]

    def names(self, run: str) -> list[str]:
        return sorted(path.name for path in (self.folder / run).glob("*"))


def test_on_a_mounted_bucket_a_run_is_pieces_and_then_whole(bucket, tmp_path):
    place = Place(bucket, tmp_path)
    process = place.start("whole", 200)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert place.steps("whole") == list(range(200))
    assert not [name for name in place.names("whole") if ".bytes-" in name]

    seen = place.kill("killed", 400)
    assert [name for name in place.names("killed") if ".bytes-" in name]
    before = place.steps("killed")
    assert before == list(range(len(before)))
    assert "everything has arrived" in place.stepscope("sync", "--all")
    after = place.steps("killed")
    assert after == list(range(len(after)))
    assert len(after) > seen
    assert not [name for name in place.names("killed") if ".bytes-" in name]


def test_on_another_machines_directory_a_run_is_written_in_place_and_what_is_flushed_is_there(
    elsewhere, tmp_path
):
    place = Place(elsewhere, tmp_path)
    process = place.start("whole", 200)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert place.steps("whole") == list(range(200))

    seen = place.kill("killed", 400)
    found = place.steps("killed")
    assert found == list(range(len(found)))
    assert len(found) > seen - 20  # synchronized once a second at most
    assert "nothing waits" in place.stepscope("sync")
    there = {path.name for path in (tmp_path / "served" / "killed").iterdir()}
    assert there == set(place.names("killed"))
