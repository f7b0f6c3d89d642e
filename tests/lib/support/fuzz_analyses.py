"""Every analysis, view and command over recordings that were changed: targets of ``make fuzz``.

Damaged bytes are mostly refused while they are loaded, and what comes after never sees them. So an input
here is a *recipe*: its bytes choose a real recording and changes of its parts (a field is missing, has
another type, is huge, is no text), which leave it one that loads. The same bytes give the same recording.
"""

import contextlib
import gzip
import hashlib
import io
import json
import random
import re
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from support.servers import application

DATA = Path(__file__).parents[2] / "data"
TRACES = (
    "critical_path/cuda_event_sync", "critical_path/cuda_event_sync_multi_stream", "critical_path/simple_add",
)  # fmt: skip
ODD = (
    None, "", "\ud800", "x" * 5_000, "\x1b[31m", 0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64,
    10**30, 1e-300, 1e18, 9.2e18, 1e308, float("inf"), float("nan"), True, [], {}, ["a"], {"a": [None]},
    "-1", "1e999",
)  # fmt: skip
"""Values that a field of a recording does not have when all is well."""
STEPS = (0, 1, -1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63 - 10)


def chance_of(data: bytes) -> random.Random:
    """Return what a recipe decides by."""
    return random.Random(hashlib.sha256(data).digest())


def recipes() -> list[bytes]:
    """Return recipes to begin with."""
    return [f"recipe {number}".encode() for number in range(2)]


# --- recordings --------------------------------------------------------------------------------------------


@cache
def _documents() -> dict[str, list[str]]:
    """Return recordings that are JSON, by the name of a file that holds such a one."""
    from support import fuzz

    def read(path: Path) -> str:
        return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()

    timelines = sorted(
        (DATA / "tf_estimator").rglob("timeline-*.json*"), key=lambda path: path.stat().st_size
    )
    return {
        "a.pt.trace.json": [read(DATA / "traces" / f"{name}.json.gz") for name in TRACES],
        "timeline-1.json": [read(path) for path in timelines[:1]],
        "dump_0.json": [fuzz.MADE["flight_json"]()[0].decode()],
        "results.json": [fuzz.MADE["rocprof"]()[0].decode()],
    }


def document(chance: random.Random) -> tuple[str, bytes]:
    """Return the name and the content of a recording, some of its fields changed."""
    documents = _documents()
    name = chance.choice(["a.pt.trace.json", *(name for name in documents if documents[name])])
    found = json.loads(chance.choice(documents[name]))
    events = found.get("traceEvents") if isinstance(found, dict) else None
    if events:
        if chance.random() < 0.3:
            del events[chance.randrange(len(events)) :]
        for _ in range(chance.choice((1, 1, 2, 8, 40)) if events else 0):
            _change(events[chance.randrange(len(events))], chance)
    if not events or chance.random() < 0.3:
        for _ in range(chance.choice((1, 2, 5))):
            _change(found, chance, but="traceEvents")
    return name, json.dumps(found).encode("utf-8", "surrogatepass")


def _change(found: Any, chance: random.Random, but: str = "") -> None:
    """Change one field of an object, or of one inside it."""
    while isinstance(found, dict) and (names := [name for name in found if name != but]):
        name = chance.choice(names)
        inner = found[name]
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            inner = chance.choice(inner)
        if isinstance(inner, dict) and inner and chance.random() < 0.8:
            found = inner
            continue
        kind = chance.randrange(4)
        if kind == 0:
            del found[name]
        elif kind == 1 and isinstance(inner, int | float):
            found[name] = inner * chance.choice((-1, 0, 1e3, 1e9, 1e15))
        else:
            found[name] = chance.choice(ODD)
        return


