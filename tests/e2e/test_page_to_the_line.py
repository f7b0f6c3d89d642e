"""From the first page to what made it so, in at most three clicks, as the browser counts them.

The way of the demo is in ``test_page_newcomer.py``.
"""

import re

import pytest
from support import programs
from support.ports import free_port

pytest.importorskip("torch")

PATIENCE_MS = 20_000
MOST_CLICKS = 3

WAITS = """
import itertools, sys, time
from pathlib import Path
import torch
from torch.utils.data import DataLoader, Dataset
import stepscope as ss
from stepscope.integrations.torch import watch

class Pictures(Dataset):
    def __len__(self):
        return 16 * 100_000
    def __getitem__(self, index):
        return self.decode(index), index % 10
    def decode(self, index):
        time.sleep(0.0006)
        return torch.randn(64)

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(Pictures(), batch_size=16)
stop = Path(sys.argv[2]) if sys.argv[2:] else None
hook = ss.ProfilerHook() if stop else ss.ProfilerHook(save_steps=100)
with ss.Run(sys.argv[1], hooks=[hook, ss.HealthHook()], total_steps=None if stop else 300) as run:
    watch(model, optimizer, run)
    for (x, y), step in zip(run.steps(loader), itertools.count()):
        if stop.exists() if stop else step == 300:
            break
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        run.scalar("train/loss", loss)
"""
"""Trains 300 steps and captures by schedule; with a second argument on request, until there is that file."""

SLOW_RANK = 2
ONE_OF_FOUR_WAITS = """
import sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
import stepscope as ss
from stepscope.integrations.torch import watch

class Pictures(Dataset):
    def __len__(self):
        return 16 * 400
    def __getitem__(self, index):
        return self.decode(index), index % 10
    def decode(self, index):
        if dist.get_rank() == 2 and index >= 16 * 60:
            time.sleep(0.004)
        return torch.randn(64)

torch.set_num_threads(1)
address = f"tcp://127.0.0.1:{sys.argv[3]}"
dist.init_process_group("gloo", init_method=address, rank=int(sys.argv[2]), world_size=4)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(Pictures(), batch_size=16)
hooks = [ss.ProfilerHook(save_steps=80, ranks="all"), ss.HealthHook()]
with ss.Run(sys.argv[1], hooks=hooks, total_steps=200) as run:
    watch(model, optimizer, run)
    for (x, y), _ in zip(run.steps(loader), range(200)):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        run.scalar("train/loss", loss)
dist.destroy_process_group()
"""

DIVERGES = """
import sys
import torch
import stepscope as ss
from stepscope.integrations.torch import watch

torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(1024, 16)
targets = inputs.sum(1, keepdim=True)
inputs[777] = float("inf")  # the row that spoils it
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
order = [n for n in range(1024) if n != 777][:960]
order[123 * 4] = 777
hooks = [ss.GradientHook(1), ss.ActivationHook(1), ss.NanHook(action="stop"), ss.HealthHook()]
with ss.Run(sys.argv[1], hooks=hooks, total_steps=240) as run:
    watch(model, optimizer, run)
    for step in run.steps(range(240)):
        chosen = order[4 * step : 4 * step + 4]
        run.batch(chosen)
        loss = torch.nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        run.scalar("train/loss", loss)
"""


@pytest.fixture
def opened(tmp_path, serve, watch):
    """Train a program and open the first page of what it left; clicks are counted from then on."""

    def at(program):
        path = tmp_path / "train.py"
        path.write_text(program)
        done = programs.run([path, tmp_path / "log" / "run"], modules=programs.TORCH, timeout=300)
        assert done.returncode in (0, 1)  # a run that stops itself ends so
        watched = watch(serve(tmp_path / "log"))
        watched.count_clicks()
        watched.open()
        return watched

    return at


def line_of(program, text):
    return next(number for number, line in enumerate(program.splitlines(), 1) if text in line)


def test_the_line_of_a_loader_by_a_profiler_that_was_told_nothing_but_when(opened):
    page = opened(WAITS)
    bar = page.get_by_role("complementary", name=re.compile("What is wrong"))
    bar.get_by_text(f"train.py:{line_of(WAITS, 'time.sleep')} decode").wait_for(timeout=PATIENCE_MS)
    bar.get_by_role("link", name=re.compile("Show step")).click()
    panel = page.get_by_role("complementary", name="Selected event")
    panel.get_by_text("Data loading").first.wait_for(timeout=PATIENCE_MS)
    first = panel.get_by_role("region", name="Lines").get_by_role("paragraph").first.inner_text()
    assert f"train.py:{line_of(WAITS, 'time.sleep')} decode" in first
    assert 1 <= page.clicks() <= MOST_CLICKS


