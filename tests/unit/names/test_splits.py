"""The split that a tag or a run names: one answer for health, charts, ranks' files and reports."""

import pytest

from stepscope.health.series import stream_of
from stepscope.names.meanings import NAMED
from stepscope.names.roles import meaning_of, without_split
from stepscope.names.splits import judged_split, split_run, split_tag
from stepscope.serve.health import losses_of

TAGS = {
    "eval/loss": ("loss", "eval"),
    "val/loss": ("loss", "eval"),
    "valid/loss": ("loss", "eval"),
    "validation/loss": ("loss", "eval"),
    "dev/loss": ("loss", "eval"),
    "test/loss": ("loss", "test"),
    "Train/Loss": ("Loss", "train"),
    "Loss/train": ("Loss", "train"),
    "train_loss": ("loss", "train"),
    "val_loss": ("loss", "eval"),
    "loss_val": ("loss", "eval"),
    "metrics/val_accuracy": ("metrics/accuracy", "eval"),
    "loss": ("loss", None),
    "epoch_loss": ("epoch_loss", None),
    "train/": ("train/", None),
    # a part of the path
    "train/loss": ("loss", "train"),
    "evaluate/loss": ("loss", "eval"),
    "Loss/test": ("Loss", "test"),
    "gan/val/d_loss": ("gan/d_loss", "eval"),
    # one word that is written as two
    "held_out/loss": ("loss", "eval"),
    "heldOut-loss": ("loss", "eval"),
    "hold_out_accuracy": ("accuracy", "eval"),
    "hold/out": ("hold/out", None),
    "held_back_samples": ("held_back_samples", None),
    # other letters; Chinese and Japanese leave no space between words
    "perte_entraînement": ("perte", "train"),
    "Verlust_Validierung": ("Verlust", "eval"),
    "训练损失": ("损失", "train"),
    "验证/准确率": ("准确率", "eval"),
    "loss验证": ("loss", "eval"),
    "学習率": ("学習率", None),
    # a word beside another, with any separator
    "train-loss": ("loss", "train"),
    "validation-loss": ("loss", "eval"),
    "Training Loss": ("Loss", "train"),
    "lm loss validation": ("lm loss", "eval"),
    "loss.val": ("loss", "eval"),
    "trainLoss": ("Loss", "train"),
    "valLoss": ("Loss", "eval"),
    "reduced_train_loss": ("reduced_loss", "train"),
    "avg_val_loss": ("avg_loss", "eval"),
    "TrainIterStats/loss": ("IterStats/loss", "train"),
    "val_top_5": ("top_5", "eval"),
    "valuesLoss": ("valuesLoss", None),
    "lossVal": ("loss", "eval"),
    "metrics/holdout_accuracy": ("metrics/accuracy", "eval"),
    "retest": ("retest", None),
    # words that also mean something else
    "max_val": ("max_val", None),
    "q_val": ("q_val", None),
    "std_dev": ("std_dev", None),
    "valid_tokens": ("valid_tokens", None),
    "valid_ppl": ("ppl", "eval"),
    "dev_accuracy": ("accuracy", "eval"),
    "objective_value": ("objective_value", None),
    "interval_loss": ("interval_loss", None),
    "trainer/loss": ("trainer/loss", None),
    "train": ("train", None),
    "_val": ("_val", None),
    "": ("", None),
}


@pytest.mark.parametrize(("tag", "expected"), TAGS.items())
def test_a_tag_names_its_split(tag, expected):
    assert split_tag(tag)[:2] == expected


@pytest.mark.parametrize("tag", TAGS)
def test_health_and_charts_agree(tag):
    stream = stream_of(tag)
    named = split_tag(tag).split
    if stream is not None and named is not None:
        assert stream.split == ("train" if named == "train" else "eval")


def test_what_is_not_trained_on_is_one_part_to_a_rule():
    assert [judged_split(split) for split in ("train", "eval", "test", None)] == [
        "train", "eval", "eval", None,
    ]  # fmt: skip


def test_losses_of_training_come_before_those_of_a_test():
    class Recorded:
        def tags(self):
            return ["test/loss", "eval/loss", "train/loss"]

    assert losses_of(Recorded(), NAMED) == ["train/loss", "eval/loss", "test/loss"]


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
    ("X/valid", {"X/train", "X/valid"}, ("X", "eval")),
]


@pytest.mark.parametrize(("run", "runs", "expected"), RUNS)
def test_a_run_is_part_of_another(run, runs, expected):
    assert split_run(run, runs) == expected


def test_every_word_of_a_split_goes():
    assert without_split("train/train_loss") == "loss"
    assert meaning_of("train/train_loss").role == "loss"


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("train/loss", True), ("loss/policy", True), ("evaluate/loss", False), ("amp/loss_scale", False),
     ("gradients/loss_scale", False), ("train/perplexity", False), ("lossless", False),
     ("lossScale", False), ("loss_weight", False)],
)  # fmt: skip
def test_the_loss_that_is_trained_on(tag, expected):
    assert NAMED.is_training_loss(tag) == expected


def test_a_long_name_takes_no_time():
    """The words of a name are found in time linear in its length."""
    assert split_tag("aB" * 100_000).split is None
