"""The Ranks page: the slow rank is named, with the step from which on, in words, picture and table."""

import json
import random
import re

import pytest
from support.everything import staged
from support.jobs import write_rank
from support.records import write_series

from stepscope.events.telemetry import (
    FOLDER,
    HANG,
    TelemetryRow,
)

START, RANKS, STEPS, SLOW, SINCE = 1.7e9, 8, 120, 5, 70


def write_losses(run, tag="train/loss"):
    """Write the first loss of a job."""
    write_series(run, {tag: [1.0]}, start=START)


def write_job(log):
    """Write eight ranks, of which rank 5 is slower by half from step 70 on."""
    noise = random.Random(4)
    write_losses(log / "job")
    for rank in range(RANKS):
        rows = []
        for step in range(STEPS):
            seconds = 0.1 * (1 + 0.02 * noise.random()) * (1.5 if rank == SLOW and step >= SINCE else 1)
            wall = START + 0.1 * step
            rows.append((step, TelemetryRow(wall, seconds, 0.01, 1.0, has_loss=True, ended=True)))
        role, host = "worker" if rank else "chief", f"node{rank // 4}"
        write_rank(log / "job", rank, RANKS, rows, host=host, role=role, started=START)
    return log


def write_workers(log, seconds, steps):
    """Write workers of parameter servers, who count their steps together, and how long a step takes each."""
    noise = random.Random(4)
    rows = [[] for _ in seconds]
    ends = sorted(
        (took * (at + noise.random()), worker, took * (0.95 + 0.1 * noise.random()))
        for worker, took in enumerate(seconds)
        for at in range(round(steps / took / sum(1 / each for each in seconds)))
    )
    for step, (wall, worker, took) in enumerate(ends):
        rows[worker].append((step, TelemetryRow(START + wall, took, ended=True)))
    write_losses(log / "workers", "loss")
    for rank, own in enumerate(rows):
        write_rank(log / "workers", rank, len(seconds), own, host="node0", started=START)
    return log


@pytest.mark.parametrize(("slow", "named"), [(0.126, True), (0.054, False)])
def test_a_worker_of_parameter_servers_is_named_where_it_is_slower_and_only_there(
    tmp_path, serve, watch, slow, named
):
    page = watch(serve(write_workers(tmp_path / "log", [0.054, 0.055, 0.054, slow], 1000)), "#/ranks")
    frontier = page.get_by_role("region", name="Frontier").first
    frontier.get_by_text("The ranks count their steps together").wait_for()
    said = frontier.inner_text()
    assert ("Rank 3 on node0 is slower than the other 3: 12" in said) is named
    assert ("its link to the parameter servers" in said) is named
    assert "delays all" not in said
    assert "makes all ranks wait" not in said
    assert page.get_by_text("No rank stands apart in own work").count() == (0 if named else 1)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return write_job(tmp_path_factory.mktemp("ranks") / "log")


@pytest.fixture
def opened(job, serve_long, watch):
    def at(hash_="#/ranks", **options):
        watched = watch(serve_long(job), **options)
        watched.open(hash_)
        watched.wait("() => document.querySelector('.heat canvas')?.dataset.drawn === '1'")
        # It comes with an answer of its own and moves what lies below.
        watched.page.get_by_role("region", name="Frontier").first.wait_for()
        return watched

    return at


def test_the_slow_rank_is_named_with_the_step(opened):
    page = opened().page
    strip = page.get_by_role("region", name="Who delays the others")
    text = " ".join(strip.inner_text().split())
    assert re.search(rf"Since step {SINCE} Rank {SLOW}, rest on node1 A step of all 8 ranks, mean", text), (
        text
    )
    assert f"of it waits for rank {SLOW}" in text
    assert page.get_by_role("region", name="Verdict").count() == 0  # that it works longer is said once
    assert page.locator(".heat .since").count() == 1
    assert page.locator(".labels .strong").inner_text() == f"rank {SLOW}"


def test_every_rank_and_step_is_a_cell_and_the_slow_ones_are_brightest(opened):
    page = opened().page
    size, bright, dark = page.evaluate(
        """([slow, since]) => {
            const canvas = document.querySelector('.heat canvas');
            const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const at = (x, y) => 4 * (y * canvas.width + x);
            const light = (x, y) => all[at(x, y)] + all[at(x, y) + 1] + all[at(x, y) + 2];
            return [[canvas.width, canvas.height], light(since + 5, slow), light(since - 5, slow)];
        }""",
        [SLOW, SINCE],
    )
    assert size == [STEPS, RANKS]
    assert bright > 2 * dark


