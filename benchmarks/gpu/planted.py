"""Programs with a planted cause and their mended twins: the first finding, and its gain beside the measured.

The gain is measured by steps of both, which take turns. A program without an expected rule counts for its
figures only: nothing that a profile holds tells of it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu.device import Device
from gpu.hooked import profile_of

Make = Callable[[Device, bool], Callable[[], object]]


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        make: Returns its step; given True, that of the mended twin.
        rules: The first finding is right if it is one of these.
        secs: About how long it takes on a GPU; it is left out if less time is left.
    """

    name: str
    make: Make
    rules: tuple[str, ...]
    secs: float = 5.0


def judged(
    device: Device, place: Path, programs: Sequence[Program], backend: str = "torch"
) -> dict[str, Any]:
    """Return counts, and a row for each program."""
    rows = {}
    for program in programs:
        if device.left < program.secs:
            rows[program.name] = {"left_out": f"{device.left:.0f} s were left"}
            continue
        try:
            rows[program.name] = row_of(device, place / program.name, program, backend)
        except Exception as error:  # noqa: BLE001  the others are judged
            rows[program.name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
    expected = [row for row in rows.values() if "cause" in row]
    gains = [row["gain_holds"] for row in expected if row["gain_holds"] is not None]
    return {
        "programs": rows,
        "causes_ratio": sum(row["cause"] for row in expected) / len(expected) if expected else None,
        "gains_ratio": sum(gains) / len(gains) if gains else None,
    }


def row_of(device: Device, place: Path, program: Program, backend: str) -> dict[str, Any]:
    """Record a program, ask for advice, and measure it against its twin."""
    slow = program.make(device, False)
    profile_of(place, slow, steps=14, skip_first=4, num_steps=5, warmup_steps=1, backend=backend)
    device.synchronize()
    found = advice(place / "profiles")
    mended = program.make(device, True)
    for _ in range(3):
        mended()
    one, two = device.paired(slow, mended, secs=device.size(2, 1) / 2, steps=5)
    gain = 1 - statistics.median(two) / statistics.median(one)
    first = found["findings"][0] if found["findings"] else None
    row: dict[str, Any] = {
        "slow_ms": round(1e3 * statistics.median(one), 3),
        "mended_ms": round(1e3 * statistics.median(two), 3),
        "gain": round(gain, 3),
        "first": first["rule"] if first else None,
        "predicted": first["gain_ratio"] if first else None,
        "summary": first["summary"] if first else found["verdict"],
    }
    if program.rules:
        row["cause"] = first is not None and first["rule"] in program.rules
        row["gain_holds"] = holds(first, gain) if row["cause"] else None
    return row


def holds(first: dict[str, Any], gain: float) -> bool | None:
    """Return whether a predicted gain is within a quarter of the measured one, or a bound that holds."""
    predicted = first["gain_ratio"]
    if predicted is None or gain <= 0:
        return None
    bound = first["gain_from"] == "bound"
    return abs(predicted / gain - 1) <= 0.25 or (bound and predicted >= gain)


def advice(profiles: Path) -> Any:
    """Return the answer of ``stepscope advise``."""
    command = [
        sys.executable,
        "-m",
        "stepscope",
        "advise",
        str(profiles),
        "--profile",
        "--json",
        "--no-cache",
    ]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr.strip()[-300:])
    return json.loads(process.stdout)
