"""What reads files of others, fed with damaged ones: ``make fuzz``, and a short seeded part in the tests.

Each target takes bytes. It may refuse them with an error of this package; anything else it raises is a find,
and so is an input that takes longer than ``SECONDS``. Finds go to ``tests/data/fuzz/<target>/`` and are tried
by the tests from then on.

``atheris`` looks for new paths through the code; where it is not installed, seeds are mutated at random.
What it has found that goes where nothing smaller goes is in ``tests/data/fuzz/corpora``: every run begins
from there, that of the tests too. ``--corpora`` looks on and packs them anew.
"""

import argparse
import gzip
import importlib.util
import io
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import stepscope
from stepscope.errors import StepscopeError
from support import fuzz_analyses, fuzz_http, fuzz_media, nsys, rocprof

DATA = Path(__file__).parents[2] / "data"
FINDS = DATA / "fuzz"
CORPORA = FINDS / "corpora"
MOST_PACKED, MOST_PACKED_BYTES = 250, 400_000
"""Inputs of a corpus, and their bytes before they are packed, at most."""
BUILD = Path("build/fuzz")
"""Where atheris keeps what it finds."""
SECONDS = 20
SEED_BYTES = 60_000
MEMORY_BYTES = 6 << 30
Target = Callable[[bytes, Path], None]
Step = tuple[str, int, int]
"""A file, a line, and the one that runs after it."""


def events(data: bytes, folder: Path) -> None:
    """Event files: what is read in portions is what is read at once."""
    from stepscope.events import EventFile

    path = folder / "events.out.tfevents.1.host.1.0"
    path.write_bytes(data)
    at_once = _points(EventFile(path), None)
    in_portions = _points(EventFile(path), 1_000)
    assert at_once == in_portions, "portions change what is read"


def _points(file: object, most: int | None) -> list[tuple[str, list[int], list[float]]]:
    import numpy as np

    found: dict[str, tuple[list[int], list[bytes]]] = {}
    while True:
        before = file.position
        batch = file.read() if most is None else file.read(max_bytes=most)
        for each in batch.scalars:
            steps, values = found.setdefault(each.tag, ([], []))
            steps += each.step.tolist()
            values += [np.float64(value).tobytes() for value in each.value]
        if most is None or file.position == before:
            return sorted((tag, steps, values) for tag, (steps, values) in found.items())


def event(data: bytes, folder: Path) -> None:
    """One event, and all kinds of summaries in it."""
    from stepscope.events import decode_event

    decode_event(data)


def log(data: bytes, folder: Path) -> None:
    """A log directory: the run is there, with its problems."""
    import stepscope as ss

    run = folder / "runs" / "a"
    run.mkdir(parents=True, exist_ok=True)
    (run / "events.out.tfevents.1.host.1.0").write_bytes(data)
    with ss.open(folder / "runs", cache=False) as opened:
        for each in opened.runs():
            _ = each.info, each.state, each.problems, each.findings, each.last_step
            for tag in each.tags():
                each.columns(tag)
            for about in each.records():
                each.record(about.tag)


def ranks(data: bytes, folder: Path) -> None:
    """Files of ranks."""
    from stepscope.events.rank_file import RankFile
    from stepscope.events.telemetry import parse_name

    path = folder / "rank-00000-of-00002.attempt-1.restart-0.host.1.0.steps"
    path.write_bytes(data)
    name = parse_name(path.name)
    assert name is not None
    file = RankFile(str(path), name)
    file.follow()
    file.steps()
    file.fact("loss")


def _trace(name: str) -> Target:
    def read(data: bytes, folder: Path) -> None:
        from stepscope.trace.load import load_file

        path = folder / name
        path.write_bytes(data)
        load_file(path, cache=False)

    return read


def expressions(data: bytes, folder: Path) -> None:
    """Expressions over tags, and patterns of the user."""
    from stepscope.expression import parse
    from stepscope.patterns import compile_pattern

    text = data.decode("utf-8", "replace")[:2_000]
    for read in (parse, lambda text: compile_pattern(text, "tag").search("train/loss" * 20)):
        with suppress(StepscopeError):
            read(text)


def info(data: bytes, folder: Path) -> None:
    """What a run says of itself, and an end of an event file in which it may say its attempt."""
    from stepscope.record.info import attempt_in
    from stepscope.store.info import parse_info

    parse_info(data)
    attempt_in(data)


