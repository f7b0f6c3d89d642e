"""Records what the product answers, and compares two recordings: the net under a move of code.

``python scripts/answers.py record FILE [WORD ...]`` asks every address of the HTTP interface that reads,
every command with ``--json`` and every health verdict, over all recordings of the repository and of
``../shared/data``; words keep only the questions that contain one of them.
``python scripts/answers.py compare BEFORE AFTER`` prints which answers differ and how; its exit status is 1
if any does. A move may change only the answers that its commit message lists.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gzip
import hashlib
import io
import itertools
import json
import lzma
import re
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOGS = ("tf_estimator/single", "tf_estimator/distributed")
MAGIC_BYTES = 8
EACH_STEP = 100
FRONTIER_COLUMNS = 50
PROFILE_NAMES = re.compile(r"\.(json|json\.gz|pb|context|pickle)$|_dump_\d+$|/\d+$")
VIEWS = ("scope", "graph", "op", "code")
OF_A_PROFILE = (
    "profile", "outline", "timeline?pixels=400", "tracks?pixels=400", "profile/kernels", "profile/memory",
    "profile/overlap", "profile/path", "profile/ranks", "profile/waits", "profile/gaps", "profile/shapes",
    "search?q=a", "range?start=0&end=1000000000", *(f"event?row={row}" for row in (0, 10, 1000)),
    *(f"view?view={view}" for view in VIEWS),
)  # fmt: skip
OF_A_RUN = (
    "findings",
    "captures",
    "records",
    "gradient_norms",
    "graph",
    "embeddings",
    "report",
    "ranks/frontier",
)
FACTS_OF_RANKS = ("step_time_s", "data_wait_s", "loss")
OF_THE_LOG = (
    "changes",
    "profiles",
    "ranks",
    "views",
    "trash",
    "openapi.json",
    "expression?text=ema(loss,0.9)",
)
UNSTEADY = (
    (re.compile(r'"(now|time|uptime_s|cursor|version|size|mtime|reading_s|load_s|written_s|age_s|read_s)":[^,}\]]+'),
     r'"\1":0'),
    (re.compile(r"\d+(\.\d+)? ?(s|min|h|d) ago"), "some time ago"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/answers-[\w]+"), "DATA"),
)  # fmt: skip
"""Values that differ from one recording to the next though nothing changed."""


def recordings(scratch: Path) -> list[Path]:
    """Copy the recordings that are here, unpack the event files among them, and return the copies."""
    copies = []
    for name, folder in (("own", ROOT / "tests" / "data"), ("whole", ROOT.parent / "shared" / "data")):
        if not folder.is_dir():
            continue
        copies.append(scratch / name)
        shutil.copytree(folder, copies[-1], ignore=shutil.ignore_patterns("approved", "fuzz", "scripts"))
        for packed in copies[-1].rglob("*.xz"):
            packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
            shutil.copystat(packed, packed.with_suffix(""))
            packed.unlink()
    return copies


def corpus_logs(folder: Path) -> Path:
    """Unpack the recorded trainings of the health corpus as runs of one log directory."""
    for path in sorted((ROOT / "tests" / "health_corpus" / "runs").glob("*.tfevents.gz")):
        run = folder / path.name.removesuffix(".tfevents.gz").partition(".")[0]
        run.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{len(list(run.iterdir()))}.corpus"
        (run / name).write_bytes(gzip.decompress(path.read_bytes()))
    return folder


def steady(text: str) -> str:
    text = text.replace(str(ROOT), "ROOT")
    for pattern, replacement in UNSTEADY:
        text = pattern.sub(replacement, text)
    return text


def told(body: bytes) -> str:
    """Return an answer as text: JSON indented, a frame as its header and a checksum of its arrays."""
    with contextlib.suppress(ValueError):
        return steady(json.dumps(json.loads(body), indent=1, sort_keys=True))
    with contextlib.suppress(UnicodeDecodeError):
        return steady(body.decode())
    _, size = struct.unpack_from("<II", body)
    try:
        header = json.loads(body[MAGIC_BYTES : MAGIC_BYTES + size])
    except (ValueError, UnicodeDecodeError):
        return hashlib.sha256(body).hexdigest()
    arrays = hashlib.sha256(body[MAGIC_BYTES + size :]).hexdigest()
    return steady(json.dumps(header, indent=1, sort_keys=True)) + f"\narrays {arrays}"


class Asker:
    """Asks one log directory over HTTP.

    Args:
        name: Stands for the directory in the names of the questions.
    """

    def __init__(self, name: str, log_dir: Path, words: list[str]) -> None:
        import httpx

        from stepscope.serve import Server

        self.name, self.words = name, words
        self.server = Server(log_dir, port=0, cache=False, read_only=True)
        self.client = httpx.Client(follow_redirects=True, timeout=300)

    def __enter__(self) -> Asker:
        self.server.__enter__()
        address, _, token = self.server.url.partition("?token=")
        self.client.headers["Authorization"] = f"Bearer {token}"
        self.base = address.rstrip("/") + "/api/v1/"
        while json.loads(self.client.get(self.base + "health").content)["loading"]:
            self.client.get(self.base + "changes")
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        self.server.__exit__(None, None, None)

    def get(self, address: str, **parameters: Any) -> Iterator[tuple[str, str]]:
        address, _, fixed = address.partition("?")
        for pair in filter(None, fixed.split("&")):
            key, _, value = pair.partition("=")
            parameters[key] = value
        question = f"GET {self.name} {address} {json.dumps(parameters, sort_keys=True)}"
        if wanted(question, self.words):
            answer = self.client.get(self.base + address, params=parameters)
            yield question, f"{answer.status_code}\n{told(answer.content)}"

    def post(self, address: str, body: Any) -> Iterator[tuple[str, str]]:
        question = f"POST {self.name} {address} {json.dumps(body, sort_keys=True)}"
        if wanted(question, self.words):
            answer = self.client.post(self.base + address, json=body)
            yield question, f"{answer.status_code}\n{told(answer.content)}"

    def json(self, address: str, **parameters: Any) -> Any:
        return json.loads(self.client.get(self.base + address, params=parameters).content)


def wanted(question: str, words: list[str]) -> bool:
    return not words or any(word in question for word in words)


def of_log(asker: Asker, *, everything: bool) -> Iterator[tuple[str, str]]:
    """Ask for all that a log directory has; of a corpus only what its runs are judged by."""
    if everything:
        for address in OF_THE_LOG:
            yield from asker.get(address)
    for run in asker.json("changes")["runs"]:
        name = run["name"]
        yield from asker.get("findings", run=name)
        if not everything:
            continue
        for address in OF_A_RUN[1:]:
            yield from asker.get(address, run=name)
        for fact in FACTS_OF_RANKS:
            yield from asker.get("ranks/steps", run=name, fact=fact, columns=FRONTIER_COLUMNS)
        records = asker.json("records", run=name)
        for tag in sorted(set(tags_of(records))):
            yield from asker.get("record", run=name, tag=tag, limit=10)
        for tag in sorted(set(tags_of(run))):
            yield from asker.post("series", {"charts": [chart(name, tag)]})
            yield from asker.get("points", run=name, tag=tag, format="csv")
    profiles = [row["path"] for row in asker.json("profiles")["profiles"]] if everything else []
    for path in profiles:
        for address in OF_A_PROFILE:
            yield from asker.get(address, path=path)
    for before, after in itertools.pairwise(profiles):
        yield from asker.get("profile/diff", a=before, b=after)


def chart(run: str, tag: str) -> dict[str, Any]:
    return {"id": tag, "lines": [{"run": run, "tag": tag}], "buckets": EACH_STEP, "smoothing": 0.6}


def tags_of(value: Any) -> Iterator[str]:
    """Yield every ``tag`` in an answer."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "tag" and isinstance(inner, str):
                yield inner
            elif key == "tags":
                yield from (name for name in inner if isinstance(name, str))
            else:
                yield from tags_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from tags_of(inner)


