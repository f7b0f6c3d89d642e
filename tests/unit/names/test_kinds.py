import hashlib
import math
from dataclasses import astuple
from pathlib import Path

import pytest

from stepscope.names.kinds import KINDS, LOWER_IS_BETTER, measure_of, metric_kind
from stepscope.store.charts import charts_of

CASES = {
    "loss": "train/loss total_loss val_loss perplexity error_rate test/rmse nll loss/kl eval/wer vf_loss",
    "score": "accuracy train/accuracy_ratio top5_acc auc val_f1 bleu mean_reward episode_return eval/iou mAP",
    "schedule": "lr train/lr lr-AdamW learning_rate optimizer/learning_rate loss_scale momentum weight_decay",
    "counter": "epoch train/global_step num_tokens tokens_seen stepscope/dropped data/skipped_count",
    "nonfinite": "nonfinite_count health/nonfinite_count grad/nan_count gradients/w/nonfinite overflow",
    "norm": "grad_norm gradients/layer0/norm grad/global_norm gradients/layer0/min",
    "latency": "overhead_us_per_step time_ms load_s speed/step_time_s epoch_time_s time/step eta_min",
    "rate": "tokens_per_s samples_per_sec steps_per_second throughput it/s speed/examples_per_second",
    "ratio": "update_ratio gpu_utilization sparsity overhead_ratio gpu0/busy_ratio",
    "bytes": "memory_bytes system/memory gpu_memory_bytes vram",
    "other": "color entropy layer0/bias mean clr slr_x x value_min advantage/min",
}


@pytest.mark.parametrize(
    ("kind", "tag"), [(kind, tag) for kind, tags in CASES.items() for tag in tags.split()]
)
def test_a_metric_is_what_its_name_says(kind, tag):
    [chart] = charts_of(frozenset([tag]))
    assert chart.kind == kind


def field() -> list[tuple[str, str, bool]]:
    """Return kind and tag of what programs of the field write, and whether it is of the half held out."""
    lines = Path(__file__).with_name("field_tags.txt").read_text().splitlines()
    rows = [line.split("|", 2) for line in lines if not line.startswith("#")]
    return [(kind, tag, hashlib.sha256(tag.encode()).digest()[0] % 2 == 1) for kind, _, tag in rows]


@pytest.mark.parametrize("held_out", [False, True])
def test_tags_of_the_field_are_what_a_person_calls_them(held_out):
    judged = [
        (tag, kind, charts_of(frozenset([tag]))[0].kind) for kind, tag, held in field() if held == held_out
    ]
    wrong = [each for each in judged if each[1] != each[2]]
    assert len(judged) > 130
    assert len(wrong) / len(judged) <= 0.03, wrong


def test_better_ends_are_not_said_of_what_has_none_or_the_other():
    """A kind may be missed; that less of an accuracy is better is worse than saying nothing."""
    found = [
        (tag, charts_of(frozenset([tag]))[0].lower_is_better, LOWER_IS_BETTER.get(kind))
        for kind, tag, _ in field()
    ]
    wrong = [tag for tag, said, known in found if said is not None and said != known]
    assert wrong == ["Loss/scores/real"]  # what a discriminator gives to real pictures; no name says so


def test_the_end_that_names_a_size_is_no_unit():
    small, timed = charts_of(frozenset(["coco/bbox_mAP_s"]))[0], charts_of(frozenset(["load_s"]))[0]
    assert (small.title, small.unit, small.kind) == ("coco/bbox_mAP_s", None, "score")
    assert (timed.title, timed.unit, timed.kind) == ("load", "s", "latency")


@pytest.mark.parametrize("tag", ["clr", "color", "epoch_loss", "system/gpu0/temperature_c", "return"])
def test_parts_of_words_say_nothing(tag):
    assert metric_kind(tag, None) not in ("schedule", "counter", "latency")


def test_which_end_is_better():
    [loss] = charts_of(frozenset(["loss"]))
    [score] = charts_of(frozenset(["accuracy"]))
    [rate] = charts_of(frozenset(["lr"]))
    [bytes_written] = charts_of(frozenset(["disk/written_bytes"]))
    assert (loss.lower_is_better, score.lower_is_better) == (True, False)
    assert (rate.lower_is_better, bytes_written.lower_is_better) == (None, None)


SHOWN = [
    ("a score has no unit", None, 5e9, (1, "")),
    ("a share is in percent", "ratio", 0.3, (100, "%")),
    ("without a value, as recorded", "ms", 0, (1, "ms")),
    ("as recorded while that reads well", "ms", 1500, (1, "ms")),
    ("a short wait", "ms", 0.034, (1e3, "µs")),
    ("a long step", "ms", 12345, (1e-3, "s")),
    ("a step in seconds", "s", 0.0099, (1e3, "ms")),
    ("less than a nanosecond", "ns", 0.01, (1, "ns")),
    ("bytes", "bytes", 592e6, (2.0**-20, "MiB")),
    ("few bytes", "bytes", 700, (1, "B")),
    ("tokens", "per second", 40.2e9, (1e-9, "billion/s")),
    ("bytes sent", "bytes per second", 592e6, (2.0**-20, "MiB/s")),
    ("few bytes sent", "bytes per second", 700, (1, "B/s")),
    ("not finite", "ms", math.inf, (1, "ms")),
]


@pytest.mark.parametrize(("name", "unit", "largest", "want"), SHOWN, ids=[row[0] for row in SHOWN])
def test_the_unit_in_which_a_metric_is_shown(name, unit, largest, want):
    assert astuple(measure_of(unit, largest)) == pytest.approx(want)


def test_a_unit_stays_while_its_figures_read_well():
    micros = measure_of("ms", 0.05)
    assert measure_of("ms", 0.5, micros) == measure_of("ms", 5.0, micros) == micros
    assert measure_of("ms", 50.0, micros) == measure_of("ms")


@pytest.mark.parametrize("word", ["a_", "a_b", "Ab", "1_", "lossx", "per_s", "tokens_a", "x"])
def test_a_name_of_a_hundred_thousand_letters_holds_nobody_up(word):
    """It takes milliseconds; a pattern that begins anew at each word would take minutes."""
    assert metric_kind(word * (100_000 // len(word)), None) in KINDS
