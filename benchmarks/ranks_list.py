"""List and load a job of 1,000 ranks and 10,000 steps: against TensorBoard listing a directory per rank.

Ours are telemetry files of ranks, theirs event files with the same facts. TensorBoard is done when its server
names every run at ``/data/runs`` and every series of every run; whether all points are there it does not say.
Both sides' files are in the page cache, and everything is measured as whole processes, in turn.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from rank_files import TAGS, event_files, telemetry

RANKS, STEPS = 1000, 10_000
RUNS = 1
GOAL = 10
COLUMNS = 600
LOAD = """
import json, sys, time
began = time.perf_counter()
import stepscope as ss
imported = ss.open and time.perf_counter()
with ss.open(sys.argv[1], cache=False) as log:
    ranks = log.run("job").ranks
    members = ranks.members()
    listed = time.perf_counter()
    grid = ranks.grid("step_time_s", columns=int(sys.argv[2]))
    loaded = time.perf_counter()
assert all(member.digest.steps == int(sys.argv[3]) for member in members), members[0]
assert grid.count.sum() == len(members) * int(sys.argv[3])
print(json.dumps({"list": listed - imported, "load": loaded - imported, "ranks": len(members)}))
"""


def main() -> int:
    """Measure and print; the exit code says whether every ratio was reached."""
    ours, theirs = telemetry(RANKS, STEPS), event_files(RANKS, STEPS)
    megabytes = sum(path.stat().st_size for path in ours.rglob("*.steps")) / 1e6
    steps = RANKS * STEPS
    print(
        f"{RANKS:,} ranks x {STEPS:,} steps: {megabytes:.0f} MB, {1e6 * megabytes / steps:.1f} bytes a step"
    )
    found: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for name, measure in MEASURES.items():
            for what, seconds in measure(ours).items():
                found.setdefault(f"{name}{what}", []).append(seconds)
        found.setdefault("peer", []).append(tensorboard(theirs))
    peer = min(found.pop("peer"))
    good = [line(what, min(seconds), peer) for what, seconds in found.items()]
    return 0 if all(good) else 1


def load(directory: Path) -> dict[str, float]:
    """Return the seconds of the store: every rank in brief, and a fact rank by step."""
    command = [sys.executable, "-c", LOAD, str(directory), str(COLUMNS), str(STEPS)]
    began = time.perf_counter()
    facts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    whole = time.perf_counter() - began
    assert facts["ranks"] == RANKS
    return {
        ", every rank in brief": facts["list"],
        ", that and a fact rank by step": facts["load"],
        ", that as a whole process": whole,
    }


def ls(directory: Path) -> dict[str, float]:
    """Return the seconds of ``stepscope ls --ranks`` as a whole process."""
    command = [sys.executable, "-m", "stepscope", "ls", "--ranks", "--no-cache", str(directory)]
    began = time.perf_counter()
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = time.perf_counter() - began
    assert len(output.splitlines()) == RANKS + 1
    return {"": seconds}


def serve(directory: Path) -> dict[str, float]:
    """Return the seconds from starting the server to its answers."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "stepscope",
        "serve",
        str(directory),
        "--port",
        str(port),
        "--no-token",
    ]

    def listed() -> bool:
        return len(ask(port, "api/v1/ranks?run=job").get("ranks", ())) == RANKS

    def drawn() -> bool:
        address = f"http://127.0.0.1:{port}/api/v1/ranks/steps?run=job&fact=step_time_s&columns={COLUMNS}"
        with urllib.request.urlopen(address) as answer:
            return len(answer.read()) > RANKS * COLUMNS * 16

    times = wait_for(command, listed, drawn)
    return {", every rank in brief": times[0], ", that and a fact rank by step": times[1]}


def tensorboard(directory: Path) -> float:
    """Return the seconds from starting TensorBoard to the list of all its runs and their tags."""
    port = free_port()
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(directory), "--port", str(port)]

    def runs() -> bool:
        return len(ask(port, "data/runs")) == RANKS

    def tags() -> bool:
        found = ask(port, "data/plugin/scalars/tags")
        return len(found) == RANKS and all(len(each) == len(TAGS) for each in found.values())

    return wait_for(command, runs, tags)[1]


def wait_for(command: list[str], *conditions: Callable[[], bool]) -> list[float]:
    """Start a server and return the seconds until each condition, one after the other, held."""
    times = []
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "XDG_CACHE_HOME": home}
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for condition in conditions:
                while not condition():
                    assert process.poll() is None, f"{command[2]} ended"
                    time.sleep(0.02)
                times.append(time.perf_counter() - began)
        finally:
            process.kill()
            process.wait()
    return times


def ask(port: int, path: str) -> dict:  # type: ignore[type-arg]
    """Return what a server answers; nothing while it does not."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
            return json.loads(answer.read())  # type: ignore[no-any-return]
    except OSError:
        return {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def line(what: str, ours: float, theirs: float) -> bool:
    """Print one figure with its peer and the ratio; return whether the goal is reached."""
    ratio = theirs / ours
    verdict = "ok" if ratio >= GOAL else "MISSED"
    print(f"  {what}: {ours:.3g} s, TensorBoard {theirs:.3g} s: {ratio:.1f} x (goal {GOAL} x) {verdict}")
    return ratio >= GOAL


MEASURES = {"store": load, "stepscope ls --ranks": ls, "stepscope serve": serve}

if __name__ == "__main__":
    sys.exit(main())
