"""The change log holds all that happened to a run besides its series."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import stepscope as ss
from stepscope.record.code import RunningCode, commit_of
from stepscope.store.changes import Recorded, events_of
from stepscope.store.findings import WrittenFinding

PROGRAM = """
import sys
import stepscope as ss
import model
first, lr = int(sys.argv[1]), float(sys.argv[2])
with ss.Run("run", config={"lr": lr, "model": {"width": 8}}, tags=["t"]) as run:
    for step in run.steps(range(100), start=first):
        run.scalar("train/loss", model.loss(step))
        if step % 40 == 20:
            run.checkpoint_saved(f"{step}.pt")
    if first:
        raise SystemExit(0)
    raise RuntimeError("link down")
"""


def attempt(folder, first, lr, loss):
    (folder / "train.py").write_text(PROGRAM)
    (folder / "model.py").write_text(f"def loss(step):\n    return {loss} + 0.01 * (step * 7919 % 13)\n")
    subprocess.run(
        [sys.executable, "-B", "train.py", str(first), str(lr)], cwd=folder, check=False, capture_output=True
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    git = folder / ".git"
    git.mkdir()
    for commit, first, lr, loss in (("a" * 40, 0, 0.1, 0.4), ("b" * 40, 90, 0.01, 2.4)):
        (git / "HEAD").write_text(f"{commit}\n")
        attempt(folder, first, lr, loss)
    with ss.open(folder) as found:
        yield found


@pytest.mark.slow
def test_a_resumed_run_says_what_differs_between_its_attempts(log):
    groups = log.run("run").changes()
    assert "step 99: attempt 1 failed: RuntimeError: link down" in [group.text for group in groups]
    [resumed] = [group for group in groups if any(each.source == "code" for each in group.changes)]
    changes = [each for each in resumed.changes if not each.tag.startswith("speed/")]
    texts = [(each.source, each.text, each.change.first_step) for each in changes]
    assert texts[-1] == ("checkpoint", "last checkpoint before it", 59)
    assert sorted(texts[:-1]) == [
        ("attempt", "attempt 2 begins, records 10 steps again", 90),
        ("code", "code of model.py changed", 90),
        ("code", "commit aaaaaaaaaa → bbbbbbbbbb", 90),
        ("series", "train/loss 0.46 → 2.46", 90),
        ("setting", "lr 0.1 → 0.01", 90),
    ]


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        ({".git/HEAD": "1" * 40}, "1" * 40),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": "2" * 40 + "\n"}, "2" * 40),
        (
            {".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": f"# x\n{'3' * 40} refs/heads/main\n"},
            "3" * 40,
        ),
        ({".git/HEAD": "ref: refs/heads/main\n"}, None),
        (
            {".git": "gitdir: ../common/worktrees/w\n", "../common/worktrees/w/HEAD": "ref: refs/heads/w\n",
             "../common/worktrees/w/commondir": "../..\n", "../common/refs/heads/w": "4" * 40},
            "4" * 40,
        ),
        ({}, None),
    ],
)  # fmt: skip
def test_the_commit_is_read_from_the_files_of_a_repository(tmp_path, files, commit):
    folder = tmp_path / "project"
    (folder / "deep" / "er").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert commit_of(folder / "deep" / "er") == commit


def test_code_of_packages_is_not_the_users_own():
    files = RunningCode().facts().get("files", {})
    assert not [name for name in files if "numpy" in name or name.startswith("..")]


@pytest.mark.parametrize(
    ("tag", "since", "wall"),
    [("loss", 30, 1030.0), ("loss", None, 1090.0), ("loss", 95, 1090.5), ("elsewhere", 30, 1090.5)],
)
def test_a_finding_stands_at_the_time_since_which_it_holds(tag, since, wall):
    """Rules notice late; in the order of time it must not come after what happened in between."""
    column = SimpleNamespace(
        tag="loss",
        attempt=1,
        step=np.arange(95),
        wall=1000.0 + np.arange(95),
        split=None,
        run="run",
        writer="w",
    )
    finding = WrittenFinding(
        rule="slower-steps", severity="medium", title="", summary="", tag=tag, layer=None, rank=None,
        first_step=20, step=90, wall=1090.5, since_step=since,
    )  # fmt: skip
    [event] = events_of(Recorded("run", [column], [], [finding], [], []), [column])
    assert (event.step, event.wall) == (90 if since is None else since, wall)
