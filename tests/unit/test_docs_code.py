"""Every code block of README and docs runs, in its page's order, as a reader would paste it.

What a reader has already, such as a run or a trace under the page's names, is made first; for README, the
quick start and the lessons that is nothing. What cannot run here is listed line by line with the test that
runs it; the list is checked to be no longer than it must be. A text block that directly follows a block of
code is what the page says it prints, and is compared with that.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import commands, programs
from support.documents import PAGES, ROOT, Block, blocks, not_printed, outside_of_fences, program, relative

TRACE = ROOT / "tests" / "data" / "traces" / "kineto" / "v100_rank1of2.json.gz"
CONTEXT = ROOT / "tests" / "data" / "tfprof" / "convnet" / "profile.context"

LESSONS = (
    "README.md",
    "docs/index.md",
    *(relative(page) for page in PAGES if page.parent.name == "tutorials"),
)
"""Pages that begin from nothing, and whose lessons show what each block prints."""
STAND_INS = """
import stepscope as ss
loader, log_dir, pp, tokens = range(3), "runs/placed", 2, 512
def train_step(batch):
    return 1.0 / (batch + 1)
"""
"""What a page's Python takes from the reader's own program: data, a step of the training, a directory."""

A_RUN = """
import stepscope as ss
with ss.Run("runs/{name}", tags=["tried"]) as run:
    for step in run.steps(range(200)):
        run.scalar("train/loss", 2 / (1 + step))
        if step % 20 == 0:
            run.scalar("eval/loss", 2 / (1 + step))
"""
A_JOB = """
import stepscope as ss
runs = [ss.Run("runs/job", rank=rank, world_size=4) for rank in range(4)]
for step in range(20):
    for run in runs:
        with run.step():
            run.scalar("train/loss", 1 / (1 + step))
for run in runs:
    run.close()
"""
A_SWEEP = """
import stepscope as ss
for number, rate in enumerate((0.1, 0.01, 0.1, 0.01), 1):
    with ss.Run(f"logs/try-{number}", config={"lr": rate}) as run:
        for step in run.steps(range(60)):
            run.scalar("train/loss", 1 / (1 + rate * step))
            if step % 20 == 0:
                run.scalar("eval/loss", 1 / (1 + rate * step))
"""
A_CHANGE = """
import math, pathlib, random, sys
import stepscope as ss
noise = random.Random(0).gauss
def train(steps, rate):
    pathlib.Path("model.py").write_text(f"rate = {rate}")
    __import__("model")
    with ss.Run("runs/a") as run:
        for step in steps:
            broken = step >= 600 and rate < 0.001
            took = (0.12 if step < 420 else 0.47) + noise(0, 0.002)
            run.scalar("perf/step_time", took, step=step)
            run.scalar("perf/samples_per_sec", 32 / took, step=step)
            run.scalar("lr", 0.06 if broken else rate, step=step)
            loss = (0.7 if broken else 0.4) + 2 * math.exp(-step / 60) + noise(0, 0.01)
            run.scalar("loss/train", loss, step=step)
            if step == 500:
                run.checkpoint_saved("step-500.pt", step + 1)
