"""Facts that are known only after the run was made."""

from __future__ import annotations

from pathlib import Path

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


def test_tensorboard_hears_of_a_run_without_config_too(real):
    with real() as run:
        run.scalar("x", 1.0)
    assert len(hparams(run)) == 1
