"""A log directory in a store, served."""

from __future__ import annotations

import pytest

from stepscope.serve import Server
from stepscope.serve.follow import LogFollower, copy_of


@pytest.fixture
def place(memory_store):
    return memory_store


def upload(system, folder):
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe(f"/bucket/runs/{path.relative_to(folder).as_posix()}", path.read_bytes())


def read_all(follower):
    while follower.turn() == 0:
        pass


def test_a_store_is_followed(place, tmp_path, writer_in):
    writer = writer_in(tmp_path / "runs" / "a")
    writer.scalar("loss", 1.0, 0, 100.0)
    writer.flush()
    upload(place, tmp_path / "runs")
    url = "memory://bucket/runs"
    follower = LogFollower(copy_of(url), url=url, cache=False)
    try:
        read_all(follower)
        assert follower.failure is None
        assert [run.name for run in follower.log.runs()] == ["a"]
        assert (follower.feed.log.name, follower.feed.log.path_display) == ("runs", url)
        writer.scalar("loss", 0.5, 1, 101.0)
        writer.flush()
        upload(place, tmp_path / "runs")
        follower.turn()
        read_all(follower)
        assert follower.log.run("a").num_points() == 2
    finally:
        follower.stop()


def test_a_store_that_is_not_there_yet_is_tried_again(place, tmp_path, writer_in):
    url = "memory://bucket/runs"
    lines = []
    follower = LogFollower(copy_of(url), url=url, cache=False, report=lines.append)
    try:
        assert follower.turn() > 0
        assert "no such log directory" in lines[0]
        writer = writer_in(tmp_path / "runs" / "a")
        writer.scalar("loss", 1.0, 0, 100.0)
        writer.flush()
        upload(place, tmp_path / "runs")
        read_all(follower)
        assert lines[1:] == ["reading works again"]
    finally:
        follower.stop()


def test_the_page_names_the_store_without_its_password(place):
    server = Server("sftp://ada:hunter22@host/runs", port=0)
    try:
        assert server.follower.feed.log.path_display == "sftp://ada:[scrubbed]@host/runs"
        assert "hunter22" not in str(server.follower.log_dir)
    finally:
        server.socket.close()
