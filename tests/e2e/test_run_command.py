"""``stepscope run``: programs as they are, with the right number of steps, ending as they do without us.

A script that trains in its own way is a file in ``untouched``; comments at its head tell what is expected:
``steps``, ``series``, ``says`` and others, see ``noted``. If it imports PyTorch or JAX, it is forked from a
process that has, for the import takes most of its time. One whose start matters has the line
``# starts: REASON`` and gets a new interpreter, as do launchers and other environments. A script that needs
no card and no run of its own goes to ``untouched/printing``, whose scripts are one program.
"""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import programs

from stepscope.events import EventFile
from stepscope.store.ranks import Ranks

ROOT, HERE = Path(__file__).parents[2], Path(__file__).parent / "untouched"
SCRIPTS = sorted(HERE.glob("*.py"))
NEEDS = ("lightning", "accelerate", "jax", "optax", "flax", "keras", "transformers", "torch")
SECONDS = 300
IMPORTED = ("stepscope.cli.run", "stepscope.cli.card", "stepscope.cli.output", "stepscope.analyze.health")
"""What the command has imported when it prints the card; the programs begin with nothing imported."""
TORCH = (*IMPORTED, *programs.TORCH)
JAX = (*IMPORTED, *programs.JAX, "stepscope.record.hooks.health")
"""The same with what a program in PyTorch or JAX imports, which is forked then."""
FORKED = Path(programs.__file__).with_name("forked_program.py")


