"""Findings on the overview: real trainings, measured by the hooks, and what a person sees of them."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import stepscope as ss
from stepscope.events import EventWriter

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "health"))
from torch_trainings import Training, network  # noqa: E402


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A training whose tanhs are saturated from the start, and one that is well."""
    root = tmp_path_factory.mktemp("findings")
    Training(network("tanh", scale=30.0), steps=100).run(root / "saturated")
    Training(steps=100, optimizer=lambda own: torch.optim.SGD(own, 0.01, momentum=0.9)).run(root / "well")
    return root


@pytest.fixture
def opened(runs, serve_long, watch):
    def at(hash_, **options):
        watched = watch(serve_long(runs), hash_, **options)
        watched.page.get_by_role("region", name="Findings").get_by_text("lacked data").first.wait_for()
        return watched

    return at


def test_the_headline_says_what_is_worst_and_since_when(opened):
    page = opened("#/overview?q=run:saturated").page
    strip = page.get_by_role("region", name="State of the run").inner_text()
    findings = page.get_by_role("region", name="Findings")
    first = findings.get_by_role("listitem").first.inner_text()
    assert "since step" in strip
    assert "healthy" not in strip
    assert "lacked data" in strip
    title = first.split("\n")[1] if "\n" in first else first
    assert title.strip().lower() in strip.lower()
    assert "saturated" in findings.inner_text().lower()
    assert "activations/" in findings.inner_text()


def test_a_run_without_findings_says_what_was_judged_and_what_was_not(opened):
    page = opened("#/overview?q=run:well").page
    strip = page.get_by_role("region", name="State of the run").inner_text()
    assert "nothing wrong found; not judged: generalisation" in strip
    findings = page.get_by_role("region", name="Findings")
    answers = findings.get_by_role("list", name="What the verdict covers").inner_text()
    assert "Learns: yes" in answers
    assert "Generalises: not judged" in answers
    findings.locator("summary").click()
    assert "not recorded" in findings.locator("dl").inner_text()


def test_a_finding_leads_to_its_series_at_its_steps(opened):
    page = opened("#/overview?q=run:saturated")
    row = page.get_by_role("region", name="Findings").get_by_role("listitem").filter(has_text="Saturated")
    row.get_by_role("link").click()
    page.wait("() => location.hash.startsWith('#/scalars')")
    page.ready()
    charts = page.charts()
    assert charts
    assert all(name.startswith("activations/") and name.endswith("saturation_ratio") for name in charts)
    view = page.evaluate("location.hash")
    begin, end = (float(each) for each in view.split("z=")[1].split("&")[0].split("-"))
    assert begin <= 40 <= end
    page.go_back()
    page.wait("() => location.hash.startsWith('#/overview')")


@pytest.mark.parametrize("run", ["saturated", "well"])
def test_axe_finds_nothing(opened, axe, run, tmp_path):
    page = opened(f"#/overview?q=run:{run}").page
    page.screenshot(path=str(tmp_path / f"findings-{run}.png"))
    axe(page)


def test_on_a_phone_what_is_wrong_is_scrolled_away_with_the_page(runs, serve_long, watch):
    page = watch(serve_long(runs))
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.open("#/scalars?q=run:saturated")
    page.ready()
    bar = page.get_by_role("complementary", name="What is wrong with saturated")
    bar.wait_for()
    assert bar.evaluate("one => one.closest('main') === null"), "it moves nothing where it comes late"
    page.page.reload()
    bar.wait_for()
    assert bar.evaluate("one => one.closest('main') !== null && getComputedStyle(one).position === 'static'")
    page.page.locator("main").evaluate("one => one.scrollTo(0, 400)")
    page.wait("() => document.querySelector('aside.blame').getBoundingClientRect().bottom < 60")


def test_findings_are_asked_for_once(runs, serve_long, watch):
    page = watch(serve_long(runs))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.open("#/overview?q=run:saturated")
    page.get_by_role("complementary", name="What is wrong with saturated").wait_for()
    page.get_by_role("region", name="Findings").get_by_role("link", name="Since step").first.wait_for()
    page.wait("() => performance.getEntriesByType('resource').some((one) => one.name.includes('/captures?'))")
    assert len([url for url in asked if "/findings?" in url]) == 1


def test_the_run_that_is_watched_stays_when_another_begins(tmp_path, serve, watch):
    log_dir = tmp_path / "log"
    writer = EventWriter(log_dir / "first")
    writer.scalar("loss", 1.0, 0, 1.7e9)
    writer.flush()
    page = watch(serve(log_dir, "--no-cache"), "#/overview")
    state = page.get_by_role("region", name="State of the run")
    state.wait_for()
    with ss.Run(log_dir / "second") as run:
        run.scalar("loss", 2.0)
    page.get_by_text("second has started").wait_for()
    assert "first" in state.inner_text()
    assert {line["run"] for line in page.charts()["loss"]["lines"]} == {"first"}
    page.get_by_role("button", name="Show all 2 runs").click()
    page.get_by_role("rowheader", name="second").wait_for()
    writer.close()


