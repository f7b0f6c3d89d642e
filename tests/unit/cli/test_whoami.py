"""``stepscope whoami`` in the environments of launchers."""

import json
import os
import subprocess
import sys

import pytest

from stepscope import cli

CONTRADICTION = {"RANK": "0", "WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.fixture
def whoami(monkeypatch, capsys, tmp_path):
    """A function that runs the command in an environment."""
    monkeypatch.setenv("STEPSCOPE_SPOOL", str(tmp_path / "spool"))  # nothing waits there

    def run(*words, **environ):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert cli.main(["whoami", *words]) == 0
        return capsys.readouterr()

    return run


def lines(out):
    return {line[:11].strip(): line[11:].strip() for line in out.splitlines()}


def test_a_single_process(whoami):
    out = lines(whoami().out)
    assert out == {
        "rank": "0 of 1",
        "role": "chief",
        "chief": "yes",
        "writes": "event files and telemetry under ranks/",
        "known from": "single process",
    }


def test_a_rank_of_torchrun_inside_slurm(whoami):
    out = whoami(
        RANK="3", WORLD_SIZE="8", LOCAL_RANK="1", LOCAL_WORLD_SIZE="4", GROUP_RANK="0",
        TORCHELASTIC_RUN_ID="x", TORCHELASTIC_RESTART_COUNT="2", SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="2",
    ).out  # fmt: skip
    for line in (
        "rank         3 of 8",
        "role         worker",
        "chief        no, rank 0",
        "writes       telemetry under ranks/",
        "known from   torchrun: RANK=3, WORLD_SIZE=8, LOCAL_RANK=1, LOCAL_WORLD_SIZE=4, GROUP_RANK=0",
        "on its host  1 of 4",
        "host         0",
        "restarts     2",
        "overruled    Slurm: rank 0 of 2 (SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2)",
    ):
        assert line in out.splitlines()


def test_an_evaluator(whoami):
    out = lines(whoami(TF_CONFIG='{"task": {"type": "evaluator", "index": 0}}').out)
    assert (out["rank"], out["role"], out["chief"]) == ("none: it does not train", "evaluator", "no")
    assert out["writes"] == "event files under eval/"


def test_a_parameter_server(whoami):
    cluster = '{"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1", "d:1"]}'
    out = lines(whoami(TF_CONFIG=f'{{"cluster": {cluster}, "task": {{"type": "ps", "index": 1}}}}').out)
    assert (out["rank"], out["role"], out["chief"]) == ("none: it does not train", "ps 1", "no")
    assert out["writes"] == "telemetry under ranks/"


def test_who_else_may_be_the_chief(whoami):
    assert lines(whoami("--chief", "last", RANK="1", WORLD_SIZE="2").out)["writes"] == (
        "event files and telemetry under ranks/"
    )
    assert lines(whoami("--chief", "1").out)["chief"] == "yes"


def test_a_chief_that_can_never_be_is_refused(capsys):
    assert cli.main(["whoami", "--chief", "boss"]) == 1
    assert "chief must say which rank writes, got 'boss'" in capsys.readouterr().err


def test_what_contradicts_itself_is_told_beside_the_data(whoami):
    captured = whoami(**CONTRADICTION)
    assert lines(captured.out)["rank"] == "0 of 3"
    assert "contradicts Open MPI: rank 1 of 2" in captured.err
    assert "hint:" in captured.err


def test_for_programs(whoami):
    found = json.loads(whoami("--json", **CONTRADICTION).out)
    assert (found["rank"], found["world_size"], found["role"], found["chief"]) == (0, 3, "chief", True)
    assert found["source"] == "RANK and WORLD_SIZE"
    assert found["evidence"] == ["RANK=0", "WORLD_SIZE=3"]
    assert (found["local_rank"], found["node"]) == (None, None)
    assert found["overruled"] == ["Open MPI: rank 1 of 2 (OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=2)"]
    assert "contradicts" in found["problems"][0]["text"]


def test_it_imports_neither_a_framework_nor_numpy():
    code = "import sys; from stepscope import cli; cli.main(['whoami', '--json']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "RANK": "1"},
    )
    assert not {"numpy", "torch", "jax", "tensorflow", "polars"} & set(done.stdout.split())
