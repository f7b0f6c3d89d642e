import json
import math
import time

import msgspec
import pytest
from support.records import write_series

from stepscope import store
from stepscope.events import Event, EventWriter, Metadata, Summary, Tensor, Value
from stepscope.serve.feed import Feed
from stepscope.serve.summary import problems_of, publish, shown_title, summary_of
from stepscope.serve.types import Changes, LogSummary
from stepscope.store.annotations import Notes, RunNote
from stepscope.store.run import RECENT

NOW = 1_700_000_000.0
DT_STRING = 7


def write_info(writer, tag="stepscope/run", **facts):
    tensor = Tensor(dtype=DT_STRING, string_val=[json.dumps({"schema": 1, **facts}).encode()])
    value = Value(tag, tensor=tensor, metadata=Metadata.of("stepscope", b"", data_class=2))
    writer.event(Event(wall_time=NOW, step=0, summary=Summary([value])))


def summary(tmp_path, name="a", now=NOW):
    log = store.open(tmp_path, cache=False)
    return summary_of(log.run(name), log, RunNote(), now=now)


def test_a_run_of_stepscope(tmp_path):
    writer = EventWriter(tmp_path / "a", clock=lambda: NOW)
    facts = {"config": {"lr": 0.1}, "tags": ["try"], "total_steps": 100, "host": "h", "version": "0.1.0"}
    write_info(writer, status="finished", started=NOW - 10.0, **facts)
    for step in range(50):
        writer.scalar("loss", 1.0, step, NOW + step / 4)
    writer.scalar("stepscope/overhead_ratio", 0.002, 49, NOW + 13)
    writer.scalar("stepscope/overhead_us_per_step", 12.5, 49, NOW + 13)
    writer.scalar("stepscope/dropped_points", 3.0, 49, NOW + 13)
    writer.close()
    found = summary(tmp_path)
    assert (found.state, found.step, found.total_steps, found.points) == ("finished", 49, 100, 53)
    assert (found.config, found.labels, found.host, found.version) == ({"lr": 0.1}, ["try"], "h", "0.1.0")
    assert found.started == NOW - 10.0
    assert found.updated == NOW + 13
    assert found.overhead_ratio == pytest.approx(0.002)
    assert (found.overhead_us_per_step, found.dropped) == (pytest.approx(12.5), 3)
    assert found.steps_per_second == pytest.approx(4.0)
    assert found.eta_seconds is None
    assert (found.attempts, found.writers) == (1, 1)


@pytest.mark.parametrize(
    ("calls", "stolen", "expected"),
    [
        ([0.001, 0.003], [[1.0, 4.0]], (0.042, 0.04)),
        ([0.002], [[4.0], [None, 6.0]], (0.102, 0.1)),  # of two attempts
        ([], [[4.0]], (0.04, 0.04)),
        ([0.002], [], (0.002, None)),
        ([0.002], [[None]], (0.002, None)),
        ([0.002], [[0.0]], (0.002, 0.0)),
        ([], [], (None, None)),
    ],
)
def test_recording_costs_hold_the_profiles(tmp_path, calls, stolen, expected):
    for attempt in range(max(1, len(stolen))):
        writer = EventWriter(tmp_path / "a", clock=lambda: NOW)
        write_info(writer, status="running", started=NOW)
        for at, ratio in enumerate(calls if attempt == 0 else []):
            writer.scalar("stepscope/overhead_ratio", ratio, at, NOW + at)
        for at, seconds in enumerate(stolen[attempt] if stolen else []):
            cost = {} if seconds is None else {"run_stolen_seconds": seconds}
            write_info(writer, tag="stepscope/profile", name=f"p{at}", cost=cost)
        writer.scalar("loss", 1.0, 10 * attempt + 9, NOW + 100)
        writer.close()
    found = summary(tmp_path)
    approx = [None if each is None else pytest.approx(each) for each in expected]
    assert [found.overhead_ratio, found.profiles_ratio] == approx


def test_what_recording_costs_a_step_and_its_share_of_the_time_are_of_the_same_reports(tmp_path):
    """First a report of ten slow steps, then nineteen of a hundred quick ones, of which the newest is one."""
    writer = EventWriter(tmp_path / "a", clock=lambda: NOW)
    for at, (ratio, per_step_us) in enumerate([(0.48, 240_000.0), *[(0.001, 50.0)] * 19]):
        writer.scalar("stepscope/overhead_ratio", ratio, 10 + 100 * at, NOW + 5 + 5 * at)
        writer.scalar("stepscope/overhead_us_per_step", per_step_us, 10 + 100 * at, NOW + 5 + 5 * at)
    writer.close()
    found = summary(tmp_path)
    seconds, steps = 5 * (0.48 + 19 * 0.001), 10 + 19 * 100
    assert found.overhead_ratio == pytest.approx(seconds / 100)
    assert found.overhead_us_per_step == pytest.approx(1e6 * seconds / steps)


