"""Which tags and runs belong on one chart."""

from __future__ import annotations

import pytest

from stepscope.store.charts import groups

TAGS = ["train/loss", "eval/loss", "Loss/train", "val_loss", "loss_val", "loss", "trainer/loss", "_val"]


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
    # other separators
    (["train-loss", "validation-loss"], [["train-loss", "validation-loss"]]),
    (["Training Loss", "Validation Loss"], [["Training Loss", "Validation Loss"]]),
    (["trainLoss", "valLoss"], [["trainLoss", "valLoss"]]),
    (["lm loss", "lm loss validation"], [["lm loss", "lm loss validation"]]),
    # one split alone is not an overlay, and two habits are not mixed
    (["eval/loss", "val/loss"], [["eval/loss"], ["val/loss"]]),
    (["train/loss", "val_loss"], [["train/loss"], ["val_loss"]]),
    (["epoch_loss"], [["epoch_loss"]]),
    ([], []),
]


@pytest.mark.parametrize(("tags", "expected"), GROUPS)
def test_which_tags_share_a_chart(tags, expected):
    for order in (tags, tags[::-1]):
        assert [[tag for tag, _ in group.lines] for group in groups(order)] == expected


def test_every_tag_is_on_one_chart():
    assert sorted(tag for group in groups(TAGS) for tag, _ in group.lines) == sorted(TAGS)


def test_a_chart_is_called_by_the_metric_alone():
    [group] = groups(["train_loss_step", "train_loss_epoch", "val_loss"])
    assert group.metric == "loss"
