import msgspec
import pytest

from stepscope.names.kinds import Measure
from stepscope.names.telling import Chart, ChartLine
from stepscope.reading import Progress
from stepscope.serve.feed import Feed
from stepscope.serve.types import Changes, LogSummary, RunSummary


def run(name, *, step=None):
    nothing = dict.fromkeys(RunSummary.__struct_fields__)
    lists = {"tags": [], "labels": [], "config": {}, "seeds": [], "problems": [], "step_notes": []}
    counts = {"attempts": 1, "writers": 1, "points": 0, "note": "", "archived": False, "colour": None}
    return RunSummary(
        **{**nothing, **lists, **counts, "name": name, "base": name, "state": "running", "step": step}
    )


LOSS = Chart(
    "loss",
    "loss",
    "loss",
    "",
    None,
    Measure(1.0, ""),
    (ChartLine("loss", None),),
    kind="loss",
    lower_is_better=True,
    split=None,
    role="loss",
    tier="learning",
    place=0,
    section_place=5,
    own_cost=False,
)


@pytest.fixture
def feed():
    return Feed(LogSummary("runs", "runs", "0", True, []))


def since(feed, cursor=None) -> Changes:
    return msgspec.json.decode(feed.since(cursor, now=5.0), type=Changes)


def test_the_first_answer_is_complete(feed):
    feed.publish(summaries=[run("a"), run("b")], dirty={"a": ["x"]}, charts=[LOSS])
    answer = since(feed)
    assert answer.reset
    assert answer.time == 5.0
    assert [summary.name for summary in answer.runs] == ["a", "b"]
    assert answer.dirty == {}, "who knows nothing has nothing to ask for again"
    assert answer.charts == [LOSS]
    assert answer.loading == Progress(0, 0, 0, 0)


def test_a_cursor_resumes_with_what_is_new(feed):
    feed.publish(summaries=[run("a"), run("b")], dirty={"a": ["x", "y"]}, charts=[LOSS])
    cursor = since(feed).cursor
    nothing = since(feed, cursor)
    assert (nothing.reset, nothing.runs, nothing.dirty, nothing.charts) == (False, [], {}, None)
    feed.publish(summaries=[run("b", step=3)], dirty={"b": ["x"]})
    feed.publish(dirty={"a": ["y"]})
    answer = since(feed, cursor)
    assert [(summary.name, summary.step) for summary in answer.runs] == [("b", 3)]
    assert answer.dirty == {"a": ["y"], "b": ["x"]}
    assert since(feed, answer.cursor).dirty == {}


def test_every_client_gets_everything_once_whatever_its_pace(feed):
    cursors = {"fast": since(feed).cursor, "slow": since(feed).cursor}
    seen = {"fast": [], "slow": []}
    for step in range(6):
        feed.publish(summaries=[run("a", step=step)], dirty={"a": [f"tag{step}"]})
        for name in ["fast", "slow"] if step % 3 == 2 else ["fast"]:
            answer = since(feed, cursors[name])
            cursors[name] = answer.cursor
            seen[name] += answer.dirty["a"]
    assert sorted(seen["fast"]) == sorted(seen["slow"]) == [f"tag{step}" for step in range(6)]


@pytest.mark.parametrize(
    "cursor", ["", "x", "x-1", "-", "-1", "{name}-999", "{name}-", "{name}--1", "{name}-1e3", "{name}-²"]
)
def test_an_unknown_cursor_starts_over(feed, cursor):
    feed.publish(summaries=[run("a")])
    answer = since(feed, cursor.format(name=feed.name))
    assert answer.reset
    assert [summary.name for summary in answer.runs] == ["a"]
    assert answer.removed == []


def test_a_restarted_server_starts_over(feed):
    feed.publish(summaries=[run("a")])
    restarted = Feed(feed.log)
    restarted.publish(summaries=[run("b")])
    answer = since(restarted, since(feed).cursor)
    assert answer.reset
    assert [summary.name for summary in answer.runs] == ["b"]


def test_a_removed_run_is_named_and_may_come_back(feed):
    feed.publish(summaries=[run("a"), run("b")], dirty={"a": ["x"]})
    cursor = since(feed).cursor
    feed.publish(removed=["a", "never"])
    answer = since(feed, cursor)
    assert (answer.removed, answer.dirty) == (["a"], {})
    assert since(feed).removed == []
    feed.publish(summaries=[run("a")])
    assert since(feed, cursor).removed == []
    assert [summary.name for summary in since(feed, cursor).runs] == ["a"]


def test_equal_charts_are_not_sent_again(feed):
    feed.publish(charts=[LOSS])
    cursor = since(feed).cursor
    feed.publish(charts=[LOSS])
    assert since(feed, cursor).charts is None
    feed.publish(charts=[])
    assert since(feed, cursor).charts == []


def test_who_knows_the_same_gets_the_same_body(feed, monkeypatch):
    from stepscope.serve import feed as module

    made, encoded = [], module.encoded
    monkeypatch.setattr(module, "encoded", lambda message: made.append(message) or encoded(message))
    feed.publish(summaries=[run("a")], dirty={"a": ["x"]})
    cursor = since(feed).cursor
    made.clear()
    for _ in range(20):
        since(feed)
        since(feed, cursor)
    assert len([each for each in made if isinstance(each, dict)]) == 1, "the first was made before"


def test_a_kept_body_is_not_given_when_something_is_new(feed):
    feed.publish(summaries=[run("a")])
    cursor = since(feed).cursor
    assert since(feed, cursor).loading is not None
    feed.loading = None
    assert since(feed, cursor).loading is None
    feed.log = msgspec.structs.replace(feed.log, exists=False)
    assert not since(feed, cursor).log.exists
    feed.publish(summaries=[run("b")])
    assert [each.name for each in since(feed, cursor).runs] == ["b"]
    assert json_time(feed, cursor, 7.0) == 7.0


def json_time(feed, cursor, now):
    return msgspec.json.decode(feed.since(cursor, now=now))["time"]
