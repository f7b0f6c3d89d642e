"""One table from the tags of any writer to the roles that rules look at."""

import numpy as np
import pytest

from stepscope.health import Monitor
from stepscope.health.series import stream_of
from stepscope.names.roles import ROLES, meaning_of

KNOWN = {
    # Stepscope
    "train/loss": ("loss", "train", None),
    "lr_finder/loss": ("loss", "train", None),
    "lr/loss_head": ("learning_rate", None, "loss_head"),
    "eval/loss": ("loss", "eval", None),
    "gradients/norm": ("gradient_norm", None, None),
    "gradients/clipped_norm": ("clipped_norm", None, None),
    "gradients/nonfinite_count": ("gradient_nonfinite", None, None),
    "gradients/block.0/attn.weight/norm": ("layer_gradient", None, "block.0/attn.weight"),
    "gradients/fc.weight/nonfinite_count": ("gradient_nonfinite", None, "fc.weight"),
    "updates/fc.weight/weight_ratio": ("update_ratio", None, "fc.weight"),
    "weights/fc.weight/norm": ("weight_norm", None, "fc.weight"),
    "activations/fc/fraction_of_zero_values": ("zeros", None, "fc"),
    "activations/fc/dead_ratio": ("dead", None, "fc"),
    "activations/fc/saturation_ratio": ("saturated", None, "fc"),
    "activations/fc/std": ("activation_std", None, "fc"),
    "gradients/loss_scale": ("loss_scale", None, None),
    "amp/scale": ("loss_scale", None, None),
    "codebook/loss": ("part_loss", None, None),
    "kl/loss": ("part_loss", None, None),
    "recon": ("part_loss", None, None),
    "codebook/perplexity": ("spread", None, None),
    "gradients/skipped_steps": ("skipped", None, None),
    "speed/step_time_ms": ("step_time", None, None),
    "speed/data_wait_ms": ("data_wait", None, None),
    "system/gpu0/utilization_ratio": ("gpu", None, "gpu0"),
    "system/host/cpu_ratio": ("cpu", None, None),
    "system/host/cpu_iowait_ratio": ("io_wait", None, None),
    "system/process/memory_bytes": ("memory", None, "process"),
    "labels/cat": ("labels", None, "cat"),
    # Keras
    "epoch_loss": ("loss", "train", None),
    "batch_loss": ("loss", "train", None),
    "evaluation_loss_vs_iterations": ("part_loss", "eval", None),
    "epoch_learning_rate": ("learning_rate", None, None),
    # Lightning
    "train_loss": ("loss", "train", None),
    "train_loss_step": ("loss", "train", None),
    "val_loss": ("loss", "eval", None),
    "lr-Adam": ("learning_rate", None, "Adam"),
    "grad_2.0_norm_total": ("gradient_norm", None, None),
    # Hugging Face
    "train/grad_norm": ("gradient_norm", "train", None),
    "train/learning_rate": ("learning_rate", "train", None),
    "train/train_loss": ("loss", "train", None),
    # the Estimator, examples, others
    "loss": ("loss", "train", None),
    "average_loss": ("loss", "train", None),
    "dnn/hiddenlayer_0/fraction_of_zero_values": ("zeros", None, "dnn/hiddenlayer_0"),
    "Loss/train": ("loss", "train", None),
    "Loss/test": ("loss", "eval", None),
    "training_loss": ("loss", "train", None),
    "loss_metrics/global_avg_loss": ("loss", "train", None),
    "l2_norm/grad/global": ("gradient_norm", None, None),
    "loss_G": ("part_loss", None, None),
    "train/perplexity": ("part_loss", "train", None),
    "train/accuracy": ("metric", "train", None),
    "epoch_accuracy": ("metric", None, None),
    "val_acc": ("metric", "eval", None),
    "eval/f1_macro": ("metric", "eval", None),
    "optimizer/left_out/head.weight": ("left_out", None, "head.weight"),
    # no role: nothing but a sign of life
    "rollout/ep_rew_mean": ("reward", None, None),
    "global_step/sec": ("other", None, None),
    "checkpoint/save_time_s": ("other", None, None),
}


@pytest.mark.parametrize("tag", KNOWN)
def test_a_tag_has_its_meaning(tag):
    stream = stream_of(tag)
    split = stream.split if stream.role != "learning_rate" or stream.split else None
    assert (stream.role, split, stream.layer) == KNOWN[tag]
    assert stream.role in {*ROLES, "other"}


def test_what_the_recorder_says_about_itself_is_no_series():
    assert stream_of("stepscope/overhead_ratio") is None


@pytest.mark.parametrize(
    ("tag", "scale"),
    [
        ("speed/step_time_ms", 1e-3),
        ("step_time", 1.0),
        ("system/gpu0/utilization_ratio", 1.0),
        ("gpu0/utilization", 0.01),
        ("memory/max_active(GiB)", 2**30),
    ],
)
def test_units_are_brought_together(tag, scale):
    assert stream_of(tag).scale == scale


