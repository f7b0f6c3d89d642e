"""Fetch the whole recordings that some golden tests need, or make the extracts of them in tests/data anew.

    python scripts/recordings.py fetch      what is not in ../shared/data goes into tests/data/whole
    python scripts/recordings.py extract    tests/data/traces/kineto from the whole recordings

An extract holds the events of a step or two as they were recorded, without the arguments that no reader of a
profile reads. Which, how much and from where is in tests/data/recordings.json.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
PLACES = (ROOT.parent / "shared" / "data", DATA / "whole")
"""Directories with whole recordings; downloads go into the last."""
MOST_BYTES = 300_000
"""Largest extract."""
CALLS = ("runtime", "cuda_runtime", "cuda_driver")


def manifest() -> dict[str, Any]:
    """The description of each whole recording, by its name."""
    return json.loads((DATA / "recordings.json").read_text())


def digest(data: bytes) -> str:
    """SHA-256 of what a recording holds; how it was compressed does not matter."""
    return hashlib.sha256(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).hexdigest()


def find(name: str, about: dict[str, Any]) -> Path | None:
    """The whole recording, if it is here and what it should be."""
    for place in PLACES:
        path = place / name
        if path.exists() and digest(path.read_bytes()) == about["sha256"]:
            return path
    return None


def download(url: str, member: str = "") -> bytes:
    """The content of an address, or of one member of the archive there."""
    with urllib.request.urlopen(url, timeout=120) as answer:
        data: bytes = answer.read()
    if not member:
        return data
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def fetch() -> int:
    """Download what is not here; the number of recordings that could not be had."""
    missing = 0
    for name, about in manifest().items():
        if find(name, about):
            continue
        for url in about["urls"]:
            try:
                data = download(url)
            except OSError as error:
                print(f"{url}: {error}", file=sys.stderr)
                continue
            if digest(data) == about["sha256"]:
                path = PLACES[-1] / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                print(f"fetched {name}")
                break
            print(f"{url}: not the recording that the tests know: its SHA-256 is another", file=sys.stderr)
        else:
            missing += 1
    return missing


def window(events: list[dict[str, Any]], about: dict[str, Any]) -> tuple[float, float]:
    """First and last time of the events to keep, in the recording's own microseconds."""
    steps = sorted(
        (e for e in events if e.get("name", "").startswith("ProfilerStep#") and e.get("ph") == "X"),
        key=lambda e: e["ts"],
    )
    if "milliseconds" in about:
        begin = min(e["ts"] for e in events if e.get("ph") == "X")
        return begin, begin + about["milliseconds"] * 1000
    chosen = [step for step in steps if step.get("cat") != "gpu_user_annotation"][: about["steps"]]
    return chosen[0]["ts"], chosen[-1]["ts"] + chosen[-1]["dur"]


def extract(document: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The events of a window and the device's work that they launched."""
    events = document["traceEvents"]
    begin, end = window(events, about)

    def correlation(event: dict[str, Any]) -> Any:
        return event.get("args", {}).get("correlation")

    inside = [e for e in events if "ts" in e and begin <= e["ts"] <= end]
    calls = {correlation(e) for e in inside if e.get("cat", "").lower() in CALLS} - {None}
    chosen = []
    for event in events:
        number = event.get("id") if event.get("ph") in ("s", "f") else correlation(event)
        arrow = event.get("cat") in ("ac2g", "async")
        if "ts" not in event or event["ph"] == "M" or event.get("cat") == "Trace":
            keep = True
        elif arrow and about.get("arrows", True) is False:
            keep = False
        elif arrow or correlation(event) is not None:
            keep = number in calls
        else:
            keep = begin <= event["ts"] and event["ts"] + event.get("dur", 0) <= end
        if keep:
            args = {key: value for key, value in event.get("args", {}).items() if key not in about["without"]}
            chosen.append({**event, "args": args} if "args" in event else event)
    facts = {key: value for key, value in document.items() if key in about["facts"]}
    return {**facts, "traceEvents": chosen}


def make_extracts() -> int:
    """Write each extract; the number of recordings that are not here."""
    missing = 0
    for name, about in manifest().items():
        path = find(name, about)
        if path is None:
            print(f"not here: {name}", file=sys.stderr)
            missing += 1
            continue
        made = extract(json.loads(gzip.decompress(path.read_bytes())), about["extract"])
        data = gzip.compress(json.dumps(made, separators=(",", ":")).encode(), 9, mtime=0)
        assert len(data) <= MOST_BYTES, (name, len(data))
        (DATA / name).write_bytes(data)
        print(f"{name}: {len(made['traceEvents'])} events, {len(data)} bytes")
    return missing


if __name__ == "__main__":
    if sys.argv[1:] not in (["fetch"], ["extract"]):
        sys.exit(f"{__doc__}")
    left = fetch() if sys.argv[1] == "fetch" else make_extracts()
    sys.exit(
        f"{left} recordings are missing\nhint: the addresses are in tests/data/recordings.json" if left else 0
    )
