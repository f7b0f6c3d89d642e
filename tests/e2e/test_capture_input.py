"""A training that waits for its data is told so by the advice on its own captured profile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import sys, time
import stepscope as ss

hook = ss.ProfilerHook(save_steps=100, num_steps=3)
"""
TORCH = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def train(batch):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
GENERATOR = """
def load():
    for _ in range(20):
        time.sleep(0.05)
        yield torch.ones(16, 64)

with ss.Run(sys.argv[1], hooks=[hook]) as run:
    for batch in run.steps(load()):
        train(batch)
"""
LOADER = """
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, at):
        time.sleep(0.03)
        return torch.ones(64)

with ss.Run(sys.argv[1], hooks=[hook]) as run:
    for batch in torch.utils.data.DataLoader(Slow(), batch_size=2):
        with run.step():
            train(batch)
"""
JAX = """
import jax, jax.numpy as jnp
update = jax.jit(lambda weight, batch: weight - 0.01 * jnp.tanh(batch @ weight).T @ batch)

def load():
    for _ in range(20):
        time.sleep(0.05)
        yield jnp.ones((16, 64))

weight = jnp.ones((64, 16))
with ss.Run(sys.argv[1], hooks=[hook]) as run:
    for batch in run.steps(load()):
        weight = update(weight, batch).T.T.block_until_ready()
"""
PYTHON = """
def load():
    for _ in range(20):
        time.sleep(0.05)
        yield range(1000)

with ss.Run(sys.argv[1], hooks=[hook]) as run:
    for batch in run.steps(load()):
        sum(batch)
"""
PROGRAMS = {
    "torch": TORCH + GENERATOR,
    "torch, steps by hand": TORCH + LOADER,
    "jax": JAX.replace(".T.T", "").replace("(64, 16)", "(64, 64)"),
    "python": PYTHON,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_training_that_waits_for_data_is_called_input_bound(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HEAD + PROGRAMS[name], str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (facts,) = [json.loads(path.read_text()) for path in (tmp_path / "profiles").glob("*.profile.json")]
    advise = [sys.executable, "-m", "stepscope", "advise", str(tmp_path / facts["path"]), "--json"]
    said = subprocess.run(advise, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    (found,) = [each for each in json.loads(said.stdout)["findings"] if each["rule"] == "input-bound"]
    assert found["severity"] == "high"
    assert found["evidence"]["input_ratio"] > 0.2


def test_a_wait_is_as_severe_while_it_trains_as_in_its_profile(tmp_path: Path) -> None:
    program = HEAD + PYTHON.replace("range(20)", "range(140)").replace("sleep(0.05)", "sleep(0.02)")
    command = [sys.executable, "-c", program.replace("[hook]", "[hook, ss.HealthHook()]"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    captures = [json.loads(path.read_text()) for path in (tmp_path / "profiles").glob("*.profile.json")]
    severities = {}
    for words, rule, code in (
        (["watch", str(tmp_path), "--once"], "data-wait", 3),
        (["advise", str(tmp_path / captures[0]["path"])], "input-bound", 0),
    ):
        command = [sys.executable, "-m", "stepscope", *words, "--json"]
        judged = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert judged.returncode == code, judged.stdout + judged.stderr
        severities[rule] = [
            finding["severity"] for finding in found_in(judged.stdout) if finding["rule"] == rule
        ]
    assert severities == {"data-wait": ["high"], "input-bound": ["high"]}


def found_in(text: str) -> list[dict[str, str]]:
    """Return the findings in what a command printed, a JSON object a line or one object."""
    try:
        found: list[dict[str, str]] = json.loads(text)["findings"]
    except (ValueError, KeyError):
        return [json.loads(line) for line in text.splitlines() if '"rule"' in line]
    return found
