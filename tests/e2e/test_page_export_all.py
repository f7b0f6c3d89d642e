"""Every chart and table of the page is saved: drawings without scripts, tables with the numbers as recorded."""

import csv
import gzip
import io
import json
import math

import numpy as np
import pytest
from export_files import SVG, checked, save

import stepscope as ss
from stepscope.events.kinds.graph import Node, NodeCost

HOSTILE = "=<img src=x onerror=alert(1)>"
STEPS = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long):
    """Two runs that recorded one of everything, names to break out with, and a profile of three steps."""
    log = tmp_path_factory.mktemp("all")
    random = np.random.default_rng(0)
    for name, rate in (("a", 0.1), ("b", 0.2)):
        with ss.Run(log / name, config={"rate": rate, "note": HOSTILE}) as run:
            for step in run.steps(range(STEPS)):
                run.scalar("train/loss", rate / (step + 1))
                run.scalar("tokens", 100.0 * step)
                run.histogram(f"gradients/{HOSTILE}", random.normal(size=50), buckets="fixed")
                run.histogram("gradients/calm", random.normal(size=50), buckets="fixed")
            labels = random.random(100) < 0.5
            run.pr_curve("eval/cats", labels, np.clip(labels * 0.4 + 0.6 * random.random(100), 0, 1), 5, num_thresholds=21)
            run.audio("voice", np.sin(np.arange(4000) / 9).astype("f4")[:, None] * 0.5, 5, sample_rate=8000)
            run.embedding("hidden", random.normal(size=(30, 4)), 5, labels=[[f"{at % 3}", HOSTILE] for at in range(30)], columns=["class", "name"])  # fmt: skip
            run.mesh("square", [[0, 0, 0], [1, 0, 0], [1, 1, 0]], 5, faces=[[0, 1, 2]])
            nodes = [Node("x", "Input", shapes=[(2, 8)]), Node(f"h/{HOSTILE}", "linear", ["x"], [(2, 8)])]
            run.graph([*nodes, Node("out", "Output", [f"h/{HOSTILE}"], [(2, 8)])], costs=[NodeCost(f"h/{HOSTILE}", 0, 900, 256)], step=0)  # fmt: skip
    for at in (1, 2):
        path = log / "a" / "profiles" / f"{at}.pt.trace.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(trace(slow=at)).encode()))
    return serve_long(log)


def trace(slow):
    """Steps of an operator, a kernel with a known intensity and a level of memory."""
    events = []
    for step in range(3):
        start = 1000 * step
        dims = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"], "External id": step + 1}
        launch = {"device": 0, "stream": 7, "correlation": step + 1, "External id": step + 1}
        level = {"Total Allocated": 64 << step, "Total Reserved": 1024, "Device Type": 1, "Device Id": 0, "Addr": step + 1, "Bytes": 64}  # fmt: skip
        host = {"ph": "X", "pid": 1, "tid": 1}
        events += [
            {**host, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": start, "dur": 900},
            {**host, "cat": "cpu_op", "name": "aten::mm", "ts": start + 10, "dur": 200, "args": dims},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": start + 20, "dur": 9, "args": launch},
            {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": HOSTILE, "ts": start + 60, "dur": 100 * slow + step, "args": launch},
            {"ph": "i", "s": "t", "pid": 1, "tid": 1, "cat": "cpu_instant_event", "name": "[memory]", "ts": start + 15, "args": level},
        ]  # fmt: skip
    device = {"id": 0, "name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0, "numSms": 80}
    return {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}


@pytest.fixture
def opened(server, watch):
    def at(hash_, ready):
        watched = watch(server)
        page = watched.open(hash_)
        page.locator(ready).first.wait_for()
        return page

    return at
