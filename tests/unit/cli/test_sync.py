"""``stepscope sync``: what waits is listed and sent; what cannot be is said."""

import json

import fsspec
import pytest

import stepscope as ss
from stepscope.cli import main
from stepscope.cli.sync import address_of
from stepscope.record.spool import SpoolEntry, entries

URL = "memory://bucket/runs/x"


@pytest.fixture(autouse=True)
def place(memory_store):
    return memory_store


@pytest.fixture
def left():
    """The spool of a process that was killed."""
    entry = SpoolEntry.begin(URL, {})
    with ss.Run(entry.directory) as run:
        run.scalar("loss", 1.0, 7)
    entry.forget()
    return entry


def test_nothing_waits(capsys):
    assert main(["sync"]) == 0
    assert "nothing waits in" in capsys.readouterr().out


def test_what_waits_is_listed_and_not_sent(left, place, capsys):
    assert main(["sync"]) == 0
    said = capsys.readouterr().out
    assert f"{URL}: 2 files, " in said
    assert "its process has ended" in said
    assert not place.store


def test_who_lists_runs_and_who_asks_who_this_is_hear_what_waits(left, capsys):
    assert main(["ls", "memory://bucket/runs"]) == 1
    said = capsys.readouterr().err
    assert "no such log directory" in said
    assert f"hint: {URL}: 2 files, " in said
    assert "stepscope sync sends it" in said
    assert main(["whoami"]) == 0
    assert f"waits       {URL}: 2 files, " in capsys.readouterr().out
    assert main(["sync", URL]) == 0
    other = SpoolEntry.begin("memory://bucket/runs/y", {})
    with ss.Run(other.directory) as run:
        run.scalar("loss", 1.0, 7)
    capsys.readouterr()
    assert main(["ls", "memory://bucket/runs"]) == 0
    heard = capsys.readouterr()
    assert "finished" in heard.out
    assert "memory://bucket/runs/y: 2 files, " in heard.err
    assert "a process records there now and sends it by itself" in heard.err
    assert main(["ls", "memory://bucket/runs", "--json"]) == 0
    assert [each["url"] for each in json.loads(capsys.readouterr().out)["waiting"]] == [
        "memory://bucket/runs/y"
    ]
    assert main(["ls", URL]) == 0
    assert capsys.readouterr().err == "", "of another run is not told"
    other.forget()


@pytest.mark.parametrize("by", ["url", "above", "path", "run", "all"])
def test_what_waits_is_sent(left, place, capsys, by):
    words = {
        "url": URL,
        "above": "memory://bucket",
        "path": str(left.path),
        "run": str(left.directory),
        "all": "--all",
    }
    assert main(["sync", words[by]]) == 0
    assert "everything has arrived" in capsys.readouterr().out
    assert len(place.store) == 2
    assert entries() == []


def test_programs_get_json(left, capsys):
    assert main(["sync", "--json"]) == 0
    [facts] = json.loads(capsys.readouterr().out)
    assert (facts["url"], facts["state"], facts["files"]) == (URL, "ended", 2)
    assert facts["bytes"] > 100


def test_what_a_process_records_now_is_left_to_it(place, capsys):
    with ss.Run(URL):
        assert main(["sync"]) == 0
        assert "a process records there now" in capsys.readouterr().out
        assert main(["sync", "--all"]) == 0
        assert "sends it by itself" in capsys.readouterr().out


def test_what_cannot_be_sent_is_said_and_stays(left, capsys, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError("403 ghp_0123456789abcdefghij0")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", refuse)
    assert main(["sync", "--all"]) == 1
    said = capsys.readouterr().err
    assert "not sent: 403 [scrubbed]" in said
    assert "hint:" in said
    assert len(entries()) == 1


def test_the_password_of_a_url_goes_with_what_lies_below_it(left):
    left.url = "sftp://ada:[scrubbed]@host/runs/x"
    assert address_of(left, "sftp://ada:pw@host/runs") == "sftp://ada:pw@host/runs/x"
    assert address_of(left, "sftp://ada:pw@host/runs/x") == "sftp://ada:pw@host/runs/x"
    assert address_of(left, None) == left.url


def test_mistakes(capsys, tmp_path):
    assert main(["sync", "--all", URL]) == 1
    assert main(["sync", str(tmp_path)]) == 1
    assert "nothing is waiting to be sent there" in capsys.readouterr().err
