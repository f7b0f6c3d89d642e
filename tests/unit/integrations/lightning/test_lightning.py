"""Real trainings of Lightning, recorded by the logger and the callback."""

import pickle
import sys
import time
from types import SimpleNamespace

import pytest
from support import hooks

pytest.importorskip("lightning.pytorch")
import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn

import stepscope as ss
from stepscope.errors import HaltError, UsageError
from stepscope.integrations.lightning import StepscopeCallback, StepscopeLogger
from stepscope.integrations.stepper import examples
from stepscope.record.clock import Clock
from stepscope.store.charts import groups

pytestmark = [
    pytest.mark.filterwarnings("ignore:The '.*' does not have many workers"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before"),
    pytest.mark.filterwarnings("ignore:.*`torch.jit:DeprecationWarning"),
]


QUIET = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "log_every_n_steps": 1,
}


class Model(pl.LightningModule):
    """Logs under the names that are in use: with and without a word for the split."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))
        self.fail_at: tuple[int, BaseException] | None = None

    def loss(self, batch):
        inputs, targets = batch
        return nn.functional.mse_loss(self.net(inputs), targets)

    def training_step(self, batch, index):
        if self.fail_at is not None and self.global_step == self.fail_at[0]:
            raise self.fail_at[1]
        loss = self.loss(batch)
        self.log("train_loss", loss)
        self.log("mae", loss)
        return loss

    def validation_step(self, batch, index):
        loss = self.loss(batch)
        self.log("val_loss", loss)
        self.log("mae", loss)

    def test_step(self, batch, index):
        self.log("mae", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def loader():
    """Eight batches of four."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(32, 4, generator=generator)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(data, batch_size=4)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


@pytest.fixture
def trainer(tmp_path):
    """Makes trainers that say little."""

    def make(**options):
        return pl.Trainer(**{"default_root_dir": tmp_path / "root", "max_epochs": 1, **QUIET, **options})

    return make


@pytest.fixture
def stored(tmp_path):
    """Reads the run of a directory."""

    def read(name="run"):
        return ss.open(tmp_path, cache=False).run(name)

    return read


class Slow(torch.utils.data.IterableDataset):
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        for batch in self.loader:
            time.sleep(0.02)
            yield batch


@pytest.mark.slow
def test_a_validation_in_the_middle_of_a_step_is_no_part_of_it(tmp_path, trainer, loader, model, stored):
    now = [100.0]
    clock = Clock(wall=lambda: 1.7e9 + now[0], steady=lambda: now[0], cpu=lambda: 0.0, pause=lambda s: None)
    validated = []

    class Timed(Model):
        def training_step(self, batch, index):
            now[0] += 1.0
            return super().training_step(batch, index)

        def validation_step(self, batch, index):
            now[0] += 7.0
            validated.append(index)

    with ss.Run(tmp_path / "run", _clock=clock) as run:
        options = {"accumulate_grad_batches": 2, "val_check_interval": 3, "num_sanity_val_steps": 0}
        trainer(callbacks=[StepscopeCallback(run)], logger=False, limit_val_batches=1, **options).fit(
            Timed(), loader, loader
        )
    assert len(validated) == 2
    assert set(stored().series("speed/step_time_ms")["value"]) == {2000.0}
    assert stored().series("speed/time_in_evaluation_s")["value"].tolist() == [7.0, 7.0]


def steps(run, tag):
    return run.series(tag)["step"].tolist()


def test_a_training_is_recorded(tmp_path, trainer, model, loader, stored):
    logger = StepscopeLogger(tmp_path / "run", tags=["a"])
    fit = trainer(logger=logger, callbacks=[StepscopeCallback()], max_epochs=2)
    fit.fit(model, loader, loader)
    run = stored()
    assert (run.state, run.info.total_steps, run.info.attempt) == ("finished", 16, 1)
    for tag in ("train_loss", "mae", "speed/step_time_ms", "speed/data_wait_ms", "optimizer/lr"):
        assert steps(run, tag) == list(range(16))
    # one point per epoch, none of the check before the training
    assert steps(run, "val_loss") == steps(run, "eval/mae") == [7, 15]
    assert run.series("val_loss")["value"][-1] == pytest.approx(
        float(fit.callback_metrics["val_loss"]), rel=1e-6
    )
    assert run.info.config["width"] == 8
    assert run.info.config["model"]["parameters"] == 49
    assert run.info.config["trainer"]["max_epochs"] == 2
    overlays = [group.metric for group in groups(run.tags()) if group.overlay]
    assert overlays == ["mae", "loss"]