def test_a_live_run_that_captured_nothing_is_captured_with_stacks_and_names_its_line(tmp_path, serve, watch):
    path, stop = tmp_path / "train.py", tmp_path / "stop"
    path.write_text(WAITS)
    training = programs.Program([path, tmp_path / "log" / "run", stop], modules=programs.TORCH)
    try:
        watched = watch(serve(tmp_path / "log"))
        watched.count_clicks()
        page = watched.open()
        bar = page.get_by_role("complementary", name=re.compile("What is wrong"))
        bar.get_by_text("Its line is not known").wait_for(timeout=PATIENCE_MS)
        line = f"train.py:{line_of(WAITS, 'time.sleep')} decode"
        assert line not in page.locator("body").inner_text()
        assert not list((tmp_path / "log").glob("run/profiles/*"))
        with page.expect_request("**/capture") as asked:
            bar.get_by_role("button", name="Capture with stacks").click()
        assert asked.value.post_data_json["stacks"] is True
        bar.get_by_text(line).wait_for(timeout=60_000)
        assert bar.get_by_role("button", name="Capture").count() == 0, "what is known need not be asked"
        assert training.poll() is None, "training goes on"
        bar.get_by_role("link", name=re.compile("Show step")).click()
        lines = page.get_by_role("complementary", name="Selected event").get_by_role("region", name="Lines")
        lines.get_by_text(line).first.wait_for(timeout=PATIENCE_MS)
        assert 1 <= watched.clicks() <= MOST_CLICKS
    finally:
        stop.touch()
        assert training.wait(timeout=60) == 0


def test_the_line_of_the_slow_rank_of_four(tmp_path, serve, watch):
    path = tmp_path / "train.py"
    path.write_text(ONE_OF_FOUR_WAITS)
    words = [path, tmp_path / "log" / "job"]
    port = str(free_port())
    ranks = [programs.Program([*words, str(rank), port], modules=programs.TORCH) for rank in range(4)]
    assert [rank.wait(timeout=300) for rank in ranks] == [0] * 4
    watched = watch(serve(tmp_path / "log"))
    watched.count_clicks()
    page = watched.open()
    bar = page.get_by_role("complementary", name=re.compile("What is wrong"))
    bar.get_by_text(f"rank {SLOW_RANK} ").wait_for(timeout=PATIENCE_MS)
    line = f"{line_of(ONE_OF_FOUR_WAITS, 'time.sleep')} decode"
    bar.get_by_text(line).wait_for(timeout=PATIENCE_MS)
    bar.get_by_role("link", name=re.compile("Show step")).click()
    watched.wait(f"() => /rank{SLOW_RANK}_/.test(decodeURIComponent(location.hash))")
    lines = page.get_by_role("complementary", name="Selected event").get_by_role("region", name="Lines")
    lines.get_by_text(line).first.wait_for(timeout=PATIENCE_MS)
    assert 1 <= watched.clicks() <= MOST_CLICKS


def test_where_a_run_that_diverges_began(opened):
    page = opened(DIVERGES)
    findings = page.get_by_role("region", name="Findings")
    loss = findings.get_by_role("listitem").filter(has_text="Loss is not finite").first
    loss.get_by_text("the model's input at step 123 is not finite").wait_for(timeout=PATIENCE_MS)
    text = loss.inner_text()
    assert "Since step 123" in text
    assert "Batch of step 123: indices 777, " in text
    text = findings.get_by_role("listitem").filter(has_text="Gradient is not finite").first.inner_text()
    assert "Since step 123" in text
    assert "values of the gradient are not finite" in text
    bar = page.get_by_role("complementary", name=re.compile("What is wrong"))
    bar.get_by_text("Since step 123: 16 values of the model's input are not finite").wait_for()
    bar.get_by_role("link", name="Show step 123").click()
    name = "activations/(input)/nonfinite_count"
    page.wait_for_function("() => /^#.scalars.*input/.test(location.hash)")
    page.get_by_role("article", name=name).first.wait_for(timeout=PATIENCE_MS)
    assert 1 <= page.clicks() <= MOST_CLICKS
