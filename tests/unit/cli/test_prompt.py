"""The prompt: lines, completion, history."""

import json
from pathlib import Path

import pytest

from stepscope.cli.prompt import complete, history_file, run_line, split
from stepscope.cli.session import COMMANDS, ProfileSession
from stepscope.cli.source import open_source
from stepscope.errors import UsageError


@pytest.fixture
def session(tmp_path: Path) -> ProfileSession:
    path = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
    path.write_text(json.dumps({"traceEvents": [event]}))
    return ProfileSession(open_source(str(path), cache=False))


def test_lines_are_words_but_a_query_is_one() -> None:
    assert split("op -select 'micros,bytes'") == ["op", "-select", "micros,bytes"]
    assert split("sql select 'a b' from events") == ["sql", "select 'a b' from events"]
    assert split("  ") == []
    with pytest.raises(UsageError, match="close the quote"):
        split("op 'a")


def test_set_keeps_options_and_a_command_does_not(session: ProfileSession, capsys) -> None:
    assert run_line(session, "set -max_depth 3 -order_by micros", as_json=False)
    assert run_line(session, "op -max_depth 1", as_json=False)
    assert (session.options.max_depth, session.options.order_by) == (3, "micros")
    capsys.readouterr()
    assert run_line(session, "", as_json=False)
    assert "-max_depth                  3" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["quit", "exit", "q"])
def test_ways_to_leave(session: ProfileSession, word: str) -> None:
    assert not run_line(session, word, as_json=False)


def test_help_names_every_command(session: ProfileSession, capsys) -> None:
    run_line(session, "help", as_json=False)
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[: len(COMMANDS)]] == list(COMMANDS)
    run_line(session, "help op", as_json=True)
    assert json.loads(capsys.readouterr().out) == {"op": COMMANDS["op"]}
    with pytest.raises(UsageError, match="did you mean 'scope'"):
        run_line(session, "help scop", as_json=False)


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("sc", "sc", ["scope "]),
        ("op -min_mic", "-min_mic", ["-min_micros "]),
        ("op --min_mic", "--min_mic", ["--min_micros "]),
        ("op -order_by pe", "pe", ["peak_bytes"]),
        ("op -select micros,ou", "micros,ou", ["micros,output_bytes"]),
        ("op -account_displayed_op_only f", "f", ["false"]),
        ("help ste", "ste", ["steps"]),
        ("steps ", "", []),
    ],
)
def test_completion(line: str, word: str, expected: list[str]) -> None:
    assert complete(line, word) == expected


def test_files_complete(tmp_path: Path) -> None:
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "a[1]" / "trace.json").touch()
    assert complete(f"diff {tmp_path}/a", f"{tmp_path}/a") == [f"{tmp_path}/a[1]/"]
    assert complete(f"diff {tmp_path}/a[1]/", f"{tmp_path}/a[1]/") == [f"{tmp_path}/a[1]/trace.json"]


def test_history_lives_in_the_users_state(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "stepscope" / "profile_history"
