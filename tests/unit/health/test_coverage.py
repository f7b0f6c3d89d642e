"""The verdict on a run: healthy only if the questions that matter are answered."""

from __future__ import annotations

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
        "nothing wrong found; not judged: whether it generalises",
    ),
    "a loss alone": (
        {"train/loss": SERIES["train/loss"]},
        "failed",
        "nothing wrong found; not judged: whether it generalises, whether its steps stay as fast",
    ),
    "nothing known": ({"a": SERIES["train/loss"]}, "", "not judged"),
    "steps that became longer, by whose work is not known": (
        {**SERIES, "speed/step_time_ms": (STEPS, np.where(STEPS < 600, 100, 400) + (STEPS % 2))},
        "",
        "nothing wrong found; not judged: whether its steps stay as fast",
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
    assert outcome(answers, state=state) == expected
    assert all(each.why for each in answers if each.answer != "yes")


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