def nsys(chance: random.Random, seed: bytes) -> bytes:
    """Return an export of Nsight Systems with cells changed, and columns that are computed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        path.write_bytes(seed)
        with contextlib.closing(sqlite3.connect(path)) as database:
            tables = [
                row[0] for row in database.execute("select name from sqlite_master where type = 'table'")
            ]
            for _ in range(chance.choice((1, 2, 5))):
                table = chance.choice(tables)
                columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
                if not columns:
                    continue
                column = chance.choice(columns)
                kind = chance.randrange(4)
                with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
                    if kind == 0:
                        value = chance.choice(
                            (
                                "abs(-9223372036854775807)",
                                "1/0",
                                "zeroblob(9)",
                                "'a'",
                                "1e300",
                                "cast(x'eda080ff' as text)",
                            )
                        )
                        database.execute(f"alter table {table} rename column {column} to {column}_old")
                        database.execute(
                            f"alter table {table} add column {column} generated always as ({value})"
                        )
                    elif kind == 1:
                        database.execute(f"insert into {table} select * from {table}")
                        database.execute(f"update {table} set {column} = ? where rowid = 1", (2**62,))
                    else:
                        value = chance.choice([each for each in ODD if not isinstance(each, list | dict)])
                        database.execute(f"update {table} set {column} = ?", (value,))
            database.commit()
        return path.read_bytes()


# --- questions ------------------------------------------------------------------------------------------


def command(*words: object) -> None:
    """Run a command; a defect is raised."""
    from stepscope.cli import main

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as error:
            code = error.code
    assert code in (0, 1, 3), f"stepscope {words[0]} ended with {code}:\n{err.getvalue()[-2_000:]}"
    assert "Traceback" not in err.getvalue(), err.getvalue()[-2_000:]


def commands_of(path: Path, folder: Path) -> Iterator[tuple[object, ...]]:
    """Yield the commands that read a profile."""
    yield "glance", "--no-cache", path
    yield "advise", "--no-cache", path
    yield "advise", "--no-cache", "--json", path
    yield "ranks", "--no-cache", path
    yield "diff", "--no-cache", path, path
    yield "timeline", "--no-cache", path, "-o", folder / "timeline.json.gz"
    for view in ("op", "scope", "kernel", "code", "steps", "memory", "shapes"):
        yield "profile", view, "--no-cache", path


PROFILE_QUESTIONS = (
    "profile", "outline", "timeline", "tracks", "range", "view", "profile/diff", "profile/kernels",
    "profile/memory", "profile/shapes", "profile/path", "profile/overlap", "profile/ranks", "profile/waits",
    "profile/gaps", "profile/events", "chrome", "search", "event",
)  # fmt: skip
RUN_QUESTIONS = (
    "changes", "points", "findings", "captures", "report", "ranks", "ranks/steps", "ranks/frontier",
    "records",
)  # fmt: skip


def served(logs: Path, questions: tuple[str, ...], names: dict[str, str]) -> None:
    """Put questions to the server's application over a log directory; a defect is raised."""
    from support import fuzz_http

    with application(logs) as app:
        for question in questions:
            target = f"GET /api/v1/{question}?{urlencode(names)}\nhost: {fuzz_http.HOST}\n\n".encode()
            status = fuzz_http.status_of(app, target)
            assert status not in (None, 500), f"{question}: {status}"
        charts = {"charts": [{"id": "x", "lines": [{"run": "a", "tag": "loss"}]}]}
        head = f"POST /api/v1/series\nhost: {fuzz_http.HOST}\ncontent-type: application/json\n\n"
        assert fuzz_http.status_of(app, head.encode() + json.dumps(charts).encode()) != 500


def _profile(path: Path, folder: Path, chance: random.Random) -> None:
    from stepscope.errors import StepscopeError
    from stepscope.trace.load import load_file

    try:
        trace = load_file(path, cache=False)
    except StepscopeError:
        return
    with contextlib.suppress(StepscopeError):
        trace.frame()
    for words in chance.sample(list(commands_of(path, folder)), 3):
        command(*words)


def profiles(data: bytes, folder: Path) -> None:
    """Commands over a recording of a profiler."""
    chance = chance_of(data)
    name, content = document(chance)
    path = folder / name
    path.write_bytes(content)
    _profile(path, folder, chance)


def databases(data: bytes, folder: Path) -> None:
    """Commands over an export of Nsight Systems."""
    from support import fuzz

    chance = chance_of(data)
    path = folder / "a.sqlite"
    path.write_bytes(nsys(chance, fuzz.MADE["nsys"]()[0]))
    _profile(path, folder, chance)


def views(data: bytes, folder: Path) -> None:
    """Questions of the page about a recording of a profiler."""
    chance = chance_of(data)
    logs = folder / "views"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    path, content = document(chance)
    (logs / path).write_bytes(content)
    names = {
        "path": path,
        "a": path,
        "b": path,
        "q": "a",
        "row": "0",
        "start": "0",
        "lanes": "0",
        "view": "op",
    }
    served(logs, tuple(chance.sample(PROFILE_QUESTIONS, 6)), names)


