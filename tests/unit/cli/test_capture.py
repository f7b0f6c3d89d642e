"""``stepscope capture``, with the run's side played by files."""

import json

import pytest

from stepscope.cli import capture, main
from stepscope.errors import UsageError
from stepscope.store import captures


class Program:
    """Answers requests in a directory as time passes."""

    def __init__(self, directory, ranks, *, dies=()):
        self.directory, self.ranks, self.dies, self.turn = directory, ranks, dies, 0

    def now(self):
        return self.turn * 0.25

    def pause(self, seconds):
        self.turn += 1
        (request,) = (path.name.split(".")[0] for path in (self.directory / "capture").glob("*.request.json"))
        for rank in range(self.ranks):
            if self.turn == 2:
                self.write("capture", f"{request}.rank{rank}.json", {"status": "taken"})
            if self.turn == 5 + rank and rank not in self.dies:
                facts = {"rank": rank, "request": request, "path": f"profiles/{rank}.gz", "failure": None}
                self.write("profiles", f"{rank}.profile.json", facts)

    def write(self, folder, name, facts):
        (self.directory / folder).mkdir(exist_ok=True)
        (self.directory / folder / name).write_text(json.dumps(facts))


@pytest.mark.parametrize(("text", "ranks"), [("chief", "chief"), ("all", "all"), ("0, 8,16", [0, 8, 16])])
def test_ranks_as_they_are_written(text, ranks):
    assert capture.ranks_of(text) == ranks


@pytest.mark.parametrize("text", ["", "some", "1-3", "-1"])
def test_ranks_that_are_none(text):
    with pytest.raises(UsageError):
        capture.ranks_of(text)


def test_waits_until_every_rank_that_took_it_has_written_its_profile(tmp_path):
    program = Program(tmp_path, 3)
    request = captures.ask(tmp_path, ranks="all")
    found = capture.wait_for(tmp_path, request, 60, now=program.now, pause=program.pause)
    assert [facts["rank"] for facts in found] == [0, 1, 2]


def test_a_rank_that_dies_is_not_waited_for_for_ever(tmp_path):
    program = Program(tmp_path, 3, dies=[1])
    request = captures.ask(tmp_path, ranks="all")
    found = capture.wait_for(tmp_path, request, 60, now=program.now, pause=program.pause)
    assert [facts["rank"] for facts in found] == [0, 2]
    assert program.now() >= 60


def test_prints_paths_and_says_what_is_missing(tmp_path, capsys):
    found = [{"rank": 0, "path": "profiles/a.gz"}, {"rank": 1, "path": None, "failure": "disk full"}]
    answers = {0: {"status": "taken"}, 2: {"status": "missed"}}
    capture.report(tmp_path, "ab", found, answers, as_json=False, waited=True)
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'profiles/a.gz'}\n"
    assert said.err == "rank 1: disk full\nrank 2: missed\n"


def test_asking_without_waiting(tmp_path, capsys):
    assert main(["capture", str(tmp_path), "--steps", "4", "--ranks", "0,2", "--wait", "0", "--json"]) == 0
    request = json.loads(capsys.readouterr().out)["request"]
    facts = json.loads((tmp_path / "capture" / f"{request}.request.json").read_text())
    assert (facts["ranks"], facts["num_steps"], facts["by"]) == ([0, 2], 4, "stepscope capture")


def test_no_such_run_is_the_users_mistake(tmp_path, capsys):
    assert main(["capture", str(tmp_path / "no"), "--wait", "0"]) == 1
    assert "no such run" in capsys.readouterr().err


def test_a_program_that_does_not_answer(tmp_path, capsys):
    assert main(["capture", str(tmp_path), "--wait", "0.01"]) == 1
    assert "no ProfilerHook of the run has ever looked for requests: add" in capsys.readouterr().err
    assert main(["capture", str(tmp_path), "--wait", "0.01"]) == 1
    assert "add" not in capsys.readouterr().err, "what may be there is not advised"