def test_layers_and_stages_are_seen_though_nobody_calls_the_module(tmp_path, trainer, model, loader):
    nn.init.constant_(model.net[0].bias, 100.0)  # every unit is saturated
    hook = ss.ActivationHook(every_n_steps=1, max_overhead=None)
    logger = StepscopeLogger(tmp_path / "run", hooks=[hook])
    run = logger.experiment
    trainer(logger=logger, callbacks=[StepscopeCallback()]).fit(model, loader)
    with ss.open(tmp_path, cache=False) as log:
        saturated = log.run("run").series("activations/net.1/saturation_ratio")
    assert saturated["value"].tolist() == [1.0] * 8
    names = run.step_counter.stages.names
    order = [names[number] for number in run.step_counter.stages.order]
    assert order == ["forward", "backward", "optimizer"]


def test_checkpoints_lie_in_the_run(tmp_path, trainer, model, loader):
    logger = StepscopeLogger(tmp_path / "run")
    fit = trainer(logger=logger)
    fit.fit(model, loader)
    assert fit.log_dir == logger.save_dir == logger.log_dir == logger.root_dir == str(tmp_path / "run")
    assert (logger.name, logger.version) == ("", "")
    assert list((tmp_path / "run" / "checkpoints").glob("*.ckpt"))


def test_accumulated_batches_are_one_step(tmp_path, trainer, model, loader, stored):
    logger = StepscopeLogger(tmp_path / "run")
    slow = torch.utils.data.DataLoader(Slow(loader), batch_size=None)
    fit = trainer(logger=logger, callbacks=[StepscopeCallback()], accumulate_grad_batches=3)
    fit.fit(model, slow)
    run = stored()
    assert steps(run, "speed/step_time_ms") == steps(run, "train_loss") == [0, 1, 2]
    waited = run.series("speed/data_wait_ms")["value"]
    assert waited[1] > 50  # three batches of 20 ms
    assert (run.series("speed/step_time_ms")["value"] > waited).all()


def test_validation_and_checkpoints_are_no_wait_for_data(tmp_path, trainer, model, loader, stored):
    class Slowly(pl.Callback):
        def on_validation_start(self, *_):
            time.sleep(0.1)

    callbacks = [StepscopeCallback(), Slowly()]
    fit = trainer(logger=StepscopeLogger(tmp_path / "run"), callbacks=callbacks, val_check_interval=2)
    fit.fit(model, loader, loader)
    assert steps(stored(), "val_loss") == [1, 3, 5, 7]
    for tag in ("speed/data_wait_ms", "speed/step_time_ms"):
        assert stored().series(tag)["value"][1:].max() < 100


def test_a_second_fit_goes_on_and_a_test_stands_beside_it(tmp_path, trainer, model, loader, stored):
    logger = StepscopeLogger(tmp_path / "run")
    fit = trainer(logger=logger, callbacks=[StepscopeCallback()])
    fit.fit(model, loader, loader)
    first = logger.experiment
    fit.test(model, loader, verbose=False)
    fit.fit_loop.max_epochs = 2
    fit.fit(model, loader, loader)
    assert logger.experiment is not first
    logger.finalize("success")
    run = stored()
    assert run.state == "finished"
    assert steps(run, "train_loss") == list(range(16))
    assert steps(run, "test/mae") == [8]
    assert [each.superseded_from for each in run.columns("train_loss")] == [None, None]


