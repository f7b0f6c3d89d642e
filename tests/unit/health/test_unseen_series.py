"""Series as users record them, and the sentences on them: said where they are true, and not elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from support.health_series import START, findings, found, noise

from stepscope.health import Monitor

STEPS = np.arange(1200)
NAN, INF = float("nan"), float("inf")


def falling(count=1200, *, to=0.3, by=2.0, over=150.0, seed=0, scale=0.03):
    """A loss that falls."""
    return to + by * np.exp(-np.arange(count) / over) + noise(count, scale, seed)


def every(steps, values):
    """Points so many steps apart, one second a step."""
    at = np.arange(1, len(values) + 1) * steps - 1
    return at, np.asarray(values, float), START + at


def of(rule, series):
    """What a rule says of some series."""
    return [each for each in findings(series) if each.rule == rule]


# --- loss scales -------------------------------------------------------------------------------------------


def halved(start, times, count=400, every_n=1):
    return start * 0.5 ** np.minimum(np.arange(count) // every_n, times)


@pytest.mark.parametrize(
    "scale",
    [
        halved(2.0**32, 17, every_n=2),  # each overflow is forgiven once
        halved(65536.0, 11),
        np.where(STEPS < 700, halved(2.0**32, 20, 1200), 2.0**13),
        halved(2.0**32, 24)[::8],
    ],
)
def test_the_search_for_a_first_loss_scale_is_no_collapse(scale):
    steps = np.arange(len(scale)) * (8 if len(scale) == 50 else 1)
    assert "loss-scale" not in found({"train/loss_scale": (steps, scale, START + steps)})


@pytest.mark.parametrize(
    ("scale", "step", "text"),
    [
        (halved(65536.0, 40), 17, "fell to 0.5 from 65,536"),  # none fits
        (np.concatenate([np.full(100, 65536.0), halved(65536.0, 11)]), 111, "fell to 32 from 65,536"),
        (np.concatenate([halved(2.0**32, 16, 100), halved(65536.0, 11)]), 111, "fell to 32 from 65,536"),
        (np.concatenate([np.full(3, 65536.0), [16.0] * 50]), 3, "fell to 16 from 65,536"),
    ],
)
def test_a_loss_scale_that_collapses_is_told(scale, step, text):
    [finding] = of("loss-scale", {"train/loss_scale": scale})
    assert finding.step == step
    assert finding.summary.endswith(text)


@pytest.mark.parametrize(
    ("skipped", "told"),
    [
        (np.minimum(STEPS, 22), []),  # the search from 2^38 down
        (np.minimum(STEPS // 10, 22), []),  # one in ten
        (np.minimum(STEPS, 90), [164]),  # none of 64 halves fits
        (np.minimum(STEPS, 22) + np.clip(STEPS - 300, 0, 30), [322]),
        (STEPS // 3, [100]),
    ],
)
def test_steps_that_the_search_for_a_first_scale_skips_are_no_collapse(skipped, told):
    assert [each.step for each in of("loss-scale", {"gradients/skipped_steps": skipped})] == told


# --- values that are not finite ----------------------------------------------------------------------------

EMPTY = np.where(np.random.default_rng(0).random(1200) < 0.2, NAN, 0.3)


@pytest.mark.parametrize(
    ("tag", "values", "text"),
    [
        ("train/loss_class_7", EMPTY, "train/loss_class_7 is NaN at step 2"),
        ("train/perplexity", np.where(STEPS < 5, INF, 3.0), "train/perplexity is infinite at step 0"),
        ("val/loss_boxes", np.where(STEPS == 60, NAN, 1.0), "val/loss_boxes is NaN at step 60"),
        ("eval/loss", np.where(STEPS == 60, NAN, 1.0), "the evaluation loss is NaN at step 60"),
    ],
)
def test_what_is_not_finite_beside_a_training_loss_is_named_and_breaks_nothing(tag, values, text):
    [finding] = of("nonfinite-loss", {"train/loss": falling(), tag: values})
    assert (finding.severity, finding.summary) == ("medium", text)
    assert "checkpoint" not in finding.action


def test_a_part_that_stays_finite_for_long_closes_its_finding():
    part = np.where(STEPS == 60, NAN, 0.3)
    [finding] = of("nonfinite-loss", {"train/loss": falling(), "train/loss_class_7": part})
    assert finding.closed_step == 160


def test_a_training_loss_that_is_not_finite_is_severe_and_told_beside_a_part():
    part, loss = EMPTY.copy(), falling()
    loss[900:] = NAN
    told = of("nonfinite-loss", {"train/loss": loss, "train/loss_class_7": part})
    assert [(each.severity, each.summary) for each in told] == [
        ("high", "the loss is NaN at step 900"),
        ("medium", "train/loss_class_7 is NaN at step 2"),
    ]
    assert "checkpoint" in told[0].action


def test_what_follows_a_training_loss_that_is_not_finite_is_not_told_again():
    loss = np.where(STEPS >= 900, NAN, falling())
    evaluation = every(100, np.where(np.arange(12) >= 9, NAN, 1.0))
    [finding] = of("nonfinite-loss", {"train/loss": loss, "eval/loss": evaluation, "train/ppl": np.exp(loss)})
    assert (finding.severity, finding.tag) == ("high", "train/loss")


def test_a_part_is_severe_where_no_training_loss_is_recorded():
    [finding] = of(
        "nonfinite-loss", {"loss/generator": np.where(STEPS >= 30, INF, 1.0), "loss/critic": falling()}
    )
    assert (finding.severity, finding.summary) == ("high", "loss/generator is infinite at step 30")


# --- losses that rise again --------------------------------------------------------------------------------

RARE = np.arange(120)
EPOCHS = np.arange(40)
FELL = 0.5 + 2 * np.exp(-RARE / 10)


def rare(values, steps=50, *, scale=0.05, seed=0):
    """A loss that is logged every so many steps."""
    return every(steps, values + noise(len(values), scale, seed))


RISES = {
    # tag, series, severity, earliest and latest since, latest step, words
    "slowly, logged every 50 steps": (
        "train_loss_step",
        rare(np.where(RARE < 60, FELL, 0.5 + 0.005 * np.exp((RARE - 60) / 8.0))),
        "medium",
        3049,
        4500,
        5500,
        "rose from 0.4",
    ),
    "to a level, logged every 50 steps": (
        "train_loss_step",
        rare(np.where(RARE < 60, FELL, 9.0)),
        "high",
        3049,
        3049,
        3249,
        "first 5 points is 2.1",
    ),
    "by epochs": (
        "epoch_loss",
        rare(
            0.5 + np.where(EPOCHS < 12, 2 * np.exp(-EPOCHS / 4), 0.3 * np.exp((EPOCHS - 12) / 2.5)),
            1,
            scale=0.02,
        ),
        "high",
        14,
        18,
        22,
        "first 5 points is 1.7",
    ),
    "below zero": (
        "train/loss",
        rare(np.where(RARE < 60, -1 - 2 * (1 - np.exp(-RARE / 10)), 5.0)),
        "high",
        3049,
        3049,
        3249,
        "rose to",
    ),
    "a language model, within 300 steps": (
        "train/loss",
        3.2
        + 7.6 * np.exp(-STEPS / 80) * (STEPS < 700)
        + np.where(STEPS < 700, 0, 4.3 * (1 - np.exp(-(((STEPS - 700) / 150.0) ** 2))))
        + noise(1200, 0.05),
        "medium",
        680,
        760,
        880,
        "rose from 3.1",
    ),
    "slowly, from where it was lowest": (
        "train/loss",
        np.where(STEPS < 600, falling(scale=0), falling(scale=0)[600] + (STEPS - 600) / 500)
        + noise(1200, 0.03),
        "medium",
        580,
        660,
        900,
        "in each of the last 8 blocks",
    ),
    "after a resumption": (
        "train/loss",
        (
            20_000 + STEPS,
            np.where(STEPS < 600, 0.4, 0.4 * np.exp((STEPS - 600) / 60.0)) + noise(1200, 0.01),
            START + STEPS,
        ),
        "high",
        20_600,
        20_760,
        20_800,
        "for 10 points in a row",
    ),
}


@pytest.mark.parametrize("name", RISES)
def test_a_loss_that_rises_again_is_told_since_it_rose(name):
    tag, series, severity, first, last, by, words = RISES[name]
    told = of("loss-not-decreasing", {tag: series})
    assert len(told) == 1
    assert (told[0].severity, words in told[0].summary) == (severity, True)
    assert first <= told[0].since <= last
    assert told[0].step <= by


CALM = {
    "logged every 50 steps": {"train_loss_step": rare(FELL)},
    "logged every 50 steps, noisy": {"train_loss_step": rare(0.5 + FELL, scale=0.4)},
    "by epochs, overfitted": {
        "loss": rare(2 * np.exp(-EPOCHS / 4), 1, scale=0.002),
        "val_loss": rare(0.6 + EPOCHS / 40, 1),
    },
    "below zero": {"train/loss": rare(1 - 4 * (1 - np.exp(-RARE / 10)))},
    "at the floor": {"train/loss": rare(1e-5 + np.exp(-RARE) + np.abs(noise(120, 1e-5)), scale=0)},
    "resumed, and warmed up again": {
        "train/loss": (
            20_000 + STEPS,
            2.8 + 0.12 * np.exp(-(((STEPS - 150) / 100.0) ** 2)) + noise(1200, 0.03),
            START + STEPS,
        )
    },
    "resumed every 50 steps": {
        "train/loss": (20_000 + RARE * 50, 2.8 + noise(120, 0.05), START + RARE * 50.0)
    },
    "harder inputs, as good an evaluation": {
        "train/loss": rare(np.where(RARE < 60, FELL, 0.5 + (RARE - 60) / 20)),
        "eval/accuracy": rare(0.9 - 0.8 * np.exp(-RARE / 10), scale=0.005),
    },
    "the temperature of a rate that cycles": {
        "train/loss": falling() + 0.2 * np.abs((STEPS % 400) / 200 - 1),
        "lr": 1e-3 * np.abs((STEPS % 400) / 200 - 1),
    },
    "an objective that is maximized": {
        "train/objective": -1200 + 1100 * (1 - np.exp(-STEPS / 200)) + noise(1200, 10)
    },
}


@pytest.mark.parametrize("name", CALM)
def test_a_loss_that_does_not_rise_is_left_alone(name):
    assert "loss-not-decreasing" not in found(CALM[name])


def test_a_loss_that_fell_too_steeply_to_be_noise_is_known_to_have_fallen():
    """Every tenth step of a language model: its first points are all different."""
    at = np.arange(300)
    loss = np.where(at < 200, 2.8 + 8 * np.exp(-at / 10), 11.5) + noise(300, 0.05)
    [finding] = of("loss-not-decreasing", {"lm loss": every(10, loss)})
    assert (finding.severity, finding.since) == ("high", 2009)
    assert "first 20 points" in finding.summary


@pytest.mark.parametrize(("grows", "told"), [(1.5, 1), (0.0, 0)])
def test_epochs_that_are_sorted_are_told_once_at_most(grows, told):
    """By length: the loss rises within each epoch, and begins below it again."""
    at = np.arange(2400)
    loss = (0.3 + 2 * np.exp(-at / 150)) * (1 + grows * (at % 200) / 200) + noise(2400, 0.03)
    assert found({"train/loss": loss}).count("loss-not-decreasing") == told
    diverges = np.where(at < 2000, loss, loss[2000] * np.exp(np.maximum(at - 2000, 0) / 60))
    assert found({"train/loss": diverges}).count("loss-not-decreasing") == told + 1


SCHEDULE = np.clip((STEPS - 300) / 600, 0, 1)


@pytest.mark.parametrize(
    ("tag", "values", "words"),
    [
        ("teacher_forcing_ratio", 1 - SCHEDULE, "teacher_forcing_ratio went from 0."),
        ("train/temperature", 4 - 3 * SCHEDULE, "train/temperature went from "),
        ("noise_level", SCHEDULE, "noise_level went from 0."),
        ("attack/epsilon", SCHEDULE, "attack/epsilon went from 0."),
        ("privacy/epsilon", SCHEDULE, None),
        ("lr", np.full(1200, 1e-3), None),
        ("temperature", 1 + noise(1200, 0.1), None),  # which is learnt, and wanders
    ],
)
def test_a_setting_that_moves_as_the_loss_rises_is_named(tag, values, words):
    loss = falling(over=60) + 1.5 * SCHEDULE
    [finding] = of("loss-not-decreasing", {"train/loss": loss, tag: values})
    assert finding.severity == ("low" if words else "medium")
    assert ("meanwhile" in finding.summary) == (words is not None)
    assert (words or "") in finding.summary


def test_a_rise_that_is_over_is_closed():
    loss = np.where((RARE < 60) | (RARE >= 80), FELL, 9.0)
    [finding] = of("loss-not-decreasing", {"train/loss": rare(loss)})
    assert 4049 <= finding.closed_step <= 4449


# --- losses that do not fall -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ({"train/grad_norm": np.zeros(300)}, "every gradient norm is 0"),
        (
            {
                f"weights/{name}/norm": (np.arange(30) * 10, np.full(30, 3.0), START + np.arange(30) * 10.0)
                for name in "ab"
            },
            "no weight norm has changed",
        ),
    ],
)
def test_what_shows_that_nothing_is_trained_is_told_early(beside, words):
    series = {"train/loss": 2.3 + noise(300, 0.1), "train/lr": np.full(300, 1e-3)}
    assert of("loss-not-decreasing", series) == []
    [finding] = of("loss-not-decreasing", {**series, **beside})
    assert (finding.step, finding.severity) == (119, "high")
    assert finding.summary.endswith(words)
    falls = {"train/loss": falling(300), "train/lr": np.full(300, 1e-3)}
    assert of("loss-not-decreasing", {**falls, **beside}) == []


def test_a_rate_of_0_is_told_of_a_loss_that_is_logged_rarely():
    loss, rate = rare(10.8 + 0 * RARE, 500), (RARE * 500 + 499, 0.0 * RARE, START + RARE * 500 + 499)
    [finding] = of("loss-not-decreasing", {"train/loss": loss, "train/learning_rate": rate})
    assert (finding.step, finding.severity) == (9999, "high")
    assert finding.summary.endswith("after 20 points; the learning rate is 0")
    warm = (rate[0], 1e-5 * np.minimum(1, (RARE + 1) / 100), rate[2])
    assert "loss-not-decreasing" not in found({"train/loss": loss, "train/learning_rate": warm})


def test_a_model_that_is_trained_further_falls_by_little():
    steps = np.arange(1000)
    loss = 2.085 + 0.02 * np.exp(-steps / 400) + noise(1000, 0.04, 1)
    series = {"train/loss": loss, "train/lr": np.full(1000, 1e-5)}
    [finding] = of("loss-not-decreasing", series)
    assert finding.severity == "low"
    assert finding.summary.endswith("it fell by only 0.5 %")
    [finding] = of("loss-not-decreasing", {**series, "train/accuracy": np.full(1000, 0.1)})
    assert finding.severity == "medium"
    [finding] = of("loss-not-decreasing", {**series, "train/loss": 2.3 + noise(1000, 0.04)})
    assert (finding.severity, "only" in finding.summary) == ("medium", False)


def test_a_loss_of_0_from_the_first_step_on_never_changes():
    [finding] = of("loss-not-decreasing", {"train/loss": np.zeros(300), "lr": np.full(300, 1e-3)})
    assert finding.summary.endswith("it never changes")
    assert found({"train/loss": np.zeros(300), "reward": np.arange(300.0)}) == []


@pytest.mark.parametrize(("learns", "told"), [(True, 0), (False, 20)])
def test_two_dozen_evaluations_say_whether_a_model_learns_of_which_the_loss_stands_still(learns, told):
    at, count = np.arange(24), 0
    for seed in range(20):
        accuracy = (0.2 + 0.5 * (1 - np.exp(-at / 6)) if learns else 0.1) + noise(24, 0.01, seed)
        series = {"train/loss": 0.5 + noise(1200, 0.01, seed), "train/lr": np.full(1200, 1e-3)}
        count += "loss-not-decreasing" in found({**series, "eval/accuracy": every(50, accuracy)})
    assert abs(count - told) <= 2


# --- what names mean ---------------------------------------------------------------------------------------

CLIMBS = np.where(STEPS < 600, falling(), falling()[600] * np.exp(np.minimum((STEPS - 600) / 60, 6)))


@pytest.mark.parametrize(
    "tags",
    [
        ("privacy/epsilon",),
        ("epsilon",),
        ("optimizer/epsilon",),
        ("attack/epsilon",),
        ("score",),
        ("train/f1_score", "eps"),
        ("val/explained_variance",),
        ("eval/adv_accuracy",),
        ("train/kd_loss", "train/kl_teacher"),
    ],
)
def test_a_name_that_means_something_else_hides_no_divergence(tags):
    beside = {tag: every(10, np.linspace(0.5, 0.6, 120)) for tag in tags}
    assert "loss-not-decreasing" in found({"train/loss": CLIMBS, **beside})


@pytest.mark.parametrize(
    "tags",
    [
        ("score", "eps"),
        ("avg_score", "epsilon"),
        ("mean_q", "score"),
        ("train/critic_loss",),
        ("elo",),
        ("rollout/return",),
        ("train/explained_variance",),
    ],
)
def test_losses_of_policies_need_not_fall_whatever_is_logged_beside_them(tags):
    beside = {tag: every(10, np.linspace(0.5, 0.6, 120)) for tag in tags}
    grows = 0.02 + 0.5 * (1 - np.exp(-STEPS / 800))
    loss = grows * np.random.default_rng(1).lognormal(0, 0.5, 1200)
    assert found({"loss": loss, **beside}) == []
    assert "loss-not-decreasing" in found({"loss": loss})


@pytest.mark.parametrize("private", [True, False])
def test_clipping_the_gradient_of_every_example_is_private_training(private):
    series = {
        "gradients/norm": 20 + noise(400, 1.0),
        "gradients/clipped_norm": np.ones(400),
        "train/loss": falling(400),
    }
    more = {"privacy/epsilon": 0.01 * np.sqrt(np.arange(400.0))} if private else {}
    assert ("clipping" in found({**series, **more})) != private


@pytest.mark.parametrize(
    ("tag", "better"),
    [
        ("eval/answer_accuracy", 1),
        ("eval/mape", -1),
        ("eval/wer", -1),
        ("eval/error_rate", -1),
        ("power/accuracy", 1),
    ],
)
def test_a_metric_that_improves_explains_a_loss_that_stands_still(tag, better):
    series = {"train/loss": 0.5 + noise(1200, 0.01), "train/lr": np.full(1200, 1e-3)}
    metric = 0.5 + 0.3 * better * (1 - np.exp(-np.arange(60) / 10))
    assert "loss-not-decreasing" not in found({**series, tag: every(20, metric)})
    assert "loss-not-decreasing" in found({**series, tag: every(20, metric[::-1])})


@pytest.mark.parametrize("tag", ["lm loss", "lm-loss-training/lm loss", "Training Loss", "total-loss"])
def test_a_loss_may_have_blanks_and_hyphens_in_its_name(tag):
    assert "loss-not-decreasing" in found({tag: CLIMBS})


@pytest.mark.parametrize(
    "tag", ["lm loss validation", "Validation Loss", "val-loss", "aux loss", "lm loss scale"]
)
def test_other_losses_with_blanks_and_hyphens_are_no_training_loss(tag):
    assert "loss-not-decreasing" not in found({tag: CLIMBS})


def test_an_evaluation_is_known_by_a_word_in_the_middle_of_its_name():
    diverges = 0.5 + 0.3 * np.exp(np.arange(1200) / 200)
    assert "loss-not-decreasing" not in found({"train/loss": falling(), "avg_val_loss": diverges})
    assert "loss-not-decreasing" in found({"train/loss": falling(), "avg_loss": diverges})


# --- memory ------------------------------------------------------------------------------------------------

MIB = 2.0**20
SAMPLES = np.arange(6000)


def in_use(mib):
    """Memory of a process, sampled every five seconds and steps."""
    return {
        "system/process/memory_bytes": (np.arange(len(mib)) * 5, mib * MIB, START + np.arange(len(mib)) * 5.0)
    }


BOUNDED = {
    "a cache that each epoch fills": 2000 + (SAMPLES % 60) * 12.0,
    "an evaluation now and then": 3000 + 2000.0 * (SAMPLES % 100 > 85),
    "an allocator that settles": 3000 + 120 * np.log1p(SAMPLES) + noise(6000, 3),
    "a random walk": 3000 + np.cumsum(noise(6000)),
}
LEAKS = {
    # MiB, latest sample at which it is told, and what it grew from
    "fast": (1024 + 5.0 * SAMPLES, 70, "from 1.17 GiB "),
    "slow beside what is in use": (4096 + SAMPLES + noise(6000, 2), 500, "from 4.1"),
    "very slow": (4096 + 0.2 * SAMPLES + noise(6000, 2), 5000, "from 4.1"),
    "above a cache that each epoch fills": (2000 + (SAMPLES % 60) * 12.0 + SAMPLES, 500, ""),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_memory_that_stays_within_bounds_does_not_creep(name):
    assert "memory-creep" not in found(in_use(BOUNDED[name]))


@pytest.mark.parametrize("name", LEAKS)
def test_memory_that_grows_without_bounds_is_told(name):
    mib, by, words = LEAKS[name]
    told = of("memory-creep", in_use(mib))
    assert told[0].step <= 5 * by
    assert words in told[0].summary


def test_a_leak_is_told_once_while_it_lasts_and_is_over_once_it_is_mended():
    [finding] = of("memory-creep", in_use(LEAKS["fast"][0]))
    assert finding.is_open
    [finding] = of("memory-creep", in_use(1024 + 5.0 * np.minimum(SAMPLES, 1000) + noise(6000, 2)))
    assert 5 * 1000 < finding.closed_step < 5 * 1200


# --- parts of a loss, and what is set by hand --------------------------------------------------------------

PART = 0.2 + 1.5 * np.exp(-STEPS / 100) + noise(1200, 0.02)
LATE = np.where(STEPS < 800, 0.0, 1.8 * np.exp(-(STEPS - 800) / 200) + np.abs(noise(1200, 0.03)))
JOINING = {
    "recorded from then on": (STEPS[800:], LATE[800:], START + STEPS[800:]),
    "recorded as 0 before": LATE,
}
RAISED = {"loss-spike", "loss-not-decreasing"}


@pytest.mark.parametrize("weight", [1, 20])
@pytest.mark.parametrize("name", JOINING)
def test_a_task_that_starts_late_raises_the_loss_and_is_no_fault(name, weight):
    parts = {"train/loss_a": PART, "train/loss_b": JOINING[name]}
    total = {"train/loss": PART + weight * LATE}
    assert not RAISED & set(found({**total, **parts}))
    assert set(found(total)) & RAISED


@pytest.mark.parametrize("begins", [400, 796, 1100])
def test_a_part_that_comes_in_at_another_time_explains_no_spike(begins):
    spiked = PART + np.where((STEPS >= 800) & (STEPS < 804), 4.0, 0)
    part = STEPS[begins:], np.full(1200 - begins, 0.1), START + STEPS[begins:]
    assert "loss-spike" in found({"train/loss": spiked, "train/loss_b": part})


def test_a_stage_with_another_part_that_diverges_is_told():
    diverges = LATE * np.exp(np.maximum(STEPS - 900, 0) / 60.0)
    parts = {"train/loss_a": PART, "train/loss_b": diverges}
    assert "loss-not-decreasing" in found({"train/loss": PART + diverges, **parts})


@pytest.mark.parametrize("part", [0.5 + noise(1200, 0.02), 0.5 * np.exp(np.maximum(STEPS - 800, 0) / 150)])
def test_a_rise_in_which_no_part_took_part_is_told_as_such(part):
    weight = np.minimum(1, np.maximum(STEPS - 800, 0) / 300) * 4
    series = {"train/loss": PART + weight * part, "train/loss_a": PART, "train/loss_b": part}
    [finding] = of("loss-not-decreasing", series)
    steady = part[-1] < 1
    assert (finding.severity == "medium" and "none of its recorded parts rose" in finding.summary) == steady
    [finding] = of("loss-not-decreasing", {"train/loss": PART + weight * part})
    assert "parts" not in finding.summary


def tried(rates):
    """A search over learning rates in one run, from step 0 each."""
    steps = np.tile(np.arange(300), len(rates))
    walls = START + np.arange(len(steps))
    loss = np.concatenate([falling(300, over=200 / (1 + at), seed=at) for at in range(len(rates))])
    return {"train/loss": (steps, loss, walls), "lr": (steps, np.repeat(rates, 300), walls)}


def test_a_search_over_learning_rates_is_no_jump_of_one():
    assert found(tried([1e-4, 1e-2, 1e-1, 1.0])) == []
    rates = tried([1e-4, 1e-2])
    rates["lr"] = np.arange(600), rates["lr"][1], rates["lr"][2]  # steps go on: one training
    assert "learning-rate" in found(rates)


@pytest.mark.parametrize(
    ("tag", "each", "told"), [("trial", 250, False), ("round", 250, False), ("round", 20, True)]
)
def test_what_begins_anew_is_recorded_by_its_name(tag, each, told):
    """Trials and rounds of active learning begin anew; short rounds, as of federated learning, do not."""
    at = np.arange(1000)
    loss = (0.1 + 2.2 * np.exp(-(at % 250) / 30)) * (1 + noise(1000, 0.05))
    assert ("loss-spike" in found({"train/loss": loss, tag: at // each})) == told


# --- gradients of 0 ----------------------------------------------------------------------------------------


def test_a_gradient_that_is_lost_is_told_while_the_loss_does_not_fall():
    stops = np.concatenate(
        [falling(700, over=400), np.full(500, falling(700, over=400)[-1]) + noise(500, 0.03)]
    )
    norm = np.where(STEPS < 700, 1 + noise(1200, 0.1), 0.0)
    [finding] = of("vanishing-gradient", {"train/loss": stops, "train/grad_norm": norm})
    assert (finding.step, finding.since, finding.severity) == (739, 700, "high")
    assert "float16" in finding.action
    back = np.where(STEPS < 900, norm, 1.0)
    [finding] = of("vanishing-gradient", {"train/loss": stops, "train/grad_norm": back})
    assert finding.closed_step == 904


@pytest.mark.parametrize(
    "series",
    [
        {"train/loss": np.maximum(falling(to=-0.3, scale=0), 0)},  # a margin that is kept
        {"train/loss": falling(over=400)},  # computed after the gradients were cleared
        {"train/loss": 0.5 + noise(1200, 0.02), "rollout/return": STEPS},
        {},
    ],
)
def test_a_gradient_of_0_is_no_fault_where_nothing_is_left_to_learn_or_all_is_learnt(series):
    for norm in (np.zeros(1200), np.where(STEPS < 300, 1.0, 0.0)):
        assert "vanishing-gradient" not in found({**series, "train/grad_norm": norm})


# --- spikes that come again, and few evaluations -----------------------------------------------------------


def single(steps, height=9.0):
    return np.where(np.isin(STEPS, steps), height, falling())


def test_single_spikes_at_equal_distances_are_told_quietly():
    [finding] = of("loss-spike", {"train/loss": single(range(350, 1200, 100))})
    assert (finding.step, finding.since, finding.severity) == (650, 350, "low")
    assert "every 100 steps" in finding.summary
    [finding] = of("loss-spike", {"train/loss": single(range(350, 700, 100))})
    assert finding.closed_step == 850


@pytest.mark.parametrize("steps", [(350, 450, 550), (350, 450, 580, 650), (500,), range(350, 366, 5)])
def test_single_spikes_at_other_distances_are_left_alone(steps):
    assert not any("every" in each.summary for each in of("loss-spike", {"train/loss": single(steps)}))


def tuned(*evaluations, to=0.01):
    train = to + np.exp(-STEPS / 150)
    return {"train/loss": train[: 200 * len(evaluations)], "eval/loss": every(200, evaluations)}


def test_a_fine_tuning_of_few_epochs_overfits_where_its_evaluation_rises_by_much():
    [finding] = of("overfitting", tuned(1.0, 1.3, 1.7, 2.1, 2.4))
    assert (finding.step, finding.since) == (999, 199)
    assert finding.summary.startswith(
        "the evaluation loss rose from 1 at step 199 to 2.4, while the training loss fell"
    )
    [finding] = of("overfitting", tuned(2.0, 1.0, 1.2, 1.4, 1.6, 1.9, 2.2, 2.5))
    assert finding.since == 399


@pytest.mark.parametrize(
    "series",
    [
        tuned(1.0, 1.1, 1.2, 1.3, 1.4),  # by less than half
        tuned(1.0, 1.3, 1.25, 2.1, 2.4),  # not all the time
        tuned(1.0, 1.3, 1.7, 2.1),
        tuned(9.0, 0.1, 0.2, 0.3, 0.4, 0.5),  # little of what was learnt
        tuned(1.0, 1.3, 1.7, 2.1, 2.4, to=9.0),  # the training does not fall
    ],
)
def test_few_evaluations_that_show_less_are_left_alone(series):
    assert "overfitting" not in found(series)


# --- ranks -------------------------------------------------------------------------------------------------


def of_ranks(*losses):
    monitor = Monitor()
    for rank, loss in enumerate(losses):
        monitor.take("ranks/loss", STEPS, loss, START + STEPS, rank=rank)
    monitor.finish()
    return [each for each in monitor.verdict.findings if each.rule == "rank-divergence"]


def test_only_the_last_stage_of_a_pipeline_has_a_loss():
    zeros = [np.zeros(1200)] * 3
    assert of_ranks(*zeros, falling()) == []
    assert of_ranks(*zeros, falling(seed=1), falling(seed=2), falling(seed=3)) == []
    lost = np.where(STEPS < 600, falling(seed=4), 0.0)
    [finding] = of_ranks(*zeros, falling(seed=1), falling(seed=2), lost)
    assert (finding.rank, finding.values["mean"]) == (5, 0.0)


@pytest.mark.parametrize(("begins", "told"), [(0, True), (600, False)])
def test_a_rank_that_was_apart_from_the_beginning_is_said_to_have_been(begins, told):
    apart = falling(seed=3) * (1.0 + (begins <= STEPS))
    [finding] = of_ranks(falling(seed=0), falling(seed=1), falling(seed=2), apart)
    assert finding.rank == 3
    assert finding.summary.endswith(", from the first steps on") == told


def test_of_two_ranks_each_is_compared_with_the_other():
    low, high = of_ranks(np.full(1200, 0.3), np.where(STEPS < 600, 0.3, 0.9))
    assert low.summary == "ranks/loss of rank 0 is 0.3 on average, that of the other 0.9"
    assert high.summary == "ranks/loss of rank 1 is 0.9 on average, that of the other 0.3"


# --- layers that are trained from some step on -------------------------------------------------------------


def test_a_layer_that_begins_to_move_is_no_longer_said_to_stay_the_same():
    """Of a head whose task starts late nothing but the norm is recorded before; then its updates are."""
    early, late = np.arange(0, 400, 10), np.arange(400, 800, 10)
    both = np.r_[early, late]
    norm = np.r_[np.full(40, 3.0), np.linspace(3.1, 4, 40)]
    series = {
        "weights/head.weight/norm": (both, norm, START + both),
        "updates/head.weight/weight_ratio": (late, np.full(40, 1e-3), START + late + 0.1),
    }
    [finding] = of("unchanged-tensor", series)
    assert (finding.since, finding.closed_step) == (10, 400)
    still = {**series, "updates/head.weight/weight_ratio": (late, np.zeros(40), START + late + 0.1)}
    assert of("unchanged-tensor", still)[0].is_open
