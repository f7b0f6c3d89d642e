import json

import pytest

from stepscope.cli import main


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "stepscope" / "token"


def test_it_prints_the_token_alone_for_scripts(path, capsys):
    assert main(["token"]) == 0
    said = capsys.readouterr()
    assert said.out == path.read_text() + "\n"
    assert str(path) in said.err
    assert main(["token"]) == 0
    assert capsys.readouterr().out == said.out


def test_a_new_one_takes_its_place(path, capsys):
    main(["token"])
    old = capsys.readouterr().out
    assert main(["token", "--new", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {"token": path.read_text(), "path": str(path)}
    assert facts["token"] != old.strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["token"]


def test_a_token_that_others_may_know_is_said_and_replaced(path, capsys):
    main(["token"])
    path.chmod(0o644)
    capsys.readouterr()
    assert main(["token"]) == 1
    assert "hint: stepscope token --new" in capsys.readouterr().err
    assert main(["token", "--new"]) == 0
    assert main(["token"]) == 0


@pytest.mark.parametrize("words", [["token"], ["token", "--new"]])
def test_a_place_that_keeps_nothing_is_said(tmp_path, monkeypatch, capsys, words):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert main(words) == 1
    assert "hint: set XDG_STATE_HOME" in capsys.readouterr().err


def test_a_directory_of_that_name_is_said(path, capsys):
    path.mkdir(parents=True)
    assert main(["token", "--new"]) == 1
    assert "is a directory" in capsys.readouterr().err
