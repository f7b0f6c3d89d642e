"""The change log: groups, their order and their sentences."""

import numpy as np
import pytest

from stepscope.health.changes import Event, RecordedSeries, change_log, only_in

COUNT = 1000


def noise(seed, scale=0.02):
    return scale * np.random.default_rng(seed).normal(size=COUNT)


def series(tag, values, every=1):
    steps = np.arange(len(values)) * every
    return RecordedSeries(tag, steps, np.asarray(values), 1000.0 + steps)


def after(step, low, high, every=1):
    return np.where(np.arange(0, COUNT, every) < step, low, high)


def broken_by_its_rate():
    evaluations = after(500, 0.9, 0.1, 40) + 0.01 * np.random.default_rng(9).normal(size=25)
    return [
        series("val/accuracy", evaluations, 40),
        series("train/grad_norm", after(501, 1.0, 40.0) * (1 + noise(1))),
        series("train/loss", after(501, 0.4, 2.3) + noise(2)),
        series("lr", after(500, 1e-3, 0.1)),
    ]


def test_a_rate_and_its_consequences_are_one_group_and_the_rate_leads():
    [group] = change_log(broken_by_its_rate())
    assert [each.tag for each in group.changes] == ["lr", "train/grad_norm", "train/loss", "val/accuracy"]
    assert group.text.startswith("step 500: lr 0.001 → 0.1; train/grad_norm ")
    assert group.main
    assert group.first_step == group.last_step == 500


