"""Charts in marimo: live in the page of ``marimo run``, and kept by ``marimo export html``."""

from __future__ import annotations

import mimetypes
import subprocess
import sys
from pathlib import Path

import marimo
from support.notebooks import TRAIN, await_points, served
from support.ports import free_port

CHART = "img[alt='train/loss']"
PAGE = Path(marimo.__file__).parent / "_static"
PROGRAM = f"""
import marimo
app = marimo.App()

@app.cell
def _():
    import stepscope as ss
    run = ss.Run("runs/first")
    return run, ss

@app.cell
def _(run, ss):
    shown = ss.chart(run, "train/loss")
    shown
    return (shown,)

@app.cell
def _(run, shown):
    shown{TRAIN.replace(chr(10), chr(10) + "    ")}
    run.close()
    while shown.live:
        time.sleep(0.05)
    ss_done = marimo.md("all done")
    ss_done
    return
"""


def test_a_chart_follows_the_training_in_the_page(home, page):
    (home / "notebook.py").write_text(PROGRAM.replace("marimo.md", "__import__('marimo').md"))
    port = free_port()
    with served(
        "marimo", "run", "notebook.py", "--headless", "--no-token", f"--port={port}", port=port, home=home
    ) as address:
        page.goto(address)
        for part in range(3):
            await_points(page, CHART, 20 * (part + 1))
            (home / f"go{part}").touch()
        page.get_by_text("all done").wait_for()
        await_points(page, CHART, 60)


def test_the_exported_page_keeps_the_last_picture(home, page):
    (home / "notebook.py").write_text(PROGRAM.replace("marimo.md", "__import__('marimo').md"))
    for part in range(3):
        (home / f"go{part}").touch()
    command = [sys.executable, "-m", "marimo", "export", "html", "notebook.py", "-o", "page.html"]
    subprocess.run(command, cwd=home, check=True, timeout=120)

    def own_files(route):  # marimo's page fetches its scripts from a network of others
        path = PAGE / route.request.url.partition("/dist/")[2].partition("?")[0]
        route.fulfill(path=path, content_type=mimetypes.guess_type(path.name)[0])

    page.route("https://cdn.jsdelivr.net/**", own_files)
    page.goto((home / "page.html").as_uri())
    await_points(page, CHART, 60)
