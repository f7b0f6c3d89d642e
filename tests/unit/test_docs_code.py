"""Every code block of README and docs runs, in its page's order, as a reader would paste it.

What a reader has already, such as a run or a trace under the page's names, is made first. What cannot run
here is listed line by line with the test that runs it; the list is checked to be no longer than it must be.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import programs
from support.documents import PAGES, ROOT, blocks, outside_of_fences, program, relative

TRACE = ROOT / "tests" / "data" / "traces" / "kineto" / "v100_rank1of2.json.gz"
CONTEXT = ROOT / "tests" / "data" / "tfprof" / "convnet" / "profile.context"

STAND_INS = """
import stepscope as ss
loader, log_dir, pp = range(3), "runs/placed", 2
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
RECORDED = {
    "docs/health.md": A_RUN.format(name="gpt") + A_RUN.format(name="whole"),
    "docs/ranks.md": A_JOB,
    "docs/reading.md": A_RUN.format(name="baseline"),
    "docs/runs.md": A_RUN.format(name="first") + A_RUN.format(name="second"),
}
"""Programs whose runs a page reads."""
TRACES = ("docs/advise.md", "docs/clusters.md", "docs/profile.md", "docs/traces.md")
"""Pages that read profiles."""

LARGE = {"torch": programs.TORCH, "jax": ("jax",)}
"""What takes seconds to import: it is there before a program that imports what it is named by."""

ELSEWHERE = {
    r"make [\w-]+": "the Makefile: CI runs its targets",
    r"pip install .*": "scripts/wheel.sh",
    r"stepscope serve .*": "tests/e2e/test_serve_command.py",
    r"stepscope top .*": "tests/unit/cli/top/test_app.py",
    r"stepscope demo\b.*": "tests/e2e/test_demo_command.py",
    r"stepscope share .*": "tests/e2e/test_serve_share.py",
    r"stepscope capture .*": "tests/e2e/test_capture_command.py",
    r"stepscope ranks .* --ray .*": "tests/e2e/test_ranks_ray.py",
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


def commands(page: Path) -> str:
    return "\n".join(runnable(each.text) for each in blocks(page, "sh")).strip()


def prepare(page: Path, folder: Path) -> None:
    name = relative(page)
    if name in TRACES:
        (folder / "runs").mkdir()
        for copy in ("trace.json.gz", "runs/trace.json.gz"):
            shutil.copy(TRACE, folder / copy)
        shutil.copy(CONTEXT, folder)
    if name == "docs/compat.md":
        (folder / "train.py").write_text("import sys\nassert sys.argv[1:] == ['--epochs', '3']\n")
    (folder / ".local/share/bash-completion/completions").mkdir(parents=True)
    if name in RECORDED:
        run([sys.executable, "-c", RECORDED[name]], folder)


def run(words: list[str], folder: Path, **more: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    environment |= {"KERAS_BACKEND": "torch", **more}
    how = {
        "cwd": folder, "env": environment, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True,
        "timeout": 300,
    }  # fmt: skip
    if words[0] == sys.executable:
        named = [name for name in LARGE if re.search(rf"^ *(import|from) {name}\b", words[-1], re.MULTILINE)]
        large = tuple(module for name in named for module in LARGE[name])
        done = programs.run(words[1:], modules=large, **how)
    else:
        done = subprocess.run(words, **how)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.mark.parametrize("page", [page for page in PAGES if program(page) or commands(page)], ids=relative)
def test_the_code_of_a_page_runs(page, tmp_path):
    """All Python as one program in strict mode, then all commands, beside what the page begins from."""
    prepare(page, tmp_path)
    python = STAND_INS + runnable(program(page))
    if program(page):
        run([sys.executable, "-c", python], tmp_path, STEPSCOPE_STRICT="1")
    if commands(page):
        run(["bash", "-euo", "pipefail", "-c", commands(page)], tmp_path)


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
