"""Open a log directory: against TensorBoard's Rust data server, its EventAccumulator, and our own cache.

Every point is kept and checksummed. Cold means without our cache; the files are in the page cache for both
sides. Each figure is the best of some runs, ours and the peer's in turn.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from logs import LARGE, SMALL, logs

RUNS = 3
OPEN = """
import json, os, sys, time
began = time.perf_counter()
import stepscope as ss
imported = ss.open and time.perf_counter()
log = ss.open(sys.argv[1], cache=sys.argv[2] == "cache")
facts = [(run.name, run.tags(), run.num_points()) for run in log.runs()]
opened = time.perf_counter()
log.close()
points = sum(points for _, _, points in facts)
print(json.dumps({"open": opened - imported, "import": imported - began, "points": points}))
"""
ACCUMULATE = """
import sys, time
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
began = time.perf_counter()
accumulator = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
accumulator.Reload()
points = sum(len(accumulator.Scalars(tag)) for tag in accumulator.Tags()["scalars"])
print(time.perf_counter() - began, points)
"""


def main() -> int:
    """Measure and print; the exit code says whether every ratio was reached."""
    good = [small(logs(*SMALL)), large(logs(*LARGE))]
    return 0 if all(good) else 1


def small(directory: Path) -> bool:
    """Measure 20 runs x 10 tags x 10,000 steps."""
    runs, tags, steps = SMALL
    ours, server = in_turn(directory, runs * tags, steps)
    accumulator = accumulate(directory / "run000") * runs
    print(f"{runs} runs x {tags} tags x {steps:,} steps, {size_mb(directory):.0f} MB, cold")
    good = [
        line("open in a running process", ours["open"], "Rust data server, its process", server["whole"], 4),
        line("whole process, imports included", ours["whole"], "Rust data server", server["whole"], 1.5),
        line(
            "open in a running process", ours["open"], f"EventAccumulator, one run x {runs}", accumulator, 100
        ),
    ]
    limits(directory, ours["open"])
    return all(good)


def large(directory: Path) -> bool:
    """Measure 50 runs x 20 tags x 10,000 steps, cold and from the cache."""
    runs, tags, steps = LARGE
    ours, server = in_turn(directory, runs * tags, steps)
    first, second = twice(directory)
    print(f"{runs} runs x {tags} tags x {steps:,} steps, {size_mb(directory):.0f} MB")
    good = [
        line("whole process, cold", ours["whole"], "Rust data server", server["whole"], 4),
        line("peak memory, MB", ours["rss_mb"], "Rust data server", server["rss_mb"], 2, unit="MB"),
        line("open again, from the cache", second, "the first time", first, 20),
    ]
    limits(directory, ours["open"])
    return all(good)


def in_turn(directory: Path, series: int, steps: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the best of us and of the data server, run in turn."""
    ours, servers = [], []
    for _ in range(RUNS):
        ours.append(stepscope(directory, "cold"))
        servers.append(data_server(directory, series, steps))
    return best(ours), best(servers)


def best(measured: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each figure."""
    return {name: min(each[name] for each in measured) for name in measured[0]}


def twice(directory: Path) -> tuple[float, float]:
    """Return the seconds of the first and of the second opening, each in a process of its own."""
    firsts, seconds = [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as home:
            firsts.append(stepscope(directory, "cache", home)["open"])
            seconds.append(stepscope(directory, "cache", home)["open"])
    return min(firsts), min(seconds)


def stepscope(directory: Path, cache: str, home: str = "/nonexistent") -> dict[str, float]:
    """Open a directory in a new process; return its seconds and its peak memory."""
    environment = {**os.environ, "XDG_CACHE_HOME": home}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN, str(directory), cache],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    _, status, usage = os.wait4(process.pid, 0)
    whole = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return {**facts, "whole": whole, "rss_mb": usage.ru_maxrss / 1e3}


def data_server(directory: Path, series: int, steps: int) -> dict[str, float]:
    """Start the data server; return the seconds until it has every series, and its peak memory."""
    import grpc
    import tensorboard_data_server
    from tensorboard.data.proto import data_provider_pb2, data_provider_pb2_grpc

    asked = data_provider_pb2.ListScalarsRequest(
        experiment_id="x", plugin_filter=data_provider_pb2.PluginFilter(plugin_name="scalars")
    )
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        command = [
            tensorboard_data_server.server_binary(),
            f"--logdir={directory}",
            f"--port-file={port_file}",
            "--reload=once",
            "--samples-per-plugin=scalars=1000000",
        ]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            while not port_file.exists() or not port_file.read_text().endswith("\n"):
                time.sleep(0.001)
            limit = [("grpc.max_receive_message_length", -1)]
            with grpc.insecure_channel(
                f"localhost:{port_file.read_text().strip()}", options=limit
            ) as channel:
                stub = data_provider_pb2_grpc.TensorBoardDataProviderStub(channel)
                while whole_series(stub.ListScalars(asked, wait_for_ready=True), steps) < series:
                    time.sleep(0.01)
                whole = time.perf_counter() - began
            status = Path(f"/proc/{process.pid}/status").read_text()
            return {"whole": whole, "rss_mb": int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e3}
        finally:
            process.kill()
            process.wait()


def whole_series(answer: object, steps: int) -> int:
    """Return how many series have reached their last step."""
    return sum(tag.metadata.max_step >= steps - 1 for run in answer.runs for tag in run.tags)


def accumulate(run: Path) -> float:
    """Return the seconds that the EventAccumulator takes for one run."""
    output = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ACCUMULATE, str(run)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, points = output.stdout.split()
    assert int(points) == SMALL[1] * SMALL[2]
    return float(seconds)


def limits(directory: Path, ours: float) -> None:
    """Print how fast the same bytes can be read at all."""
    buffer, began = bytearray(1 << 20), time.perf_counter()
    for path in directory.rglob("*tfevents*"):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    seconds = time.perf_counter() - began
    rest = f"opening takes {ours / seconds:.1f} x that"
    print(f"  limit: reading the bytes alone, one thread: {seconds:.3f} s; {rest}")


def size_mb(directory: Path) -> float:
    """Return the size of all files."""
    return sum(path.stat().st_size for path in directory.rglob("*tfevents*")) / 1e6


def line(what: str, ours: float, peer: str, theirs: float, goal: float, *, unit: str = "s") -> bool:
    """Print one figure with its peer and the ratio; return whether the goal is reached."""
    ratio = theirs / ours
    verdict = "ok" if ratio >= goal else "MISSED"
    figures = f"{ours:.4g} {unit}, {peer} {theirs:.4g} {unit}"
    print(f"  {what}: {figures}: {ratio:.1f} x (goal {goal:g} x) {verdict}", flush=True)
    return ratio >= goal


if __name__ == "__main__":
    sys.exit(main())