def test_steps_go_on_where_a_checkpoint_is_resumed(tmp_path, trainer, model, loader, stored):
    logger = StepscopeLogger(tmp_path / "run")
    saving = pl.callbacks.ModelCheckpoint(every_n_train_steps=5, save_top_k=-1)
    trainer(logger=logger, callbacks=[StepscopeCallback(), saving]).fit(model, loader)
    [path] = (tmp_path / "run" / "checkpoints").glob("*step=5.ckpt")
    logger = StepscopeLogger(tmp_path / "run")
    saving = pl.callbacks.ModelCheckpoint(every_n_train_steps=5, save_top_k=-1)
    trainer(logger=logger, callbacks=[StepscopeCallback(), saving]).fit(model, loader, ckpt_path=path)
    one, two = stored().columns("speed/step_time_ms")
    assert one.superseded_from == 5
    assert stored().columns("speed/step_time_ms")[1].step.tolist() == [5, 6, 7]
    assert stored().columns("train_loss")[1].step.tolist() == [5, 6, 7]
    assert two.superseded_from is None


@pytest.mark.parametrize("with_logger", [True, False])
@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ValueError("loss is bad"), "failed", "ValueError: loss is bad"),
        (KeyboardInterrupt(), "stopped", "KeyboardInterrupt"),
    ],
)
def test_the_run_says_how_the_training_ended(
    tmp_path, trainer, model, loader, stored, error, status, reason, with_logger
):
    model.fail_at = 3, error
    if with_logger:
        fit = trainer(logger=StepscopeLogger(tmp_path / "run"), callbacks=[StepscopeCallback()])
    else:
        fit = trainer(logger=False, callbacks=[StepscopeCallback(tmp_path / "run")])
    with pytest.raises((ValueError, SystemExit)):  # Lightning exits after Ctrl-C
        fit.fit(model, loader)
    info = stored().info
    assert (info.status, info.reason) == (status, reason)
    assert steps(stored(), "speed/step_time_ms") == [0, 1, 2]


def test_a_request_to_stop_ends_the_training(tmp_path, trainer, model, loader, stored):
    logger = StepscopeLogger(tmp_path / "run", hooks=[hooks.Stops(after=4)])
    trainer(logger=logger, callbacks=[StepscopeCallback()], max_epochs=9).fit(model, loader)
    assert steps(stored(), "train_loss") == [0, 1, 2, 3, 4]
    assert (stored().info.status, stored().info.reason) == ("finished", "enough")


def test_a_hook_that_is_meant_to_end_the_training_does(tmp_path, trainer, model, loader, stored):
    logger = StepscopeLogger(tmp_path / "run", hooks=[hooks.Halts()])
    with pytest.raises(HaltError):
        trainer(logger=logger, callbacks=[StepscopeCallback()]).fit(model, loader)
    assert stored().info.status == "failed"


def test_examples_are_counted(tmp_path, trainer, model, loader):
    with ss.Run(tmp_path / "run") as run:
        trainer(logger=StepscopeLogger(run), callbacks=[StepscopeCallback()]).fit(model, loader)
        assert run.examples == 32
        assert run.state == "recording"  # whoever made it closes it


def test_the_callback_alone_records_steps(tmp_path, trainer, model, loader, stored):
    trainer(logger=False, callbacks=[StepscopeCallback(tmp_path / "run", tags=["a"])]).fit(model, loader)
    assert steps(stored(), "optimizer/lr") == list(range(8))
    assert stored().state == "finished"


def test_the_callback_takes_itself_off(tmp_path, trainer, model, loader):
    callback = StepscopeCallback()
    fit = trainer(logger=StepscopeLogger(tmp_path / "run"), callbacks=[callback])
    fit.fit(model, loader)
    assert not {"_on_before_fetch", "_on_after_fetch"} & vars(fit.fit_loop.epoch_loop).keys()
    assert not fit.optimizers[0]._optimizer_step_post_hooks


def test_several_optimizers_by_hand(tmp_path, trainer, loader, stored):
    class Two(pl.LightningModule):
        automatic_optimization = False

        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            for optimizer, net in zip(self.optimizers(), (self.one, self.two), strict=True):
                optimizer.zero_grad()
                self.manual_backward(net(batch[0]).square().mean())
                optimizer.step()

        def configure_optimizers(self):
            one, two = self.one.parameters(), self.two.parameters()
            return torch.optim.SGD(one, lr=0.1), torch.optim.SGD(two, lr=0.2)

    trainer(logger=StepscopeLogger(tmp_path / "run"), callbacks=[StepscopeCallback()]).fit(Two(), loader)
    assert steps(stored(), "speed/step_time_ms") == list(range(8))
    assert stored().series("optimizer/1/lr")["value"].tolist() == pytest.approx([0.2] * 8)


