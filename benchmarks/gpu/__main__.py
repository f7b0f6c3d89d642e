"""Run the checks in the order of their value, each in a process of its own, and write a line when it ends.

``python benchmarks/gpu [--only NAME] [--out DIRECTORY] [--secs N]``. Without a GPU, or with ``--device cpu``,
every check runs at a small size on the processor and decides no claim. A run that was cut off goes on after
the checks whose lines are there; ``--again`` measures them anew. Recordings and lines lie in the directory,
and in one archive of at most 16 MiB beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

from gpu.checks import CHECKS  # noqa: E402
from gpu.claims import Skipped, judged  # noqa: E402
from gpu.device import Device, stand_ins  # noqa: E402

WHOLE_SECS = 360.0
PATIENCE = 6
"""Times that longer on a processor, which has other work and is not lent by the minute."""
ARCHIVE_BYTES = 16 << 20
KEPT = HERE.parents[1] / "tests" / "data" / "gpu" / "results.jsonl"
"""The lines of the last run on a GPU, once there was one."""
RESULTS, ARCHIVE = "results.jsonl", "results.tar.gz"
ENDED = ("measured", "skipped")


def main() -> int:
    """Run the checks; return 1 if one failed or a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=CHECKS, metavar="NAME", help=", ".join(CHECKS))
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or "build/gpu-results"))
    parser.add_argument("--device", choices=("auto", "cuda", "cpu", "fake"), default="auto")
    parser.add_argument("--secs", type=float, default=WHOLE_SECS, help="of all checks together")
    parser.add_argument("--again", action="store_true", help="measure again what was measured")
    parser.add_argument("--list", action="store_true", help="print the table of claims")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "SECS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(table(lines_of(KEPT))))
        return 0
    kind = device_of(chosen.device)
    if chosen.measure:
        name, secs = chosen.measure
        print(json.dumps(measured(name, Device(kind, small=kind != "cuda", secs=float(secs)), chosen.out)))
        return 0
    chosen.out.mkdir(parents=True, exist_ok=True)
    bad = run_all(chosen, kind)
    pack(chosen.out)
    return int(bad)


def table(lines: list[dict[str, Any]]) -> list[str]:
    """Return the rows of Markdown with every claim, and what a GPU said of it."""
    judged_by = {
        (line["check"], claim["claim"]): claim | {"card": line["card"]}
        for line in lines
        for claim in line.get("claims", ())
        if claim["held"] is not None
    }
    rows = ["| check | claim | holds if | on a GPU |", "|---|---|---|---|"]
    for name in CHECKS:
        for claim in claims_of(name):
            known = judged_by.get((name, claim.text))
            word = "never measured"
            if known is not None:
                word = f"{'holds' if known['held'] else 'does not hold'}: {known['figure']} ({known['card']})"
            rows.append(f"| `{name}` | {claim.text} | `{claim.limit}` | {word} |")
    return rows


def claims_of(name: str) -> Any:
    return importlib.import_module(f"gpu.check_{name}").CLAIMS


def device_of(asked: str) -> str:
    """Return "cuda", "cpu" or "fake"."""
    if asked in ("cpu", "fake"):
        return asked
    import torch

    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        sys.exit("expected a CUDA device, torch sees none: leave --device out to run on the processor")
    return "cuda" if there else "cpu"


def run_all(chosen: argparse.Namespace, kind: str) -> bool:
    """Run what is wanted and not yet measured; return whether anything failed."""
    results = chosen.out / RESULTS
    done = {} if chosen.again else {one["check"]: one for one in lines_of(results) if one["device"] == kind}
    patience = 1 if kind == "cuda" else PATIENCE
    end, bad = time.monotonic() + patience * chosen.secs, False
    for name in chosen.only or CHECKS:
        line = done.get(name)
        if line is None or line["status"] not in ENDED:
            line = of_process(
                name, kind, chosen.out, min(patience * CHECKS[name].secs, end - time.monotonic())
            )
            with results.open("a") as file:
                file.write(json.dumps(line) + "\n")
        bad |= shown(line)
    return bad


