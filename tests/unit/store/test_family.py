"""Which tags and runs belong on one chart."""

from __future__ import annotations

import pytest

from stepscope.health.series import split_of
from stepscope.store.family import Family, groups, run_split, split, tag_split

TAGS = {
    "train/loss": ("loss", "train"),
    "eval/loss": ("loss", "eval"),
    "val/loss": ("loss", "eval"),
    "valid/loss": ("loss", "eval"),
    "validation/loss": ("loss", "eval"),
    "dev/loss": ("loss", "eval"),
    "test/loss": ("loss", "test"),
    "Train/Loss": ("Loss", "train"),
    "Loss/train": ("Loss", "train"),
    "gan/val/d_loss": ("gan/d_loss", "eval"),
    "train_loss": ("loss", "train"),
    "val_loss": ("loss", "eval"),
    "loss_val": ("loss", "eval"),
    "metrics/val_accuracy": ("metrics/accuracy", "eval"),
    "val_top_5": ("top_5", "eval"),
    "loss": ("loss", None),
    "train-loss": ("loss", "train"),
    "validation-loss": ("loss", "eval"),
    "evaluate/loss": ("loss", "eval"),
    "Training Loss": ("Loss", "train"),
    "trainLoss": ("Loss", "train"),
    "valLoss": ("Loss", "eval"),
    "valuesLoss": ("valuesLoss", None),
    "lossVal": ("loss", "eval"),
    "metrics/holdout_accuracy": ("metrics/accuracy", "eval"),
    "retest": ("retest", None),
    "epoch_loss": ("epoch_loss", None),
    "train": ("train", None),
    "train/": ("train/", None),
    "_val": ("_val", None),
    "trainer/loss": ("trainer/loss", None),
    "interval_loss": ("interval_loss", None),
    "": ("", None),
}


@pytest.mark.parametrize(("tag", "expected"), TAGS.items())
def test_what_a_tag_says(tag, expected):
    assert tag_split(tag)[:2] == expected


RUNS = [
    ("X/eval", {"X", "X/eval"}, ("X", "eval")),
    ("X/eval", {"X/eval"}, ("X/eval", None)),
    ("X/validation", {"X/train", "X/validation"}, ("X", "eval")),
    ("X/train", {"X/train", "X/validation"}, ("X", "train")),
    ("X/train", {"X/train", "Y/validation"}, ("X/train", None)),
    ("X/val", {"X/val", "X/eval"}, ("X/val", None)),
    ("X/test", {"X/train", "X/test"}, ("X", "test")),
    ("X/eval_holdout", {"X", "X/eval_holdout"}, ("X", "eval")),
    ("X/Eval", {"X", "X/Eval"}, ("X", "eval")),
    ("eval", {".", "eval"}, (".", "eval")),
    ("eval", {"train", "eval"}, (".", "eval")),
    ("eval", {"eval", "other"}, ("eval", None)),
    (".", {".", "eval"}, (".", None)),
    ("X", {"X", "X/eval"}, ("X", None)),
    ("a/b/validation", {"a/b/train", "a/b/validation", "a"}, ("a/b", "eval")),
    ("X/evaluation_of_y", {"X", "X/evaluation_of_y"}, ("X/evaluation_of_y", None)),
]


@pytest.mark.parametrize(("run", "runs", "expected"), RUNS)
def test_what_a_run_is_part_of(run, runs, expected):
    assert run_split(run, runs) == expected


def test_the_tag_counts_before_the_run():
    assert split("X/eval", "loss", {"X", "X/eval"}) == Family("X", "eval", "loss")
    assert split("X/eval", "train/loss", {"X", "X/eval"}) == Family("X", "train", "loss")
    assert split("X/eval", "loss") == Family("X/eval", None, "loss")


GROUPS = [
    # Hugging Face, torch tutorials, Lightning, Keras in one run, YOLO
    (["train/loss", "eval/loss", "train/lr"], [["train/loss", "eval/loss"], ["train/lr"]]),
    (["Loss/train", "Loss/test"], [["Loss/train", "Loss/test"]]),
    (["train_loss", "val_loss", "train_acc"], [["train_acc"], ["train_loss", "val_loss"]]),
    (["loss", "val_loss", "accuracy", "val_accuracy"], [["accuracy", "val_accuracy"], ["loss", "val_loss"]]),
    (["metrics/mAP50", "train/box", "val/box"], [["metrics/mAP50"], ["train/box", "val/box"]]),
    # three splits; the plain tag is the training part only where there is no other
    (["train/a", "val/a", "test/a"], [["train/a", "val/a", "test/a"]]),
    (["loss", "train/loss", "eval/loss"], [["loss"], ["train/loss", "eval/loss"]]),
    (["loss", "eval/loss"], [["loss", "eval/loss"]]),
    (["loss", "eval/loss", "val_loss"], [["eval/loss"], ["loss", "val_loss"]]),
    # Lightning, asked for steps and epochs
    (
        ["train_loss_step", "train_loss_epoch", "val_loss"],
        [["train_loss_epoch", "train_loss_step", "val_loss"]],
    ),
    (["train/f1_step", "train/f1_epoch", "val/f1"], [["train/f1_epoch", "train/f1_step", "val/f1"]]),
    (["loss_step", "loss_epoch", "val_loss"], [["loss_epoch", "loss_step", "val_loss"]]),
    (["loss_step", "val_loss"], [["loss_step"], ["val_loss"]]),
    (["loss_step", "loss_epoch", "loss", "val_loss"], [["loss", "val_loss"], ["loss_epoch"], ["loss_step"]]),
    (["train_loss_step", "train_loss", "val_loss"], [["train_loss", "val_loss"], ["train_loss_step"]]),
    (["train_loss_epoch", "val_loss_epoch"], [["train_loss_epoch", "val_loss_epoch"]]),
    (["train-loss", "validation-loss"], [["train-loss", "validation-loss"]]),
    (["trainLoss", "valLoss"], [["trainLoss", "valLoss"]]),
    (["Training Loss", "Validation Loss"], [["Training Loss", "Validation Loss"]]),
    (["train/loss", "evaluate/loss"], [["train/loss", "evaluate/loss"]]),
    # one split alone is not an overlay, and two habits are not mixed
    (["eval/loss", "val/loss"], [["eval/loss"], ["val/loss"]]),
    (["train/loss", "val_loss"], [["train/loss"], ["val_loss"]]),
    (["epoch_loss"], [["epoch_loss"]]),
    ([], []),
]


@pytest.mark.parametrize(("tags", "expected"), GROUPS)
def test_which_tags_share_a_chart(tags, expected):
    for order in (tags, tags[::-1]):
        found = groups(order)
        assert [[tag for tag, _ in group.lines] for group in found] == expected


@pytest.mark.parametrize("tag", [*TAGS, "evaluate/loss", "loss-val", "test loss", "devLoss"])
def test_the_health_rules_read_the_same_part(tag):
    part = tag_split(tag).split
    judged = split_of(tag) if tag not in ("train", "train/", "_val") else None  # nothing but the word
    assert judged == ("eval" if part == "test" else part)


def test_every_tag_is_on_one_chart():
    tags = [tag for tag in TAGS if tag]
    assert sorted(tag for group in groups(tags) for tag, _ in group.lines) == sorted(tags)


def test_a_chart_is_called_by_the_metric_alone():
    [group] = groups(["train_loss_step", "train_loss_epoch", "val_loss"])
    assert group.metric == "loss"
