import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from textual.widgets import DataTable, Input, Static, TabbedContent

import stepscope as ss
from stepscope import cli, store
from stepscope.cli.top.app import Top
from stepscope.cli.top.board import Board
from stepscope.cli.top.picture import Choices, picture


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "logs"
    for name in ("good", "bad"):
        with ss.Run(root / name, config={"lr": 0.1}) as run:
            for step in run.steps(range(300)):
                run.scalar("train/loss", float("nan") if name == "bad" and step > 200 else 5 / (step + 1))
                run.scalar("speed/rate", step)
                if step % 50 == 0:
                    run.scalar("eval/loss", 6 / (step + 1))
    for rank in range(2):
        with ss.Run(root / "job", rank=rank, world_size=2) as run:
            for _ in run.steps(range(3)):
                run.scalar("train/loss", float(rank))
    return root


@pytest.fixture
def log(logs):
    with store.open(logs) as log:
        yield log


async def until(pilot, condition):
    """Wait until a picture shows something; fails after a time that no machine needs."""
    for _ in range(600):
        await pilot.pause(0.05)
        if condition():
            return
    raise AssertionError("the picture never came")


def words(app, name):
    return str(app.query_one(name, Static).content)


def driven(log, steps, size=(120, 40), **options):
    async def go():
        app = Top(log, every_s=0.3, **options)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.shown is not None and "loss" in words(app, "#charts"))
            await steps(app, pilot)

    asyncio.run(go())


def test_runs_and_charts_are_there(log):
    async def steps(app, pilot):
        table = app.query_one("#runs", DataTable)
        assert [row.value for row in table.rows] == ["bad", "good", "job"]
        assert app.wanted.run == "job"  # the last
        assert "job" in words(app, "#charts")
        assert "charts 1 to" in words(app, "#choice")

    driven(log, steps)


@pytest.mark.slow
def test_the_cursor_chooses_the_run_and_space_overlays(log):
    async def steps(app, pilot):
        await pilot.press("up")
        await until(pilot, lambda: "good train" in words(app, "#charts"))
        assert "good eval 0.0239" in words(app, "#charts")
        assert "bad" not in words(app, "#charts")
        await pilot.press("space", "up", "space")
        await until(pilot, lambda: "bad train NaN" in words(app, "#charts"))
        assert "good train" in words(app, "#charts")
        await pilot.press("a")
        await until(pilot, lambda: "job" in words(app, "#charts"))
        await pilot.press("a")
        await until(pilot, lambda: "good" not in words(app, "#charts"))

    driven(log, steps)


@pytest.mark.slow
def test_findings_say_what_is_wrong_and_what_to_do(log):
    async def steps(app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: " open; " in words(app, "#verdict"))
        table = app.query_one("#findings", DataTable)
        first = [str(cell) for cell in table.get_row_at(0)]
        assert first[0] == "high"
        assert "201" in first[1]
        assert "loss" in first[3].lower()
        assert "rule nonfinite-loss" in words(app, "#detail")

    driven(log, steps, first="bad")


@pytest.mark.slow
def test_ranks_of_a_job(log):
    async def steps(app, pilot):
        await pilot.press("3")
        table = app.query_one("#ranks", DataTable)
        await until(pilot, lambda: table.row_count == 2)
        assert [str(table.get_row_at(at)[0]) for at in range(2)] == ["rank 0", "rank 1"]
        await pilot.press("up")
        await until(pilot, lambda: app.query_one("#no-ranks").display)
        assert "no ranks to compare" in words(app, "#no-ranks")

    driven(log, steps)


@pytest.mark.slow
def test_charts_are_filtered_while_words_are_typed(log):
    async def steps(app, pilot):
        await pilot.press("slash", *"rate")
        await until(
            pilot, lambda: "speed/rate" in words(app, "#charts") and "loss" not in words(app, "#charts")
        )
        await pilot.press("left", "enter")
        assert not app.query_one("#words", Input).has_class("open")
        assert "titles with 'rate'" in words(app, "#choice")
        await pilot.press("slash", "escape")
        await until(pilot, lambda: "loss" in words(app, "#charts"))

    driven(log, steps, first="good")


