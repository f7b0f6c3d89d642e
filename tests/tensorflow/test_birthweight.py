"""The birth-weight example with the Estimator: alone, and as a cluster of eight processes on this machine."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support import programs

import stepscope as ss
from stepscope.analyze.parameter_server import parameter_server
from stepscope.trace import load_trace

tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("the Estimator left with TensorFlow 2.16", allow_module_level=True)
TRAIN = Path(__file__).resolve().parents[2] / "examples" / "birthweight" / "estimator_train.py"
IMPORTED = ("tensorflow", "keras", "stepscope.record.run", "stepscope.integrations.tensorflow")


def start(command: list[str], env: dict[str, str]) -> programs.Program:
    """Start what would be ``python …``, forked from a process that has imported TensorFlow."""
    return programs.Program(command[1:], modules=IMPORTED, env={**env, "TF_CPP_MIN_LOG_LEVEL": "3"})


@pytest.fixture
def forks(monkeypatch):
    """Programs that run in this process have what they start as Python forked by ``start``."""
    started = []
    patched = ModuleType("subprocess")
    vars(patched).update(
        {**vars(subprocess), "Popen": lambda command, env: started.append(start(command, env)) or started[-1]}
    )
    monkeypatch.setitem(sys.modules, "subprocess", patched)
    monkeypatch.syspath_prepend(str(TRAIN.parent))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    for each in started:
        each.kill()
        each.wait(20)
    for name in ("births", "options"):
        del sys.modules[name]


SESSION = """\
op -select micros,bytes,occurrence -order_by micros -max_depth 5
scope -max_depth 3 -select micros -min_micros 10
graph -max_depth 4 -select micros
code -max_depth 5 -select micros
advise
op -select micros -output pprof:outfile=op.pb.gz
timeline all.json.gz
"""
"""The one of docs/guides/clusters.md."""


def stepscope(folder: Path, *words: str, typed: str = "") -> str:
    command = [sys.executable, "-m", "stepscope", *words]
    done = subprocess.run(
        command, cwd=folder, check=True, timeout=120, input=typed, text=True, stdout=subprocess.PIPE
    )
    return done.stdout


def test_one_machine(tmp_path):
    words = [str(tmp_path / "births"), "--steps", "250", "--profile", "range:100-102"]
    trained = start([sys.executable, str(TRAIN), *words], {**os.environ, "OMP_NUM_THREADS": "1"})
    assert trained.wait(800) == 0
    with ss.open(tmp_path, cache=False) as log:
        run, evaluation = log.run("births"), log.run("births/eval")
        assert (run.state, run.problems) == ("finished", [])
        losses = evaluation.series("loss")["value"].tolist()
        assert losses[-1] < losses[0]
        assert {"loss", "dnn/hiddenlayer_0/fraction_of_zero_values", "gradients/norm"} <= set(run.tags())
        activations = run.record("dnn/hiddenlayer_0/activation")[-1]
        assert activations.kind == "histogram"
        assert activations[-1][:, 2].sum() == 128 * 64, "a count for each unit and example of the batch"
    assert len(list((tmp_path / "births" / "profiles").rglob("timeline-*.json"))) == 2
    [context] = (tmp_path / "births" / "profiles").rglob("profile.context")
    said = stepscope(tmp_path, "profile", str(context), typed=SESSION)
    assert said.count("node name | ") == 4
    assert all(name in said for name in ("MatMul", "dnn/hiddenlayer_0", "expensive-operation"))
    assert {"op.pb.gz", "all.json.gz"} <= {path.name for path in tmp_path.iterdir()}


def test_a_cluster_leaves_the_fifteen_timelines(tmp_path, forks, monkeypatch):
    words = [str(tmp_path / "births"), "--cluster", "--steps", "6000", "--profile", "steps:1800"]
    monkeypatch.setattr(sys, "argv", [str(TRAIN), *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(TRAIN), run_name="__main__")
    assert ended.value.code == 0
    folders = sorted((tmp_path / "births" / "profiles").glob("step*"))
    assert len(folders) == 3
    ranks = ["chief_rank0", *(f"worker_rank{rank}" for rank in range(1, 5))]
    for folder in folders:
        assert sorted(path.name.rsplit("_", 1)[0] for path in folder.glob("*.tfprof")) == ranks
        assert len(list(folder.rglob("timeline-*.json"))) == 5
    shares = {each.task: each.receive_ratio for each in parameter_server(load_trace(folders[-1]))}
    assert {"ps:0", "ps:1", "chief:0", "worker:3"} <= set(shares)
    told = {
        line.split()[0]: line
        for line in stepscope(tmp_path, "ranks", str(folders[-1]), "-v").splitlines()
        if line
    }
    assert all(f"{100 * shares[task]:.1f} %" in told[task] for task in ("ps:0", "ps:1"))
    glance = json.loads(stepscope(tmp_path, "glance", str(folders[-1]), "--json"))
    parts = {part["part"]: part["ratio"] for part in glance["parts"]}
    assert parts["communication"] > 0.01, "the workers wait for the servers, and one profile says so"
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("births")
        assert run.state == "finished"
        assert run.ranks.count() == 5
        assert log.run("births/eval").series("loss")["value"].tolist()[-1] < 1.0