def test_sorting_by_outlier_puts_it_first_and_the_address_keeps_it(opened):
    watched = opened()
    page = watched.page
    page.get_by_role("button", name="Outlier").click()
    watched.wait("() => location.hash.includes('by=outlier')")
    first = page.get_by_role("group", name="Ranks in rows").locator("tbody tr").first
    assert first.get_by_role("rowheader").inner_text() == f"rank {SLOW}"
    first.get_by_role("button").click()
    watched.wait("() => location.hash.includes('rank=rank')")
    page.reload()
    watched.wait("() => document.querySelector('.heat canvas')?.dataset.drawn === '1'")
    assert page.locator("tr.chosen").get_by_role("rowheader").inner_text() == f"rank {SLOW}"


def test_where_ranks_agree_nobody_is_blamed(opened):
    page = opened("#/ranks?fact=resident_bytes").page
    page.get_by_text("No rank stands apart in memory").wait_for()


def test_the_table_of_ranks_is_saved_with_all_that_is_known(opened, files):
    page = opened().page
    panel = page.get_by_role("region", name="Table of ranks")
    rows = files.table(files.save(page, panel, "Ranks of", "CSV, every rank and fact"))
    assert len(rows) == panel.locator("tbody tr").count()
    slow = next(row for row in rows if row["label"] == f"rank {SLOW}")
    assert float(slow["median_step_s"]) > 0
    assert {"state", "host", "resident_bytes", "nonfinite"} <= slow.keys()


def test_a_menu_stays_with_its_button_while_the_page_scrolls(opened):
    """What comes in above a menu may scroll the page: it closed under the reader's hand."""
    page = opened().page
    panel = page.get_by_role("region", name="Table of ranks")
    opener = panel.get_by_role("button", name=re.compile("^Save"))
    opener.scroll_into_view_if_needed()
    opener.click()
    item = page.get_by_role("button", name="CSV, every rank and fact")
    item.wait_for()
    page.evaluate(
        """() => {
            const find = (one) => document.querySelector(one);
            const [opener, sheet] = [find("[aria-label^='Save Ranks']"), find(".sheet")];
            const top = (one) => one.getBoundingClientRect().top;
            let scroller = opener.parentElement;
            while (scroller.scrollTop < 40) scroller = scroller.parentElement;
            const [before, gap] = [top(opener), top(sheet) - top(opener)];
            scroller.scrollTop -= 40;
            window.follows = () => {
                const now = document.querySelector(".sheet");
                return now && top(opener) > before + 30 && Math.abs(top(now) - top(opener) - gap) < 2;
            };
        }"""
    )
    page.wait_for_function("() => window.follows()")


def test_a_cell_is_reached_by_keyboard_and_says_what_is_known_of_it(opened):
    watched = opened()
    page = watched.page
    page.locator(".heat canvas").focus()
    page.keyboard.press("ArrowRight")  # the first key stands on the step since when
    watched.wait(f"() => location.hash.includes('cell={SINCE}')")
    page.keyboard.press("Shift+ArrowRight")
    watched.wait(f"() => location.hash.includes('cell={SINCE + 10}')")
    cell = page.get_by_role("region", name="Selected cell")
    cell.get_by_role("heading", name=f"rank {SLOW}, step {SINCE + 10}").wait_for()
    cell.get_by_text("Step time").wait_for()
    cell.get_by_text("No profile of rank").wait_for()
    assert "others" in cell.inner_text()


def test_who_was_slowest_how_often_and_since_when_is_said(opened):
    page = opened().page
    blame = " ".join(page.locator("p.blame").inner_text().split())
    assert re.search(rf"rank {SLOW} in 41\.7.?% of the steps \({SINCE} . {STEPS - 1}\)", blame)
    assert "no rank stands out by 5" in blame


def test_a_cell_leads_to_the_nearest_profile_of_its_rank(tmp_path, serve, watch, make_capture):
    job = write_job(tmp_path / "log")
    make_capture(job / "job", rank=SLOW, steps=[60, 61, 62])
    make_capture(job / "job", rank=0, steps=[80])
    page = watch(serve(job), f"#/ranks?rank=rank%20{SLOW}&cell=75")
    cell = page.get_by_role("region", name="Selected cell")
    cell.get_by_text("13 steps away").wait_for()
    cell.get_by_role("button", name="Profile of step 62").click()
    page.wait("() => location.hash.startsWith('#/profile') && location.hash.includes('rank5')")
    page.get_by_label("Timeline").first.wait_for()


