"""The verdict on a run: healthy only if the questions that matter are answered."""

import numpy as np
import pytest

from stepscope.health import RULES, Monitor
from stepscope.health.coverage import DECIDING, NEEDED, QUESTIONS, coverage, outcome

STEPS = np.arange(1200)
LOSS = 0.3 + 2 * np.exp(-STEPS / 150) + np.random.default_rng(0).normal(0, 0.03, 1200)
RARE = STEPS[::50]
SERIES = {
    "train/loss": (STEPS, LOSS),
    "val/loss": (RARE, LOSS[::50] + 0.02),
    "val/accuracy": (RARE, 0.9 - LOSS[::50] / 10),
    "speed/step_time_ms": (STEPS, 100 + np.random.default_rng(1).normal(0, 1, 1200)),
    "speed/data_wait_ms": (STEPS, np.full(1200, 0.1)),
}
BROKEN = np.where(STEPS == 700, np.nan, LOSS)
CASES = {
    "all that matters": (SERIES, "", "healthy"),
    "it failed": (SERIES, "failed", "nothing wrong in its numbers before it failed"),
    "no evaluation": (
        {tag: SERIES[tag] for tag in ("train/loss", "speed/step_time_ms")},
        "",
        "nothing wrong found; not judged: generalisation",
    ),
    "a loss alone": (
        {"train/loss": SERIES["train/loss"]},
        "failed",
        "nothing wrong found; not judged: generalisation, step times",
    ),
    "a loss of ten epochs that falls": (
        {**SERIES, "train/loss": (RARE[:10], 2.3 * 0.8 ** np.arange(10))},
        "",
        "healthy",
    ),
    "a loss of ten epochs that falls by less than 2 %": (
        {**SERIES, "train/loss": (RARE[:10], 2.3 - 0.001 * np.arange(10))},
        "",
        "nothing wrong found; not judged: learning",
    ),
    "a loss of ten epochs that is noise": (
        {**SERIES, "train/loss": (RARE[:10], np.random.default_rng(2).normal(2, 0.5, 10))},
        "",
        "nothing wrong found; not judged: learning",
    ),
    "nothing known": ({"a": SERIES["train/loss"]}, "", "not judged"),
    "steps that became longer, by whose work is not known": (
        {**SERIES, "speed/step_time_ms": (STEPS, np.where(STEPS < 600, 100, 400) + (STEPS % 2))},
        "",
        "not steady: steps became slower since step 600",
    ),
    "a metric that was NaN for a while": (
        {
            "train/loss": SERIES["train/loss"],
            "val/f1": (RARE, np.where(RARE == 300, np.nan, 0.5)),
        },
        "",
        "nothing is wrong now; not judged: step times",
    ),
    "a loss of NaN": (
        {**SERIES, "train/loss": (STEPS[:720], BROKEN[:720])},
        "failed",
        "not finite: loss is not finite since step 700",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_called_healthy_only_if_it_is_known_to_be(name):
    series, state, expected = CASES[name]
    monitor = Monitor()
    for tag, (steps, values) in series.items():
        monitor.take(tag, steps, values, 1e9 + 0.1 * steps)
    monitor.finish()
    verdict = monitor.verdict
    answers = coverage(verdict.findings, verdict.passed, verdict.abstained)
    found = outcome(answers, verdict.findings, state=state)
    assert found.text == expected
    assert expected.startswith(found.short)
    assert not set(found.short) & set(":;")
    assert all(each.why for each in answers if each.answer != "yes")


@pytest.mark.parametrize(
    ("until", "learns"),
    [(720, "not judged"), (700, "yes"), (1200, "yes")],
    ids=["ends", "before", "recovers"],
)
def test_a_loss_that_ends_as_nan_does_not_tell_that_the_model_learns(until, learns):
    monitor = Monitor()
    for tag, (steps, values) in {**SERIES, "train/loss": (STEPS, BROKEN)}.items():
        few = steps < until
        monitor.take(tag, steps[few], values[few], 1e9 + 0.1 * steps[few])
    monitor.finish()
    verdict = monitor.verdict
    answers = {
        answer.question: answer for answer in coverage(verdict.findings, verdict.passed, verdict.abstained)
    }
    assert answers["learns"].answer == learns
    if learns != "yes":
        assert answers["learns"].why == "loss is not finite since step 700"


@pytest.mark.parametrize(
    ("gain", "learns", "why"),
    [(80, "yes", ""), (0, "not judged", "not judged: the return has not risen")],
    ids=["rises", "flat"],
)
def test_a_policy_learns_if_its_return_rises(gain, learns, why):
    noise = np.random.default_rng(4).normal(size=len(STEPS))
    monitor = Monitor()
    monitor.take(
        "rollout/ep_rew_mean", STEPS, 20 + gain * (1 - np.exp(-STEPS / 300)) + noise, 1e9 + 0.1 * STEPS
    )
    monitor.take("train/policy_loss", STEPS, 0.01 * noise, 1e9 + 0.1 * STEPS)
    monitor.finish()
    verdict = monitor.verdict
    (answer,) = (
        each
        for each in coverage(verdict.findings, verdict.passed, verdict.abstained)
        if each.question == "learns"
    )
    assert (answer.answer, answer.why) == (learns, why)


def test_what_an_evaluation_lacks_is_said_of_evaluations():
    monitor = Monitor()
    monitor.take("train/loss", STEPS, LOSS, 1e9 + 0.1 * STEPS)
    monitor.finish()
    lacking = {lack.rule: lack.missing for lack in monitor.verdict.abstained}
    assert lacking["overfitting"] == "not recorded: a loss of an evaluation, as eval/loss"
    assert lacking["series-stopped"].endswith("or metrics of an evaluation, as eval/accuracy")


def test_an_alert_that_holds_is_no_healthy_run():
    monitor = Monitor(alerts=["train/loss > 0.1"])
    for tag, (steps, values) in SERIES.items():
        monitor.take(tag, steps, values, 1e9 + 0.1 * steps)
    monitor.finish()
    verdict = monitor.verdict
    answers = coverage(verdict.findings, verdict.passed, verdict.abstained)
    assert outcome(answers, verdict.findings) == ("train/loss > 0.1", "train/loss > 0.1 since step 0")


def test_each_rule_belongs_to_one_question():
    rules = [rule for question in QUESTIONS.values() for rule in question]
    assert len(rules) == len(set(rules))
    assert set(RULES) <= set(rules)
    assert all(set(DECIDING[each]) <= set(QUESTIONS[each]) for each in QUESTIONS)
    assert set(NEEDED) < set(QUESTIONS)


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.applied], ids=lambda rule: rule.id)
def test_a_remedy_that_the_run_applies_is_part_of_the_action(rule):
    assert all(part in rule.action for part in rule.applied.values())