@pytest.fixture
def command(tmp_path):
    """A function that runs a command under ``stepscope run`` and returns how it ended.

    With ``modules``, a program in this Python is forked from a process that has imported them.
    """

    def run(*words, options=(), modules=(), **environ):
        start = [FORKED] if modules else ["-m", "stepscope"]
        command = [*start, "run", "--name", "a", *options, "--", *map(str, words)]
        env = {**os.environ, "KERAS_BACKEND": "jax", **environ}
        for name in ("STEPSCOPE_STRICT", "STEPSCOPE_CARD", "PYTHONWARNINGS"):
            env.pop(name, None)
        return programs.run(
            command, modules=modules or IMPORTED, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip

    return run


def noted(script, name):
    found = re.search(rf"^# {name}: (.*)$", script.read_text(), re.MULTILINE)
    return found[1] if found else None


HEADS = "run|state|steps|time|lines|best|unknown|more|high|medium|low|info"


def card(text):
    """Return the rows of the card by name; those of one name are joined."""
    rows, last = {}, ""
    for line in text.splitlines():
        match = re.match(rf"({HEADS})?  +(\S.*)$", line)
        if match:
            last = match[1] or last
            rows[last] = f"{rows[last]} {match[2]}" if last in rows else match[2]
    return rows


def needed(script):
    """Return the Python that a script needs, and the words before its path; skip what is not here."""
    for name in NEEDS:
        used = re.search(rf"^(?:import|from) {name}\b", script.read_text(), re.MULTILINE)
        if used and not noted(script, "python") and importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    launcher, environment = noted(script, "module"), noted(script, "python")
    python = ROOT / environment / "bin" / "python" if environment else Path(sys.executable)
    if not python.exists():
        pytest.skip(f"needs {environment}")
    return python, (["-m", *launcher.split()] if launcher else [])


def modules_of(script):
    """Return what the process has imported from which a script is forked; nothing if it starts Python."""
    if noted(script, "starts") or noted(script, "module") or noted(script, "python"):
        return ()
    used = re.search(r"^(?:import|from) (torch|jax)\b", script.read_text(), re.MULTILINE)
    return {"torch": TORCH, "jax": JAX}[used[1]] if used else ()


TIMED = """
import atexit, json, os
from time import perf_counter

class timed:
    waits = []
    def __init__(self, batches): self.batches = batches
    def __len__(self): return len(self.batches)
    def __getattr__(self, name): return getattr(self.__dict__["batches"], name)
    def __iter__(self):
        batches = iter(self.batches)
        while True:
            asked = perf_counter()
            try: batch = next(batches)
            except StopIteration: return
            self.waits.append(perf_counter() - asked)
            yield batch

@atexit.register
def tell():
    if timed.waits and os.environ.get("RANK", "0") == "0":
        with open("waits.json", "w") as file: json.dump(timed.waits, file)

"""


def twin(script):
    """Return the program with its batches timed by hand, None if it has no marks for that."""
    text = script.read_text()
    timed = re.sub(r"\bfor (.*) in (.*):  # timed$", r"for \1 in timed(\2):", text, flags=re.MULTILINE)
    timed = re.sub(r"^(\s*)# twin: ", r"\1", timed, flags=re.MULTILINE)
    return None if timed == text else TIMED + timed


def check_card(script, ended, expected):
    """Of a program that has taken so many steps."""
    rows = card(ended.stderr)
    assert rows["steps"].startswith(f"{expected:,} ·")
    assert rows["state"].startswith("failed after" if noted(script, "exits") else "finished after")
    assert sum(int(share) for share in re.findall(r"(?<!<)\b(\d+) %", rows["time"].replace("<1", ""))) == 100
    divided = re.search(r"copy|forward|backward|optimizer|dispatch|compile", rows["time"])
    assert ("the stages of the steps, such as" in rows.get("unknown", "")) == (divided is None)
    assert (noted(script, "says") or "") in ended.stderr
    assert "stepscope/launch" not in ended.stderr  # no warning of Python's that is about us


def check_steps(steps, expected):
    numbers = steps.step[~np.isnan(steps.step_time_s)].tolist()  # a value may have a number of the program's
    first = numbers[0]  # some frameworks count from 1
    assert numbers == list(range(first, first + expected))


@pytest.mark.slow
@pytest.mark.parametrize("script", [each for each in SCRIPTS if not twin(each)], ids=lambda path: path.stem)
def test_the_steps_of_a_script(tmp_path, command, script):
    python, launcher = needed(script)
    ended = command(python, *launcher, script, modules=modules_of(script))
    assert ended.returncode == int(noted(script, "exits") or 0), ended.stderr
    assert ("further models" in ended.stderr) == (noted(script, "says") == "further models")
    lacks = noted(script, "lacks")
    if lacks is not None:
        assert lacks in ended.stderr
        return
    ranks = Ranks(str(tmp_path / "runs" / "a"))
    assert ranks.count() == int(noted(script, "ranks") or 1)
    check_steps(ranks.steps(0), int(noted(script, "steps")))
    check_card(script, ended, int(noted(script, "steps")))
    if noted(script, "series"):
        assert own_series(tmp_path).keys() == set(noted(script, "series").split(", "))
    if noted(script, "points"):
        tag, *steps = noted(script, "points").split()
        assert own_series(tmp_path)[tag] == list(map(int, steps))


def own_series(folder):
    """Return the steps of the series that the program itself tells of, by tag."""
    [path] = (folder / "runs" / "a").glob("*tfevents*")
    series = {each.tag: each.step.tolist() for each in EventFile(path).read().scalars}
    return {tag: steps for tag, steps in series.items() if not tag.startswith(OURS)}


OURS = ("speed/", "optimizer/", "gradients/", "system/", "backward/")


@pytest.mark.slow
def test_scripts_that_tell_of_themselves_in_their_own_ways(tmp_path, command):
    """One program that runs them in turns: as each is there, it has been run alone, too."""
    scripts = sorted((HERE / "printing").glob("*.py"))
    program = tmp_path / "all.py"
    program.write_text(BOTH.format(paths=[str(script) for script in scripts]))
    for name in ("torch", "tqdm", "rich"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    ended = command(sys.executable, program, modules=TORCH)
    assert ended.returncode == 0, ended.stderr
    expected = sum(int(noted(script, "steps")) for script in scripts)
    check_steps(Ranks(str(tmp_path / "runs" / "a")).steps(0), expected)
    check_card(scripts[0], ended, expected)
    names = {name for script in scripts for name in noted(script, "series").split(", ")}
    assert own_series(tmp_path).keys() == names


BOTH = """
import runpy
for path in {paths}:
    runpy.run_path(path, run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [each for each in SCRIPTS if twin(each)], ids=lambda path: path.stem)
def test_the_steps_of_a_script_and_the_wait_by_hand(tmp_path, command, script):
    """A program that runs the script and then its twin: training twice is no matter, and starts once.

    Of most steps the wait a batch is that by hand within 3 % or 30 µs: others pay for a busy machine.
    """
    python, launcher = needed(script)
    expected = int(noted(script, "steps"))
    timed = tmp_path / script.name
    timed.write_text(twin(script))
    both = tmp_path / "both.py"
    paths = [str(timed)] if noted(script, "once") else [str(script), str(timed)]
    both.write_text(BOTH.format(paths=paths))
    ended = command(python, *launcher, both, modules=modules_of(script))
    assert ended.returncode == 0, ended.stderr
    ranks = Ranks(str(tmp_path / "runs" / "a"))
    assert ranks.count() == int(noted(script, "ranks") or 1)
    steps = ranks.steps(0)
    check_steps(steps, len(paths) * expected)
    check_card(script, ended, len(paths) * expected)
    by_hand = np.array(json.loads((tmp_path / "waits.json").read_text())).reshape(expected, -1)
    difference = np.abs(steps.data_wait_s[-expected:] - by_hand.sum(1)) / by_hand.shape[1]
    allowed = np.maximum(0.03 * by_hand.mean(1), 30e-6)
    assert np.median(difference / allowed) <= 1, (by_hand.mean(), np.median(difference))


# Starts in half the time of a loop in PyTorch, for tests in which any steps do.
LOOP = """
    import os, signal, sys, time, jax, jax.numpy as jnp
    @jax.jit
    def train(w, x):
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - 0.01 * gradient, loss
    w = jnp.ones((10, 1))
    for step in range(40):
        w, loss = train(w, jnp.ones((8, 10)))
        print(f"step {{step}} loss {{min(loss.item(), 9):.0f}}")
    {end}
"""
LINES = 40


@pytest.fixture
def program(tmp_path):
    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text("\n".join(line[4:] for line in text.splitlines()))
        return path

    return write


def test_a_training_that_only_prints_has_its_values_and_a_card(tmp_path, command, program):
    """The values that are printed before it is clear that this is a training are recorded, too."""
    ended = command(sys.executable, program("""
    import sys, time
    print("reading", 3, "files of", 0.5, "MB")
    for epoch in range(1, 9):
        time.sleep(0.2)
        print(f"Epoch {epoch:03d} | train loss {1 / epoch:.4f}")
        if epoch % 2 == 0:
            sys.stdout.write(f"    val acc {0.1 * epoch}\\n")
    """))  # fmt: skip
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[:2] == ["reading 3 files of 0.5 MB", "Epoch 001 | train loss 1.0000"]
    assert own_series(tmp_path) == {"train_loss": [*range(1, 9)], "val_acc": [2, 4, 6, 8]}
    rows = card(ended.stderr)
    assert rows["state"].startswith("finished after")
    assert rows["steps"] == "none was counted"
    assert "time.sleep(0.2)" in rows["lines"]
    assert rows["best"] == "val_acc 0.8 at step 8 train_loss 0.125 at step 8"
    assert "the steps and their times: no framework counts them" in rows["unknown"]
    assert "step times" not in rows["unknown"]


@pytest.mark.slow
def test_of_a_killed_program_nobody_says_that_it_had_no_steps(command, program):
    ended = command(sys.executable, program("""
    import os, signal, time
    for epoch in range(1, 9):
        time.sleep(0.2)
        print(f"epoch {epoch} loss {1 / epoch:.4f}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    """))  # fmt: skip
    rows = card(ended.stderr)
    assert rows["state"].startswith("killed after")
    assert rows["steps"] == "none was written before it ended"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code", "state"),
    [
        ("raise ValueError('bad luck')", 1, "failed after .*: ValueError: bad luck"),
        ("sys.exit(3)", 3, "failed after .*: SystemExit: 3"),
        ("os._exit(7)", 7, "failed after .*: exit code 7"),
        ("os._exit(status=0)", 0, "finished after .*: Python did not exit normally"),
        ("os.execlp('true', 'true')", 0, "finished after .*: Python did not exit normally"),
        ("os.abort()", -signal.SIGABRT, "killed after .*: SIGABRT"),
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
    ids=[
        "exception",
        "exit",
        "_exit",
        "_exit 0",
        "exec",
        "abort",
        "kill",
        "terminated",
        "passed on",
        "interrupted",
    ],
)
def test_how_it_ended(command, program, end, code, state):
    pytest.importorskip("jax")
    ended = command(sys.executable, program(LOOP.format(end=end)), modules=JAX)
    assert ended.returncode == code
    rows = card(ended.stderr)
    assert re.match(state, rows["state"])
    assert rows["steps"].startswith("40 ·")
    assert ("the last steps and values" in rows["unknown"]) == (code == -signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code", "state"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, r"ended .*: process \d+ did not exit, .* with code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 0, r"ended .*: process \d+ did not exit, .* program ended$"),
        ("os._exit(7)", 0, "failed after .*: exit code 7"),
        ("", 0, r"finished after [^:]*$"),
    ],
    ids=["killed", "killed unsaid", "_exit", "by itself"],
)
def test_how_a_process_that_the_program_started_ended(command, program, end, code, state):
    """As a notebook's kernel does, or a rank."""
    pytest.importorskip("jax")
    program(LOOP.format(end=f"time.sleep(2.5); {end}"), "kernel.py")
    ended = command(sys.executable, program(f"""
    import subprocess, sys
    subprocess.run([sys.executable, "kernel.py"])
    sys.exit({code})
    """))  # fmt: skip
    assert ended.returncode == code
    assert re.match(state, card(ended.stderr)["state"])