def lines_of(results: Path) -> list[dict[str, Any]]:
    """Return the lines that were written whole; of a check that has several, the last comes last."""
    lines = []
    for text in results.read_text().splitlines() if results.exists() else ():
        with contextlib.suppress(ValueError):  # cut off while it was written
            lines.append(json.loads(text))
    return lines


def of_process(name: str, kind: str, out: Path, secs: float) -> dict[str, Any]:
    """Measure in a process of its own, which is ended after a time."""
    line: dict[str, Any] = {"check": name, "device": kind}
    if secs <= 1:
        return line | {"status": "no time", "reason": "the time of all checks was spent before"}
    command = [sys.executable, str(HERE), "--measure", name, f"{secs:.0f}", "--device", kind]
    command += ["--out", str(out)]
    begun = time.monotonic()
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=secs + 5, check=False)
    except subprocess.TimeoutExpired:
        return line | {"status": "failed", "reason": f"no end within {secs:.0f} s", "seconds": round(secs)}
    seconds = round(time.monotonic() - begun, 1)
    (out / f"{name}.log").write_text(process.stdout[-20_000:] + process.stderr[-20_000:])
    if process.returncode:
        tail = process.stderr.strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
        return line | {"status": "failed", "reason": tail[0][:500], "seconds": seconds}
    return line | json.loads(process.stdout.strip().splitlines()[-1]) | {"seconds": seconds}


def measured(name: str, device: Device, out: Path) -> dict[str, Any]:
    """Measure in this process."""
    check = importlib.import_module(f"gpu.check_{name}")
    place = out / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    line: dict[str, Any] = {"card": device.name if device.decides else "none", "versions": versions()}
    if not device.decides:
        import torch

        torch.set_num_threads(1)
    try:
        with stand_ins() if device.kind == "fake" else contextlib.nullcontext():
            figures = check.measure(device, place)
    except Skipped as reason:
        return line | {"status": "skipped", "reason": str(reason), "figures": {}, "claims": []}
    claims = judged(check.CLAIMS, figures, on_gpu=device.decides)
    return line | {"status": "measured", "figures": figures, "claims": claims}


def versions() -> dict[str, str]:
    import torch

    import stepscope

    cuda = {"cuda": str(torch.version.cuda)} if torch.version.cuda else {}
    return {
        "python": platform.python_version(), "torch": torch.__version__, "stepscope": stepscope.__version__,
        **cuda,
    }  # fmt: skip


def shown(line: dict[str, Any]) -> bool:
    """Print a check's line; return whether it failed or a claim of it does not hold."""
    reason = f": {line['reason']}" if line.get("reason") else ""
    print(f"{line['check']}: {line['status']} in {line.get('seconds', 0):.0f} s{reason}", flush=True)
    for figure, value in line.get("figures", {}).items():
        print(f"    {figure} = {json.dumps(value)}")
    for claim in line.get("claims", ()):
        word = {True: "holds", False: "DOES NOT HOLD", None: "not judged"}[claim["held"]]
        print(f"    {word}: {claim['claim']} [{claim['limit']}]", flush=True)
    refuted = any(claim["held"] is False for claim in line.get("claims", ()))
    return line["status"] in ("failed", "no time") or refuted


def pack(out: Path) -> None:
    """Put lines, logs and recordings into one archive, the smallest files first, as many as it can hold."""
    files = sorted(
        (path for path in out.rglob("*") if path.is_file() and path.name != ARCHIVE),
        key=lambda path: (path.parent != out, path.stat().st_size),
    )
    # Recordings are compressed already, so their size is about the size that they take in the archive.
    size, left_out = 0, []
    with tarfile.open(out / ARCHIVE, "w:gz") as archive:
        for path in files:
            size += path.stat().st_size
            if size > ARCHIVE_BYTES - (1 << 20):
                left_out.append(path.relative_to(out))
            else:
                archive.add(path, path.relative_to(out))
    total = (out / ARCHIVE).stat().st_size
    print(f"{out / ARCHIVE}: {total / (1 << 20):.1f} MiB, {len(files) - len(left_out)} files")
    for path in left_out:
        print(f"    left out, as the archive would exceed 16 MiB: {path}")


if __name__ == "__main__":
    sys.exit(main())