@pytest.mark.parametrize("clips", [False, True])
def test_a_run_that_clips_its_gradients_is_not_told_to(clips):
    monitor = Monitor()
    series = {"train/loss": BROKEN, **({"gradients/clipped_norm": np.ones(1200)} if clips else {})}
    for tag, values in series.items():
        monitor.take(tag, STEPS, values, 1e9 + 0.1 * STEPS)
    monitor.finish()
    found = next(each for each in monitor.verdict.findings if each.rule == "nonfinite-loss")
    assert ("clip gradients" in found.action) == (not clips)


def advice_of(rule, series, config):
    monitor = Monitor()
    monitor.configured(config)
    for tag, values in series.items():
        monitor.take(tag, np.arange(len(values)), values, 1e9 + 0.1 * np.arange(len(values)))
    monitor.finish()
    return next(each for each in monitor.verdict.findings if each.rule == rule).action


WAITS = {"speed/step_time_ms": np.full(300, 100.0), "speed/data_wait_ms": np.full(300, 60.0)}
IDLE = {"system/gpu0/utilization_ratio": np.full(100, 0.3)}
EVALS = np.arange(40) / 10
OVERFITS = {
    "train/loss": 2 * np.exp(-EVALS) + 0.01 * np.sin(np.arange(40)),
    "eval/loss": 1 + np.exp(-3 * EVALS) + 0.4 * EVALS,
}
FLAT = {"train/loss": np.r_[np.linspace(2, 1, 300), np.full(3000, 1.0)]}
ADVICE = [
    ("data-wait", WAITS, "in parallel", {"num_workers": 4}, {"num_workers": 0}),
    ("data-wait", WAITS, "num_workers", {"data": {"dataloader_num_workers": 2}}, {"data": {"batch_size": 8}}),
    ("gpu-underused", IDLE, "mixed precision", {"precision": "bf16-mixed"}, {"precision": "32-true"}),
    ("gpu-underused", IDLE, "mixed precision", {"args/fp16": True}, {"fp16": False}),
    ("overfitting", OVERFITS, "weight decay", {"optimizer": {"weight_decay": 0.1}}, {"weight_decay": 0.0}),
    ("overfitting", OVERFITS, "dropout", {"--attention-dropout": 0.1}, {}),
    (
        "plateau",
        FLAT,
        "if it was never changed",
        {"lr_scheduler_type": "cosine"},
        {"lr_scheduler_type": "constant"},
    ),
]


@pytest.mark.parametrize(("rule", "series", "advice", "does", "lacks"), ADVICE)
def test_advice_leaves_out_what_the_configuration_shows(rule, series, advice, does, lacks):
    assert advice in advice_of(rule, series, lacks)
    assert advice not in advice_of(rule, series, does)
    assert advice_of(rule, series, does)


def test_a_loss_scale_shows_mixed_precision():
    action = advice_of("gpu-underused", IDLE | {"amp/loss_scale": np.full(100, 1024.0)}, {})
    assert "mixed precision" not in action


def test_labels_that_are_wrong_are_not_advised_to_stop_early():
    at = np.arange(40)
    series = {"train/loss": 2.3 * np.exp(-at / 8), "eval/loss": 2.3 + at / 10 + 0.01 * np.sin(at)}
    monitor = Monitor()
    for tag, values in series.items():
        monitor.take(tag, at * 100, values, 1e9 + 10.0 * at)
    monitor.finish()
    told = [each for each in monitor.verdict.findings if each.severity != "info"]
    assert [each.rule for each in told] == ["evaluation-unlike-training"]
    assert "stop early" not in told[0].action
    assert "labels" in told[0].action
