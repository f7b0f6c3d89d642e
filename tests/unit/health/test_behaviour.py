"""Series whose names tell too little: what they are taken for, and where that is left open."""

import numpy as np
import pytest

from stepscope.health import Monitor

STEPS = np.arange(1000)
EVERY = np.arange(0, 1000, 25)
LOSS = 0.2 + 2 * np.exp(-STEPS / 150) + np.random.default_rng(1).normal(size=1000) * 0.02


def told(series):
    """Return rule, severity and sentence of the findings about the given series beside a loss that falls."""
    monitor = Monitor()
    for tag, values in {"train/loss": LOSS, **series}.items():
        steps = STEPS if len(values) == len(STEPS) else EVERY
        monitor.take(tag, steps, np.asarray(values, float), 1e9 + 0.1 * steps)
    monitor.finish()
    found = [each for each in monitor.verdict.findings if each.tag in series and each.severity != "info"]
    return [(each.rule, each.severity, each.summary) for each in found]


def learnt(seed=0, noise=0.01):
    """A share that rises as the loss falls, with the noise of few examples."""
    rise = 0.9 - 0.8 * np.exp(-EVERY / 150)
    return rise + np.random.default_rng(seed).normal(size=len(EVERY)) * noise


def lost(values, level):
    return np.where(EVERY < 600, values, level + 0.01 * np.sin(np.arange(len(EVERY)) * 1.7))


def test_a_score_is_known_by_its_rise_while_the_loss_falls():
    ((rule, severity, text),) = told({"val/q": lost(learnt(), 0.2)})
    assert (rule, severity) == ("evaluation-collapsed", "low")
    assert text.endswith("(taken as a score: it rose as the loss fell)")


def test_an_error_is_known_by_its_fall_while_the_loss_falls():
    ((rule, severity, text),) = told({"val/q": 40 * (1 - lost(learnt(), 0.2))})
    assert (rule, severity) == ("evaluation-collapsed", "low")
    assert text.endswith("(taken as an error: it fell as the loss fell)")


def test_the_same_metric_of_the_training_tells_the_better_end():
    never = 0.1 + 0.01 * np.sin(np.arange(len(EVERY)) * 1.7)
    assert told({"val/q": never}) == []
    ((rule, severity, text),) = told({"train/q": learnt(2), "val/q": never})
    assert (rule, severity) == ("evaluation-unlike-training", "low")
    assert "taken as a score" in text


def test_a_score_that_never_leaves_0_is_told_unless_its_name_is_a_count():
    ((rule, severity, _),) = told({"val/q": np.zeros(len(EVERY))})
    assert (rule, severity) == ("constant-output", "low")
    assert told({"val/num_skipped": np.zeros(len(EVERY))}) == []


@pytest.mark.parametrize(
    ("tag", "values"),
    [
        ("val/q", learnt()),
        ("val/q", np.where(EVERY < 600, 0.9 - 0.8 * np.exp(-EVERY / 150), 0.2)),  # a schedule has no noise
        ("q", lost(10 * learnt(), 2)),  # rare, but no share, and no name says that it is of other data
        ("q", np.repeat(lost(learnt(), 0.2), 25)),  # as often as the loss: a statistic of the training
        ("val/latency_ms", 40 * (1 - lost(learnt(), 0.2))),
        ("val/entropy", lost(learnt(), 0.2)),
        ("optimizer/q", lost(learnt(), 0.2)),
    ],
)
def test_what_is_not_clear_is_left_open(tag, values):
    assert told({tag: values}) == []


def test_a_taken_score_excuses_no_loss_that_rises():
    monitor = Monitor()
    loss = np.where(STEPS < 500, LOSS, LOSS + 0.02 * (STEPS - 500))
    monitor.take("train/loss", STEPS, loss, 1e9 + 0.1 * STEPS)
    monitor.take("val/q", EVERY, learnt(), 1e9 + 0.1 * EVERY)
    monitor.finish()
    assert "loss-not-decreasing" in {each.rule for each in monitor.verdict.findings}


def test_a_loss_without_a_known_name_is_known_by_its_evaluation():
    rise = 0.3 + 2 * np.exp(-EVERY / 150) + 0.004 * np.maximum(EVERY - 300, 0)
    rise += np.random.default_rng(3).normal(size=len(EVERY)) * 0.01
    monitor = Monitor()
    monitor.take("train/J", STEPS, LOSS, 1e9 + 0.1 * STEPS)
    monitor.take("val/J", EVERY, rise, 1e9 + 0.1 * EVERY)
    monitor.finish()
    (found,) = [each for each in monitor.verdict.findings if each.severity != "info"]
    assert (found.rule, found.severity) == ("overfitting", "low")
    assert found.summary.endswith("(taken as a loss: its name is that of train/J, but for the data)")


def test_portions_make_no_difference():
    points = {"train/loss": (STEPS, LOSS), "val/q": (EVERY, lost(learnt(), 0.2))}
    verdicts = []
    for size in (1, 3, 40):
        monitor = Monitor()
        edges = [*np.linspace(0, 1000, size + 1).astype(int)[1:-1], np.inf]
        begin = 0.0
        for end in edges:
            for tag, (steps, values) in points.items():
                now = (steps >= begin) & (steps < end)
                monitor.take(tag, steps[now], values[now], 1e9 + 0.1 * steps[now])
            monitor.advance(1e9 + 0.1 * end)
            begin = end
        monitor.finish()
        verdicts.append([each.as_dict() for each in monitor.verdict.findings])
    assert verdicts[0]
    assert verdicts[0] == verdicts[1] == verdicts[2]