@pytest.mark.parametrize(
    ("words", "code", "out", "said"),
    [
        (["sh", "-c", "echo hello; exit 5"], 5, "hello\n", "no Python process was seen"),
        ([sys.executable, "-I", "-c", "print(1)"], 0, "1\n", "python -I ignores environment variables"),
        ([sys.executable, "-E", "-c", "print(1)"], 0, "1\n", "python -E ignores environment variables"),
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


BARE = ("sh", "-c", 'PYTHONPATH="${PYTHONPATH%%:*}" exec "$@"', "sh")
"""Begins the words of a program in which a PYTHONPATH has only the folder that the command puts there."""
PARTS = ("jax", "jaxlib", "numpy", "numpy.libs", "scipy", "scipy.libs", "ml_dtypes", "opt_einsum")


@pytest.mark.slow
def test_an_environment_without_stepscope(command, program, tmp_path):
    pytest.importorskip("jax")
    subprocess.run([sys._base_executable, "-m", "venv", "--without-pip", "env"], cwd=tmp_path, check=True)
    [packages] = (tmp_path / "env" / "lib").glob("*/site-packages")
    for path in (Path(np.__file__).parents[1] / name for name in PARTS):
        if path.exists():
            (packages / path.name).symlink_to(path)
    ended = command(*BARE, tmp_path / "env" / "bin" / "python", program(LOOP.format(end="")))
    assert card(ended.stderr)["steps"].startswith("40 ·"), ended.stderr


OTHERS = [
    path
    for path in sorted((Path.home() / ".pyenv" / "versions").glob("3.1?.*/bin/python"))
    if not path.parents[1].name.startswith(f"3.{sys.version_info[1]}.")
]


@pytest.mark.slow
@pytest.mark.parametrize("python", OTHERS or [None], ids=lambda path: path and path.parents[1].name)
def test_another_version_of_python_without_stepscope(command, tmp_path, python):
    """The program runs, and the card says what to install."""
    if python is None:
        pytest.skip("needs another version of Python")
    (tmp_path / "jax.py").write_text("print('jax')")
    (tmp_path / "train.py").write_text("import jax")
    ended = command(*BARE, python, "train.py")
    assert (ended.returncode, ended.stdout) == (0, "jax\n")
    words = rf"jax is not observed: .*No module named 'stepscope'; {python} -m pip install stepscope"
    assert re.search(words, ended.stderr)
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_last_step_before_exit_is_kept(command, program):
    """A loop that is left in its last step, and a process that then ends without its interpreter's end."""
    ended = command(sys.executable, program("""
    import os, torch
    from torch.utils.data import DataLoader, TensorDataset
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    def train():
        for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(64, 10)), 8)):
            model(x).pow(2).mean().backward()
            optimizer.step()
            if step == 4:
                return
    train()
    os._exit(0)
    """))  # fmt: skip
    assert card(ended.stderr)["steps"].startswith("5 ·")


def test_the_loss_of_each_step_and_that_it_does_not_fall(command, program, tmp_path):
    """A script that prints its loss rarely, and whose optimizer has other weights than its model."""
    ended = command(sys.executable, program("""
    import torch
    torch.manual_seed(0)
    x = torch.randn(512, 16)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    losses = []
    for step in range(600):
        rows = torch.randint(0, 512, (32,))
        out = model(x[rows])
        loss = torch.nn.functional.cross_entropy(out, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 99:
            print(f"step {step} accuracy {(model(x).argmax(1) == y).float().mean():.3f}")
    torch.save(losses, "losses.pt")
    """))  # fmt: skip
    import torch

    [path] = (tmp_path / "runs" / "a").glob("*tfevents*")
    [series] = [one for one in EventFile(path).read().scalars if one.tag == "backward/loss"]
    assert series.value.tolist() == pytest.approx(torch.load(tmp_path / "losses.pt"))
    assert series.step.tolist() == list(range(600))
    assert "learns: the loss has not fallen so far" in ended.stderr


def test_the_lines_that_take_the_time_and_the_gradient(command, program, tmp_path):
    ended = command(sys.executable, program("""
    import time, torch
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(60):
        time.sleep(0.05)  # augmentation
        model(torch.randn(8, 10)).pow(2).mean().backward()
        optimizer.step()
    """))  # fmt: skip
    assert re.match(r"\d+\.\d % train.py:6  time.sleep\(0.05\)  # augmentation", card(ended.stderr)["lines"])
    [path] = (tmp_path / "runs" / "a").glob("*tfevents*")
    series = {each.tag: each.step.tolist() for each in EventFile(path).read().scalars}
    assert series["gradients/weight/norm"] == [0, 50]
    assert {0, 50} < set(series["gradients/norm"])  # how many more depends on what one costs here
    assert not any(tag.startswith("weights/") for tag in series)


@pytest.mark.slow
def test_the_line_in_which_a_rank_is_slower_is_named(tmp_path, command, program):
    script = program("""
    import time, torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(60):
        if dist.get_rank() == 1:
            time.sleep(0.1)  # decode
        model(torch.randn(8, 10)).pow(2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()
    """)  # fmt: skip
    command(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script)
    found = subprocess.run(
        [sys.executable, "-m", "stepscope", "ranks", tmp_path / "runs" / "a"], capture_output=True, text=True
    ).stdout
    assert re.match("rank 1 .*in rest", found), found
    assert re.search(r"look there: rank 1 spends \S+ ms of a step at train.py:9  time.sleep\(0.1\)", found)


@pytest.mark.slow
@pytest.mark.parametrize(("batches", "expected"), [(30, "gain"), (4, "no profile")])
def test_the_causes_of_a_profile_are_on_the_card(command, program, batches, expected):
    ended = command(sys.executable, program(f"""
    import time, torch
    from torch.utils.data import DataLoader, Dataset
    class Slow(Dataset):
        def __len__(self): return 8 * {batches}
        def __getitem__(self, i):
            time.sleep(0.004)
            return torch.randn(10)
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for x in DataLoader(Slow(), 8):
        model(x).pow(2).mean().backward()
        optimizer.step()
    """), options=["--profile"], modules=TORCH)  # fmt: skip
    if expected == "gain":
        assert "the step waits for data" in ended.stderr
        assert "train.py:7" in ended.stderr
    else:
        assert "the causes: no steps were profiled; the program ended before" in card(ended.stderr)["unknown"]


def test_nothing_of_a_program_changes(tmp_path, command, program):
    """With a profile, too: without a loader each step ends within hooks, which must not change meanwhile."""
    script = program("""
    import random, time, numpy, torch
    random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    x = torch.randn(8, 10)
    for step in range(40):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
        time.sleep(0.01)  # the lines are looked at meanwhile
    print(random.random(), numpy.random.rand(), torch.rand(1).item())
    """)
    plain, profiled = (
        command(sys.executable, script, options=["--dir", name, *more], modules=TORCH)
        for name, more in (("plain", []), ("profiled", ["--profile"]))
    )
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (plain.returncode, profiled.returncode) == (0, 0), profiled.stderr
    assert plain.stdout == profiled.stdout == alone.stdout
    assert len(alone.stdout.splitlines()) == 41
    assert list(tmp_path.glob("profiled/a/profiles/*.json.gz"))


TRAIN = "\n".join(line[4:] for line in LOOP.format(end="").splitlines()) + "\n"
OWN_WAYS = """
import io, os, sys
child = os.fork()  # before anything is imported
if not child: os._exit(0)
os.waitpid(child, 0)
os.chdir("/")
os.environ.clear()
sys.stdout = io.StringIO()
"""
TROUBLE = {
    "goes its own ways": (OWN_WAYS + TRAIN, [], 0, 0),
    "is a launcher": (
        "import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, 'inner.py'], check=True)",
        [], 2 * LINES, 0,
    ),
    "runs under a debugger": (TRAIN, ["-m", "pdb", "-c", "continue", "-c", "quit"], LINES + 1, 0),
    "is a module": (TRAIN, ["-m"], LINES, 0),
    "ends within a second": ("print('done')\nraise SystemExit(4)", [], 1, 4),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TROUBLE)
def test_a_script_that_makes_trouble(command, tmp_path, name):
    """It prints and ends as it does without us, and the card says what is known."""
    pytest.importorskip("jax")
    text, options, lines, code = TROUBLE[name]
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "inner.py").write_text(TRAIN)
    ended = command(sys.executable, *options, "train" if options == ["-m"] else "train.py")
    assert (ended.returncode, len(ended.stdout.splitlines())) == (code, lines), ended.stdout + ended.stderr
    if code:
        assert "nothing was recorded: no step was seen" in ended.stderr
        return
    rows = card(ended.stderr)
    assert rows["steps"].startswith("40 ·")
    assert rows["state"].startswith("finished")
    assert ("also recorded" in rows["unknown"]) == (name == "is a launcher")


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
    """), modules=TORCH)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert len(Ranks(str(tmp_path / "own")).steps(0).step) == 10
    assert not (tmp_path / "runs").exists()
    assert card(ended.stderr)["steps"].startswith("10 ·")


def test_no_card_if_none_is_wanted(command):
    assert command("true", options=["--no-card"]).stderr == ""
