"""What the page is told of captures, and what it may ask for."""

import json

import msgspec
import pytest
from support.addresses import Addresses
from support.errors import raises
from support.records import write_series

from stepscope import store
from stepscope.serve.reply import Refusal

FACTS = {
    "schema": 1, "name": "chief_rank0_step00000005", "rank": 0, "world_size": 1, "role": "chief",
    "backend": "torch", "format": "kineto", "steps": [5, 6], "cause": "schedule", "reason": "",
    "request": None, "path": "profiles/a.json.gz", "summary": "profiles/a.summary.json", "wall": 1.7e9,
    "bytes": 10, "cost": {"stolen_seconds": 0.5}, "dropped": {}, "notes": ["a note"], "memory": [],
    "before": [[4, 0.1, None]], "facts": {}, "failure": None,
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """A log directory with one run that has one profile."""
    directory = tmp_path / "a"
    write_series(directory, {"loss": [1.0]})
    folder = directory / "profiles"
    folder.mkdir()
    (folder / "a.json.gz").write_bytes(b"x")
    (folder / "a.profile.json").write_text(json.dumps(FACTS))
    (folder / "a.summary.json").write_text('{"parts": []}')
    return directory


@pytest.fixture
def log(run):
    with store.open(run.parent, cache=False) as opened:
        yield opened


def listed(log, run="a"):
    return Addresses(log=log).json("captures", run=run)


def asked(log, **body):
    return Addresses(log=log).json("capture", body=msgspec.json.encode(body))


def test_a_capture_is_listed_with_its_summary(log):
    answer = listed(log)
    (capture,) = answer["captures"]
    assert (answer["run"], answer["total"], answer["listens"]) == ("a", 1, False)
    assert capture["path"] == "a/profiles/a.json.gz"
    assert capture["summary"] == {"parts": []}
    assert (capture["steps"], capture["cost"], capture["notes"]) == (
        [5, 6],
        {"stolen_seconds": 0.5},
        ["a note"],
    )


def test_damaged_facts_are_shown_as_far_as_they_go(run, log):
    bad = {"rank": "zero", "steps": "all", "cost": 3, "failure": "no disk", "memory": None, "notes": [1]}
    (run / "profiles" / "b.profile.json").write_text(json.dumps(bad))
    (run / "profiles" / "c.profile.json").write_text("{")
    failed = next(each for each in listed(log)["captures"] if each["failure"])
    assert (failed["rank"], failed["steps"], failed["cost"], failed["notes"]) == (None, [], {}, ["1"])


def test_a_profile_elsewhere_has_no_address(run, log):
    (run / "profiles" / "a.profile.json").write_text(
        json.dumps({**FACTS, "path": str(run / "profiles" / "a.json.gz")})
    )
    assert listed(log)["captures"][0]["path"] is None


def test_only_the_newest_come_with_their_summaries(run, log):
    for number in range(8):
        facts = {**FACTS, "name": f"n{number}", "wall": 1.7e9 + 1 + number}
        (run / "profiles" / f"n{number}.profile.json").write_text(json.dumps(facts))
    answer = listed(log)
    assert [each["summary"] is not None for each in answer["captures"]] == [True] * 5 + [False] * 4
    (run / "profiles" / "a.profile.json").write_text(json.dumps({**FACTS, "cause": "alert"}))
    answer = listed(log)
    assert [each["summary"] is not None for each in answer["captures"]] == [True] * 5 + [False] * 3 + [True]


def test_why_a_profile_was_not_analysed_is_told(run, log):
    assert listed(log)["captures"][0]["not_analysed"] is None
    (run / "profiles" / "a.profile.json").write_text(json.dumps({**FACTS, "not_analysed": "too large"}))
    assert listed(log)["captures"][0]["not_analysed"] == "too large"


def test_a_request_is_left_in_the_run(run, log):
    request = asked(log, run="a", ranks=[0, 3], num_steps=4)["request"]
    facts = json.loads((run / "capture" / f"{request}.request.json").read_text())
    assert (facts["ranks"], facts["num_steps"], facts["by"]) == ([0, 3], 4, "the page")
    assert listed(log)["listens"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"run": "a", "ranks": "some"}', 400),
        (b'{"run": "a", "ranks": [-1]}', 400),
        (b'{"run": "a", "num_steps": 1000}', 400),
        (b'{"run": "nowhere"}', 404),
        (b'{"run": "../a"}', 404),
        (b'{"run": "/etc"}', 404),
    ],
)
def test_what_cannot_be_asked_is_refused_and_leaves_nothing(run, log, body, status):
    with raises(Refusal, status=status):
        Addresses(log=log).ask("capture", body=body)
    assert not (run / "capture").exists()


def test_a_run_that_cannot_be_written_is_a_conflict(run, log):
    (run / "capture").write_text("a file")
    with raises(Refusal, status=409):
        asked(log, run="a")


@pytest.mark.parametrize("query", [[], [("run", "a"), ("x", "1")]])
def test_queries_that_are_none_are_refused(log, query):
    with pytest.raises(Refusal, match=r"no run given|unknown parameter 'x'"):
        Addresses(log=log).ask("captures", query)


def test_before_anything_was_read_there_is_no_run():
    with pytest.raises(Refusal, match="nothing has been read yet"):
        Addresses().ask("captures", run="a")


def test_a_request_is_followed_from_asking_to_the_profile(log, run):
    request = asked(log, run="a", ranks="all")["request"]

    def progress():
        answer = Addresses(log=log).json("captures", run="a", request=request)
        return answer["asked"], [one["request"] for one in answer["captures"]]

    assert progress() == ({"request": request, "at_step": None, "replies": []}, [None])
    (run / "capture" / f"{request}.plan.json").write_text('{"at_step": 42}')
    (run / "capture" / f"{request}.rank1.json").write_text('{"status": "refused", "at_step": 42}')
    (run / "capture" / f"{request}.rank0.json").write_text('{"status": "taken", "at_step": 42}')
    said, _ = progress()
    assert said["at_step"] == 42
    assert said["replies"] == [{"rank": 0, "status": "taken"}, {"rank": 1, "status": "refused"}]
    (run / "profiles" / "b.json.gz").write_bytes(b"x")
    made = {**FACTS, "name": "b", "path": "profiles/b.json.gz", "request": request}
    (run / "profiles" / "b.profile.json").write_text(json.dumps(made))
    assert request in progress()[1]


@pytest.mark.parametrize("request_id", ["../x", "", "zz", "a" * 40])
def test_a_request_that_cannot_be_is_refused(log, request_id):
    with raises(Refusal, status=400):
        Addresses(log=log).ask("captures", run="a", request=request_id)


@pytest.mark.slow
def test_captures_of_a_run_that_has_only_parts_are_found_under_its_name(run):
    run.rename(run.parent / "train")
    write_series(run.parent / "validation", {"loss": [1.0]})
    above = run.parent.rename(run.parent.with_name("job"))
    with store.open(above.parent, cache=False) as log:
        assert [each["name"] for each in listed(log, "job")["captures"]] == [FACTS["name"]]