def hparams(data: bytes, folder: Path) -> None:
    """Hyperparameters of TensorBoard."""
    from stepscope.events.hparams import decode_content

    decode_content(data)


def notes(data: bytes, folder: Path) -> None:
    """Annotations, views and telemetry of a spool, as somebody may have left them."""
    from stepscope.record.spool import SpoolEntry

    (folder / "entry.json").write_bytes(data)
    (folder / "sent.json").write_bytes(data)
    SpoolEntry.load(folder)


TARGETS: dict[str, Target] = {
    "events": events,
    "event": event,
    "log": log,
    "ranks": ranks,
    "chrome": _trace("trace.json"),
    "chrome_gz": _trace("trace.json.gz"),
    "xplane": _trace("host.xplane.pb"),
    "pprof": _trace("profile.pb.gz"),
    "pickle": _trace("snapshot.pickle"),
    "flight": _trace("dump_0.pkl"),
    "flight_json": _trace("dump_0.json"),
    "nsys": _trace("report.sqlite"),
    "tfprof": _trace("profile.context"),
    "rocprof": _trace("results.json"),
    "timeline": _trace("memory.json"),
    "media": fuzz_media.records,
    "http": fuzz_http.ask,
    "expressions": expressions,
    "info": info,
    "hparams": hparams,
    "spool": notes,
    **fuzz_analyses.TARGETS,
}


def seeds(name: str) -> list[bytes]:
    """Return inputs to begin with: small ones that are well formed, and all finds so far."""
    found = _seeds(name)
    found += [path.read_bytes() for path in sorted((FINDS / name).glob("*"))]
    return [*found, *packed(name)] or [b""]


def packed(name: str) -> list[bytes]:
    """Return the corpus of a target, the smallest input first; empty if it has none."""
    path = CORPORA / f"{name}.tar.xz"
    if not path.exists():
        return []
    with tarfile.open(path) as archive:
        return [archive.extractfile(member).read() for member in archive.getmembers()]


def pack(name: str, inputs: list[bytes]) -> Path:
    """Write the corpus of a target; the same inputs give the same bytes."""
    CORPORA.mkdir(parents=True, exist_ok=True)
    path = CORPORA / f"{name}.tar.xz"
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for at, data in enumerate(inputs):
            member = tarfile.TarInfo(f"{at:03}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def distilled(name: str, inputs: list[bytes]) -> list[bytes]:
    """Return those inputs that go from one line of the package to another one as no smaller one does.

    The seeds that are made anew for each run count as known.
    """
    root = str(Path(stepscope.__file__).parent)
    steps: set[Step] = set()

    def called(frame: FrameType, event: str, _: object) -> object:
        if not frame.f_code.co_filename.startswith(root):
            return None
        last = 0

        def in_frame(frame: FrameType, event: str, _: object) -> object:
            nonlocal last
            steps.add((frame.f_code.co_filename, last, frame.f_lineno))
            last = frame.f_lineno
            return in_frame

        return in_frame

    def leads_to(data: bytes) -> set[Step]:
        steps.clear()
        with tempfile.TemporaryDirectory() as folder, suppress(Exception), limited():
            sys.settrace(called)
            try:
                attempt(name, data, Path(folder))
            finally:
                sys.settrace(None)
        return set(steps)

    known: set[Step] = set()
    for data in _seeds(name):
        known |= leads_to(data)
    kept: list[bytes] = []
    for data in sorted(set(inputs), key=lambda each: (len(each), each)):
        if len(kept) == MOST_PACKED or sum(map(len, kept)) + len(data) > MOST_PACKED_BYTES:
            break
        if not (new := leads_to(data)) <= known:
            known |= new
            kept.append(data)
    return kept


def _seeds(name: str) -> list[bytes]:
    if name in ("events", "log", "event", "hparams", "info"):
        return _recorded(name)
    if name == "ranks":
        return _rank_file()
    if name in ("chrome", "chrome_gz"):
        document = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": 1},
            "traceEvents": [
                {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.0, "dur": 9.5},
                {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 3, "dur": 5,
                 "args": {"correlation": 4, "stream": 7, "device": 0}},
                {"ph": "s", "cat": "ac2g", "id": 4, "pid": 1, "tid": 1, "ts": 2, "name": "ac2g"},
                {"ph": "f", "cat": "ac2g", "id": 4, "pid": 0, "tid": 7, "ts": 3, "name": "ac2g", "bp": "e"},
                {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
                {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 4, "s": "t", "args": {"Bytes": 8}},
                {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 0,
                 "dur": 20},
            ],
        }  # fmt: skip
        text = json.dumps(document).encode()
        return [gzip.compress(text, mtime=0) if name.endswith("gz") else text]
    if name == "pickle":
        memory = {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 8, "stream": 0,
                  "time_us": 5, "frames": [{"filename": "a.py", "line": 1, "name": "f"}]}]]}  # fmt: skip
        return [pickle.dumps(memory, protocol=each) for each in (2, 4)] + [pickle.dumps({"version": "2.4"})]
    if name in MADE:
        return MADE[name]()
    if name == "expressions":
        return [
            b"ema(train/loss, 50) > 2 * min(train/loss)", b"(a|aa|a)*b", b"`x y` - 1e308 / 0", b"(?i)^\\w+$",
        ]  # fmt: skip
    if name == "spool":
        return [b'{"url": "s3://b/r", "options": {}, "files": {"a": {"pieces": [[0, 9]], "whole": null,'
                b' "stamp": [1, 2]}}, "pending": null}']  # fmt: skip
    endings = {"xplane": ".xplane.pb", "pprof": ".pb.gz", "flight": ".pkl"}[name]
    paths = sorted(path for path in DATA.rglob(f"*{endings}") if path.stat().st_size <= SEED_BYTES)
    return [path.read_bytes() for path in paths[:4]]


