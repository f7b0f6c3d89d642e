import argparse
import json
from pathlib import Path

import pytest

from stepscope.cli import main, serve


class FakeServer:
    def __init__(self, log_dir, **options):
        from stepscope.serve.access import access_for
        from stepscope.serve.follow import LogFollower

        self.log_dir, self.options, self.ran = log_dir, options, False
        self.follower = LogFollower(Path(log_dir))
        self.access = access_for("127.0.0.1", token=options["token"], no_token=options["no_token"])
        self.url, self.frame_url = "http://127.0.0.1:6006/", None
        FakeServer.made = self

    def run(self):
        self.ran = True


@pytest.fixture
def made(monkeypatch, tmp_path):
    monkeypatch.setattr("stepscope.serve.Server", FakeServer)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def made(*words):
        assert main(["serve", *words]) == 0
        assert FakeServer.made.ran
        return FakeServer.made.options

    return made


def test_what_is_assumed(made, tmp_path):
    assert made(str(tmp_path)) == {
        "host": "127.0.0.1", "port": 6006, "path_prefix": "", "token": None, "no_token": False,
        "allow_host": [], "embed": [], "read_only": False, "cache": True, "otlp": None,
    }  # fmt: skip


def test_what_can_be_said(made, tmp_path):
    words = [
        "--port", "0", "--host", "::1", "--path-prefix", "/x", "--token", "auto", "--no-cache", "--read-only",
    ]  # fmt: skip
    words += ["--embed", "https://lab.example.org", "--otlp", "http://localhost:4318/v1/metrics"]
    assert made(str(tmp_path), *words, "--allow-host", "a", "--allow-host", "b") == {
        "host": "::1",
        "port": 0,
        "path_prefix": "/x",
        "token": "auto",
        "no_token": False,
        "allow_host": ["a", "b"],
        "embed": ["https://lab.example.org"],
        "read_only": True,
        "cache": False,
        "otlp": "http://localhost:4318/v1/metrics",
    }


def test_a_token_and_none_exclude_each_other(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--port", "0", "--token", "auto", "--no-token"]) == 1
    assert "--token and --no-token exclude each other" in capsys.readouterr().err


def test_it_is_said_who_may_look_without_a_token(made, tmp_path, capsys):
    made(str(tmp_path))
    assert "every user of this machine" not in capsys.readouterr().err
    made(str(tmp_path), "--no-token")
    assert "every user of this machine can see, change and delete these runs" in capsys.readouterr().err


def test_the_address_goes_to_stderr_and_as_json_to_stdout(made, tmp_path, capsys):
    made(str(tmp_path))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"serving {tmp_path} on http://127.0.0.1:6006/ (Ctrl-C stops)\n"
    made(str(tmp_path), "--json")
    captured = capsys.readouterr()
    assert json.loads(captured.out)["url"] == "http://127.0.0.1:6006/"
    assert captured.out.count("\n") == 1


def test_a_directory_to_come_is_announced(made, tmp_path, capsys):
    made(str(tmp_path / "soon"))
    assert "does not exist yet: waiting for it" in capsys.readouterr().err


def test_the_browser_is_opened_when_asked_for(made, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(serve, "open_browser", opened.append)
    made(str(tmp_path))
    assert opened == []
    made(str(tmp_path), "--open")
    assert opened == ["http://127.0.0.1:6006/"]


def test_every_option_has_help():
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    assert all(action.help for action in parser._actions)
