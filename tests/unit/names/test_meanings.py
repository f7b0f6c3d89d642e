"""One correction of a tag holds for every reader: health, charts, ls, comparison, page, live rules, ranks."""

import json
import math

import pytest
from support.addresses import Addresses

import stepscope as ss
from stepscope import store
from stepscope.cli.ls import last_values, run_facts
from stepscope.errors import UsageError
from stepscope.health.series import stream_of
from stepscope.names.meanings import Correction, Meanings, StoredMeanings, correction_of, meanings_at
from stepscope.serve.feed import Feed
from stepscope.serve.health import losses_of, report_of
from stepscope.serve.reply import Refusal
from stepscope.serve.summary import publish
from stepscope.serve.types import LogSummary
from stepscope.store.annotations import Notes, correct

LOSS, PART, SCORE = ("loss", "loss", True), ("part_loss", "loss", True), ("metric", "score", False)
TABLE = {
    # tag, correction: role, kind, lower is better; split of the chart; split that the rules judge
    ("loss", ""): (LOSS, None, "train"),
    ("objective", ""): (("loss", "other", None), None, "train"),
    ("objectif", ""): (("loss", "other", None), None, "train"),
    ("objective", "loss"): (LOSS, None, "train"),
    ("zebra", "loss"): (LOSS, None, "train"),
    ("zebra", "kind:loss"): (LOSS, None, "train"),
    ("zebra", "loss,eval"): (LOSS, "eval", "eval"),
    ("zebra", "part_loss"): (PART, None, None),
    ("zebra", "score"): (SCORE, None, None),
    ("zebra", "metric test"): (SCORE, "test", "eval"),
    ("zebra", "learning_rate"): (("learning_rate", "schedule", None), None, None),
    ("loss", "norm"): ((None, "norm", None), None, None),
    ("loss", "role:none"): ((None, "loss", True), None, None),
    ("loss", "part_loss"): (PART, None, None),
    ("train/loss", "split:eval"): (LOSS, "eval", "eval"),
    ("test/loss", "split:none"): (LOSS, None, "train"),
    ("accuracy", "kind:loss"): (("metric", "loss", True), None, None),
    ("train/mae", "score"): (("metric", "score", False), "train", "train"),
    ("train/mse", ""): (LOSS, "train", "train"),
    ("eval/mse", ""): (("metric", "loss", True), "eval", "eval"),
    ("train/kl_penalty", ""): ((None, "loss", True), "train", "train"),
    ("gradients/norm", "ratio"): (("gradient_norm", "ratio", None), None, None),
}


def record(place, tag):
    """Record a series that becomes NaN, on one rank of two; return the rules that found it, and a stop."""
    hook, stop = ss.HealthHook(severity="info", stall=False), ss.NanHook(action="stop")
    with ss.Run(place, hooks=[hook, stop], rank=0, world_size=2) as run:
        for step in run.steps(range(8)):
            run.scalar(tag, 7.0 if step < 7 else math.nan)
    found = {finding.rule for finding in hook.findings if finding.tag == tag}
    return found | {"stop"} if run.stop_reason else found


@pytest.mark.parametrize(("tag", "said"), TABLE)
@pytest.mark.parametrize("key", ["the tag", "a pattern"])
def test_all_readers_agree(tmp_path, tag, said, key):
    (role, kind, lower), split, judged = TABLE[tag, said]
    if said:
        facts = correction_of(tag, said)
        pattern = tag if key == "the tag" else f"{tag[:-2]}*"
        correct(tmp_path, pattern, kind=facts.kind, role=facts.role, split=facts.split)
    live = record(tmp_path / "a", tag)
    with store.open(tmp_path, cache=False) as log:
        run = log.run("a")
        stream = stream_of(tag, meanings=log.meanings)
        report = report_of(log, run)
        [chart] = [each for each in store.charts(log) if each.id == tag]
        [shown] = [each for each in run_facts(run)["series"] if each["tag"] == tag]
        told = Addresses(log=log).json("meaning", tag=tag)
        losses = losses_of(run, log.meanings)
        rank = run.ranks.members()[0]
    of_loss = {"nonfinite-loss"} if role in ("loss", "part_loss") else set()
    assert live & {"nonfinite-loss"} == of_loss
    assert ("stop" in live) == (kind == "loss" if said else "loss" in tag)
    afterwards = {each.rule for each in report.verdict.findings if each.tag == tag}
    assert afterwards & {"nonfinite-loss"} == of_loss
    assert (stream.role, stream.split) == (role or "other", judged)
    assert (role or "other") in report.recorded | {"other"}
    assert (chart.kind, chart.lower_is_better, chart.lines[0].split) == (kind, lower, split)
    assert (shown["kind"], shown["role"], shown["split"]) == (kind, role, split)
    assert (told["kind"], told["role"], told["split"], told["lower_is_better"]) == (kind, role, split, lower)
    assert (tag in losses) == (role == "loss")
    trained = split in (None, "train") and (role == "loss" or (role == "part_loss" and "loss" in tag))
    assert (rank.digest.nonfinite, rank.digest.loss is not None) == (1, trained)


