"""The same questions on the command line, in Python and over HTTP; the skill's commands run."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.everything import LONG, PROFILE, write_all
from support.recordings import recorded

import stepscope as ss
from stepscope.cli import main
from stepscope.cli.ask import json_answer
from stepscope.cli.skill import skill
from stepscope.errors import LogDirectoryError, ServeError
from stepscope.serve import Server
from stepscope.serve.client import post
from stepscope.serve.questions.answer import LEAST_BUDGET, as_text, fitted
from stepscope.serve.questions.declare import question_of
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.protocol import LEAST, Tools


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ask") / "logs"
    place.mkdir()
    write_all(place)
    shutil.copy(recorded("traces/kineto/resnet50_v100_workers0.json.gz"), place)
    return place


def test_the_command_and_python_answer_alike(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--query", "run:a,b", "--sort", "name", "--columns", "lr,train/loss"]
    assert main(["ask", "runs", str(logs), *given]) == 0
    text = capsys.readouterr().out
    answer = ss.ask("runs", logs, query="run:a,b", sort="name", columns=("lr", "train/loss"))
    age = re.compile(r"\d+ \w+ ago")
    assert age.sub("", answer.text) == age.sub("", text)
    assert [(row[0], row[4]) for row in answer.tables[0].rows] == [("a", 1.0), ("b", 1.5)]
    assert main(["ask", "runs", str(logs), "--json", "--budget", "100"]) == 0
    assert json.loads(capsys.readouterr().out)["question"] == "runs"


def test_a_server_answers_with_a_proof_of_the_token(logs: Path) -> None:
    local = ss.ask("findings", logs, run="a")
    with Server(logs, port=0, cache=False) as server:
        address = server.url.partition("?")[0]
        assert ss.ask("findings", address, run="a") == local
        with pytest.raises(ServeError, match="no run 'nope'"):
            ss.ask("run", address, run="nope")
        with pytest.raises(LogDirectoryError, match=f"stepscope ask runs {address}"):
            ss.open(address)
        link = server.url
    with pytest.raises(ServeError, match="no server answers at 127"):
        ss.ask("runs", link)


SERVED = """
import sys
from stepscope.serve import Server
with Server(sys.argv[1], port=0, cache=False) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def test_a_server_answers_from_its_first_request_on(logs: Path) -> None:
    """It knows which addresses only read before it has imported the modules of all."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVED, str(logs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as serving:
        address = serving.stdout.readline().strip().partition("?")[0]
        assert ss.ask("findings", address, run="a") == ss.ask("findings", logs, run="a")
        with pytest.raises(ServeError, match="token missing or wrong"):
            post(address, "notes", {"run": "a", "note": "x"})
        serving.stdin.close()
    assert serving.returncode == 0


def test_a_question_loads_neither_a_server_nor_other_questions() -> None:
    others = ["starlette", "asyncio", "http.client", "stepscope.serve.questions.groups"]
    code = f"""
