"""The integrations in real jobs of two processes: who writes what, and that all ranks end together."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.ports import free_port

import stepscope as ss

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

PREPARE = """
import sys, warnings
import torch, torch.distributed as dist
from torch import nn
import stepscope as ss

folder = sys.argv[1]
torch.manual_seed(0)
data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
data = torch.utils.data.TensorDataset(data, data.sum(1, keepdim=True))

class Asks(ss.Hook):
    ranks = "all"
    def __init__(self, step):
        self.step = step
    def begin(self, run):
        self.run = run
    def after_step(self, step):
        if step == self.step and self.run.role.rank == 1:
            self.run.request_stop("rank 1 has enough", alone=True)
"""

TORCH = """
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from stepscope.integrations.torch import watch

dist.init_process_group("gloo")
loader = torch.utils.data.DataLoader(data, 4, sampler=torch.utils.data.DistributedSampler(data))
for kind in ("ddp", "fsdp2"):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    if kind == "ddp":
        model = DistributedDataParallel(model)
    else:
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4)
    with ss.Run(f"{folder}/{kind}") as run:
        watched = watch(model, optimizer, run)
        for inputs, targets in run.steps(loader):
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            run.scalar("train/loss", loss)
        watched.remove()
    assert not optimizer._optimizer_step_post_hooks
dist.destroy_process_group()
"""

LIGHTNING = """
import lightning.pytorch as pl
from stepscope.integrations.lightning import StepscopeCallback, StepscopeLogger

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, index):
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]), sync_dist=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    loader = torch.utils.data.DataLoader(data, 4)
    trainer = pl.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=5, log_every_n_steps=2,
        logger=StepscopeLogger(f"{folder}/lightning", hooks=[Asks(10)]), callbacks=[StepscopeCallback()],
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )
    trainer.fit(Model(), loader, loader)
    print(f"rank {trainer.global_rank} took {trainer.global_step} steps", flush=True)
"""

HUGGING_FACE = """
from accelerate import Accelerator
from transformers import Trainer, TrainingArguments
from stepscope.integrations.accelerate import StepscopeTracker
from stepscope.integrations.transformers import StepscopeCallback

warnings.simplefilter("ignore")

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
    def forward(self, inputs, labels):
        outputs = self.net(inputs)
        return {"loss": nn.functional.mse_loss(outputs, labels), "logits": outputs}

pairs = [{"inputs": inputs, "labels": targets} for inputs, targets in data]
arguments = TrainingArguments(
    f"{folder}/out", per_device_train_batch_size=4, num_train_epochs=9, logging_steps=2, report_to=[],
    disable_tqdm=True, use_cpu=True, save_strategy="no", ddp_backend="gloo", eval_strategy="steps",
    eval_steps=4,
)
callback = StepscopeCallback(f"{folder}/trainer", hooks=[Asks(9)])
trainer = Trainer(Model(), arguments, train_dataset=pairs, eval_dataset=pairs, callbacks=[callback])
trainer.train()
print(f"rank {arguments.process_index} took {trainer.state.global_step} steps", flush=True)

tracker = StepscopeTracker(f"{folder}/accelerate")
accelerator = Accelerator(cpu=True, log_with=tracker)
accelerator.init_trackers("x", config={"lr": 0.01})
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(data, 4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for inputs, targets in tracker.run.steps(loader):
    loss = model(inputs, targets)["loss"]
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    accelerator.log({"train/loss": loss.detach()})
accelerator.end_training()
"""


def launch(tmp_path: Path, script: str, *, torchrun: bool = True) -> str:
    path = tmp_path / "train.py"
    path.write_text(PREPARE + script)
    command = [sys.executable]
    if torchrun:
        command += ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    environment = {
        **os.environ, "STEPSCOPE_STRICT": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "", "USE_LIBUV": "0",
    }  # fmt: skip
    done = subprocess.run(
        [*command, str(path), str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def stored(tmp_path, name):
    """The run, of which one process wrote event files, and both a file of their steps."""
    assert len(list((tmp_path / name).glob("*tfevents*"))) == 1
    assert len(list((tmp_path / name / "ranks").iterdir())) == 2
    run = ss.open(tmp_path, cache=False).run(name)
    assert (run.state, run.info.rank, run.info.world_size) == ("finished", 0, 2)
    return run


def steps(run, tag):
    return run.series(tag)["step"].tolist()


def took(output: str) -> dict[str, str]:
    return dict(re.findall(r"rank (\d+) \S+ (\d+)", output))  # two processes may share a line


def test_ddp_and_fsdp2(tmp_path: Path) -> None:
    launch(tmp_path, TORCH)
    for kind, wrapper in (("ddp", "DistributedDataParallel"), ("fsdp2", "fully_shard")):
        run = stored(tmp_path, kind)
        assert run.series("optimizer/lr")["value"].tolist() == pytest.approx([0.1] * 4 + [0.01] * 4)
        assert steps(run, "train/loss") == list(range(8))
        model = run.info.config["model"]
        assert (model["class"], model["wrapped_by"]) == ("Sequential", [wrapper])
        assert (model["parameters"], model["parameter_bytes"]) == (
            49,
            196,
        )  # the whole model's, not a shard's
        assert run.info.config["optimizer"]["groups"][0]["parameters"] == 49


@pytest.mark.skipif(not find_spec("lightning"), reason="lightning is not installed")
def test_lightning(tmp_path: Path) -> None:
    """Its own launcher, which sets no RANK for the processes that it starts."""
    output = launch(tmp_path, LIGHTNING, torchrun=False)
    run = stored(tmp_path, "lightning")
    # Asked for after step 10, agreed on at step 10, where every second step is looked at.
    assert took(output) == {"0": "13", "1": "13"}
    assert steps(run, "speed/step_time_ms") == list(range(13))
    assert steps(run, "val_loss") == [7, 12]
    assert run.info.reason == "another rank requested it"
    assert run.info.config["model"]["wrapped_by"] == ["DistributedDataParallel"]


@pytest.mark.skipif(not find_spec("transformers"), reason="transformers is not installed")
def test_transformers_and_accelerate(tmp_path: Path) -> None:
    output = launch(tmp_path, HUGGING_FACE)
    run = stored(tmp_path, "trainer")
    # Asked for after step 9, said at step 10, where every second step is looked at, done at step 12.
    assert took(output) == {"0": "12", "1": "12"}
    assert steps(run, "speed/step_time_ms") == list(range(1, 13))
    assert steps(run, "train/loss") == [2, 4, 6, 8, 10, 12]
    assert steps(run, "eval/loss") == [4, 8, 12]
    run = stored(tmp_path, "accelerate")
    assert steps(run, "train/loss") == list(range(8))
    assert run.info.config["lr"] == 0.01
