from collections import Counter
from pathlib import Path

import pytest

from stepscope import store
from stepscope.events import Event, Metadata, Summary, Value
from stepscope.names.kinds import Measure, title_and_unit
from stepscope.names.telling import Chart, ChartLine
from stepscope.store.charts import charts_of, groups


def places(*tags):
    return [(chart.section, chart.title, chart.id) for chart in charts_of(frozenset(tags))]


def test_a_title_hides_nothing():
    hidden = {chart.id: chart for chart in charts_of(frozenset(["a\u200bb/lo\u202ess", "größe/🏳️‍🌈"]))}
    loss, flag = hidden["a\u200bb/lo\u202ess"], hidden["größe/🏳️‍🌈"]
    assert (loss.title, loss.section) == ("a\\u200bb/lo\\u202ess", "a\\u200bb")
    assert (flag.title, flag.section) == ("größe/🏳️‍🌈", "größe")


def test_an_overlay_goes_to_the_section_of_its_metric():
    assert charts_of(frozenset(["train/gan/d_ms", "eval/gan/d_ms"])) == (
        Chart(
            "train/gan/d_ms",
            "gan/d",
            "gan/d",
            "gan",
            "ms",
            Measure(1.0, "ms"),
            (ChartLine("train/gan/d_ms", "train"), ChartLine("eval/gan/d_ms", "eval")),
            kind="latency",
            lower_is_better=True,
            split=None,
            role=None,
            tier="recorded",
            place=0,
            section_place=5,
            own_cost=False,
        ),
    )