@pytest.mark.parametrize(
    ("unit", "scale", "wait", "expected"),
    [("_ms", 1e-3, "speed/data_wait_ms", 0.004), ("_s", 1.0, None, None), ("", 1.0, None, None)],
)
def test_the_step_time_is_the_median_of_the_newest_65_points(tmp_path, unit, scale, wait, expected):
    writer = EventWriter(tmp_path / "a", clock=lambda: NOW)
    for step in range(200):
        took = 0.3 if step >= 160 else 0.1
        writer.scalar(f"speed/step_time{unit}", (3.0 if step == 180 else took) / scale, step, NOW + step)
        if wait:
            writer.scalar(wait, 4.0 if step < 199 else float("nan"), step, NOW + step)
    writer.close()
    found = summary(tmp_path).step_time
    assert found.seconds == pytest.approx(0.3)
    assert found.wait_s == (expected and pytest.approx(expected))


def test_another_tools_run_says_none_for_what_it_did_not_record(tmp_path):
    writer = EventWriter(tmp_path / "a", clock=lambda: NOW)
    writer.scalar("loss", 1.0, 5, NOW)
    writer.close()
    found = summary(tmp_path)
    nothing = (
        "total_steps", "overhead_ratio", "profiles_ratio", "overhead_us_per_step", "dropped",
        "steps_per_second", "step_time", "eta_seconds", "eta_between", "host", "version",
    )  # fmt: skip
    assert {name: getattr(found, name) for name in nothing} == dict.fromkeys(nothing)
    assert (found.labels, found.config) == ([], {})


def test_speed_and_time_left_of_a_running_run(tmp_path):
    end = time.time()
    writer = EventWriter(tmp_path / "a", clock=lambda: end)
    write_info(writer, status="running", total_steps=1000)
    for step in range(500):
        # The first half runs at a quarter of the speed, which must not count.
        writer.scalar("loss", 1.0, step, end - 312.25 + (step if step < 250 else 250 + (step - 250) / 4))
    writer.close()
    found = summary(tmp_path, now=end)
    assert found.state == "running"
    assert found.steps_per_second == pytest.approx(4.0)
    assert found.eta_seconds == pytest.approx(500 / 4)
    assert found.eta_between == pytest.approx([125, 125])


