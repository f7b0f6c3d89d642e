"""Many clients at one server: how long an answer takes at the page's pace, beside TensorBoard's server.

``python benchmarks/serve_load.py [--clients 200 1000] [--seconds 20] [--pace 1] [--series] [--no-peer]``

The log holds 500 runs of 50 tags; five of them grow by a step a second meanwhile. Each client has a
connection of its own and asks as the page does: what is new, and again a second after the answer came.
TensorBoard is asked for the tags of every run, as its page does every 30 s to see what is new; it closes each
connection after its answer, so connecting is part of its times.
All clients are in one process beside the server's, so on two cores they share the machine; what they take of
it is printed. They come one after the other over some seconds, and what they wait for their first answer,
which holds every run, is told apart. With ``--series`` each asks for a chart of all runs after each answer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from logs import START, logs
from page_first_charts import await_port, free_port, process, script

from stepscope.events import EventWriter

RUNS, TAGS, STEPS, GROWING = 500, 50, 20, 5
GOALS_MS = {200: 250.0, 1000: 1000.0}
"""Of the 99th percentile, by the number of clients."""
PER_SECOND = 50
"""Clients that come in a second."""
READ = {"stepscope": "api/v1/changes", "tensorboard": "data/plugin/timeseries/tags"}


def main() -> int:
    """Measure and print; the exit code says whether every goal was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=sorted(GOALS_MS))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument("--series", action="store_true")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--ask", metavar="PORT", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tool", default="stepscope", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(asyncio.run(Crowd(options).ask())))
        return 0
    print(
        f"{RUNS} runs x {TAGS} tags, {GROWING} growing; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    good = True
    with tempfile.TemporaryDirectory() as home, copied(logs(RUNS, TAGS, STEPS), Path(home)) as logdir:
        for clients in options.clients:
            ours = measured("stepscope", logdir, clients, options)
            goal = GOALS_MS.get(clients, float("inf"))
            good &= ours["p99_ms"] <= goal
            verdict = "ok" if ours["p99_ms"] <= goal else "MISSED"
            print(f"  stepscope, {clients} clients: {told(ours)} (goal {goal:g} ms) {verdict}", flush=True)
            if not options.no_peer:
                theirs = measured("tensorboard", logdir, clients, options)
                print(f"  tensorboard, {clients} clients: {told(theirs)}", flush=True)
    return 0 if good else 1


def told(found: dict[str, float]) -> str:
    """Return the figures of a server as a line."""
    return (
        f"p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms, longest {found['longest_ms']:.0f} ms "
        f"of {found['answers']:.0f} answers, {found['per_second']:.0f} a second, {found['failures']:.0f} "
        f"failed; first answers p50 {found['first_p50_ms']:.0f} ms, p99 {found['first_p99_ms']:.0f} ms; "
        f"server {found['server_cpu']:.2f} cores, clients {found['client_cpu']:.2f}"
    )


@contextlib.contextmanager
def copied(logdir: Path, home: Path) -> Iterator[Path]:
    """Yield a copy of a log directory in which some runs grow by a step a second."""
    shutil.copytree(logdir, home / "logs")
    writers = [EventWriter(home / "logs" / f"run{run:03d}") for run in range(GROWING)]
    done = threading.Event()

    def grow() -> None:
        step = STEPS
        while not done.wait(1.0):
            for writer in writers:
                for tag in range(TAGS):
                    writer.scalar(f"train/metric_{tag}", random.random(), step, START + step)
                writer.flush()
            step += 1

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield home / "logs"
    finally:
        done.set()
        thread.join()
        for writer in writers:
            writer.close()


def measured(tool: str, logdir: Path, clients: int, options: argparse.Namespace) -> dict[str, float]:
    """Start a server that has read everything, let the clients ask it, and return the figures."""
    port = free_port()
    more = ["--no-token"] if tool == "stepscope" else []
    command = [script(tool), *(["serve", str(logdir)] if more else ["--logdir", str(logdir)]), *more]
    with (
        tempfile.TemporaryDirectory() as cache,
        process([*command, "--port", str(port)], XDG_CACHE_HOME=cache) as server,
    ):
        await_port(port)
        await_read(tool, port)
        words = ["--ask", str(port), "--tool", tool, "--clients", str(clients)]
        words += ["--seconds", str(options.seconds), "--pace", str(options.pace)]
        words += ["--series"] if options.series and tool == "stepscope" else []
        before, start = cpu_of(server.pid), time.perf_counter()
        asked = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, check=True)
        cores = (cpu_of(server.pid) - before) / (time.perf_counter() - start)
        return {**json.loads(asked.stdout), "server_cpu": cores}


