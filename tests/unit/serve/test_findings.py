"""What the health rules say of a run, as the page gets it."""

import json

import pytest
from support.records import write_scalars

from stepscope import health, store
from stepscope.analyze.advise import rules as advice
from stepscope.analyze.health.slow_rank import SLOW
from stepscope.health.finding import Finding
from stepscope.serve.findings import IN_PROFILE, FindingAnswers, finding_of
from stepscope.serve.reply import Refusal


def test_a_run_of_any_writer_is_judged(tmp_path):
    write_scalars(tmp_path / "a", [1.0, 0.5, float("nan"), 0.3])
    with store.open(tmp_path, cache=False) as log:
        answer = json.loads(FindingAnswers().answer("a", log))
    [finding] = answer["findings"]
    assert (answer["run"], answer["attempt"]) == ("a", 1)
    assert (finding["rule"], finding["step"], finding["values"]["value"]) == ("nonfinite-loss", 2, "NaN")
    assert finding["values"]["last_finite"] == 0.5
    abstained = {each["rule"]: each for each in answer["abstained"]}
    assert abstained["data-wait"]["title"] == "Waiting for data"


def test_what_a_part_of_a_run_recorded_counts_with_it(tmp_path):
    write_scalars(tmp_path / "a", [3.0 * 0.99**step for step in range(300)])
    write_scalars(tmp_path / "a" / "eval", [1.0, 2.0, float("inf")], "loss")
    with store.open(tmp_path, cache=False) as log:
        [finding] = json.loads(FindingAnswers().answer("a", log))["findings"]
    assert (finding["part"], finding["tag"], finding["step"]) == ("a/eval", "loss", 2)


def test_an_answer_is_kept_until_the_run_changes_and_a_while_longer(tmp_path):
    write_scalars(tmp_path / "a", [1.0, 0.5])
    now = 0.0
    answers = FindingAnswers(clock=lambda: now)
    with store.open(tmp_path, cache=False) as log:
        first = answers.answer("a", log)
        assert answers.answer("a", log) is first
        write_scalars(tmp_path / "a", [float("nan")] * 3)
        log.refresh()
        assert answers.answer("a", log) is first
        now = 3.0
        assert json.loads(answers.answer("a", log))["findings"]


def test_no_such_run(tmp_path):
    with store.open(tmp_path, cache=False) as log, pytest.raises(Refusal) as caught:
        FindingAnswers().answer("b", log)
    assert caught.value.status == 404
    with pytest.raises(Refusal):
        FindingAnswers().answer("b", None)


def test_a_run_that_has_only_parts_is_judged_under_its_name(tmp_path):
    write_scalars(tmp_path / "x" / "train", [1.0, 0.5, 0.4], "epoch_loss")
    write_scalars(tmp_path / "x" / "validation", [1.0, float("nan"), 0.4], "epoch_loss")
    with store.open(tmp_path, cache=False) as log:
        answer = json.loads(FindingAnswers().answer("x", log))
        assert [run.name for run in log.runs() if run.whole is run] == ["x/train"]
        with pytest.raises(Refusal):
            FindingAnswers().answer("x/test", log)
    [finding] = answer["findings"]
    assert (answer["run"], finding["part"], finding["step"]) == ("x", "x/validation", 1)


def test_a_finding_names_rules_of_advice_that_exist():
    assert {*IN_PROFILE} <= {*health.RULES, SLOW}
    assert {rule for rules in IN_PROFILE.values() for rule in rules} <= {*advice.RULES}


@pytest.mark.parametrize(
    ("rule", "stage", "expected"),
    [
        ("data-wait", "", ["input-bound"]),
        ("loss-spike", "data", []),
        (SLOW, "data", ["input-bound"]),
        (SLOW, "forward", [*IN_PROFILE[SLOW]]),
        (SLOW, "", [*IN_PROFILE[SLOW]]),
    ],
)
def test_rules_of_advice_that_say_the_same_of_a_step(rule, stage, expected):
    finding = Finding(
        rule, "high", "", "ranks wait in data", "ranks/stages", "", None, 2, 0, 1, 0.0, stage=stage
    )
    assert finding_of(finding).in_profile == expected