@pytest.mark.parametrize(
    ("recorded", "texts"),
    [
        ([series("train/loss", 2 * np.exp(-np.arange(COUNT) / 200) + noise(0))], []),
        ([series("perte", np.where(np.arange(COUNT) < 600, 1.0, np.nan))], ["step 600: perte is not finite"]),
        ([series("lr", 1e-3 * np.cos(np.arange(COUNT) / 700))], []),
        (
            [series("lr", 0.5 ** np.minimum(np.arange(COUNT) // 100, 5))],
            ["step 100: lr 1 → 0.0312, changed 5 times from step 100 to step 500"],
        ),
        (
            [series("lr", after(500, 1.0, 0.1))],
            ["step 500: lr 1 → 0.1"],
        ),
        (
            [series("train/loss", noise(1)), series("val/loss", noise(2)[:20])],
            ["step 19: val/loss stops: it has no later points"],
        ),
        (
            [
                series(
                    "val/score",
                    after(500, 0.99224, 0.99219) + 1e-7 * np.random.default_rng(0).normal(size=COUNT),
                )
            ],
            ["step 500: val/score 0.99224 → 0.99219"],
        ),
        (
            [series("speed/step_time_ms", after(500, 0.00146, 0.00246) + 1e-5 * noise(0))],
            ["step 500: speed/step_time_ms 1.46 → 2.46 µs"],
        ),
        (
            [series("gpu/used_ratio", after(500, 0.5, 0.9) + 0.001 * noise(0))],
            ["step 500: gpu/used_ratio 50 → 90 %"],
        ),
        (
            [series("speed/steps_per_second", after(500, 400.0, 200.0) + noise(0))],
            ["step 500: speed/steps_per_second 400 → 200"],
        ),
        ([series("activations/conv/max", after(500, 1.0, 9.0) + noise(0))], []),
    ],
)
def test_single_facts(recorded, texts):
    assert [group.text for group in change_log(recorded)] == texts


RISE = np.arange(1, 101) / 1e5
COSINE = 5e-4 * (1 + np.cos(np.pi * np.arange(900) / 900))


@pytest.mark.parametrize(
    ("rates", "texts"),
    [
        (
            [np.full(100, 0.1), np.full(400, 1e-3), np.full(500, 1e-4)],
            ["step 100: lr 0.1 → 0.0001, changed 2 times from step 100 to step 500"],
        ),
        ([np.full(500, 1e-3), np.full(500, 1.001e-3)], ["step 500: lr 0.001 → 0.001001"]),
        ([np.full(1501, 1e-3), np.full(1600, 1e-4)], ["step 1,497 to 1,500: lr 0.001 → 0.0001"]),
        ([RISE, COSINE], []),
        ([np.linspace(1, 0, 1000)], []),
        (
            [np.tile(1e-4 + COSINE[::3], 3)],
            ["step 300: lr 0.0001 → 0.0011, changed 2 times from step 300 to step 600"],
        ),
        (
            [RISE, np.full(600, 1e-3), 1e-3 - np.arange(1, 301) / 3e5],
            ["step 99: lr stands still at 0.001", "step 700: lr falls from here on, from 0.001 to 0"],
        ),
        ([1e-4 + COSINE, np.full(500, 1e-4)], ["step 900: lr stands still at 0.0001"]),
        ([0.99 ** np.arange(500), 0.1 * 0.99 ** np.arange(500, 1000)], ["step 500: lr 0.00664 → 0.000657"]),
        ([np.exp(np.cumsum(noise(0, 0.05) * (noise(1) < 0)))], []),
    ],
)
def test_a_setting_changes_where_it_is_set_and_a_schedule_where_it_begins_and_ends(rates, texts):
    assert [group.text for group in change_log([series("lr", np.concatenate(rates))])] == texts


def test_an_attempt_comes_before_the_loss_that_it_sets_back():
    loss = series("train/loss", after(500, 0.3, 2.3) + noise(3))
    [group] = change_log([loss], [Event("attempt", "attempt 2 begins", 500, 1500.0)])
    assert group.text.startswith("step 500: attempt 2 begins; train/loss ")


def test_changes_far_apart_are_not_one_group_though_a_slow_one_overlaps_both():
    first, second = after(200, 0.0, 1.0), after(800, 0.0, 1.0)
    slow = np.maximum(np.arange(COUNT) - 400, 0) / 50
    groups = change_log(
        [
            series("a/loss", first + noise(1)),
            series("b/loss", second + noise(2)),
            series("c/loss", slow + noise(3)),
        ]
    )
    assert [[each.tag for each in group.changes] for group in groups] == [["a/loss"], ["c/loss"], ["b/loss"]]


def test_a_change_of_a_side_series_alone_is_no_main_group():
    [group] = change_log([series("whatever", after(500, 0.0, 1.0) + noise(0))])
    assert not group.main


def test_of_two_runs_the_changes_of_one_alone_are_left():
    both = change_log(broken_by_its_rate())
    fewer = change_log(broken_by_its_rate()[:2])
    assert only_in(both, both) == []
    assert only_in(fewer, both) == []
    [group] = only_in(both, fewer)
    assert [each.tag for each in group.changes] == ["lr", "train/loss"]


def test_single_values_that_come_again_are_one_change_and_others_none():
    steps = np.arange(1000)
    values = 0.3 + 2 * np.exp(-steps / 100) + 0.02 * np.random.default_rng(0).normal(size=1000)
    spiky = np.where(steps % 100 == 50, 9.0, values)
    (again,) = change_log([RecordedSeries("train/loss", steps[200:], spiky[200:], 1e9 + steps[200:])])
    assert (again.first_step, again.last_step) == (250, 250)
    assert "→ 9, the first of 8 times at equal distances, the last at step 950" in again.text
    once = np.where(np.isin(steps, (350, 470, 500, 731)), 9.0, values)
    assert change_log([RecordedSeries("train/loss", steps[200:], once[200:], 1e9 + steps[200:])]) == []


def test_a_slow_change_for_the_better_is_what_a_training_does_and_one_for_the_worse_is_logged():
    steps = np.arange(1, 401)
    turn = np.maximum(steps - 200, 0) / 200
    noise = 0.01 * np.random.default_rng(2).normal(size=400)
    groups = change_log(
        [
            RecordedSeries(tag, steps, 1 + sign * 0.5 * turn + noise, 1e9 + steps)
            for sign, tags in ((1, ("val/loss", "val/accuracy")), (-1, ("test/loss", "test/accuracy")))
            for tag in tags
        ]
    )
    logged = {each.tag: each.change.kind for group in groups for each in group.changes}
    assert logged == {"val/loss": "drift", "test/accuracy": "drift"}