def test_runs_that_were_there_before_the_page_have_not_started_since(tmp_path, serve, watch):
    """A server that nobody asks looks seldom: its first answer may be of before they began."""
    log_dir = tmp_path / "log"
    with ss.Run(log_dir / "first") as run:
        run.scalar("loss", 1.0)
    page = watch(serve(log_dir, "--no-cache"))
    with page.expect_response(
        lambda answer: "/changes" in answer.url and '"first"' in answer.text()
    ) as known:
        page.open("#/overview")
    before = known.value.json()
    for name in ("second", "third"):
        with ss.Run(log_dir / name) as run:
            run.scalar("loss", 2.0)
    page.get_by_text("2 more runs have started while this page shows first").wait_for()
    page.goto("about:blank")
    page.route(
        "**/changes*",
        lambda route: route.fulfill(json={**before, "time": time.time(), "loading": None}),
        times=1,
    )
    page.open("#/overview")
    page.get_by_role("rowheader", name="third").wait_for()
    assert page.get_by_text("while this page shows").count() == 0


GOES_ON = """
import sys, time
import stepscope as ss
with ss.Run(sys.argv[1], total_steps=10**6, flush_secs=0.1) as run:
    for step in run.steps(range(10**6)):
        run.scalar("train/loss", 1 / (1 + step))
        time.sleep(0.02)
"""


def test_a_run_that_is_killed_is_called_so_within_seconds_and_not_running(tmp_path, serve, watch):
    training = subprocess.Popen([sys.executable, "-c", GOES_ON, str(tmp_path / "log" / "run")])
    try:
        page = watch(serve(tmp_path / "log", "--no-cache"), "#/overview")
        state = page.get_by_role("region", name="State of the run")
        state.get_by_text("Running").first.wait_for()
    finally:
        training.kill()
        training.wait()
    # Without the look at its process it would be running for a minute, three times as long as this waits.
    state.get_by_text("Process gone").first.wait_for(timeout=20_000)
    assert state.get_by_text("Running").count() == 0


def test_where_the_loss_of_a_running_run_will_end_is_said_and_of_one_that_is_over_is_not(
    tmp_path, serve, watch
):
    def falling(name, steps):
        run = ss.Run(tmp_path / name, total_steps=4000)
        for step in range(steps):
            run.scalar("train/loss", 2 + 5 * (step + 1) ** -0.5 + 0.01 * (-1) ** step, step)
        run.flush()
        return run

    falling("over", 4000).close()
    run = falling("now", 2000)
    try:
        server = serve(tmp_path)
        for name, ends in (("now", True), ("over", False)):
            watched = watch(server, f"#/overview?q=run:{name}")
            watched.page.get_by_role("region", name="Findings").get_by_text("lacked data").first.wait_for()
            findings = watched.page.get_by_role("region", name="Findings")
            assert ("train/loss will end at 2.0" in findings.inner_text()) == ends
            assert ("at step 3,999" in findings.inner_text()) == ends
    finally:
        run.close()


def test_each_finding_stands_once_with_a_capital_letter(opened):
    page = opened("#/overview?q=run:saturated").page
    findings = page.get_by_role("region", name="Findings")
    titles = findings.locator("li .title .strong").all_inner_texts()
    pills = findings.locator("li .pill").all_inner_texts()
    assert len(titles) == len(set(titles)) > 0
    assert set(pills) <= {"High", "Medium", "Low", "Info"}
    assert all(title[0].isupper() for title in titles)


def test_what_is_wrong_is_a_link_in_the_headline(opened):
    page = opened("#/overview?q=run:saturated")
    link = page.get_by_role("region", name="State of the run").locator(".headline a").first
    link.wait_for()
    before = page.evaluate("location.hash + document.getElementById('main').scrollTop")
    link.click()
    page.wait("before => location.hash + document.getElementById('main').scrollTop !== before", before)


def test_a_failed_run_leads_with_its_exception(tmp_path, serve, watch):
    with suppress(ValueError), ss.Run(tmp_path / "logs" / "failed") as run:
        run.scalar("loss", 1.0, 0)
        print("reading rows 700 to 800")
        raise ValueError("no more rows")
    with ss.Run(tmp_path / "logs" / "well") as run:
        run.scalar("loss", 1.0, 0)
    server = serve(tmp_path / "logs")
    watched = watch(server, "#/overview?q=run:failed")
    region = watched.page.get_by_role("region", name="Why it failed")
    region.get_by_text("ValueError: no more rows").first.wait_for()
    stack, lines = (region.locator("summary").nth(place) for place in range(2))
    stack.click()
    assert "Traceback (most recent call last):" in region.get_by_label("Stack of the exception").inner_text()
    assert __file__ in stack.inner_text()
    lines.click()
    assert region.get_by_label("Last lines of the console").inner_text() == "reading rows 700 to 800"
    watched.open("#/overview?q=run:well")
    watched.page.get_by_role("region", name="State of the run").get_by_text("Finished").wait_for()
    assert region.count() == 0
