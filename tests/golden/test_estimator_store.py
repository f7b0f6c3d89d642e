"""The Estimator's own logs through the store: TensorBoard's reader sees the same."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from support.recordings import estimator

from stepscope import store
from stepscope.serve.health import saturation_of

DATA = estimator()


@pytest.fixture(scope="module")
def log():
    return store.open(DATA, cache=False)


def tensorboard(run):
    """Every scalar of a run as TensorBoard's EventAccumulator reads it: {tag: [(wall, step, value)]}."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        accumulator = EventAccumulator(
            str(DATA / run), size_guidance={"scalars": 0}, purge_orphaned_data=False
        )
        accumulator.Reload()
        return {
            tag: [(point.wall_time, point.step, point.value) for point in accumulator.Scalars(tag)]
            for tag in accumulator.Tags()["scalars"]
        }


def test_runs_are_those_that_tensorboard_finds(log):
    from tensorboard.backend.event_processing.io_wrapper import GetLogdirSubdirectories

    theirs = {str(Path(path).relative_to(DATA)) for path in GetLogdirSubdirectories(str(DATA))}
    assert (
        {run.name for run in log.runs()}
        == theirs
        == {"single", "single/eval", "distributed", "distributed/eval"}
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["single", "single/eval", "distributed", "distributed/eval"])
def test_every_point_is_that_of_tensorboard(log, name):
    run, theirs = log.run(name), tensorboard(name)
    assert run.tags() == sorted(theirs)
    assert run.num_points() == sum(map(len, theirs.values()))
    for tag, points in theirs.items():
        wall, step, value = zip(*points, strict=True)
        frame = run.series(tag)
        assert frame["step"].tolist() == list(step)
        assert frame["wall_time"].tolist() == list(wall)
        np.testing.assert_array_equal(frame["value"], np.array(value, np.float32))
    assert run.problems == []


def test_evaluation_belongs_to_its_run(log):
    assert {run.name: (run.base, run.split) for run in log.runs()} == {
        "single": ("single", None),
        "single/eval": ("single", "eval"),
        "distributed": ("distributed", None),
        "distributed/eval": ("distributed", "eval"),
    }
    [loss] = [chart for chart in store.charts(log) if chart.title == "loss"]
    assert [line.tag for line in loss.lines] == ["loss"]
    assert log.run("single/eval").columns("loss")[0].split == "eval"


def test_every_session_is_an_attempt_of_one_writer(log):
    [writer] = log.run("distributed").writers
    assert (writer.id, writer.attempt) == ("vm", 1)
    assert log.run("single").state == "ended"


@pytest.mark.parametrize("name", ["single", "distributed"])
def test_relus_by_their_histograms_are_not_judged_as_sigmoids(log, name):
    run = log.run(name)
    tags = {each.tag for each in run.records() if each.kind == "histogram"}
    assert "dnn/hiddenlayer_0/activation" in tags
    assert list(saturation_of(run, 1)) == []