def of_commands(folders: list[Path], words: list[str]) -> Iterator[tuple[str, str]]:
    """Run every command that reads, with ``--json``, as the user sees it and with its exit status."""
    for folder in folders:
        logs = [folder / name for name in LOGS if (folder / name).is_dir()]
        for log in logs:
            for command in (["ls"], ["ls", "--ranks"], ["ls", "--tags"], ["advise"], ["ranks"]):
                yield from ran([*command, str(log), "--json"], words)
            yield from ran(["advise", str(log)], words)
        profiles = [
            path for path in sorted(folder.rglob("*"))
            if path.is_file() and PROFILE_NAMES.search(path.as_posix())
        ]  # fmt: skip
        for path in profiles:
            for command in (["glance"], ["advise"], ["ranks"], *(["profile", view] for view in VIEWS)):
                yield from ran([*command, str(path), "--json", "--no-cache"], words)
            yield from ran(["advise", str(path), "--no-cache"], words)
        for job in sorted({path.parent for path in profiles if "rank" in path.name or path.suffix == ""}):
            for command in (["glance"], ["advise"], ["ranks"]):
                yield from ran([*command, str(job), "--json", "--no-cache"], words)
        for before, after in itertools.pairwise(profiles):
            if before.parent == after.parent:
                yield from ran(["diff", str(before), str(after), "--json", "--no-cache"], words)