def test_the_home_directory_is_not_told(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    log = store.open(tmp_path, cache=False)
    problem = store.Problem("cache", 1, "/home/someone/.cache/stepscope", "cannot be kept")
    assert [each.file for each in problems_of([problem], log)] == ["~/.cache/stepscope"]


def test_many_problems_are_cut_off_and_counted(tmp_path):
    log = store.open(tmp_path, cache=False)
    found = problems_of([store.Problem("x", 1, None, "y")] * 1000, log)
    assert (len(found), found[-1].count, found[-1].text) == (101, 900, "900 more problems")


def test_files_with_problems_are_named_from_the_log_directory(tmp_path):
    write_series(tmp_path / "a", {"loss": [1.0]}, start=NOW)
    [path] = (tmp_path / "a").iterdir()
    body = bytearray(path.read_bytes())
    body[-6] ^= 0xFF
    path.write_bytes(body)
    problems = summary(tmp_path).problems
    assert problems
    assert {problem.file for problem in problems} == {f"a/{path.name}"}
    assert str(tmp_path) not in "".join(problem.text for problem in problems)


def test_an_experiment_that_comes_later_gives_charts_their_names(tmp_path):
    from tensorboard.plugins.hparams import summary_v2 as hp

    writer = EventWriter(tmp_path / "a", clock=lambda: NOW)
    writer.scalar("epoch_accuracy", 1.0, 5, NOW)
    writer.flush()
    log, notes = store.open(tmp_path, cache=False, load=False), Notes(tmp_path)
    feed = Feed(LogSummary("runs", "runs", "0", True, []))
    publish(feed, log, log.refresh(), notes, now=NOW)
    first = msgspec.json.decode(feed.since(None, now=NOW), type=Changes)
    assert [chart.title for chart in first.charts] == ["epoch_accuracy"]
    [declared] = hp.hparams_config_pb([], [hp.Metric("epoch_accuracy", display_name="Accuracy")]).value
    plugin = declared.metadata.plugin_data
    metadata = Metadata.of(plugin.plugin_name, plugin.content, data_class=declared.metadata.data_class)
    writer.event(Event(NOW, 0, summary=Summary([Value(declared.tag, metadata=metadata)])))
    writer.close()
    publish(feed, log, log.refresh(), notes, now=NOW)
    later = msgspec.json.decode(feed.since(first.cursor, now=NOW), type=Changes)
    assert [chart.title for chart in later.charts] == ["Accuracy"]


def test_a_metric_is_shown_in_the_unit_of_its_newest_values(tmp_path):
    writers = [EventWriter(tmp_path / name, clock=lambda: NOW) for name in "ab"]
    feed, notes = Feed(LogSummary("runs", "runs", "0", True, [])), Notes(tmp_path)
    log, cursor = store.open(tmp_path, cache=False), None
    steps = [
        ((3.0, 0.02), (1.0, "ms")),
        ((0.03, 0.02), None),  # a moment before it was 3 ms
        *[((0.03, 0.02), None)] * (RECENT - 2),
        ((0.03, 0.02), (1000.0, "µs")),
        ((5.0, 0.02), None),  # 5,000 µs still read well: nothing is sent again
        ((0.03, 41_000.0), (1e-3, "s")),
        ((0.03, math.nan), None),
    ]
    for step, (values, want) in enumerate(steps):
        for writer, value in zip(writers, values, strict=True):
            writer.scalar("data_wait_ms", value, step, NOW + step)
            writer.flush()
        publish(feed, log, log.refresh(), notes, now=NOW)
        answer = msgspec.json.decode(feed.since(cursor, now=NOW), type=Changes)
        cursor = answer.cursor
        shown = answer.charts and (answer.charts[0].measure.factor, answer.charts[0].measure.unit)
        assert shown == (want and pytest.approx(want)), step
    for writer in writers:
        writer.close()


@pytest.mark.parametrize(
    ("name", "title", "want"),
    [
        ("größe", None, None),
        ("größe", "mine", "mine"),
        ("a\u200bb", None, "a\\u200bb"),
        ("a", "b\u202ec", "b\\u202ec"),
    ],
)
def test_what_a_run_is_called_hides_nothing(name, title, want):
    assert shown_title(name, title) == want


def test_settings_that_name_the_runs_are_seeds_of_all_once_runs_repeat(tmp_path):
    """Which are is known of several runs: the ones that are there already are sent again."""
    log = store.open(tmp_path, cache=False)
    feed = Feed(LogSummary("log", "log", "0", True, []))

    def seeds_with(count):
        for at in range(len(feed.runs), count):
            writer = EventWriter(tmp_path / f"r{at}", clock=lambda: NOW)
            write_info(writer, config={"lr": at % 2, "io": {"out": f"out/{at}"}, "seed": at // 2})
            writer.close()
        changes = log.refresh()
        publish(feed, log, store.Changes(added=changes.added, complete=False), Notes(tmp_path), now=NOW)
        while_read = {tuple(entry.summary.seeds) for entry in feed.runs.values()}
        publish(feed, log, store.Changes(), Notes(tmp_path), now=NOW)
        return while_read, {tuple(entry.summary.seeds) for entry in feed.runs.values()}

    assert seeds_with(4) == ({("seed",)}, {("seed",)})
    assert seeds_with(8) == ({("seed",)}, {("io.out", "seed")})


def test_charts_are_not_made_anew_because_one_run_of_many_has_small_values(tmp_path, monkeypatch):
    writers = [EventWriter(tmp_path / name, clock=lambda: NOW) for name in "ab"]
    feed, notes, made = Feed(LogSummary("runs", "runs", "0", True, [])), Notes(tmp_path), []
    log = store.open(tmp_path, cache=False)
    monkeypatch.setattr(
        "stepscope.serve.summary.charts", lambda *asked: made.append(asked) or store.charts(*asked)
    )
    for step in range(4):
        for writer, value in zip(writers, (0.01, 250.0), strict=True):
            writer.scalar("data_wait_ms", value, step, NOW + step)
            writer.flush()
        publish(feed, log, log.refresh(), notes, now=NOW)
    for writer in writers:
        writer.close()
    assert len(made) == 1  # for the new tag