import sys
from stepscope.cli import build_parser
from stepscope.serve.questions.asked import answer_at
build_parser(only="ask", words=["ask", "sql", "logs"]).parse_args(["ask", "sql", "--query", "x"])
print([name for name in {others} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_server_that_is_none_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    assert main(["ask", "runs", f"http://127.0.0.1:{port}/"]) == 1
    error, hint = capsys.readouterr().err.strip().split("\n")
    assert error.startswith("no server answers at")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n{",
    ],
)
def test_a_server_that_went_away_is_told_in_one_line(sent: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(sent)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        serving = threading.Thread(target=serve)
        serving.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert main(["ask", "runs", address]) == 1
        with pytest.raises(ServeError, match="went away before its answer was complete"):
            ss.ask("runs", address)
        serving.join()
    error, hint = capsys.readouterr().err.strip().split("\n")
    assert error.startswith("the server at 127.0.0.1:")
    assert "went away" in error
    assert hint.startswith("hint: ")


def test_of_a_profile_that_is_named_no_run_is_read(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the runs were read")

    told = ss.ask("operations", logs, profile=PROFILE)
    monkeypatch.setattr(ss.store, "open", refuse)
    assert ss.ask("operations", logs, profile=PROFILE) == told
    assert ss.ask("operations", logs / PROFILE).tables == told.tables
    with pytest.raises(AssertionError, match="the runs were read"):
        ss.ask("operations", logs)


def test_what_began_before_the_step_is_not_called_zero_times(logs: Path) -> None:
    answer = ss.ask("operations", logs, profile="resnet50_v100_workers0.json.gz")
    (loader,) = [row for row in answer.tables[0].rows if "DataLoader" in str(row[0])]
    assert loader[3] is None
    assert answer.tables[0].rows[1][3] == 53
    told = ss.ask("explain_step", logs, profile="resnet50_v100_workers0.json.gz").lines
    [waits] = [line for line in told if line.startswith("high input-bound: ")]
    assert waits.count("(36") == 2, "the cost, and what is gained"
    assert "; gain: about " in waits


def test_lines_are_told_of_a_run_without_steps(tmp_path: Path) -> None:
    code, spent = ["train.py", 7, "fit", "model.partial_fit(batch)"], [[0, 0, 0, 4.0, [[0, 3.0]]]]
    with ss.Run(tmp_path / "a", card=False) as run:
        run.rank_facts(lambda: {"lines": {"code": [code], "windows": spent}})
        run.scalar("acc", 0.5, 0)
    answer = ss.ask("explain_step", tmp_path, run="a")
    assert answer.lines[0] == "a recorded no step times"
    [table] = answer.tables
    assert table.columns == ("line", "function", "seconds", "share")
    assert table.rows == (("train.py:7  model.partial_fit(batch)", "fit", 3.0, "75.0 %"),)


def test_a_picture_is_written(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "loss.png"
    assert main(["ask", "image", str(logs), "--run", "a", "--tag", "train/loss", "-o", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert main(["ask", "image", str(logs)]) == 1
    assert "where to?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ls", "{logs}"], "left out: "),
        (["ls", "{logs}", "--json"], '"left_out"'),
        (["advise", "{logs}", "--run", "a", "-v"], "left out: "),
        (["ranks", "{logs}/job", "-v"], "left out: "),
        (["profile", "op", "{logs}/{profile}"], "left out: "),
        (["profile", "op", "{logs}/{profile}", "--json"], '"left_out"'),
    ],
)
def test_other_commands_keep_a_budget(words: list[str], told: str, logs: Path, capsys) -> None:
    given = [word.format(logs=logs, profile=PROFILE) for word in words]
    assert main([*given, "--budget", "60"]) == 0
    text = capsys.readouterr().out
    assert len(text) <= 4 * 60 + 1
    assert told in text
    assert main([*given, "--budget", "10"]) in (1, 2)


ASKED: dict[str, dict[str, object]] = {
    "runs": {},
    "run": {"run": "a"},
    "findings": {},
    "changes": {"run": "a"},
    "series": {"tags": "loss,accuracy", "runs": "run:a,b"},
    "compare": {"a": "a", "b": "b"},
    "ranks": {"run": "job"},
    "explain_step": {"profile": PROFILE},
    "operations": {"profile": PROFILE},
    "profile": {"profile": PROFILE},
    "text": {"run": LONG, "tag": "notes"},
    "image": {"run": "a", "tag": "train/loss"},
    "sql": {"query": "SELECT * FROM series LIMIT 400"},
}


@pytest.fixture(scope="module")
def desks(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    logs = shutil.copytree(logs, tmp_path_factory.mktemp("budgets") / "logs")
    with ss.Run(logs / LONG) as run:
        run.text("notes", '\\ " \x1b a line that is repeated\n' * 900, 0)
    desk = Desk(logs, cache=False)
    yield Tools({"logs": desk})
    desk.close()


@pytest.mark.parametrize("question", ASKED)
def test_every_question_keeps_every_budget(question: str, desks: Tools) -> None:
    [desk] = desks.desks.values()
    asked = question_of(question)
    whole = asked.handler(desk, **asked.read(ASKED[question]))
    assert len(whole.text) > 240 or question in ("changes", "image")
    for budget in (LEAST_BUDGET, 75, 100, 200, 500, 1000):
        for written in (as_text, json_answer):
            made = fitted(whole, budget, written)
            assert len(written(made)) <= 4 * budget, written
            assert made.lines
            lost = sum(len(table.rows) for table in whole.tables) - sum(
                len(table.rows) for table in made.tables
            )
            assert not lost or made.left_out.startswith("left out: ")
        if budget >= LEAST:
            told = desks.call(question, {**ASKED[question], "budget": budget})
            texts = [part.text for part in told.content if hasattr(part, "text")]
            assert sum(map(len, texts)) <= 4 * budget
            assert not told.is_error
            refused = desks.call("sql", {"query": f"SELECT {'nope' * 200} FROM runs", "budget": budget})
            assert sum(len(part.text) for part in refused.content) <= 4 * budget
            assert refused.is_error


def test_the_command_keeps_the_budget_of_what_it_prints(desks: Tools, capsys) -> None:
    logs = next(iter(desks.desks.values())).place
    with Server(logs, port=0, cache=False) as server:
        for place in (str(logs), server.url.partition("?")[0]):
            for words in (["runs"], ["sql", "--query", "SELECT * FROM series"], ["text", f"--run={LONG}"]):
                for more in (["--json"], []):
                    line = ["ask", words[0], place, *words[1:], "--budget", "100", *more]
                    assert main(line) == 0, capsys.readouterr().err
                    text = capsys.readouterr().out
                    assert len(text) <= 400
                    if more:
                        data = json.loads(text)
                        assert data["lines"]
                        assert data["left_out"].startswith("left out: ") or words[0] == "text"
    assert main(["sql", "SELECT * FROM series", str(logs), "--budget", "60", "--json"]) == 0
    assert len(capsys.readouterr().out) <= 240
    assert main(["ask", "runs", str(logs), "--budget", "59"]) == 1
    assert "expected 60 or more" in capsys.readouterr().err


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", skill(), re.DOTALL)
    return [line for block in blocks for line in block.strip().splitlines()]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_skill_runs(command: str, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"LOGDIR/RUN": str(logs / "a"), "LOGDIR": str(logs), "RUN": "a", "OTHER": "b"}
    names |= {"NEW.json.gz": PROFILE, "OLD.json.gz": PROFILE}
    words = [names.get(word, word) for word in shlex.split(command)[1:]]
    if words[0] == "capture":
        words += ["--wait", "0"]
    if words[1] in ("ranks", "explain_step"):
        words[words.index("a")] = "job"
    assert main(words) == 0, capsys.readouterr().err


def test_the_code_of_the_skill_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", skill(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {"loader": range(20), "train": float})
    assert ss.ask("run", tmp_path / "logs").lines[0].startswith("try-1: finished, step 19 of 1,000")


def test_the_skill_is_installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "--install", str(tmp_path)]) == 0
    assert (tmp_path / "stepscope" / "SKILL.md").read_text() == skill()
    assert main(["skill"]) == 0
    assert capsys.readouterr().out.strip() == skill().strip()
