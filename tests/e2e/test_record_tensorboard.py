"""TensorBoard's own readers read what a run wrote."""

import math
from pathlib import Path

import pytest

import stepscope as ss

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util


@pytest.fixture
def run(tmp_path):
    values = [0.5, math.pi, 1e300, -1e39, math.inf, 3e-45, 0.0]
    with ss.Run(tmp_path / "run", config={"lr": 0.1, "name": "mlp", "amp": True}, tags=["x"]) as run:
        for value in run.steps(values):
            run.scalar("train/loss", value)
            run.scalars({"a": value, "b/c": 2})
        run.scalar("late", 1.0, 10**12)
    return run, values


def events(directory):
    [path] = Path(directory).glob("*tfevents*")
    return list(EventFileLoader(str(path)).Load())


def test_every_value_is_read(run):
    run, values = run
    found = {}
    for event in events(run.log_dir):
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                number = tensor_util.make_ndarray(value.tensor).item()
                found.setdefault(value.tag, []).append((event.step, number))
    assert [step for step, _ in found["train/loss"]] == list(range(7))
    assert [number for _, number in found["train/loss"]] == pytest.approx(values, rel=1e-6)
    assert found["a"] == found["train/loss"]
    assert found["b/c"] == [(step, 2.0) for step in range(7)]
    assert found["late"] == [(10**12, 1.0)]
    assert len(found["speed/step_time_ms"]) == 7
    assert not [tag for tag in found if tag.startswith("stepscope/")]


def test_the_first_record_says_who_wrote_it(run):
    first = events(run[0].log_dir)[0]
    assert first.file_version == "brain.Event:2"
    assert first.source_metadata.writer == "stepscope"


def test_hparams_know_the_config_and_the_end(run):
    contents = {}
    for event in events(run[0].log_dir):
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "hparams":
                content = plugin_data_pb2.HParamsPluginData()
                content.ParseFromString(value.metadata.plugin_data.content)
                contents[value.tag] = content
    start = contents["_hparams_/session_start_info"].session_start_info
    assert start.hparams["lr"].number_value == 0.1
    assert start.hparams["name"].string_value == "mlp"
    assert start.hparams["amp"].bool_value is True
    end = contents["_hparams_/session_end_info"].session_end_info
    assert end.status == 1  # STATUS_SUCCESS
    assert end.end_time_secs >= start.start_time_secs


def test_the_multiplexer_lists_the_run(run, tmp_path):
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    [name] = multiplexer.Runs()
    assert name == "run"
    assert len(multiplexer.Tensors("run", "train/loss")) == 7
    tags = {tag for kind in multiplexer.Runs()["run"].values() if isinstance(kind, list) for tag in kind}
    assert not [tag for tag in tags if tag.startswith("stepscope/")]


def test_what_the_run_says_of_itself_stands_beside_it(run):
    directory = Path(run[0].log_dir)
    assert len(list(directory.glob("*tfevents*"))) == len(list(directory.glob("events.out.stepscope.*"))) == 1
    with ss.open(directory.parent) as log:
        found = log.run("run")
        assert found.info.config == {"lr": 0.1, "name": "mlp", "amp": True}
        assert found.state == "finished"
        assert found.columns("stepscope/dropped_points")[0].value[-1] == 0.0
        assert [(series.writer, series.attempt) for series in found.columns("late")] == [
            (series.writer, series.attempt) for series in found.columns("stepscope/overhead_ratio")
        ]
        assert len(found.writers) == 1


def test_all_stands_in_one_file_where_that_is_asked_for(tmp_path):
    with ss.Run(tmp_path, own_file=False) as run:
        run.scalar("a", 1.0, 0)
    assert [path.name.split(".")[2] for path in tmp_path.iterdir()] == ["tfevents"]
    tags = [value.tag for event in events(tmp_path) for value in event.summary.value]
    assert {"a", "stepscope/run", "stepscope/dropped_points"} <= set(tags)
    with ss.open(tmp_path) as log:
        assert log.run(".").state == "finished"
        assert log.run(".").tags()[0] == "a"


def test_attempts_are_counted_and_read_whichever_file_says_so(tmp_path):
    for number, own in enumerate((False, True, True)):
        with ss.Run(tmp_path, own_file=own, config={"number": number}) as run:
            run.scalar("a", float(number), number)
    with ss.open(tmp_path) as log:
        found = log.run(".")
        assert found.info.attempt == 3
        assert found.info.config == {"number": 2}
        [writer] = found.writers
        assert [series.attempt for series in found.columns("a")] == [1, 2, 3]
        assert [series.attempt for series in found.columns("stepscope/dropped_points")] == [1, 2, 3]
        assert {series.writer for series in found.columns("stepscope/dropped_points")} == {writer.id}
        assert [series.attempt for series in found.record("stepscope/run")] == [1, 2, 3]


def test_the_file_of_a_rank_is_read_where_it_is_named_and_listed_nowhere(tmp_path):
    with ss.Run(tmp_path / "run", rank=0, world_size=2) as run:
        for _ in run.steps(range(3)):
            run.scalar("loss", 1.0)
    [path] = (tmp_path / "run" / "ranks").iterdir()
    values = [value for event in EventFileLoader(str(path)).Load() for value in event.summary.value]
    assert {"facts", "rows", "end"} <= {value.tag for value in values}
    assert all(isinstance(tensor_util.make_ndarray(value.tensor).item(), bytes) for value in values)
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path))
    assert list(multiplexer.Runs()) == ["run"]
