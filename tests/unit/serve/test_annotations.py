import json

import pytest
from support.addresses import Addresses
from support.errors import raises

import stepscope as ss
from stepscope import store
from stepscope.serve.feed import Feed
from stepscope.serve.reply import Refusal
from stepscope.serve.summary import publish
from stepscope.serve.types import LogSummary
from stepscope.store.annotations import Notes


@pytest.fixture
def log(tmp_path):
    for name in ("a", "b"):
        with ss.Run(tmp_path / name, tags=["first"]) as run:
            run.scalar("loss", 1.0, 0)
    with store.open(tmp_path, cache=False) as log:
        yield log


@pytest.fixture
def annotations(log):
    return Addresses(log=log)


def everything(log):
    return store.Changes(changed={run.name: set(run.tags()) for run in log.runs()})


def post(annotations, endpoint, **body):
    return annotations.json(endpoint, body=json.dumps(body).encode())


def test_what_is_said_reaches_the_page(annotations, log):
    said = post(annotations, "run", run="a", title="Best", tags=["x"], archived=True, note="why", colour=3)
    assert said == {"run": "a", "title": "Best", "note": "why", "tags": ["x"], "archived": True, "colour": 3}
    feed, notes = Feed(LogSummary("l", "l", "0", exists=True, problems=[])), Notes(log.path)
    publish(feed, log, everything(log), notes, notes.refresh(), now=0.0)
    a, b = feed.runs["a"].summary, feed.runs["b"].summary
    assert (a.title, a.note, a.labels, a.archived, a.colour) == ("Best", "why", ["x"], True, 3)
    assert (b.title, b.note, b.labels, b.archived) == (None, "", ["first"], False)
    post(annotations, "run", run="a", title=None)
    publish(feed, log, store.Changes(), notes, notes.refresh(), now=0.0)
    assert feed.runs["a"].summary.title is None
    assert feed.runs["a"].summary.note == "why"


def test_a_note_on_a_step_reaches_the_page(annotations, log):
    assert post(annotations, "run/step", run="a", step=3, text=" why  so ") == {
        "run": "a", "step": 3, "text": "why so",
    }  # fmt: skip
    feed, notes = Feed(LogSummary("l", "l", "0", exists=True, problems=[])), Notes(log.path)
    publish(feed, log, everything(log), notes, notes.refresh(), now=0.0)
    assert [(each.step, each.text) for each in feed.runs["a"].summary.step_notes] == [(3, "why so")]
    assert feed.runs["b"].summary.step_notes == []
    assert post(annotations, "run/step", run="a", step=3, text="")["text"] == ""
    publish(feed, log, store.Changes(), notes, notes.refresh(), now=0.0)
    assert feed.runs["a"].summary.step_notes == []


def test_deleting_asks_twice_and_can_be_taken_back(annotations, log):
    with pytest.raises(Refusal, match="not confirmed"):
        annotations.ask("run/delete", body=b'{"run": "a", "confirm": "yes"}')
    [thrown] = post(annotations, "run/delete", run="a", confirm="a")["runs"]
    assert log.refresh().removed == ["a"]
    assert annotations.json("trash")["runs"] == [thrown]
    assert post(annotations, "trash/restore", id=thrown["id"]) == {"runs": []}
    assert log.refresh().added == ["a"]
    thrown = post(annotations, "run/delete", run="b", confirm="b")["runs"][0]
    assert post(annotations, "trash/empty", id=thrown["id"]) == {"runs": []}


def test_views(annotations):
    assert [
        view["name"] for view in post(annotations, "views/save", name="one", hash="#/scalars")["views"]
    ] == ["one"]
    assert annotations.json("views")["views"][0]["hash"] == "#/scalars"
    assert post(annotations, "views/forget", name="one") == {"views": []}


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("run", b"{", 400),
        ("run", b'{"run": "a", "hue": 1}', 400),
        ("run", b'{"run": "a", "note": null}', 400),
        ("run", b'{"run": "a", "colour": 13}', 400),
        ("run", b'{"run": "../x", "note": ""}', 404),
        ("run/step", b'{"run": "a", "step": -1, "text": "x"}', 400),
        ("run/step", b'{"run": "gone", "step": 1, "text": "x"}', 404),
        ("run/delete", b'{"run": "gone", "confirm": "gone"}', 404),
        ("trash/restore", b'{"id": "../.."}', 400),
        ("views/save", b'{"name": "", "hash": "#/x"}', 400),
        ("views/forget", b'{"name": "gone"}', 400),
    ],
)
def test_what_cannot_be_is_refused(annotations, name, body, status):
    with raises(Refusal, status=status):
        annotations.ask(name, body=body)


def test_a_directory_that_cannot_be_written(annotations, log):
    (log.path / ".stepscope").write_text("in the way")
    with raises(Refusal, status=409):
        annotations.ask("run", body=b'{"run": "a", "note": "x"}')
