"""Accelerate with the tracker, in one process."""

import numpy as np
import pytest

pytest.importorskip("accelerate")
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.integrations.accelerate import StepscopeTracker
from stepscope.integrations.torch import watch
from stepscope.store.charts import groups

pytestmark = pytest.mark.filterwarnings("ignore:.*`torch.jit:DeprecationWarning")


@pytest.fixture(autouse=True)
def fresh():
    yield
    for state in (AcceleratorState, GradientState, PartialState):
        state._shared_state.clear()


@pytest.fixture
def stored(tmp_path):
    def read():
        return ss.open(tmp_path, cache=False).run("run")

    return read


def test_a_training_is_recorded(tmp_path, stored):
    accelerator = Accelerator(cpu=True, log_with=StepscopeTracker(tmp_path / "run", tags=["a"]))
    accelerator.init_trackers("ignored", config={"lr": 0.1, "hub_token": "t"})
    run = accelerator.get_tracker("stepscope", unwrap=True)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.DataLoader(torch.ones(12, 4), batch_size=2)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    watch(model, optimizer, run)
    for batch in run.steps(data):
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"train/loss": loss.detach(), "batch": {"size": len(batch)}})
    accelerator.log({"eval/loss": 0.5, "note": "done"}, step=5)
    accelerator.end_training()
    found = stored()
    assert (found.state, found.info.total_steps) == ("finished", 6)
    for tag in ("train/loss", "batch/size", "optimizer/lr", "speed/step_time_ms"):
        assert found.series(tag)["step"].tolist() == list(range(6))
    assert found.info.config["lr"] == 0.1
    assert found.info.config["hub_token"] == "[scrubbed]"
    assert found.info.config["model"]["parameters"] == 5
    assert "loss" in [group.metric for group in groups(found.tags()) if group.overlay]


def test_an_exception_on_the_way_makes_the_run_failed(tmp_path, stored):
    accelerator = Accelerator(cpu=True, log_with=StepscopeTracker(tmp_path / "run"))
    accelerator.init_trackers("x")
    try:
        raise ValueError("bad")
    except ValueError:
        accelerator.end_training()
    assert (stored().info.status, stored().info.reason) == ("failed", "ValueError: bad")


def test_a_run_of_the_users_own(tmp_path):
    with ss.Run(tmp_path / "run") as run:
        accelerator = Accelerator(cpu=True, log_with=[StepscopeTracker(run)])
        accelerator.init_trackers("x")
        accelerator.log({"x": 1.0}, step=3)
        accelerator.end_training()
        assert accelerator.get_tracker("stepscope", unwrap=True) is run
        assert run.state == "recording"
        with pytest.raises(UsageError):
            StepscopeTracker(run, tags=["a"])


def test_images(tmp_path, stored):
    pytest.importorskip("PIL")
    tracker = StepscopeTracker(tmp_path / "run")
    tracker.start()
    tracker.log_images({"samples": np.zeros((2, 8, 8, 3), np.uint8)}, step=1)
    tracker.finish()
    [path] = (tmp_path / "run").glob("*tfevents*")
    assert b"samples" in path.read_bytes()


def test_failures_never_stop_the_training(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    monkeypatch.setattr(ss.Run, "scalars", lambda *_: 1 / 0)
    with ss.Run(tmp_path / "run") as run:
        accelerator = Accelerator(cpu=True, log_with=StepscopeTracker(run))
        accelerator.init_trackers("x")
        with pytest.warns(RuntimeWarning, match=r"StepscopeTracker\.log raised ZeroDivisionError"):
            accelerator.log({"x": 1.0})
        accelerator.log({"x": 1.0})
        assert run.problems == {"callback": 2}
