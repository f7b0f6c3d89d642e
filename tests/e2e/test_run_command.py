"""``stepscope run``: programs as they are, with the right number of steps, ending as they do without us."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.store.ranks import Ranks

HERE = Path(__file__).parent / "untouched"
SCRIPTS = sorted(HERE.glob("*.py"))
NEEDS = ("lightning", "accelerate", "jax", "optax", "flax", "keras", "transformers", "torch")
SECONDS = 300


@pytest.fixture
def command(tmp_path):
    """A function that runs a command under ``stepscope run`` and returns how it ended."""

    def run(*words, options=(), **environ):
        command = [sys.executable, "-m", "stepscope", "run", "--name", "a", *options, "--", *map(str, words)]
        env = {**os.environ, "KERAS_BACKEND": "jax", **environ}
        for name in ("STEPSCOPE_STRICT", "STEPSCOPE_CARD", "PYTHONWARNINGS"):
            env.pop(name, None)
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    return run


def noted(script, name):
    found = re.search(rf"^# {name}: (.*)$", script.read_text(), re.MULTILINE)
    return found[1] if found else None


def card(text):
    """Return the rows of the card by name; those of one name are joined."""
    rows, last = {}, ""
    for line in text.splitlines():
        match = re.match(r"(run|state|steps|time|best|unknown|more|high|medium|low|info)?  +(\S.*)$", line)
        if match:
            last = match[1] or last
            rows[last] = f"{rows[last]} {match[2]}" if last in rows else match[2]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_steps_of_a_script(tmp_path, command, script):
    for name in NEEDS:
        used = re.search(rf"^(?:import|from) {name}\b", script.read_text(), re.MULTILINE)
        if used and importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    ended = command(sys.executable, script)
    assert ended.returncode == 0, ended.stderr
    expected, lacks = int(noted(script, "steps")), noted(script, "lacks")
    if lacks is not None:
        assert lacks in ended.stderr
        return
    ranks = Ranks(str(tmp_path / "runs" / "a"))
    assert ranks.count() == int(noted(script, "ranks") or 1)
    steps = ranks.steps(0)
    first = int(steps.step[0])  # some frameworks count from 1
    assert steps.step.tolist() == list(range(first, first + expected))
    assert (steps.step_time_s >= 0).all()
    rows = card(ended.stderr)
    assert rows["steps"].startswith(f"{expected:,} ·")
    assert rows["state"].startswith("finished after")
    assert sum(int(share) for share in re.findall(r"(?<!<)\b(\d+) %", rows["time"].replace("<1", ""))) == 100


LOOP = """
    import os, signal, sys, time, torch
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(40):
        loss = model(torch.randn(8, 10)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {end}
"""


@pytest.fixture
def program(tmp_path):
    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text("\n".join(line[4:] for line in text.splitlines()))
        return path

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code", "state"),
    [
        ("raise ValueError('bad luck')", 1, "failed after .*: ValueError: bad luck"),
        ("sys.exit(3)", 3, "failed after .*: SystemExit: 3"),
        ("os._exit(7)", 7, "failed after .*: exit code 7"),
        ("os._exit(0)", 0, "finished after .*: the process ended without its interpreter's end"),
        (
            "time.sleep(2.5); os.kill(os.getpid(), signal.SIGKILL)",
            -signal.SIGKILL,
            "killed after .*: SIGKILL",
        ),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "stopped after .*: SIGTERM"),
        (
            "os.kill(os.getppid(), signal.SIGTERM); time.sleep(9)",
            -signal.SIGTERM,
            "stopped after .*: SIGTERM",
        ),
        (
            "signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), signal.SIGINT)",
            -signal.SIGINT,
            "stopped after .*: KeyboardInterrupt",
        ),
    ],
    ids=["exception", "exit", "_exit", "_exit 0", "kill", "terminated", "passed on", "interrupted"],
)
def test_how_it_ended(command, program, end, code, state):
    ended = command(sys.executable, program(LOOP.format(end=end)))
    assert ended.returncode == code
    rows = card(ended.stderr)
    assert re.match(state, rows["state"])
    assert rows["steps"].startswith("40 ·")


@pytest.mark.parametrize(
    ("words", "code", "out", "said"),
    [
        (["sh", "-c", "echo hello; exit 5"], 5, "hello\n", "no Python process was seen"),
        ([sys.executable, "-I", "-c", "print(1)"], 0, "1\n", "python -I looks at no environment"),
        ([sys.executable, "-E", "-c", "print(1)"], 0, "1\n", "python -E looks at no environment"),
        (
            [sys.executable, "-c", "import sys; print(sys.argv[1:])", "-x", "--"],
            0,
            "['-x', '--']\n",
            "no step",
        ),
        (["sh", "-c", f"{sys.executable} -c 'print(2)'"], 0, "2\n", "no step was seen"),
    ],
    ids=["no Python", "-I", "-E", "arguments", "shell"],
)
def test_a_program_without_steps(command, words, code, out, said):
    ended = command(*words)
    assert (ended.returncode, ended.stdout) == (code, out)
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_program_that_is_not_there(command):
    ended = command("no-such-program")
    assert ended.returncode == 1
    assert "cannot run 'no-such-program'" in ended.stderr


def test_the_program_sees_what_it_would_see(command, program, tmp_path):
    """Path, folder, streams and a ``sitecustomize`` of the user's own are those without us."""
    text = """
    import json, os, sys
    import sitecustomize
    own = getattr(sitecustomize, "own", 0)
    print(json.dumps([sys.path[1:], os.getcwd(), sys.stdout.isatty(), sys.argv, own]))
    """
    script = program(text)
    program("    own = 1\n", "sitecustomize.py")
    environ = {"PYTHONPATH": str(tmp_path)}
    ended = command(sys.executable, script, "--lr", "1", **environ)
    alone = subprocess.run(
        [sys.executable, script, "--lr", "1"],
        cwd=tmp_path, env=os.environ | environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout == alone.stdout


@pytest.mark.slow
def test_a_script_that_makes_trouble(command, program, tmp_path):
    """It forks before it imports, goes elsewhere, and replaces its standard output."""
    ended = command(sys.executable, program("""
    import io, os, sys
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    os.chdir("/")
    sys.stdout = io.StringIO()
    import torch
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(10):
        loss = model(torch.randn(8, 10)).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()}")
    """))  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    assert card(ended.stderr)["steps"].startswith("10 ·")
    assert "loss" in card(ended.stderr)["best"]
    assert (tmp_path / "runs" / "a").is_dir()


@pytest.mark.slow
def test_a_program_that_records_by_itself_keeps_its_run(command, program, tmp_path):
    ended = command(sys.executable, program("""
    import stepscope as ss, torch
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with ss.Run("own") as run:
        for step in run.steps(range(10)):
            model(torch.randn(8, 10)).pow(2).mean().backward()
            optimizer.step()
    """))  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert len(Ranks(str(tmp_path / "own")).steps(0).step) == 10
    assert not (tmp_path / "runs").exists()
    assert card(ended.stderr)["steps"].startswith("10 ·")


def test_no_card_if_none_is_wanted(command):
    assert command("true", options=["--no-card"]).stderr == ""
