"""Facts that are known only after the run was made."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import plugin_data_pb2


def hparams(run):
    """The session starts that TensorBoard would read."""
    [path] = Path(run.log_dir).glob("*tfevents*")
    found = []
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if value.tag == "_hparams_/session_start_info":
                content = value.metadata.plugin_data.content
                found.append(plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams)
    return found


def test_facts_are_added_and_replaced_without_secrets(real, infos):
    with real(config={"lr": 0.1, "seed": 1}) as run:
        run.describe({"seed": 2, "model": {"parameters": 10}, "api_key": "k"})
        assert run.config == {"lr": 0.1, "seed": 2, "model": {"parameters": 10}, "api_key": "[scrubbed]"}
        run.describe({})
    assert infos(run)[-1]["config"] == run.config


def test_tensorboard_gets_the_config_that_comes_late(real):
    with real() as run:
        run.flush()
        run.describe({"lr": 0.5})
        run.flush()
        run.scalar("x", 1.0)
    [start] = hparams(run)
    assert start["lr"].number_value == 0.5


def test_a_run_without_config_is_no_session_for_tensorboard(real):
    with real() as run:
        run.scalar("x", 1.0)
    assert hparams(run) == []
    [path] = Path(run.log_dir).glob("*tfevents*")
    tags = [value.tag for event in EventFileLoader(str(path)).Load() for value in event.summary.value]
    assert "x" in tags
    assert not [tag for tag in tags if tag.startswith("_hparams_")]


def test_tensors_of_one_element_are_numbers_and_none_is_left_out(real):
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")
    config = {
        "tensor": torch.tensor([0.5]),
        "array": np.array([[2]]),
        "several": np.ones(2),
        "meta": torch.empty((), device="meta"),
        "none": None,
    }
    with real(config=config) as run:
        run.scalar("x", 1.0)
        assert run.config["none"] is None
    [start] = hparams(run)
    assert {name: value.number_value for name, value in start.items() if value.HasField("number_value")} == {
        "tensor": 0.5,
        "array": 2.0,
    }
    assert sorted(start) == ["array", "meta", "several", "tensor"]


def test_tensorboard_is_told_which_metrics_were_named(real):
    with real(config={"seed": 1}) as run:
        run.scalar("train/loss", 1.0)
        run.hparams({"lr": 0.1, "name": "adam", "amp": True}, {"accuracy": 0.5})
    [path] = Path(run.log_dir).glob("*tfevents*")
    [said] = [
        plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content).experiment
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
        if value.tag == "_hparams_/experiment"
    ]
    assert [info.name.tag for info in said.metric_infos] == ["accuracy"]
    assert [(info.name, info.type) for info in said.hparam_infos] == [
        ("seed", 3),
        ("lr", 3),
        ("name", 1),
        ("amp", 2),
    ]
