"""What the page asks about ranks."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.addresses import Addresses

import stepscope as ss
from stepscope.events.framing import frame
from stepscope.events.telemetry import ROWS, Name, TelemetryRow, encoded
from stepscope.serve.access import Access
from stepscope.serve.app import Application
from stepscope.serve.findings import finding_of
from stepscope.serve.frame import array_of, unpack_as
from stepscope.serve.health import report_of
from stepscope.serve.rank_types import MAX_RANK_COLUMNS, RankSteps
from stepscope.serve.ranks import KEPT_RUNS
from stepscope.serve.reply import Refusal


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    for name in ("a", "b", "c"):
        for rank in range(2):
            with ss.Run(folder / name, rank=rank, world_size=3) as run:
                for step in run.steps(range(10)):
                    run.scalar("loss", 100 * rank + step)
                    run.scalar("odd", float("nan") if rank else 1.0)
    with ss.Run(folder / "alone") as run:
        run.scalar("loss", 1.0)
    return folder


@pytest.fixture
def log(logs):
    with ss.open(logs, cache=False) as log:
        yield log


def ask_steps(log, **query):
    header, body = unpack_as(Addresses(log=log).ask("ranks/steps", {"run": "a", **query}), RankSteps)
    shape = len(header.labels), header.columns
    cells = {
        name: array_of(body, getattr(header, name)).reshape(shape)
        for name in ("maximum", "mean", "count", "nonfinite")
    }
    return header, array_of(body, header.steps), cells


def test_the_runs_that_have_ranks(log):
    found = Addresses(log=log).json("ranks")
    assert found == {
        "runs": [{"run": name, "count": 2, "size": 3, "attempts": [1]} for name in ("a", "b", "c")]
    }


def test_the_ranks_of_a_run(log):
    found = Addresses(log=log).json("ranks", run="a")
    assert (found["run"], found["size"], found["attempts"]) == ("a", 3, [1])
    chief, worker = found["ranks"]
    assert (chief["label"], chief["role"], chief["state"], chief["nonfinite"]) == (
        "rank 0", "chief", "finished", 0
    )  # fmt: skip
    assert (worker["label"], worker["role"], worker["step"], worker["loss"], worker["nonfinite"]) == (
        "rank 1", "worker", 9, 109.0, 10
    )  # fmt: skip
    assert (worker["loss_tag"], worker["source"], worker["local_rank"]) == ("loss", "arguments", None)
    assert worker["device_bytes"] is None
    assert worker["resident_bytes"] > 1e6
    assert worker["median_step_s"] > 0


def test_before_anything_was_read_there_is_nothing():
    assert Addresses().json("ranks") == {"runs": []}
    with pytest.raises(Refusal, match="no run 'a'"):
        Addresses().ask("ranks", run="a")


def test_a_run_without_ranks_has_none(log):
    assert Addresses(log=log).json("ranks", run="alone")["ranks"] == []
    header, steps, _ = ask_steps(log, run="alone")
    assert (header.labels, header.columns, len(steps)) == ([], 0, 0)


def test_a_fact_rank_by_step(log):
    header, steps, cells = ask_steps(log, fact="loss", columns="5")
    assert (header.run, header.fact, header.attempt, header.labels, header.ranks) == (
        "a", "loss", 1, ["rank 0", "rank 1"], [0, 1]
    )  # fmt: skip
    assert (steps.tolist(), header.end) == ([0, 2, 4, 6, 8], 10)
    np.testing.assert_array_equal(cells["maximum"], [[1, 3, 5, 7, 9], [101, 103, 105, 107, 109]])
    np.testing.assert_array_equal(cells["mean"], cells["maximum"] - 0.5)
    assert (cells["count"] == 2).all()
    assert (cells["nonfinite"] == 0).all()


def test_a_range_and_the_default_fact(log):
    header, steps, cells = ask_steps(log, begin="3", end="6")
    assert (header.fact, steps.tolist(), header.end) == ("step_time_s", [3, 4, 5], 6)
    assert (cells["mean"] > 0).all()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"run": "none"}, "no run 'none'"),
        ({"fact": "speed"}, "fact is 'speed': expected one of own_work_s"),
        ({"columns": "0"}, "expected a whole number from 1 to"),
        ({"columns": str(MAX_RANK_COLUMNS + 1)}, "expected a whole number from 1 to"),
        ({"begin": "x"}, "begin is 'x': expected a whole number"),
        ({"attempt": "1" * 50}, "attempt is .*: expected a whole number"),
    ],
)
def test_what_cannot_be_answered(log, query, message):
    with pytest.raises(Refusal, match=message):
        Addresses(log=log).ask("ranks/steps", {"run": "a", **query})


def test_only_the_runs_asked_for_last_stay_in_memory(log):
    addresses = Addresses(log=log)
    for name in ("a", "b", "c"):
        addresses.ask("ranks/steps", run=name)
    assert KEPT_RUNS == 2
    assert [bool(log.run(name).ranks._files) for name in ("a", "b", "c")] == [False, True, True]


def test_over_http(log, ask):
    application = Application(SimpleNamespace(log=log, log_dir=log.path, cache=False), None)
    app = application.asgi(access=Access("127.0.0.1"), cookie="c")
    answer = ask(app, "/api/v1/ranks?run=a")
    assert (answer.status, len(answer.json["ranks"])) == (200, 2)
    answer = ask(app, "/api/v1/ranks/steps?run=a&fact=loss")
    assert answer.header("content-type") == "application/octet-stream"
    assert unpack_as(answer.body, RankSteps)[0].fact == "loss"
    assert ask(app, "/api/v1/ranks?run=none").status == 404
    assert ask(app, "/api/v1/ranks/steps?run=a&columns=x").status == 400
    application.close()


@pytest.fixture
def slow_log(tmp_path):
    """Four ranks that end each step together; rank 2 waits 50 ms longer for data from step 40 on."""
    waited = 0.002 * (1 + 0.1 * np.random.default_rng(0).random((120, 4)))
    waited[40:, 2] += 0.05
    write_ranks(tmp_path / "job", waited.max(1, keepdims=True) + 0.1 * np.ones((120, 4)), waited)
    with ss.open(tmp_path, cache=False) as log:
        yield log


def test_the_frontier_says_who_and_since_when(slow_log):
    found = Addresses(log=slow_log).json("ranks/frontier", {"run": "job", "columns": "3"})
    assert (found["stages"], found["steps"], found["end"]) == (["data", "rest"], [0, 40, 80], 120)
    assert (found["missing"], found["refused"], found["attempt"]) == ([], None, 1)
    (group,) = found["groups"]
    onset = group["onset"]
    assert (onset["rank"], onset["host"], onset["stage"], onset["since"]) == (2, "node", "data", 40)
    assert onset["before_s"] == pytest.approx(0.102, rel=0.01)
    assert onset["after_s"] == pytest.approx(0.152, rel=0.01)
    assert onset["delay_s"] == pytest.approx(0.05, rel=0.02)
    assert onset["lost_gpu_s"] == pytest.approx(80 * 4 * 0.05, rel=0.02)
    first = group["blame"][0]
    assert (first["rank"], first["stage"], first["verdict"]) == (2, "data", "clear")
    assert sum(row["share"] for row in group["blame"]) == pytest.approx(1)
    columns = np.array([stage["mean_s"] for stage in group["stages"]])
    assert (columns.sum(0) @ group["counts"]) == pytest.approx(group["group_s"])
    assert columns[0, 1] - columns[0, 0] == pytest.approx(0.05, rel=0.02)


def test_the_slow_rank_is_a_finding_of_the_runs_health(slow_log):
    report = report_of(slow_log, slow_log.run("job"))
    [found] = [each for each in report.verdict.findings if each.tag == "ranks/stages"]
    assert (found.rule, found.rank, found.since_step, found.severity) == ("slow-rank", 2, 40, "high")
    assert finding_of(found).fact == "own_work_s"
    assert finding_of(replace(found, tag="ranks/loss")).fact == "loss"
    assert finding_of(replace(found, tag="train/loss")).fact is None
    assert "rank 2 on node makes the 3 other ranks wait in data since step 40: 50 ms" in found.summary
    assert found.action in report.text()
    off = report_of(slow_log, slow_log.run("job"), rules={"slow-rank": False}).verdict
    assert not [each for each in off.findings if each.rule == "slow-rank"]
    assert "slow-rank" not in off.passed


def test_one_process_is_not_judged_by_the_rules_of_ranks(log):
    verdict = report_of(log, log.run("alone")).verdict
    told = {each.rule for each in [*verdict.findings, *verdict.abstained]} | set(verdict.passed)
    assert not told & {"slow-rank", "wandering-ranks"}


def test_the_frontier_of_a_range_before_the_onset_accuses_nobody(slow_log):
    found = Addresses(log=slow_log).json("ranks/frontier", {"run": "job", "end": "40"})
    (group,) = found["groups"]
    assert (group["steps"], group["onset"], found["end"]) == (40, None, 40)
    assert {row["verdict"] for row in group["blame"]} == {"cannot tell"}


def test_the_frontier_of_one_process_says_why_it_cannot_tell(log):
    found = Addresses(log=log).json("ranks/frontier", {"run": "alone"})
    assert (found["groups"], found["steps"]) == ([], [])
    assert found["refused"] == "expected the telemetry of several ranks, found 0"


def write_ranks(folder, seconds, waited):
    """Write telemetry of given step times and waits, shape (steps, ranks)."""
    (folder / "ranks").mkdir(parents=True)
    with ss.Run(folder):
        pass
    for rank in range(seconds.shape[1]):
        rows = [
            (
                step,
                TelemetryRow(
                    1.7e9 + step, ended=True, seconds=seconds[step, rank], waited=waited[step, rank]
                ),
            )
            for step in range(len(seconds))
        ]
        path = folder / "ranks" / str(Name("rank", rank, seconds.shape[1], 1, 0, "node", 999_999_999, 0))
        path.write_bytes(frame(encoded(ROWS, rows, (1e9, float("nan")))))


def test_the_stages_of_the_newest_steps_of_one_process(tmp_path):
    with ss.Run(tmp_path / "one") as run:
        for step in run.steps(range(60)):
            with run.stage("forward"):
                pass
            if step >= 5:
                with run.stage("save"):
                    pass
    for rank in range(2):
        with ss.Run(tmp_path / "two", rank=rank, world_size=2) as run:
            for _ in run.steps(range(5)):
                with run.stage("forward"):
                    pass
    with ss.Run(tmp_path / "plain") as run:
        for _ in run.steps(range(5)):
            pass
    with ss.open(tmp_path, cache=False) as log:
        found = {
            name: Addresses(log=log).json("ranks/stages", {"run": name}) for name in ("one", "two", "plain")
        }
        step = log.run("one").ranks.steps(0).step_time_s[-50:]
    assert sorted(found["one"]["stages"]) == ["data", "forward", "rest", "save"]
    assert found["one"]["steps"] == 50
    assert sum(found["one"]["mean_s"]) == pytest.approx(step.mean(), rel=1e-3)
    for name in ("two", "plain"):  # the account of several ranks says it, and nothing is known of the other
        assert (found[name]["stages"], found[name]["mean_s"], found[name]["steps"]) == ([], [], 0)


def test_own_work_is_without_the_wait_for_others_in_all_steps_and_in_some(slow_log):
    query = {"run": "job", "fact": "own_work_s", "columns": "120"}
    header, _, whole = ask_steps(slow_log, **query)
    assert (header.fact, header.labels) == ("own_work_s", [f"rank {rank}" for rank in range(4)])
    assert whole["mean"][2, 40:] == pytest.approx(0.152, rel=0.01)
    assert np.delete(whole["mean"], 2, 0) == pytest.approx(0.102, rel=0.01)
    _, steps, some = ask_steps(slow_log, **query, begin="60", end="62")
    assert steps.tolist() == [60, 61]
    np.testing.assert_array_equal(some["mean"], whole["mean"][:, 60:62])
    header, _, none = ask_steps(slow_log, **{**query, "attempt": "9"})
    assert (header.columns, none["mean"].size) == (0, 0)


def test_workers_of_parameter_servers_work_as_long_as_their_steps_are(tmp_path):
    """They count their steps together, and none waits for another."""
    who = np.random.default_rng(0).integers(0, 2, 400)
    for rank in range(2):
        with ss.Run(tmp_path / "a", rank=rank, world_size=2) as run:
            for step in np.flatnonzero(who == rank).tolist():
                with run.step(step):
                    pass
    with ss.open(tmp_path, cache=False) as log:
        assert log.run("a").ranks.stages().own_steps
        (_, steps, own), (_, _, taken) = (
            ask_steps(log, fact=fact, columns="400") for fact in ("own_work_s", "step_time_s")
        )
    assert steps.tolist() == [*range(400)]
    np.testing.assert_array_equal(own["mean"], taken["mean"])