def test_numbers_of_the_module_itself(tmp_path, trainer, model, loader, stored):
    logger = StepscopeLogger(tmp_path / "run", prefix="mine")
    logger.log_hyperparams({"lr": 0.1, "api_key": "k"}, {"best": 0.5})
    logger.log_metrics({"x": torch.tensor(3.0), "epoch": 1}, 7)
    logger.save()
    logger.finalize("success")
    run = stored()
    assert run.info.config == {"lr": 0.1, "api_key": "[scrubbed]"}
    assert run.series("mine/x")["value"].tolist() == [3.0]
    assert steps(run, "mine/best") == [0]


def test_requeued_by_a_scheduler(tmp_path, stored):
    logger = StepscopeLogger(tmp_path / "run")
    logger.log_metrics({"x": 1.0}, 0)
    logger.finalize("finished")
    assert (stored().info.status, stored().info.reason) == ("stopped", "requeued")


def test_a_logger_travels_to_another_process(tmp_path, stored):
    logger = StepscopeLogger(tmp_path / "run", tags=["a"])
    logger.log_metrics({"x": 1.0}, 0)
    copy = pickle.loads(pickle.dumps(logger))
    copy.log_metrics({"x": 2.0}, 1)
    for each in (logger, copy):
        each.finalize("success")
    assert stored().series("x")["attempt"].tolist() == [1, 2]
    callback = StepscopeCallback(tmp_path / "other")
    assert pickle.loads(pickle.dumps(callback))._own.log_dir == str(tmp_path / "other")


def test_failures_never_stop_the_training(tmp_path, trainer, model, loader, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    monkeypatch.setattr(ss.Run, "scalars", lambda *_: 1 / 0)
    monkeypatch.setattr("stepscope.integrations.stepper.Stepper.begin", lambda *_: 1 / 0)
    with ss.Run(tmp_path / "run") as run:
        fit = trainer(logger=StepscopeLogger(run), callbacks=[StepscopeCallback()])
        with pytest.warns(RuntimeWarning, match="raised ZeroDivisionError") as warned:
            fit.fit(model, loader)
        assert fit.global_step == 8
        assert run.problems["callback"] > 8
    [ours] = [each for each in warned if "ZeroDivisionError" in str(each.message)]
    assert ours.filename == __file__


def test_a_callback_without_a_run_says_what_is_missing(trainer, model, loader):
    with pytest.raises(UsageError, match="no run to record in"):
        trainer(logger=False, callbacks=[StepscopeCallback()]).fit(model, loader)
    with pytest.raises(UsageError, match="options for a run, tags, and no directory"):
        StepscopeCallback(tags=["a"])


def test_the_package_that_the_program_has_imported_is_used(monkeypatch):
    from stepscope.integrations.lightning import package as package

    assert package.NAME == "lightning.pytorch"
    monkeypatch.setitem(sys.modules, "pytorch_lightning", pl)
    assert package._used() == "lightning.pytorch"
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    assert package._used() == "pytorch_lightning"


class Callable(Model):
    """Can be called, as ``example_input_array`` is for."""

    example_input_array = torch.zeros(2, 4)

    def forward(self, inputs):
        return self.net(inputs)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_graph_is_recorded_where_it_is_asked_for(tmp_path, trainer, loader, stored, wanted):
    trainer(logger=StepscopeLogger(tmp_path / "run", log_graph=wanted), max_steps=2).fit(Callable(), loader)
    assert [record.kind for record in stored().records() if record.kind == "graph"] == ["graph"] * wanted


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (np.zeros((4, 2)), 4),
        ((np.zeros((4, 2)), np.zeros(4)), 4),
        ({"name": "x", "ids": np.zeros((3, 7))}, 3),
        ([["a", "b"], {"x": (np.zeros((5, 1)),)}], 5),
        (np.zeros(()), 0),
        (SimpleNamespace(x=1), 0),
        (None, 0),
        ([], 0),
    ],
)
def test_examples_of_a_batch(batch, count):
    assert examples(batch) == count


def test_this_version_leaves_out_hooks_that_are_none():
    from stepscope.launch import lightning

    assert lightning._leaves_out()