# Tags, and the short titles of their charts.
SHORT = {
    "an end says it": (["speed/step_time_ms", "speed/data_wait_ms"], ["data_wait", "step_time"]),
    "it means something else": (["gradients/norm", "global_step/sec"], ["global_step/sec", "gradients/norm"]),
    "an end says nothing": (["weights/mean", "gan/d_ms"], ["gan/d", "weights/mean"]),
    "two have the same end": (["a/loss", "b/loss"], ["a/loss", "b/loss"]),
    "one end is the whole of another": (["aux/loss", "loss"], ["aux/loss", "loss"]),
    "of the evaluation": (["eval/loss"], ["eval/loss"]),
    "of the training": (["train/loss"], ["loss"]),
    "only units tell them apart": (["a/wait_ms", "a/wait_s"], ["wait_ms", "wait_s"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_the_shortest_title_that_still_says_what_it_is(name):
    tags, titles = SHORT[name]
    found = charts_of(frozenset(tags))
    assert sorted(chart.short for chart in found) == titles
    assert len({chart.title for chart in found}) == len(found)


def test_no_two_charts_have_one_title_whatever_is_recorded():
    """All tags that programs of the field write at once, and what only case, units or splits tell apart."""
    lines = (Path(__file__).parents[1] / "names" / "field_tags.txt").read_text().splitlines()
    tags = {line.split("|", 2)[2] for line in lines if not line.startswith("#")}
    tags |= {"loss_ms", "loss_s", "Loss", "val/Loss", "a/b/loss", "b/loss", "global_step/sec", "step/sec"}
    found = charts_of(frozenset(tags))
    assert len(found) > 200
    for names in ([chart.title for chart in found], [chart.short for chart in found]):
        assert [name for name, count in Counter(names).items() if count > 1] == []


def test_titles_that_people_gave_twice_are_not_used():
    found = charts_of(frozenset(["m/1", "m/2"]), frozenset([("m/1", "Loss"), ("m/2", "Loss")]))
    assert sorted(chart.title for chart in found) == ["m/1", "m/2"]


def test_sections_and_their_order():
    assert places(
        "system/gpu",
        "loss",
        "stepscope/overhead_ratio",
        "train/loss",
        "eval/loss",
        "train/lr",
        "layer10/w",
        "layer2/w",
    ) == [
        ("metrics", "train/loss, eval/loss", "train/loss"),
        ("metrics", "loss", "loss"),
        ("layer2", "layer2/w", "layer2/w"),
        ("layer10", "layer10/w", "layer10/w"),
        ("system", "system/gpu", "system/gpu"),
        ("train", "train/lr", "train/lr"),
        ("stepscope", "stepscope/overhead_ratio", "stepscope/overhead_ratio"),
    ]


def test_the_id_stays_when_evaluation_joins():
    [before] = charts_of(frozenset(["train/loss"]))
    [after] = charts_of(frozenset(["train/loss", "eval/loss"]))
    assert before.id == after.id == "train/loss"
    assert (before.title, after.title) == ("train/loss", "loss")


def test_charts_of_one_metric_in_two_habits_have_their_tags_for_titles():
    """One run of a log names its losses otherwise than another."""
    drawn = charts_of(frozenset(["loss", "train_loss", "val_loss", "lr"]))
    assert [(chart.title, chart.short) for chart in drawn] == [
        ("train_loss, val_loss", "train_loss, val_loss"),
        ("loss", "loss"),
        ("lr", "lr"),
    ]


def test_metrics_that_units_alone_tell_apart_have_them_in_their_titles():
    assert [title for _, title, _ in places("speed/step_time_ms", "speed/step_time_s", "speed/wait_ms")] == [
        "speed/step_time_ms", "speed/step_time_s", "speed/wait"
    ]  # fmt: skip
    assert [title for _, title, _ in places("x", "x_ms")] == ["x", "x_ms"]
    # Such a title is true of the values as they were recorded alone: "wait_ms, ns" is not.
    twins = charts_of(frozenset({"x/wait_ms", "x/wait_s", "y/wait_ms"}))
    assert [(each.title, each.unit, each.kind) for each in twins] == [
        ("x/wait_ms", None, "latency"), ("x/wait_s", None, "latency"), ("y/wait", "ms", "latency")
    ]  # fmt: skip
    # Train and evaluation of one metric are lines of one chart.
    assert [title for _, title, _ in places("train/time_s", "eval/time_s")] == ["time"]
    called = frozenset({("a_ms", "time"), ("b_ms", "time")})
    assert [each.title for each in charts_of(frozenset({"a_ms", "b_ms"}), called)] == ["a_ms", "b_ms"]


def test_sorting_does_not_mind_mixed_names():
    assert [chart.id for chart in charts_of(frozenset(["9", "a", "10", "a1", "1a", "²"]))] == [
        "1a", "9", "10", "a", "a1", "²",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("speed/step_time_ms", ("speed/step_time", "ms")),
        ("x_us", ("x", "µs")),
        ("x_s", ("x", "s")),
        ("memory_bytes", ("memory", "bytes")),
        ("examples_per_second", ("examples_per_second", "per second")),
        ("sent_bytes_per_second", ("sent_bytes_per_second", "bytes per second")),
        ("overhead_ratio", ("overhead_ratio", "ratio")),
        ("loss", ("loss", None)),
        ("losses", ("losses", None)),
        ("a/_ms", ("a/_ms", None)),
    ],
)
def test_the_unit_stands_at_the_end_of_the_tag(metric, expected):
    assert title_and_unit(metric) == expected


def test_charts_of_a_log_are_over_all_runs(make):
    make.line("a", "train/loss", range(3))
    make.line("b", "eval/loss", range(3))
    [chart] = store.charts(make.open())
    assert [line.tag for line in chart.lines] == ["train/loss", "eval/loss"]


def hp_experiment(directory, *metrics):
    """Write what ``hp.hparams_config`` writes, by TensorBoard's own writer."""
    from tensorboard.compat.proto import event_pb2
    from tensorboard.plugins.hparams import summary_v2 as hp
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(directory))
    made = [hp.Metric(tag, group=group, display_name=name) for tag, group, name in metrics]
    summary = hp.hparams_config_pb([hp.HParam("lr", hp.Discrete([0.1, 0.2]))], made)
    writer.add_event(event_pb2.Event(wall_time=1.7e9, summary=summary))
    writer.close()


def test_metrics_are_called_as_the_hp_plugin_declares(make):
    hp_experiment(
        make.root,
        ("epoch_accuracy", "validation", "Accuracy"),
        ("loss", "train", "loss (train)"),
        ("loss", "validation", "loss (val.)"),
        ("speed_ms", "", ""),
    )
    for tag in ("epoch_accuracy", "loss", "speed_ms"):
        make.line("a/validation", tag, range(3), name=f"events.out.tfevents.1.{tag}")
    log = make.open()
    assert log.experiment["hparams"] == [
        {"name": "lr", "display_name": "", "description": "", "values": [0.1, 0.2]}
    ]
    assert [each["tag"] for each in log.experiment["metrics"]] == [
        "epoch_accuracy", "loss", "loss", "speed_ms",
    ]  # fmt: skip
    found = {chart.id: chart.title for chart in store.charts(log)}
    # Of two names for one chart none is the chart's; without a name it is called by its tag.
    assert found == {"epoch_accuracy": "Accuracy", "loss": "loss", "speed_ms": "speed"}
    assert log.run(".").experiment == log.experiment
    assert log.run("a/validation").experiment == {}


def test_an_experiment_that_is_none_is_passed_over(make):
    file = make.line("a", "loss", range(3))
    plugin = Metadata.of("hparams", b"\x12\xff\xff", data_class=2)
    make.append(file, Event(make.START, 0, summary=Summary([Value("_hparams_/experiment", metadata=plugin)])))
    log = make.open()
    assert log.experiment == {}
    assert [chart.title for chart in store.charts(log)] == ["loss"]


def test_sections_have_places_what_a_run_is_about_first_and_its_own_cost_last():
    tags = ["stepscope/overhead_ratio", "system/gpu0/utilization_ratio", "speed/steps_per_second"]
    made = charts_of(frozenset([*tags, "gradients/norm", "train/loss", "accuracy", "a/b/c"]))
    ordered = sorted({(chart.section_place, chart.section, chart.own_cost) for chart in made})
    assert [section for _, section, _ in ordered] == [
        "metrics", "train", "a", "gradients", "speed", "system", "stepscope",
    ]  # fmt: skip
    assert [own for *_, own in ordered] == [False] * 6 + [True]


# Which tags and runs belong on one chart.


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