sys.path.insert(0, ".")
train(range(900), 0.00097)
train(range(888, 1010), 0.001)
"""
RECORDED = {
    "docs/guides/agents.md": A_SWEEP,
    "docs/guides/changes.md": A_CHANGE + A_RUN.format(name="b"),
    "docs/guides/health.md": A_RUN.format(name="gpt") + A_RUN.format(name="whole"),
    "docs/guides/ranks.md": A_JOB,
    "docs/guides/reading.md": A_RUN.format(name="baseline"),
    "docs/guides/runs.md": A_RUN.format(name="first") + A_RUN.format(name="second"),
}
"""Programs whose runs a page reads."""
TRACES = (
    "docs/guides/advise.md", "docs/guides/clusters.md", "docs/guides/profile.md", "docs/reference/traces.md",
)  # fmt: skip
"""Pages that read profiles."""

PLAIN = (*programs.CLI, *programs.RECORDING)
LARGE = {"torch|keras|lightning|accelerate|transformers": programs.TORCH, "jax": (*PLAIN, "jax")}
"""What takes seconds to import: it is there before a program that imports one of those."""

ELSEWHERE = {
    r"make [\w-]+": "the Makefile: CI runs its targets",
    r"pip install .*": "scripts/wheel.sh",
    r"stepscope serve .*": "tests/e2e/test_serve_command.py",
    r"stepscope top .*": "tests/unit/cli/top/test_app.py",
    r"stepscope demo\b.*": "tests/e2e/test_demo_command.py",
    r"stepscope run .*": "tests/e2e/test_run_command.py",
    r"stepscope share .*": "tests/e2e/test_serve_share.py",
    r"stepscope check .*": "tests/unit/cli/test_check.py",
    r"stepscope capture .*": "tests/e2e/test_capture_command.py",
    r"stepscope ranks .* --ray .*": "tests/e2e/test_ranks_ray.py",
    r"ss\.PrometheusHook\(\d+\),": "tests/unit/record/hooks/test_metrics.py",
    r"ssh .*": "a second machine is needed",
    r"stepscope completion (zsh|fish|tcsh) .*": "tests/unit/cli/test_completion.py",
    r"KERAS_BACKEND=jax python examples/keras_fit.py .*": "tests/keras/test_example.py",
    r"%load_ext stepscope": "tests/unit/test_notebook.py",
    r"%stepscope .*": "tests/unit/test_notebook.py",
    r'run = ss.Run\("s3://.*': "tests/e2e/test_stores.py",
}
"""Lines that install, serve until they are stopped, or need another machine, and what runs them."""


def is_elsewhere(line: str) -> bool:
    return any(re.fullmatch(pattern, line.partition("  #")[0].strip()) for pattern in ELSEWHERE)


def runnable(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not is_elsewhere(line))


SHELL = """
import os as _os, subprocess as _subprocess, sys as _sys
def _shell(text):
    _sys.stdout.flush()
    environment = {key: value for key, value in _os.environ.items() if key != "STEPSCOPE_STRICT"}
    _subprocess.run(["bash", "-euo", "pipefail", "-c", text], env=environment, check=True)