def _nsys() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return [nsys.export(Path(folder) / "a.sqlite", nsys.TABLES).read_bytes()]


def _tfprof() -> list[bytes]:
    return [path.read_bytes() for path in sorted((DATA / "tfprof").rglob("*.context"))]


def _flight_json() -> list[bytes]:
    path = min((DATA / "traces" / "flight_recorder").rglob("*.pkl"))
    return [json.dumps(pickle.loads(path.read_bytes())).encode()]


def _rocprof() -> list[bytes]:
    return [json.dumps({"rocprofiler-sdk-tool": [rocprof.process(**rocprof.WHOLE)]}).encode()]


def _timeline() -> list[bytes]:
    return [b"[[-1, 2, 512, 0], [100, 1, 64, 3], [200, 3, 64, 3]]", b"[[1000, 2000], [[0, 1], [0, 5]]]"]


MADE: dict[str, Callable[[], list[bytes]]] = {
    "nsys": _nsys,
    "flight_json": _flight_json,
    "tfprof": _tfprof,
    "rocprof": _rocprof,
    "timeline": _timeline,
    "media": fuzz_media.seeds,
    "http": fuzz_http.seeds,
    **dict.fromkeys(fuzz_analyses.TARGETS, fuzz_analyses.recipes),
}


def _recorded(name: str) -> list[bytes]:
    import numpy as np

    from stepscope.events import unframe
    from stepscope.events.framing import payload_length
    from stepscope.record.run import Run

    with tempfile.TemporaryDirectory() as folder:
        with Run(folder, config={"lr": 0.1, "name": "é"}) as run:
            for step in range(20):
                run.scalar("loss", 1.0 / (step + 1), step)
            run.scalar("wide", 1e300, 3)
            run.text("words", "some *words*")
            run.histogram("weights", np.arange(50.0))
        found = [path.read_bytes() for path in sorted(Path(folder).glob("events.out.*"))]
    if name in ("events", "log"):
        return found
    payloads, at = [], 0
    for data in found:
        at = 0
        while at < len(data):
            end = at + 16 + (payload_length(data[at : at + 12]) or 0)
            payloads.append(unframe(data[at:end]))
            at = end
    if name == "event":
        return payloads[:12]
    return [payload[20:] for payload in payloads[:12]]


def _rank_file() -> list[bytes]:
    from stepscope.record.run import Run

    with tempfile.TemporaryDirectory() as folder:
        with Run(folder, rank=1, world_size=2) as run:
            for step in run.steps(range(20)):
                run.scalar("loss", 1.0 / (step + 1))
        return [path.read_bytes() for path in sorted((Path(folder) / "ranks").glob("*.steps"))]


