"""What notebooks of tests record, and how their charts are read from the page."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.waiting import until

POINTS = """picture => {
  if (!picture.src.startsWith("data:image/svg+xml")) return 0;
  const svg = decodeURIComponent(picture.src.replace(/^[^,]*,/, ""));
  const chart = new DOMParser().parseFromString(svg, "image/svg+xml");
  const lines = chart.querySelectorAll('polyline[stroke^="#"]');
  return [...lines].reduce((sum, line) => sum + line.getAttribute("points").split(" ").length, 0);
}"""
"""Counts the points in the picture of a chart."""
TRAIN = """
import pathlib, time
for part in range(3):
    for step in range(20 * part, 20 * part + 20):
        run.scalar("train/loss", 1 / (step + 1), step)
    end = time.monotonic() + 120
    while not pathlib.Path(f"go{part}").exists() and time.monotonic() < end:
        time.sleep(0.05)
"""
"""Records 20 points, waits for the file go0, records 20 more, and so on."""


@contextlib.contextmanager
def served(*module: str, port: int, home: Path) -> Iterator[str]:
    """Run a module of Python that serves a port, and return its address."""
    with (home.parent / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *module], cwd=home, stdout=log, stderr=subprocess.STDOUT, env=os.environ
        )
    try:

        def listens() -> bool:
            assert process.poll() is None, (home.parent / "server.log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return True
            return False

        until(listens, f"port {port} is listened to")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def await_points(page: Any, selector: str, count: int) -> None:
    """Wait until the picture of a chart has so many points; it may be in a shadow root."""
    end, seen = time.monotonic() + 60, []
    while not seen or seen[-1] != count:
        assert time.monotonic() < end, f"expected {count} points, saw {seen}"
        picture = page.locator(selector).first
        seen.append(picture.evaluate(POINTS) if picture.count() else 0)
        page.wait_for_timeout(100)