def ran(command: list[str], words: list[str]) -> Iterator[tuple[str, str]]:
    from stepscope.cli import main

    question = steady("RUN " + " ".join(command))
    if not wanted(question, words):
        return
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status: object = main(command)
        except SystemExit as error:
            status = error.code
        except Exception as error:  # noqa: BLE001 - a defect is an answer, too
            status = repr(error)
    out.flush()
    yield question, f"{status}\n{told(out.buffer.getvalue())}\n{steady(err.getvalue())}"


def answers(words: list[str]) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="answers-") as scratch:
        folders = recordings(Path(scratch))
        for folder in folders:
            with Asker(folder.name, folder, words) as asker:
                yield from of_log(asker, everything=True)
        corpus = Path(scratch) / "corpus"
        corpus.mkdir()
        with Asker("corpus", corpus_logs(corpus), words) as asker:
            yield from of_log(asker, everything=False)
        yield from of_commands(folders, words)


def record(file: Path, words: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with gzip.open(file, "wt", encoding="utf-8") as out:
        for question, answer in answers(words):
            out.write(json.dumps([question, answer]) + "\n")
            count += 1
    print(f"{count} answers in {file}, {file.stat().st_size / 2**20:.1f} MiB")


def load(file: Path) -> dict[str, str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return dict(json.loads(line) for line in lines)


def compare(before: Path, after: Path, *, lines: int) -> int:
    """Print the answers that differ and return how many do."""
    old, new = load(before), load(after)
    different = 0
    for question in sorted(old.keys() | new.keys()):
        first, second = old.get(question), new.get(question)
        if first == second:
            continue
        different += 1
        state = "gone" if second is None else "new" if first is None else "differs"
        print(f"{state}: {question}")
        if first is not None and second is not None:
            changes = difflib.unified_diff(
                first.splitlines(), second.splitlines(), "before", "after", "", "", 1
            )
            shown = list(itertools.islice(changes, 2, lines + 2))
            print("\n".join(f"    {line[:200]}" for line in shown))
    print(f"{different} of {len(old.keys() | new.keys())} answers differ")
    return different


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="ask everything and write the answers")
    recorder.add_argument("file", type=Path)
    recorder.add_argument("words", nargs="*", help="only questions that contain one of these")
    comparer = commands.add_parser("compare", help="say which answers differ")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    comparer.add_argument("--lines", type=int, default=12, help="lines of each difference (default 12)")
    options = parser.parse_args(arguments)
    if options.command == "record":
        record(options.file, options.words)
        return 0
    return 1 if compare(options.before, options.after, lines=options.lines) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