# --- one input ----------------------------------------------------------------------------------------


class SlowInputError(Exception):
    """An input took longer than ``SECONDS``."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise where it takes too long."""

    def stop(*_: object) -> None:
        raise SlowInputError(f"longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(name: str, data: bytes, folder: Path) -> None:
    """Feed a target; what it raises beside an error of this package comes through."""
    try:
        TARGETS[name](data, folder)
    except StepscopeError:
        return


def mutated(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Return damaged bytes: some flipped, cut out, repeated, replaced by extremes, or of another seed."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(found) + 1)
        size = min(chance.choice((1, 1, 2, 4, 8, 64, 1_000)), len(found) - at)
        kind = chance.randrange(7)
        if kind == 0 and size:
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del found[at : at + size]
        elif kind == 2:
            found[at:at] = found[at : at + size]
        elif kind == 3:
            extreme = chance.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * max(size, 1)
            found[at : at + size] = extreme
        elif kind == 4:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            found[at : at + size] = other[start : start + size]
        elif kind == 5:
            del found[at:]
        else:
            found[at : at + size] = chance.choice(
                (b"-1", b"1e999", b"null", b"[" * 50, b'"\\ud800"', b"\x1b[31m", b"99999999999999999999")
            )
    return bytes(found)


def inputs(name: str, seed: int) -> Iterator[bytes]:
    """Yield seeds, then damaged ones without end; the same for the same number."""
    given, chance = seeds(name), random.Random(seed)
    yield from given
    while True:
        yield mutated(chance.choice(given), given, chance)


# --- make fuzz ----------------------------------------------------------------------------------------


def mutate_for(name: str, seconds: float, seed: int, most: int | None = None) -> int:
    """Feed a target with damaged seeds for so long, or so often where ``most`` is given; return how many.

    Finds are written and raised.
    """
    end, count = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory() as folder:
        for data in inputs(name, seed):
            count += 1
            try:
                with limited():
                    attempt(name, data, Path(folder))
            except BaseException:
                keep(name, data)
                raise
            if count == most or (most is None and time.monotonic() > end):
                return count
    return count


def keep(name: str, data: bytes) -> None:
    """Write a find."""
    import hashlib

    path = FINDS / name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    print(f"a find: {path}", file=sys.stderr)


def main() -> int:
    """Feed every target in a separate process; print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; by default all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument(
        "--inputs", type=int, help="so many for each target, however long: 1000000 before a release"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="mutate seeds at random, also where atheris is")
    parser.add_argument("--corpora", action="store_true", help="pack what atheris has found so far")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        if options.corpora:
            there = [path.read_bytes() for path in sorted((BUILD / options.one).glob("*"))]
            print(pack(options.one, distilled(options.one, [*packed(options.one), *there])).stat().st_size)
        else:
            print(mutate_for(options.one, options.seconds, options.seed, options.inputs))
        return 0
    plain = options.plain or importlib.util.find_spec("atheris") is None
    print(f"{'target':<12} {'inputs':>9}  result      ({'seeds mutated' if plain else 'atheris'})")
    bad = 0
    for name in options.targets or TARGETS:
        alone = [sys.executable, "-m", "support.fuzz", "--one", name]
        if plain:
            command = [*alone, "--seconds", str(options.seconds), "--seed", str(options.seed)]
            command += ["--inputs", str(options.inputs)] if options.inputs else []
        else:
            command = [sys.executable, "-m", "support.fuzz_explore", name, str(options.seconds)]
            command += [str(options.inputs)] if options.inputs else []
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "STEPSCOPE_STRICT": ""}
        )
        said = done.stdout + done.stderr
        count = done.stdout.strip() if plain else _executed(said)
        print(f"{name:<12} {count:>9}  {'held' if done.returncode == 0 else 'BROKEN'}", flush=True)
        if done.returncode:
            bad += 1
            print("\n".join(said.splitlines()[-25:]))
        elif options.corpora and not plain:
            subprocess.run([*alone, "--corpora"], check=True)
    return int(bad > 0)


def _executed(said: str) -> str:
    for line in said.splitlines():
        if "number_of_executed_units" in line:
            return line.split()[-1]
    return "?"


if __name__ == "__main__":
    sys.exit(main())
