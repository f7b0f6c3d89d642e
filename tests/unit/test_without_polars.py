"""What works without the extra that brings data frames, and what the rest says."""

import http.client
import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

HINT = "hint: pip install 'stepscope[frames]'"
RECORD = """
import sys, stepscope as ss
folder = sys.argv[1]
for rank in range(2):
    hooks = [ss.ProfilerHook(save_steps=100, backend="python")] if rank == 0 else []
    with ss.Run(folder + "/a", hooks=hooks, rank=rank, world_size=2) as run:
        for step in run.steps(range(60)):
            run.scalar("loss", 1 / (step + 1))
            sum(range(5000))
with ss.open(folder) as log:
    loss = log.run("a").series("loss")
    assert len(loss) == 60 and loss.value[0] == 1.0
    assert len(log.frame(tags="loss").run) == 60
    assert len(ss.load_ranks(folder + "/a").ranks) == 2
    try:
        loss.polars()
    except ss.StepscopeError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment in which nothing can import polars, in child processes neither."""
    folder = tmp_path_factory.mktemp("blocked")
    (folder / "polars.py").write_text("raise ModuleNotFoundError('No module named polars', name='polars')\n")
    cache = str(tmp_path_factory.mktemp("cache"))
    return {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": cache, "STEPSCOPE_TOKEN": ""}


@pytest.fixture(scope="module")
def runs(environment, tmp_path_factory):
    runs = tmp_path_factory.mktemp("work") / "runs"
    done = python(environment, "-c", RECORD, str(runs))
    assert done.stdout.split("\n")[:2] == ["polars is not installed", HINT]
    return runs


def python(environment, *words):
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=True, timeout=120
    )


@pytest.fixture
def command(environment):
    def run(*words, status=(0,)):
        done = subprocess.run(
            [sys.executable, "-m", "stepscope", *map(str, words)],
            env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode in status, done.stderr
        return done

    return run


@pytest.mark.slow
def test_reading_judging_and_exporting_work(command, runs, tmp_path):
    [run] = json.loads(command("ls", runs, "--json").stdout)["runs"]
    assert run["points"] > 60
    assert json.loads(command("advise", runs / "a", "--json").stdout)
    assert command("ranks", runs / "a").stdout
    assert command("glance", runs / "a").stdout
    command("watch", runs / "a", "--once", status=(0, 3))  # 3: a step or a rank was slow on a busy machine
    assert len(command("export", runs, "--tags", "^loss$", "--format", "csv").stdout.splitlines()) == 61
    assert len(json.loads(command("export", runs, "--tags", "^loss$", "--format", "json").stdout)) == 1
    for ending in ("folded", "speedscope.json"):
        command("timeline", runs / "a", "-o", tmp_path / f"x.{ending}")


@pytest.mark.slow
def test_the_page_is_served(environment, runs):
    words = ["serve", str(runs), "--port", "0", "--json", "--no-token", "--no-cache"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", *words], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        address = urlsplit(json.loads(process.stdout.readline())["url"])
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        for path, expected in (("/", b"<!doctype html>"), ("/api/v1/profiles", b"step00000005")):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, expected in body) == (200, True), body[:500]
        profile = "a/profiles/chief_rank0_step00000005.trace.json.gz"
        connection.request("GET", f"/api/v1/chrome?path={profile}")
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["hint"]) == (409, HINT.removeprefix("hint: "))
        connection.close()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "words",
    [
        ["export", "RUNS", "-o", "OUT.parquet"],
        ["compact", "RUNS", "OUT", "--workers", "1"],
        ["timeline", "RUNS/a", "-o", "OUT.json"],
        ["timeline", "RUNS/a", "-o", "OUT.csv"],
        ["profile", "RUNS/a", "sql", "select 1"],
    ],
)
def test_what_needs_it_says_how_to_install_it(command, runs, tmp_path, words):
    texts = [word.replace("RUNS", str(runs)).replace("OUT", str(tmp_path / "out")) for word in words]
    assert HINT in command(*texts, status=(1,)).stderr


@pytest.mark.slow
def test_a_compacted_log_needs_it(command, runs, tmp_path):
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python(plain, "-m", "stepscope", "compact", str(runs), str(tmp_path / "packed"), "--workers", "1")
    assert HINT in command("export", tmp_path / "packed", "--format", "csv", status=(1,)).stderr