"""
MARK = "--- block {} of the page"


def programs_of(page: Path) -> list[list[Block]]:
    """The blocks of a page as programs, without the lines that run elsewhere.

    A lesson is one, in its order. Other pages are all their Python, and then all their commands, which follow
    a run until it has ended.
    """
    found = [each._replace(text=runnable(each.text)) for each in program(page)]
    found = [each for each in found if each.text.strip()]
    if relative(page) in LESSONS:
        return [found]
    parts = [[each for each in found if each.language == name] for name in ("python", "sh")]
    return [part for part in parts if part]


def script(program: list[Block], *, begin: str) -> str:
    """Blocks as one program, each after a line that says which it is."""
    parts = [SHELL, begin]
    for number, block in enumerate(program):
        parts.append(f"print({MARK.format(number)!r}, flush=True)")
        parts.append(block.text if block.language == "python" else f"_shell({block.text!r})")
    return "\n".join(parts)


def prepare(page: Path, folder: Path) -> None:
    name = relative(page)
    if name in TRACES:
        (folder / "runs").mkdir()
        for copy in ("trace.json.gz", "runs/trace.json.gz"):
            shutil.copy(TRACE, folder / copy)
        shutil.copy(CONTEXT, folder)
    if name == "docs/guides/compat.md":
        (folder / "train.py").write_text("import sys\nassert sys.argv[1:] == ['--epochs', '3']\n")
    (folder / ".local/share/bash-completion/completions").mkdir(parents=True)
    if name in RECORDED:
        run(["-c", RECORDED[name]], folder, RECORDED[name])


def run(words: list[str], folder: Path, code: str, **more: str) -> str:
    """Run a program whose code is given, in a folder; return what it printed."""
    imports = r"^ *(import|from) (stepscope\.integrations\.)?({})\b"
    large = [LARGE[names] for names in LARGE if re.search(imports.format(names), code, re.MULTILINE)]
    with commands.stepscope(PLAIN) as first:
        path = os.pathsep.join((first, str(Path(sys.executable).parent), os.environ["PATH"]))
        own = {"PATH": path, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        done = programs.run(
            words, modules=large[0] if large else PLAIN, cwd=folder, stdin=subprocess.DEVNULL,
            env={**os.environ, "KERAS_BACKEND": "torch", **own, **more}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return str(done.stdout)


TRIED = [page for page in PAGES if programs_of(page) not in ([], [[]])]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page.name == "README.md" else [pytest.mark.slow]) for page in TRIED],
    ids=map(relative, TRIED),
)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path):
    """In strict mode, beside what the page begins from."""
    prepare(page, tmp_path)
    lesson = relative(page) in LESSONS
    for part in programs_of(page):
        code = script(part, begin="" if lesson or part[0].language == "sh" else STAND_INS)
        (tmp_path / "page.py").write_text(code)
        printed = run(["page.py"], tmp_path, code, STEPSCOPE_STRICT="1")
        _, *outputs = re.split(f"^{MARK.format('[0-9]+')}$", printed, flags=re.MULTILINE)
        for block, output in zip(part, outputs, strict=True):
            assert not_printed(block.output, output) == [], f"{block.text}\n--- printed:\n{output}"
            if lesson:
                assert block.output or not output.strip(), f"not shown:\n{block.text}\n{output}"


def test_what_is_shown_is_compared_with_what_is_printed():
    printed = "high   input-bound: waits 4.09 ms of 4.28 ms in a.py:8 slow_loader\n  do: make it cheaper\n"
    assert not_printed("high input-bound: waits 3 ms of 12.5 ms in a.py:17 slow_loader\n", printed) == []
    queued = "waits 4 ms (96%; 179 µs more wait for a processor); a step takes 1 ms on a free processor"
    assert not_printed("waits 3 ms (90%); a step takes 2 ms", queued) == []
    assert not_printed("high input-bound: …\n\ndo: make it cheaper", printed) == []
    assert not_printed("  do: make it dearer\n", printed) == ["  do: make it dearer"]
    assert not_printed("high input-bound: waits\n", printed) == ["high input-bound: waits"]
    assert not_printed("0.007 5.9\u00d710⁻⁵ 1,024\n", "0.012 6\u00d710⁻⁴ 7\n") == []
    assert not_printed("attempt 1: nothing found", "attempt 1: 1 medium") == ["attempt 1: nothing found"]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_block_says_what_it_is(page):
    """So that none is left out: code is Python or shell, and text holds neither."""
    assert {each.language for each in blocks(page)} <= {"python", "sh", "text", "ipython"}
    assert re.findall(r"(?:\A|^\n)^    (?![-*\d ])\S.*", outside_of_fences(page), re.MULTILINE) == []
    code = re.compile(
        r"^\s*(?:import |from \w+ import|run = |\$ |python |pip |stepscope \w+(?!.*[A-Z]{3}))", re.MULTILINE
    )
    assert [each.text for each in blocks(page, "text") if code.search(each.text)] == []


def test_what_runs_elsewhere_is_as_little_as_it_says():
    lines = [line for page in PAGES for each in blocks(page) for line in each.text.splitlines()]
    shown = [line.partition("  #")[0].strip() for line in lines]
    unused = [pattern for pattern in ELSEWHERE if not any(re.fullmatch(pattern, line) for line in shown)]
    assert unused == []
    named = [place for place in ELSEWHERE.values() if "/" in place]
    assert [place for place in named if not (ROOT / place).is_file()] == []
