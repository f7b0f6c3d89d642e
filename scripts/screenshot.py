"""Write the pictures of the page that the documentation shows: ``python scripts/screenshot.py LOGDIR``.

Serves the log directory, opens each view in headless Chromium at 1440 x 900 in both themes and writes
``docs/images/{overview,scalars,distributions,timeline}-{light,dark}.png``. Needs a Chromium, the built page,
and a run with histograms and a profile, as the demo's are.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from stepscope.serve import Server

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SIZE = {"width": 1440, "height": 900}
DRAWN = "() => window.__stepscope_test?.complete()"
WAITS = {
    "distributions": "() => document.querySelectorAll('.card canvas').length >= 16",
    "timeline": "() => document.querySelector('.timeline canvas[tabindex]')?.dataset.drawn > 0",
}
"""Where a page draws no charts: what says that it is there."""
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("logdir", type=Path)
    parser.add_argument("--run", default="", help="run query of the overview (default: all runs)")
    parser.add_argument("--scalars", default="", help="run query of the scalars page (default: all runs)")
    parser.add_argument(
        "--to", type=Path, default=IMAGES, help="directory of the pictures (default: docs/images)"
    )
    arguments = parser.parse_args()
    arguments.to.mkdir(parents=True, exist_ok=True)
    views = {
        "overview": f"#/overview?q={arguments.run}",
        "scalars": f"#/scalars?q={arguments.scalars}",
        "distributions": f"#/distributions?q={arguments.run}",
        "timeline": f"#/profile?q={arguments.run}&show=timeline",
    }
    with tempfile.TemporaryDirectory() as cache, Server(arguments.logdir, port=0, cache=False) as server:
        shoot(server.url, views, arguments.to, Path(cache))


def shoot(url: str, views: dict[str, str], to: Path, profile: Path) -> None:
    """Write the pictures of a page that is served."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=[*FLAGS, f"--disk-cache-dir={profile}"]
        )
        for theme in ("light", "dark"):
            for name, view in views.items():
                context = browser.new_context(
                    viewport=SIZE, device_scale_factor=1, color_scheme=theme, reduced_motion="reduce"
                )
                page = context.new_page()
                page.goto(url.rstrip("/") + "/" + view)
                page.wait_for_function(WAITS.get(name, DRAWN), timeout=60_000)
                if name == "scalars":
                    point_at_a_chart(page)
                page.evaluate(TWO_FRAMES)
                path = to / f"{name}-{theme}.png"
                page.screenshot(path=path)
                print(path)
                context.close()
        browser.close()


def point_at_a_chart(page: Any) -> None:
    """Put the pointer where the cursor and its table are seen."""
    box = page.locator("[data-chart]").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.62, box["y"] + box["height"] * 0.5)


def chromium() -> str:
    """Return the browser's path."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    sys.exit("no Chromium found\nhint: scripts/browser.sh installs one")


if __name__ == "__main__":
    main()