def test_the_part_of_the_run_counts_where_the_tag_says_nothing():
    assert stream_of("loss", split="eval").split == "eval"
    assert stream_of("train/loss", split="eval").split == "train"


def test_a_rank_is_called_the_first_only_once_the_others_have_told_of_the_step():
    """As on a busy machine: what ranks write comes one after the other, the bad one's last."""
    monitor = Monitor()

    def come(rank, losses):
        steps = np.arange(len(losses))
        monitor.take("ranks/loss", steps, np.array(losses), 1e9 + steps, rank=rank)
        monitor.advance(float("inf"))
        return [one.summary for one in monitor.news() if one.rule == "nonfinite-loss"]

    nan = float("nan")
    assert come(0, [1.0] * 38 + [nan] * 2) == ["the loss is NaN at step 38, on rank 0"]
    assert come(2, [1.0] * 38 + [nan] * 2) == ["the loss is NaN at step 38, on the ranks 0, 2 at once"]
    assert come(1, [1.0] * 37 + [nan] * 3) == ["the loss is NaN at step 37, first on rank 1"]


def test_a_rank_that_was_first_is_called_so_when_the_others_come():
    monitor = Monitor()
    steps, nan = np.arange(10), float("nan")
    for rank, losses in ((1, [1.0] * 7 + [nan] * 3), (0, [1.0] * 8 + [nan] * 2)):
        monitor.take("ranks/loss", steps[:6], np.array(losses[:6]), 1e9 + steps[:6], rank=rank)
    monitor.advance(float("inf"))
    assert not monitor.news()
    monitor.take("ranks/loss", steps[6:], np.array([1.0, nan, nan, nan]), 1e9 + steps[6:], rank=1)
    monitor.advance(float("inf"))
    assert [one.summary for one in monitor.news()] == ["the loss is NaN at step 7, on rank 1"]
    monitor.take("ranks/loss", steps[6:], np.array([1.0, 1.0, nan, nan]), 1e9 + steps[6:], rank=0)
    monitor.advance(float("inf"))
    assert [one.summary for one in monitor.news()] == ["the loss is NaN at step 7, first on rank 1"]


def test_a_gradient_that_is_of_all_ranks_is_not_said_to_be_of_the_one_that_recorded_it():
    monitor = Monitor()
    for tag in ("gradients/norm", "train/loss"):
        values = np.array([1.0, float("nan")])
        monitor.take(tag, np.arange(2), values, np.array([1.0, 2.0]), rank=0)
    monitor.finish()
    said = {each.rule: each.summary for each in monitor.verdict.findings}
    assert said["nonfinite-gradient"] == "the gradient is NaN at step 1"
    assert said["nonfinite-loss"] == "the loss is NaN at step 1, on rank 0"


@pytest.mark.parametrize("text", ["1", "acc_1", "rouge_", "top_1", "a_", "lr_1/", "gradients/", "loss_"])
def test_a_name_of_others_holds_no_rule_up(text):
    """Each is told in milliseconds; digits taken apart in every way would take longer than anyone lives."""
    for length in (40, 500, 60_000):
        name = (text * length)[:length]
        for tag in (name, f"acc{name}!", f"gradients/{name}!", f"val_{name}/accuracy?"):
            assert meaning_of(tag) is None or meaning_of(tag).role in ROLES
    assert meaning_of("accuracy_20261124083215123456") == meaning_of("accuracy_7")


@pytest.mark.parametrize(
    "tag", ["evaluate/loss", "holdout/loss", "validation-loss", "valLoss", "EvalStats/avg_loss"]
)
def test_losses_of_other_data_are_not_judged_as_training_losses(tag):
    meaning = meaning_of(tag)
    assert (meaning.role, meaning.split) == ("loss", "eval")


@pytest.mark.parametrize("tag", ["train-loss", "trainLoss", "TrainIterStats/loss", "reduced_train_loss"])
def test_training_losses_in_other_spellings(tag):
    meaning = meaning_of(tag)
    assert (meaning.role, meaning.split) == ("loss", "train")


@pytest.mark.parametrize(
    "tag",
    [
        "loss/total", "losses/sum", "train/total", "train/overall", "overall_loss", "loss_sum",
        "train/loss_fn", "Gesamtverlust", "perte/totale", "coût", "pérdida_total", "perda_total",
        "perdita_totale", "总损失", "损失/总", "合計損失", "총손실", "общие_потери", "criterion", "nelbo",
        "train/huber", "train/ctc",
    ],
)  # fmt: skip
def test_the_whole_of_a_loss_is_the_loss_in_any_language(tag):
    assert stream_of(tag).role == "loss"


@pytest.mark.parametrize(
    "tag", ["total", "overall", "loss/box", "huber", "train/total_tokens", "sum", "final_loss"]
)
def test_a_word_for_the_whole_alone_and_a_part_are_not(tag):
    assert stream_of(tag).role != "loss"