def await_read(tool: str, port: int) -> None:
    """Wait until a server has read every run."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with urlopen(f"http://127.0.0.1:{port}/{READ[tool]}") as answer:
            told = json.load(answer)
        whole = not told["loading"] if tool == "stepscope" else len(told["scalars"]["runTagInfo"]) >= RUNS
        if whole:
            return
        time.sleep(0.2)
    sys.exit(f"{tool} did not read {RUNS} runs within 120 s")


def cpu_of(pid: int) -> float:
    """Return the seconds of processor time that a process and those it started have taken."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    mine = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return mine + sum(cpu_of(int(child)) for child in children)


@dataclass
class Crowd:
    """Clients that ask one server; ``first`` and ``later`` are milliseconds."""

    options: argparse.Namespace
    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    failures: int = 0
    counts: bool = False

    async def ask(self) -> dict[str, float]:
        """Let all come, then measure for so long, and return the figures."""
        count = self.options.clients[0]
        tasks = []
        for client in range(count):
            tasks.append(asyncio.create_task(self.client(random.Random(client))))
            await asyncio.sleep(1 / PER_SECOND)
        await asyncio.sleep(2 * self.options.pace)
        self.counts, began, used = True, time.perf_counter(), cpu_s()
        await asyncio.sleep(self.options.seconds)
        seconds, used = time.perf_counter() - began, cpu_s() - used
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        later, first = self.later or [float("inf")], self.first or [float("inf")]  # none came in that time
        return {
            **{f"p{share}_ms": percentile(later, share) for share in (50, 99)},
            **{f"first_p{share}_ms": percentile(first, share) for share in (50, 99)},
            "longest_ms": max(later),
            "answers": len(self.later),
            "per_second": len(self.later) / seconds,
            "failures": self.failures,
            "client_cpu": used / seconds,
        }

    async def client(self, chance: random.Random) -> None:
        """Ask until the end; connect anew after a failure, as browsers do."""
        cursor = ""
        while True:
            try:
                cursor = await self.converse(chance, cursor)
            except (OSError, asyncio.IncompleteReadError, RuntimeError):
                self.failures += self.counts
                cursor = ""
            await asyncio.sleep(self.options.pace * chance.uniform(0.95, 1.05))

    async def converse(self, chance: random.Random, cursor: str) -> str:
        """Ask over one connection for as long as it lasts; return the cursor."""
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.options.ask, limit=1 << 26)
        with contextlib.closing(writer):
            while True:
                cursor = await self.poll(reader, writer, cursor, began)
                if self.options.tool == "tensorboard":
                    return cursor
                await asyncio.sleep(self.options.pace * chance.uniform(0.95, 1.05))
                began = time.perf_counter()

    async def poll(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cursor: str, began: float
    ) -> str:
        """Ask what is new; return the cursor of the answer."""
        query = f"?cursor={cursor}" if cursor else ""
        tool, port = self.options.tool, self.options.ask
        asked = f"GET /{READ[tool]}{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        body = await self.timed(reader, writer, asked.encode(), began, first=cursor == "")
        if tool != "stepscope":
            return "known"
        if self.options.series:
            await self.timed(reader, writer, chart(port), time.perf_counter(), first=False)
        at = body.index(b'"cursor":"') + 10
        return body[at : body.index(b'"', at)].decode()

    async def timed(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: bytes,
        began: float,
        *,
        first: bool,
    ) -> bytes:
        """Ask, keep the time from when it began to the last byte, and return the body."""
        writer.write(asked)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(head[:40])
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        took_ms = (time.perf_counter() - began) * 1e3
        if first:
            self.first.append(took_ms)
        elif self.counts:
            self.later.append(took_ms)
        return body


def chart(port: int) -> bytes:
    """Return the request for a chart of one tag of all runs."""
    lines = [{"run": f"run{run:03d}", "tag": "train/metric_0"} for run in range(RUNS)]
    body = json.dumps({"charts": [{"id": "a", "x": "step", "lines": lines, "width": 300}]}).encode()
    head = f"POST /api/v1/series HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def percentile(values: list[float], share: float) -> float:
    """Return the value that so many in a hundred do not pass."""
    return sorted(values)[min(int(len(values) * share / 100), len(values) - 1)]


def cpu_s() -> float:
    """Return the processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