def test_the_evidence_names_the_correction_and_the_name(tmp_path):
    correct(tmp_path, "held/*", split="eval")
    correct(tmp_path, "held/objective", role="loss")
    told = meanings_at(tmp_path).described("held/objective")
    assert told.evidence == {
        "role": "corrected for held/objective", "split": "corrected for held/*", "kind": "its corrected role"
    }  # fmt: skip
    assert told.role_text == "a loss, as train/loss"
    named = meanings_at(tmp_path).described("val_loss")
    assert (named.evidence, named.because) == (
        dict.fromkeys(("role", "split", "kind"), "its name"),
        "its name",
    )
    assert meanings_at(tmp_path).described("zebra").because == ""
    assert meanings_at(tmp_path).described("zebra", "eval").because == "the run's name"


def test_the_nearest_statement_counts():
    meanings = Meanings({"*": "eval", "a/*": "loss", "a/b": "split:train", "a/b*c": "part_loss"})
    found = {tag: meanings.role(tag) for tag in ("a/b", "a/x", "a/bc", "b")}
    assert (found["a/b"].role, found["a/b"].split) == ("loss", "train")
    assert (found["a/x"].role, found["a/x"].split) == ("loss", "eval")
    assert (found["a/bc"].role, meanings.part("b"), found["b"]) == ("part_loss", "eval", None)
    more = meanings.corrected({"a/b": "metric"})
    assert (more.role("a/b").role, more.role("a/b").split) == ("metric", "train")


def test_no_pattern_means_the_series_of_stepscope_itself():
    meanings = Meanings({"*": "metric eval", "*loss": "part_loss"})
    assert meanings.role("ranks/loss").role == "rank_loss"
    assert meanings.role("stepscope/overhead_ratio") is None
    assert meanings.kind("stepscope/overhead_ratio") == "ratio"


def test_the_star_of_a_pattern_is_the_layer():
    meanings = Meanings({"g/*/size": "layer_gradient", "aux/*": "loss"})
    assert meanings.role("g/fc.1/size").layer == "fc.1"
    assert meanings.role("aux/x").layer is None


@pytest.mark.parametrize("words", ["colour", "role:colour", "split:dev", "kind:loss:x", ""])
def test_words_that_mean_nothing(words):
    with pytest.raises(UsageError):
        Meanings({"x": words})


def test_a_correction_holds_below_its_directory_and_reaches_an_open_log(tmp_path):
    record(tmp_path / "team" / "a", "zebra")
    with store.open(tmp_path / "team", cache=False) as log:
        assert [chart.kind for chart in store.charts(log) if chart.id == "zebra"] == ["other"]
        generation = log.generation
        correct(tmp_path, "zebra", role="loss")
        assert (log.refresh().meanings, log.generation) == (True, generation + 1)
        assert not log.refresh()
        assert last_values(log.run("a")).startswith("zebra ")
        correct(tmp_path / "team", "zebra", role="metric")
        log.refresh()
        assert [chart.kind for chart in store.charts(log) if chart.id == "zebra"] == ["score"]
    tmp_path.chmod(0o777)
    correct(tmp_path / "team", "zebra", role=None)
    assert meanings_at(tmp_path / "team").role("zebra") is None


def test_files_that_hold_no_correction(tmp_path):
    folder = tmp_path / ".stepscope" / "metrics"
    folder.mkdir(parents=True)
    for name, text in {
        "a": '{"tag": "a", "kind": "colour"}', "b": "{", "c": '["c"]', "d": '{"tag": "d", "role": ["loss"]}'
    }.items():  # fmt: skip
        (folder / f"{name}.json").write_text(text)
    stored = StoredMeanings(tmp_path)
    assert not stored.refresh()
    assert stored.meanings == Meanings()
    correct(tmp_path, "zebra", kind="latency", split="eval")
    assert stored.refresh()
    assert stored.meanings.corrections == {"zebra": Correction("latency", None, "eval")}
    assert correct(tmp_path, "zebra", kind=None) == Correction(None, None, "eval")
    assert not correct(tmp_path, "zebra", split=None)
    assert stored.refresh()
    assert not stored.meanings.corrections


def test_a_correction_reaches_the_page(tmp_path):
    record(tmp_path / "a", "loss")
    with store.open(tmp_path, cache=False, load=False) as log:
        addresses = Addresses(log=log)
        feed, notes = Feed(LogSummary("l", "l", "0", exists=True, problems=[])), Notes(log.path)
        publish(feed, log, log.refresh(), notes, now=0.0)
        told = json.loads(bytes(feed.charts))[0]
        assert (told["kind"], told["lower_is_better"], told["role"]) == ("loss", True, "loss")
        body = json.dumps({"tag": "loss", "kind": "norm"}).encode()
        assert addresses.json("meaning/correct", body=body)["correction"] == {
            "kind": "norm", "role": None, "split": None
        }  # fmt: skip
        publish(feed, log, log.refresh(), notes, now=0.0)
        told = json.loads(bytes(feed.charts))[0]
        assert (told["kind"], told["lower_is_better"]) == ("norm", None)
        with pytest.raises(Refusal, match="no kind 'colour'"):
            addresses.ask("meaning/correct", body=b'{"tag": "loss", "kind": "colour"}')
