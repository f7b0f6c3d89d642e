import pytest

from stepscope.names.telling import telling
from stepscope.store.charts import charts_of

ROLES = {
    "return": "rollout/ep_rew_mean charts/episodic_return eval/mean_reward episode_return_mean reward",
    "loss": "loss train/loss val_loss epoch_loss loss_metrics/global_avg_loss",
    "part_loss": "loss/generator train/value_loss perplexity",
    "score": "accuracy rewards/chosen rewards/margins metrics/top1 bleu fid",
    "learning_rate": "train/learning_rate lr-AdamW/pg1 reward_model/lr learning/current_learning_rate",
    "gradient_norm": "gradients/norm train/grad_norm learning/raw_grad_norm",
    "update_ratio": "updates/weight_ratio train/update_ratio",
    "step_time": "speed/step_time_ms time_metrics/end_to_end(s)",
    "data_wait": "speed/data_wait_ms data_time",
    "throughput": "speed/examples_per_second global_step/sec tps",
    "utilization": "system/gpu0/utilization_ratio system/gpu.0.gpu",
    "memory": "system/process/memory_bytes memory/max_active(GiB) train/mem_gpu_bytes",
    "epoch": "epoch train/epoch Epoch",
    None: "gradients/w/norm updates/w/weight_ratio updates/0/zero_ratio "
    "system/disk/read_bytes_per_second zebra",
}


def meaning(chart):
    tags = [line.tag for line in chart.lines]
    return telling(chart.title, tags, chart.kind, evaluated=any(line.split == "eval" for line in chart.lines))


def ordered(*tags):
    """Return titles and tiers of the charts, the most telling first."""
    charts = sorted(charts_of(frozenset(tags)), key=lambda chart: meaning(chart).place)
    return [(chart.title, meaning(chart).tier) for chart in charts]


@pytest.mark.parametrize(
    ("role", "tag"), [(role, tag) for role, tags in ROLES.items() for tag in tags.split()]
)
def test_the_role_of_a_chart(role, tag):
    [chart] = charts_of(frozenset([tag]))
    assert meaning(chart).role == role


def test_what_tells_most_comes_first():
    assert ordered(
        "epoch",
        "zebra",
        "train/loss",
        "eval/loss",
        "train/loss_ce",
        "train/accuracy",
        "train/learning_rate",
        "gradients/norm",
        "gradients/w/norm",
        "speed/step_time_ms",
        "speed/step_time_max_ms",
        "system/host/cpu_ratio",
    ) == [
        ("loss", "learning"),
        ("train/loss_ce", "learning"),
        ("train/accuracy", "learning"),
        ("train/learning_rate", "running"),
        ("gradients/norm", "running"),
        ("speed/step_time", "running"),
        ("zebra", "recorded"),
        ("gradients/w/norm", "detail"),
        ("epoch", "detail"),
        ("speed/step_time_max", "detail"),
        ("system/host/cpu_ratio", "detail"),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("reward", "eval/loss"),
        ("eval/nll", "train/total_loss"),  # an evaluated loss
        ("loss", "average_loss"),  # as the Estimator writes both
        ("loss", "aux_loss"),
        ("loss", "rewards/chosen"),
        ("train/accuracy", "train/similarity"),
        ("tokens_per_second", "batches_per_second"),
    ],
)
def test_of_two_charts_the_first_tells_more(first, second):
    assert [title for title, _ in ordered(first, second)] == [first, second]


def test_a_kind_that_a_person_gave_counts():
    assert telling("objective_x", ["objective_x"], "loss", evaluated=False).tier == "learning"
    assert telling("objective_x", ["objective_x"], "other", evaluated=False).tier == "recorded"


def test_a_title_that_a_person_gave_counts():
    assert telling("Validation loss", ["m/1"], "loss", evaluated=False).role == "loss"
