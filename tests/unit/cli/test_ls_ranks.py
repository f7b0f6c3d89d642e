import json

import pytest

import stepscope as ss
from stepscope import cli


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for rank in range(3):
        with ss.Run(tmp_path / "logs" / "job", rank=rank, world_size=4) as run:
            for step in run.steps(range(5)):
                run.scalar("train/loss", float(rank + step))
    with ss.Run(tmp_path / "logs" / "alone") as run:
        run.scalar("loss", 1.0, 0)
    return tmp_path / "logs"


def test_how_many_ranks_a_run_has(logs, capsys):
    assert cli.main(["ls", str(logs)]) == 0
    head, alone, job = (line.split("  ") for line in capsys.readouterr().out.splitlines())
    head = [word.strip() for word in head if word.strip()]
    assert head[:6] == ["RUN", "STATE", "STEP", "POINTS", "RANKS", "UPDATED"]
    assert [word.strip() for word in job if word.strip()][4] == "3 of 4"
    assert [word.strip() for word in alone if word.strip()][4] == "-"


def test_one_line_per_rank(logs, capsys):
    assert cli.main(["ls", "--ranks", str(logs)]) == 0
    head, *rows, _, lost = capsys.readouterr().out.splitlines()
    assert lost.startswith("job: 10 values that 2 ranks logged are not recorded")
    assert head.split()[:5] == ["RUN", "RANK", "ROLE", "ATTEMPT", "STATE"]
    assert [row.split()[:6] for row in rows] == [
        ["job", "rank", str(rank), "chief" if rank == 0 else "worker", "1", "finished"] for rank in range(3)
    ]
    assert " 5 " in rows[1]  # its last loss


def test_for_programs(logs, capsys):
    assert cli.main(["ls", "--json", "--ranks", str(logs)]) == 0
    alone, job = json.loads(capsys.readouterr().out)["runs"]
    assert alone["ranks"] == []
    assert [(rank["label"], rank["step"], rank["loss"], rank["steps"]) for rank in job["ranks"]] == [
        ("rank 0", 4, 4.0, 5),
        ("rank 1", 4, 5.0, 5),
        ("rank 2", 4, 6.0, 5),
    ]
