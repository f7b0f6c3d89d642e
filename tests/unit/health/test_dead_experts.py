"""Unused and overloaded experts, by shares of tokens and by how far weights move."""

from __future__ import annotations

import numpy as np

from stepscope.health import Monitor

STEPS = np.arange(60)


def judged(series):
    monitor = Monitor()
    for tag, values in series.items():
        monitor.take(tag, STEPS, np.asarray(values, float) * np.ones(60), 1e9 + STEPS)
    monitor.finish()
    verdict = monitor.verdict
    return [each for each in verdict.findings if each.rule == "dead-experts"], verdict


def loads(**shares):
    return judged({f"router/layer1/load/{name}": share for name, share in shares.items()})[0]


def test_an_expert_without_tokens_is_named():
    [found] = loads(a=0.5, b=0.499, c=0.001, d=0.0)
    assert (found.severity, found.step) == ("medium", 19)
    assert "layer1 expert c gets only 0.10% of the tokens" in found.summary
    assert len(found.also) == 1  # the other one


def test_an_overloaded_expert_is_of_low_severity():
    [found] = loads(**{f"e{number}": 0.06 for number in range(7)}, hot=0.58)
    assert found.severity == "low"
    assert found.summary == "layer1 expert hot gets 58.00% of the tokens"


def test_uneven_experts_are_left_alone():
    assert loads(a=0.5, b=0.3, c=0.15, d=0.05) == []


def test_a_pause_of_some_samples_is_left_alone():
    assert loads(a=1.0 - 0.1 * (STEPS % 10 == 0), b=0.1 * (STEPS % 10 == 0)) == []


def test_an_expert_whose_weights_stand_still_is_unused():
    moving, still = np.full(60, 1e-3), np.where(STEPS < 20, 1e-3, 1e-7)
    series = {f"updates/moe.experts.{number}.up.weight/weight_ratio": moving for number in range(3)}
    [found], verdict = judged({**series, "updates/moe.experts.3.up.weight/weight_ratio": still})
    assert found.step == 39
    assert "the weights of moe.experts.3 hardly moved" in found.summary
    assert [each.rule for each in verdict.findings] == ["dead-experts"]  # and no other rule blames its layers


def test_models_without_experts_are_not_judged():
    found, verdict = judged({"updates/layers.0.weight/weight_ratio": 1e-3})
    [said] = [each.missing for each in verdict.abstained if each.rule == "dead-experts"]
    assert found == []
    assert said == "not recorded: shares of tokens of the experts, as router/LAYER/load/EXPERT"
