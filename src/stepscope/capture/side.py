"""The side process that analyses a profile: low priority, one at a time, nobody waits for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

LIMIT_SECS = 600.0
NICE = 19


def command(profile: Path, summary: Path) -> list[str]:
    """Return the words that start the analysis."""
    return [sys.executable, "-m", "stepscope", "glance", str(profile), "--output", str(summary), "--no-cache"]


def start(profile: Path, summary: Path) -> subprocess.Popen[bytes] | None:
    """Begin to analyse a profile; None where no process could be started.

    Args:
        profile: What was captured.
        summary: Where the summary goes.
    """
    try:
        process = subprocess.Popen(  # noqa: S603  our own command
            command(profile, summary),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
        )
    except OSError:
        return None
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    return process


def wait(process: subprocess.Popen[bytes], *, limit_secs: float = LIMIT_SECS) -> str | None:
    """Wait for the analysis; return what went wrong, None if nothing.

    Args:
        process: From ``start``.
        limit_secs: After this it is given up.
    """
    try:
        _, said = process.communicate(timeout=limit_secs)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"it took longer than {limit_secs:g} s"
    if process.returncode == 0:
        return None
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {process.returncode}"


def environment() -> dict[str, str]:
    """Return the environment for the side process: one thread, none of the job's own variables of rank."""
    kept = {
        name: text for name, text in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    }
    return {**kept, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "STEPSCOPE_STRICT": "0"}