@pytest.fixture
def make_capture():
    """Leaves a captured profile in a run as a rank does."""

    def make(run, *, rank, steps):
        folder = run / "profiles"
        folder.mkdir(exist_ok=True)
        name = f"step{steps[0]}.rank{rank}"
        events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 50}]
        (folder / f"{name}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
        facts = {
            "name": name, "path": f"profiles/{name}.json", "rank": rank, "steps": steps, "format": "kineto",
            "wall": START + steps[0], "cause": "schedule",
        }  # fmt: skip
        (folder / f"{name}.profile.json").write_text(json.dumps(facts))

    return make


def test_the_frontier_says_who_delays_the_others_by_how_much(opened):
    page = opened().page
    strip = page.get_by_role("region", name="Who delays the others")
    strip.get_by_role("button", name=f"Rank {SLOW}", exact=True).wait_for()
    said = " ".join(strip.inner_text().split())
    assert re.search(rf"^Since step {SINCE} Rank {SLOW}, rest .* 50\.\d ms of it waits", said), said
    frontier = page.get_by_role("region", name="Frontier")
    assert frontier.get_by_role("row").nth(1).get_by_role("rowheader").inner_text() == str(SLOW)
    assert frontier.locator("path").count() > 0


@pytest.fixture
def waiting(tmp_path):
    """Eight ranks that wait for each other in backward: they take alike long, though rank 5 is late there."""
    staged(tmp_path / "log" / "job", ranks=RANKS, slow=SLOW, since=SINCE, noise_s=0.0)
    return tmp_path / "log"


def test_where_ranks_wait_for_one_it_is_not_said_that_none_stands_apart(waiting, serve, watch):
    watched = watch(serve(waiting))
    asked = []
    watched.page.on("request", lambda request: asked.append(request.url))
    watched.open("#/ranks")
    page = watched.page
    onset = page.locator(".onset")
    onset.wait_for()
    said = " ".join(onset.inner_text().split())
    assert re.search(rf"Rank {SLOW}, forward on node0 .* 50.0 ms of it waits for rank {SLOW}", said), said
    assert page.get_by_text("No rank stands apart").count() == 0
    looks = sum(url.endswith("/ranks?run=job") for url in asked)
    watched.wait("() => document.querySelector('.heat canvas')?.dataset.drawn === '1'")
    while sum(url.endswith("/ranks?run=job") for url in asked) < looks + 2:
        page.wait_for_timeout(100)
    assert sum("ranks/frontier" in url for url in asked) == 1  # nobody has written since
    page.get_by_role("button", name="Memory", exact=True).click()
    page.get_by_text("No rank stands apart in memory").wait_for()


def test_a_stage_is_shown_by_rank_and_step_and_accuses_nobody(waiting, serve, watch):
    """In backward the seven that wait take longest, and not the one that they wait for."""
    watched = watch(serve(waiting))
    watched.open("#/ranks")
    page = watched.page
    key = page.get_by_role("region", name="Frontier").locator(".key")
    key.get_by_role("button", name=re.compile("^backward")).click()
    page.get_by_role("heading", name="Backward stage by rank and step").wait_for()
    watched.wait("() => location.hash.includes('fact=stage')")
    watched.wait("() => document.querySelector('.heat canvas')?.dataset.drawn === '1'")
    assert page.get_by_role("region", name="Verdict").count() == 0
    canvas = page.locator(".heat canvas")
    canvas.focus()
    canvas.press("ArrowRight")
    cell = page.get_by_role("region", name="Selected cell")
    cell.get_by_text("Backward stage").wait_for()
    page.reload()
    page.get_by_role("heading", name="Backward stage by rank and step").wait_for()
    pressed = key.get_by_role("button", name=re.compile("^backward"))
    pressed.wait_for()
    assert pressed.get_attribute("aria-pressed") == "true"
    pressed.click()
    page.get_by_role("heading", name="Own work by rank and step").wait_for()


def test_the_picture_shows_own_work_in_which_the_rank_that_others_wait_for_stands_out(waiting, serve, watch):
    """In step time all rows look the same, since the others wait for it."""
    watched = watch(serve(waiting))
    watched.open("#/ranks")
    page = watched.page
    page.get_by_role("heading", name="Own work by rank and step").wait_for()
    lights = """([from, slow]) => {
        const canvas = document.querySelector('.heat canvas');
        const copy = new OffscreenCanvas(canvas.width, canvas.height);
        const context = copy.getContext('2d', { willReadFrequently: true });
        context.drawImage(canvas, 0, 0);
        const all = context.getImageData(0, 0, canvas.width, canvas.height).data;
        const rows = Array.from({ length: canvas.height }, (_, y) => {
            const at = 4 * (y * canvas.width + from);
            return all[at] + all[at + 1] + all[at + 2];
        });
        return [rows[slow], Math.max(...rows.filter((_, y) => y !== slow))];
    }"""
    watched.wait("() => document.querySelector('.heat canvas')?.dataset.drawn === '1'")
    slow, others = page.evaluate(lights, [SINCE + 5, SLOW])
    assert slow > 2 * others
    page.get_by_role("button", name="Step time", exact=True).click()
    page.get_by_role("heading", name="Step time by rank and step").wait_for()
    watched.wait("() => document.querySelector('.heat canvas')?.dataset.drawn === '1'")
    watched.wait(
        f"argument => {{ const [slow, others] = ({lights})(argument); return slow === others; }}",
        [SINCE + 5, SLOW],
    )


def test_ranks_that_cannot_be_told_apart_are_one_row_that_opens(waiting, serve, watch):
    page = watch(serve(waiting)).open("#/ranks")
    rows = page.get_by_role("group", name="Who delays the others").get_by_role("row")
    rows.nth(2).wait_for()
    heads, first, others = (" ".join(rows.nth(at).inner_text().split()) for at in range(3))
    assert f"Lost per step, since step {SINCE}" in heads
    assert re.match(rf"{SLOW} node0 forward 50\.\d ms 2\d\.\d ms .* clear$", first), first
    assert re.match(r"7 other ranks .*within noise$", others), others
    assert rows.count() == 3


def test_the_row_of_ranks_that_cannot_be_told_apart_opens(tmp_path, serve, watch):
    """Of ranks that differ by chance some lead a few steps each."""
    staged(tmp_path / "log" / "job", ranks=RANKS, slow=SLOW, since=STEPS - 1, noise_s=0.02)
    page = watch(serve(tmp_path / "log")).open("#/ranks")
    table = page.get_by_role("group", name="Who delays the others")
    opener = table.get_by_role("button", name=f"{RANKS} other ranks")
    opener.wait_for()
    assert table.get_by_role("row").count() == 2
    opener.click()
    table.get_by_text("cannot tell").first.wait_for()
    assert table.get_by_role("row").count() > 3
    opener.click()
    page.wait_for_function("() => !document.querySelector('main').innerText.includes('cannot tell')")


def stall(log, seconds=35.0):
    """Have the ranks say that their step does not end: rank 5 loads, the others exchange gradients."""
    for rank in range(RANKS):
        late = rank == SLOW
        frames = [
            {"file": "/job/train.py", "line": 12 if late else 30, "function": "main"},
            {"file": "/job/data.py", "line": 7, "function": "read"} if late
            else {"file": "/lib/site-packages/torch/distributed.py", "line": 9, "function": "all_reduce"},
        ]  # fmt: skip
        facts = {
            "rank": rank, "world_size": RANKS, "host": "node0", "pid": 4000 + rank, "step": STEPS,
            "stage": "data" if late else "backward", "stalled_s": seconds, "wall": START,
            "threads": [{"name": "MainThread", "trains": True, "frames": frames}], "recorder": None,
        }  # fmt: skip
        (log / "job" / FOLDER / f"{HANG}{rank:05d}.{4000 + rank}.json").write_text(json.dumps(facts))


def test_who_is_stuck_where_is_said_while_the_page_is_open(waiting, serve, watch):
    watched = watch(serve(waiting))
    watched.open("#/ranks")
    page = watched.page
    page.locator(".onset").wait_for()
    assert page.get_by_role("region", name="Stuck ranks").count() == 0
    stall(waiting)
    panel = page.get_by_role("region", name="Stuck ranks")
    panel.wait_for()
    assert "No step has ended for 35 s" in " ".join(panel.inner_text().split())
    assert f"rank {SLOW}: not at the same place as the others" in panel.inner_text()
    first = panel.get_by_role("row").nth(1).inner_text()
    assert first.split()[0] == str(SLOW)
    assert "read (/job/data.py:7)" in first
    assert "data" in first
    assert "all_reduce" in panel.get_by_role("row").nth(2).inner_text()
