import io
import json

import pytest

import stepscope as ss
from stepscope import cli


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("a", "b"):
        with ss.Run(tmp_path / "logs" / name, tags=["first"]) as run:
            run.scalar("loss", 1.0, 0)
    return tmp_path / "logs"


@pytest.fixture
def runs(logs, capsys):
    def runs(*words, code=0):
        assert cli.main(["runs", str(logs), *words]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return runs


def test_name_note_and_tags(runs, monkeypatch):
    assert runs("rename", "a", "The", "baseline") == "a; title: The baseline\n"
    assert runs("tag", "a", "paper", "tried") == "a; title: The baseline; tags: first, paper, tried\n"
    assert json.loads(runs("--json", "tag", "a", "--", "-first"))["tags"] == ["paper", "tried"]
    monkeypatch.setattr("sys.stdin", io.StringIO("# Why\nlong"))
    assert "note: # Why\nlong" in runs("note", "a", "-")
    assert json.loads(runs("note", "a", "--json"))["note"] == ""
    assert json.loads(runs("rename", "a", "--json"))["title"] is None
    assert runs("archive", "a").endswith("; archived\n")
    assert "archived" not in runs("unarchive", "a")


def test_the_meaning_of_a_tag(runs):
    corrected = (
        "kind loss, role loss, split eval (role and split: corrected for zebra; kind: its corrected role)"
    )
    assert runs("meaning", "zebra", "loss", "eval") == f"zebra: {corrected}\n"
    assert json.loads(runs("meaning", "zebra", "metric", "--json"))["role"] == "metric"
    assert runs("meaning", "zebra") == "zebra: kind other\n"


def test_a_note_on_a_step(runs):
    assert runs("step", "a", "1200", "halved", "the", "rate") == "a; step 1,200: halved the rate\n"
    assert json.loads(runs("--json", "step", "a", "3", "x"))["steps"][0] == {"step": 3, "text": "x"}
    assert "step 1,200" not in runs("step", "a", "1200")
    for words in (["step", "a"], ["step", "a", "soon", "x"]):
        assert "which step?" in runs(*words, code=1)


def test_delete_asks_again_and_restore_brings_back(runs, logs, monkeypatch):
    assert "add --yes" in runs("delete", "a", code=1)
    assert (logs / "a").exists()
    terminal = io.StringIO("b\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    assert "nothing was changed" in runs("delete", "a", code=1)
    terminal = io.StringIO("a\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    assert "is in the trash as" in runs("delete", "a")
    assert not (logs / "a").exists()
    assert runs("trash").splitlines()[1].split()[1] == "a"
    assert runs("restore", "a") == "a is back\n"
    assert (logs / "a").exists()
    assert runs("trash") == "the trash is empty\n"


def test_empty(runs):
    thrown = json.loads(runs("delete", "a", "--yes", "--json"))
    assert json.loads(runs("empty", "--yes", "--json")) == {"freed_bytes": thrown["nbytes"]}


@pytest.mark.parametrize(
    "words",
    [
        ["rename"],
        ["meaning"],
        ["meaning", "a", "colour"],
        ["rename", "gone", "x"],
        ["delete", "a", "b", "--yes"],
        ["restore", "x"],
        ["trash", "x"],
    ],
)
def test_what_cannot_be_done_is_said(runs, words):
    assert "hint:" in runs(*words, code=1)