def jobs(data: bytes, folder: Path) -> None:
    """Commands and questions over a run whose steps, values, names and files of ranks were changed."""
    from stepscope.events.framing import frame
    from stepscope.events.telemetry import FACTS, HEAD, ROW, ROWS, as_event

    chance = chance_of(data)
    logs = folder / "jobs"
    shutil.rmtree(logs, ignore_errors=True)
    shutil.copytree(_run(), logs / "a")
    _steps(logs / "a", chance)
    for path in sorted((logs / "a" / "ranks").glob("*.steps")):
        parts = [path.read_bytes()]
        if chance.random() < 0.5:
            parts = [parts[0][: chance.randrange(len(parts[0]))]]
        if chance.random() < 0.6:
            rows, stages = chance.choice((0, 1, 5, 30)), chance.choice((0, 0, 1, 3))
            row = struct.pack(f"<{stages}H", *(chance.choice((0, 1, 65_534, 65_535)) for _ in range(stages)))
            wall = chance.choice((0.0, 1e9, 1e308, float("nan"), float("inf"), -1e300))
            head = HEAD.pack(stages, 3e38, float("nan"))
            cells = [
                ROW.pack(
                    at * chance.choice((1, 1, -1, 1_000)),
                    2**16 - 1,
                    at,
                    chance.choice((0.1, float("nan"), -1.0, 3e38)),
                    0.1,
                    1.0,
                )
                + row
                for at in range(rows)
            ]
            step = chance.choice(STEPS)
            parts.append(frame(as_event(ROWS, head + b"".join(cells), step, wall)))
        if chance.random() < 0.6:
            facts = {"host": "h", "stages": ["forward", "backward"], "stage_order": [1, 2], "role": "worker",
                     "started": 1.0, "pid_namespace": "x", "start_ticks": 1, "group": "a",
                     "devices": ["d"]}  # fmt: skip
            for _ in range(chance.choice((1, 2, 4))):
                _change(facts, chance)
            text = json.dumps(facts).encode("utf-8", "surrogatepass")
            parts.append(frame(as_event(FACTS, text)))
        path.write_bytes(b"".join(bytes(part) for part in parts))
        if chance.random() < 0.2:
            number = chance.choice(("999999999", "0", "262144", "9" * 40, "-1"))
            path.rename(path.with_name(re.sub("of-[0-9]+", f"of-{number}", path.name)))
    chosen = chance.sample(
        [
            ("ls", "--ranks", logs), ("ls", logs), ("ls", "--json", logs),
            ("ranks", "--no-cache", logs / "a"),
            ("report", logs, "a", "-o", folder / "report.html"), ("watch", "--once", logs),
            ("export", logs, "--format", "csv", "-o", folder / "export.csv"),
            ("export", logs, "--format", "json", "-o", folder / "export.json"),
        ],
        3,
    )  # fmt: skip
    for words in chosen:
        command(*words)
    names = {"run": "a", "tag": "loss", "fact": "step_time_s", "columns": chance.choice(("1", "100", "4000"))}
    served(logs, tuple(chance.sample(RUN_QUESTIONS, 4)), names)


@cache
def _run() -> Path:
    """Return a small job of three ranks with stages, recorded once."""
    import atexit

    import stepscope as ss

    folder = Path(tempfile.mkdtemp(prefix="stepscope-fuzz-job-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for rank in range(3):
        with ss.Run(folder / "a", rank=rank, world_size=3) as run:
            for step in run.steps(range(30)):
                with run.stage("forward"):
                    pass
                run.scalar("loss", 1.0 / (step + 1))
    return folder / "a"


def _steps(run: Path, chance: random.Random) -> None:
    """Log into a run at steps and with values that are far apart."""
    from stepscope.events import EventWriter

    if chance.random() < 0.4:
        return
    with contextlib.closing(EventWriter(run)) as writer:
        tags = ("loss", "train/loss", "a\ud800", "", "x" * 3_000)
        for _ in range(chance.choice((1, 2, 5, 40))):
            value = chance.choice((1.0, float("nan"), float("inf"), 1e308, -1e308, 5e-324, 0.0))
            with contextlib.suppress(ValueError, OverflowError, UnicodeError):
                writer.scalar(
                    chance.choice(tags), value, chance.choice(STEPS), chance.choice((1.0, 1e300, -1e9, 1.7e9))
                )


TARGETS: dict[str, Callable[[bytes, Path], None]] = {
    "profiles": profiles,
    "databases": databases,
    "views": views,
    "jobs": jobs,
}
