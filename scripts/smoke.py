"""Tries an installed Stepscope: records, reads, profiles, serves the page. Needs nothing but the package.

``python scripts/smoke.py``, in an environment into which the wheel alone was installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import stepscope as ss
from stepscope import kernels

STEPS = 50


def main() -> None:
    assert "site-packages" in (ss.__file__ or ""), f"a checkout is tried, not the wheel: {ss.__file__}"
    built = sorted(Path(kernels.__file__ or "").parent.glob("*.so"))
    assert len(built) > 5, "the kernels are not compiled"
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder))
        ask(Path(folder))
        serve(Path(folder))
    print(f"stepscope {ss.__version__}: records, reads, judges and serves; {len(built)} kernels compiled")


def record(folder: Path) -> None:
    with ss.Run(folder / "run", hooks=[ss.HealthHook(), ss.SystemHook(every_secs=1)]) as run:
        for step in run.steps(range(STEPS)):
            run.scalar("train/loss", 1 / (step + 1))
    with ss.open(folder) as log:
        values = log.run("run").series("train/loss")["value"].tolist()
    assert len(values) == STEPS
    assert values[0] == 1.0


def ask(folder: Path) -> None:
    trace = {"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}
    (folder / "trace.json").write_text(json.dumps(trace))
    for words in (
        ["ls", str(folder)],
        ["advise", str(folder / "run")],
        ["glance", str(folder / "trace.json")],
    ):
        subprocess.run([sys.executable, "-m", "stepscope", *words], check=True, stdout=subprocess.DEVNULL)


def serve(folder: Path) -> None:
    words = [sys.executable, "-m", "stepscope", "serve", str(folder), "--port", "0", "--no-token", "--json"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["url"]
        with urllib.request.urlopen(address, timeout=30) as answer:
            page = answer.read().decode()
        assert "assets/" in page, "the page was not built"
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main()