@pytest.mark.slow
def test_axis_scale_smoothing_size_and_pages(log):
    async def steps(app, pilot):
        await pilot.press("x", "l", "s")
        await until(pilot, lambda: "over relative   log y   smoothed 0.6" in words(app, "#choice"))
        await pilot.press("z", "z")
        await until(pilot, lambda: "charts 1 to 1 of" in words(app, "#choice"))
        await pilot.press("right")
        await until(pilot, lambda: "charts 2 to 2 of" in words(app, "#choice"))
        await pilot.press("left", "left", "left")
        await until(pilot, lambda: "charts 1 to 1 of" in words(app, "#choice"))

    driven(log, steps, first="good")


def test_news_appear_and_a_run_that_comes_later(log, logs):
    async def steps(app, pilot):
        with ss.Run(logs / "later") as run:
            run.scalar("loss", 1.0, 0)
            run.flush()
            await until(
                pilot, lambda: "later" in [row.value for row in app.query_one("#runs", DataTable).rows]
            )
            assert app.wanted.run == "good"  # the cursor stays where it was put
            assert "1 running" in words(app, "#head")

    driven(log, steps, first="good")


def test_a_directory_that_goes_away_is_said(log, logs):
    async def steps(app, pilot):
        logs.rename(logs.with_name("moved"))
        await until(pilot, lambda: "no such log directory" in words(app, "#head"))
        assert "loss" in words(app, "#charts")  # what was read stays

    driven(log, steps)


@pytest.mark.slow
def test_only_the_number_keys_open_panes_in_a_small_terminal(log):
    async def steps(app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: app.query_one("#panes", TabbedContent).active == "findings-pane")

    driven(log, steps, size=(60, 20))


def test_a_run_of_ten_million_points_is_drawn_in_buckets(log):
    board = Board(log)
    drawn = board.draw(board.charts(["good"])[0], ["good"], 20, "step", 0.0)
    assert all(len(trace.x) <= 4 * 20 for trace in drawn.traces)


def test_an_empty_directory_waits(tmp_path):
    with store.open(tmp_path) as log:
        shown = picture(Board(log), Choices(), now=time.time())
        assert (shown.runs, shown.count) == ([], 0)
        assert "0 runs" in shown.head


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--every", "0"], "expected a time above 0"), (["--run", "gone"], "no run 'gone'")],
)
def test_what_cannot_be_is_refused(logs, words, said, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli.main(["top", str(logs), *words]) == 1
    assert said in capsys.readouterr().err


def test_a_pipe_is_refused(logs, capsys):
    assert cli.main(["top", str(logs)]) == 1
    assert "stepscope ls --json" in capsys.readouterr().err


def test_without_textual_it_says_what_to_install(logs, capsys, monkeypatch):
    monkeypatch.setattr("stepscope.cli.top.find_spec", lambda name: None)
    assert cli.main(["top", str(logs)]) == 1
    assert "pip install 'stepscope[top]'" in capsys.readouterr().err


@pytest.mark.slow
def test_in_a_real_terminal(logs):
    head, terminal = pty.openpty()
    command = [sys.executable, "-m", "stepscope", "top", str(logs), "--no-cache", "--charts", "loss"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    try:
        assert "job" in read_until(head, "train/loss")
        os.write(head, b"q")
        read_until(head, None)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(head)


def read_until(head, wanted):
    """Read what the program writes until a word came, or, without one, until it ends."""
    seen, deadline = "", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([head], [], [], 0.2)[0]:
            try:
                piece = os.read(head, 1 << 16)
            except OSError:  # the other end is closed
                return seen
            if not piece:
                return seen
            seen += piece.decode("utf-8", "replace")
        if wanted is not None and wanted in seen:
            return seen
    raise AssertionError(f"{wanted!r} never came; found {seen[-500:]!r}")
