"""File systems that others see, too: which there are, and how a run is written there."""

import errno
import os
import threading
from pathlib import Path

import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.record import mounts
from stepscope.record.mounts import Mount, is_synchronized, manner_at, mount_of

TABLE = r"""
21 1 8:1 / / rw - ext4 /dev/sda rw
31 21 0:40 / /mnt/my\040bucket rw,nosuid shared:7 master:2 - fuse.gcsfuse bucket rw
32 31 0:41 / /mnt/my\040bucket/local rw - tmpfs tmpfs rw
33 21 0:42 / /home rw,relatime shared:9 - nfs4 nas:/export/home rw,vers=4.2
34 21 0:43 / /scratch rw - lustre 10.0.0.1@o2ib:/scratch rw
35 21 0:44 / /s3 rw - fuse mountpoint-s3 rw
36 21 0:45 / /covered rw - ext4 /dev/sdb rw
37 21 0:46 / /covered rw - nfs nas:/covered rw
odd line
38 21 0:47 / /odd rw
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    path = tmp_path / "mountinfo"
    path.write_text(TABLE)
    monkeypatch.setattr(mounts, "TABLE", path)
    return path


@pytest.mark.parametrize(
    ("path", "place", "manner"),
    [
        ("/mnt/my bucket/runs/x", "/mnt/my bucket", "pieces"),
        ("/mnt/my bucket", "/mnt/my bucket", "pieces"),
        ("/mnt/my bucket/local/x", "/mnt/my bucket/local", "in place"),
        ("/mnt/my bucket2/x", "/", "in place"),
        ("/home/ada/runs", "/home", "synchronized"),
        ("/homely/runs", "/", "in place"),
        ("/scratch/runs", "/scratch", "in place"),
        ("/s3/runs", "/s3", "pieces"),
        ("/covered/runs", "/covered", "synchronized"),
    ],
)
def test_a_path_lies_in_the_innermost_mount(table, path, place, manner):
    assert mount_of(path).place == place
    assert manner_at(path) == manner


@pytest.mark.parametrize(
    ("kind", "source", "manner"),
    [
        ("nfs", "nas:/x", "synchronized"),
        ("nfs4", "nas:/x", "synchronized"),
        ("cifs", "//nas/x", "synchronized"),
        ("smb3", "//nas/x", "synchronized"),
        ("fuse.sshfs", "ada@host:/x", "synchronized"),
        ("fuse.glusterfs", "host:/x", "synchronized"),
        ("fuse.juicefs", "JuiceFS:x", "synchronized"),
        ("9p", "drvfs", "synchronized"),
        ("virtiofs", "share", "synchronized"),
        ("beegfs", "beegfs_nodev", "synchronized"),
        ("lustre", "10.0.0.1@tcp:/x", "in place"),
        ("ceph", "10.0.0.1:/x", "in place"),
        ("fuse.ceph-fuse", "ceph-fuse", "in place"),
        ("gpfs", "gpfs", "in place"),
        ("ext4", "/dev/nfs", "in place"),
        ("overlay", "overlay", "in place"),
        ("tmpfs", "s3fs", "in place"),
        ("fuse.gcsfuse", "bucket", "pieces"),
        ("fuse.s3fs", "s3fs", "pieces"),
        ("fuse.blobfuse2", "blobfuse2", "pieces"),
        ("fuse.rclone", "remote:bucket", "pieces"),
        ("fuse.goofys", "bucket", "pieces"),
        ("fuse", "s3fs", "pieces"),
        ("fuse", "mountpoint-s3", "pieces"),
        ("fuse", "dbfs:/mnt", "pieces"),
        ("fuse", "something", "in place"),
    ],
)
def test_kinds_of_file_systems(kind, source, manner):
    assert Mount("/x", kind, source).manner == manner


def test_a_link_into_a_mount_is_followed(tmp_path, monkeypatch):
    (tmp_path / "nas").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "nas")
    place = tmp_path / "mountinfo"
    place.write_text(f"1 0 8:1 / / rw - ext4 a rw\n2 1 0:4 / {tmp_path}/nas rw - nfs4 nas:/x rw\n")
    monkeypatch.setattr(mounts, "TABLE", place)
    assert manner_at(str(tmp_path / "data" / "runs")) == "synchronized"


def test_a_file_system_that_does_not_answer_holds_nobody_up(table, monkeypatch):
    monkeypatch.setattr(mounts, "PATIENCE_SECS", 0.05)
    ended = []
    hold = threading.Event()
    monkeypatch.setattr(mounts.os.path, "realpath", lambda path: hold.wait(30) and ended.append(path))
    assert manner_at("/home/x") == "synchronized"
    hold.set()


def test_where_there_is_no_table_a_run_is_written_in_place(tmp_path, monkeypatch):
    monkeypatch.setattr(mounts, "TABLE", tmp_path / "none")
    assert mount_of("/home") is None
    assert manner_at("/home") == "in place"
    assert not is_synchronized("/home")


def test_the_user_decides(table, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPSCOPE_SEGMENTS", "always")
    assert manner_at("/home/x") == manner_at("/x") == "pieces"
    monkeypatch.setenv("STEPSCOPE_SEGMENTS", "never")
    assert manner_at("/mnt/my bucket/x") == manner_at("/home/x") == "synchronized"
    assert is_synchronized("/mnt/my bucket/x")
    monkeypatch.setenv("STEPSCOPE_SEGMENTS", "yes")
    with pytest.raises(UsageError, match="expected auto, always or never"):
        ss.Run(tmp_path / "x")


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder that the table of mounts calls NFS, and the files in it that were synchronized."""
    place = tmp_path / "mountinfo"
    place.write_text(f"1 0 8:1 / / rw - ext4 a rw\n2 1 0:4 / {tmp_path}/nas rw - nfs4 nas:/x rw\n")
    monkeypatch.setattr(mounts, "TABLE", place)
    synced, real = [], os.fsync

    def fsync(number):
        synced.append(Path(f"/proc/self/fd/{number}").readlink().name)
        return real(number)

    monkeypatch.setattr("stepscope.events.writer.os.fsync", fsync)
    return tmp_path, synced


def test_what_is_flushed_on_a_shared_file_system_is_synchronized(shared):
    folder, synced = shared
    with ss.Run(folder / "nas" / "x") as run:
        run.scalar("loss", 1.0, 0)
        assert run.flush()
        assert any("tfevents" in name for name in synced)
    synced.clear()
    with ss.Run(folder / "disk" / "x") as run:
        run.scalar("loss", 1.0, 0)
        assert run.flush()
    assert synced == []


def test_a_file_system_that_can_synchronize_nothing_is_written_all_the_same(shared, monkeypatch):
    folder, _ = shared

    def fsync(number):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("stepscope.events.writer.os.fsync", fsync)
    with ss.Run(folder / "nas" / "x") as run:
        run.scalar("loss", 1.0, 0)
        assert run.flush()
    assert run.problems == {}
    assert ss.open(folder / "nas", cache=False).run("x").columns("loss")[0].step.tolist() == [0]
