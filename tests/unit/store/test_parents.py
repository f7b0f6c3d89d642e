"""Which run is the parent of which: as recorded, by path or by name, without circles."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import stepscope as ss
from stepscope import store
from stepscope.cli.ls import as_tree
from stepscope.errors import UsageError
from stepscope.store.run import StoredRun, adopt


def parents(recorded):
    """Return the parents of runs, given by name and recorded parent, that are found."""
    runs = {name: StoredRun(name) for name in recorded}
    for name, run in runs.items():
        if name.endswith("/eval"):
            run.base = name.removesuffix("/eval")
        source = SimpleNamespace(info=SimpleNamespace(parent=recorded[name]))
        run.files = SimpleNamespace(writers=[SimpleNamespace(every_source=[source])])
    adopt(runs)
    return {name: run.parent for name, run in runs.items() if run.parent is not None}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"sweep": None, "sweep/1": "..", "t": "../sweep"}, {"sweep/1": "sweep", "t": "sweep"}),
        ({"a/job": None, "b/job": None, "b/child": "job"}, {"b/child": "b/job"}),
        ({"a/job": None, "b/job": None, "c/child": "job"}, {}),  # two fit as well
        ({"a/job": None, "c/child": "job"}, {"c/child": "a/job"}),
        ({"job": None, "c/child": "job", "c/child/eval": None}, {"c/child": "job", "c/child/eval": "job"}),
        ({"x/eval": None, "y": "x"}, {"y": "x"}),  # x has parts only
        ({"a": "../gone", "b": "gone", "c": "../../outside"}, {}),
        ({"a": "../a", "b": "b"}, {}),
        ({"a": "b", "b": "a", "c": "a"}, {"c": "a"}),  # a circle has no parent, what hangs on it has
        ({"a": "b", "b": "c", "c": "b"}, {"a": "b"}),
        ({"x/eval": "y", "y": "x"}, {}),
        ({".": None, "a": ".."}, {"a": "."}),
    ],
)
def test_whose_child_a_run_is(recorded, expected):
    assert parents(recorded) == expected


def test_a_run_a_path_or_a_name_is_recorded_and_listed_as_a_tree(tmp_path):
    logs = tmp_path / "logs"
    with ss.Run(logs / "sweep") as sweep:
        sweep.scalar("loss", 1.0, 0)
        for name, parent in (("b-run", sweep), ("c-path", str(logs / "sweep")), ("a-name", "b-run")):
            with ss.Run(logs / name, parent=parent) as run:
                run.scalar("loss", 1.0, 0)
    with pytest.raises(UsageError, match="its own parent"):
        ss.Run(logs / "sweep", parent=sweep)
    for wrong in ("", 3):
        with pytest.raises(UsageError, match="parent must be"):
            ss.Run(logs / "other", parent=wrong)
    shutil.move(logs, tmp_path / "moved")
    log = store.open(tmp_path / "moved")
    tree = [(depth, run.name) for depth, run in as_tree(log.runs())]
    assert tree == [(0, "sweep"), (1, "b-run"), (2, "a-name"), (1, "c-path")]
    shutil.rmtree(Path(tmp_path / "moved" / "b-run"))
    log.refresh()
    assert [(depth, run.name) for depth, run in as_tree(log.runs())] == [
        (0, "a-name"), (0, "sweep"), (1, "c-path"),
    ]  # fmt: skip


def test_three_thousand_runs_take_no_time():
    recorded = {f"sweep/{number}": f"r{number % 7}/job" for number in range(3000)}
    began = time.process_time()
    parents(recorded | {f"{number}/r{number}/job": None for number in range(7)})
    assert time.process_time() - began < 2
