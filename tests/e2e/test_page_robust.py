"""The page when the server goes away, and many tabs at once; with one run, many, and the ranks of one job."""

import json
import urllib.parse

import pytest

VIEW = (
    "#/scalars?q=run:a&z=100-900&sm=0.9&ly=1&pin=train/loss&own=Gap%20%3D%20eval/loss%20-%20train/loss&base=a"
)
TABS = 8


def write_ranks(written, root, count=4):
    """A run in which every rank writes for itself, as a job does whose ranks log what is theirs."""
    for rank in range(count):
        facts = {"rank": rank, "world_size": count, "role": "chief" if rank == 0 else "worker"}
        values = {"train/loss": [5.0 - 0.01 * step + 0.1 * rank for step in range(300)]}
        written(root / "job", values, total_steps=300, host=f"host{rank}", **facts)


@pytest.fixture(params=["one run", "many runs", "four ranks"])
def logs(request, tmp_path, written, log_dir):
    """A log directory of each kind, and a chart that it has."""
    if request.param == "many runs":
        return log_dir
    root = tmp_path / "other"
    if request.param == "one run":
        written(root / "only", {"train/loss": [1.0 / (1 + step) for step in range(500)]})
    else:
        write_ranks(written, root)
    return root


def drawn(watched):
    """What is on the charts, apart from when it was asked."""
    return {
        name: [(line["run"], line["tag"], line["y"]) for line in chart["lines"]]
        for name, chart in watched.charts().items()
    }


def test_a_restarted_server_is_found_again_and_the_view_stays(log_dir, serve, watch):
    server = serve(log_dir)
    page = watch(server, VIEW)
    page.ready()
    before, address = drawn(page), page.evaluate("location.hash")
    page.evaluate("document.getElementById('main').scrollTop = 40")
    server.process.kill()
    server.stop()
    page.locator("[data-link='disconnected']").wait_for(timeout=15_000)
    assert page.title().startswith("Disconnected")
    page.get_by_role("button", name="Log x").click()
    assert page.charts(), "what was drawn can still be read"
    page.get_by_role("button", name="Log x").click()
    server.start()
    page.locator("[data-link='live']").wait_for(timeout=30_000)
    page.ready()
    assert parts(page.evaluate("location.hash")) == parts(address)
    assert drawn(page) == before
    page.get_by_label("Filter charts by a regex").fill("loss")
    page.ready()


def test_every_kind_of_log_survives_a_restart(logs, serve, watch):
    server = serve(logs)
    page = watch(server, "#/scalars?sm=0")
    page.ready()
    before = drawn(page)
    assert before["train/loss"]
    server.process.kill()
    server.stop()
    page.locator("[data-link='disconnected']").wait_for(timeout=15_000)
    server.start()
    page.locator("[data-link='live']").wait_for(timeout=30_000)
    page.ready()
    assert drawn(page) == before


@pytest.mark.slow
def test_eight_tabs_share_six_connections(log_dir, serve, watch):
    """A browser opens at most six connections to a host, over all of its tabs."""
    server = serve(log_dir)
    first = watch(server)
    tabs = [first.page] + [first.page.context.new_page() for _ in range(TABS - 1)]
    for tab in tabs:
        tab.goto(server.url + "/#/scalars")
    for tab in tabs:
        tab.wait_for_function("() => window.__stepscope_test?.complete()", timeout=30_000)
    for number, tab in enumerate(tabs):
        tab.evaluate(f"location.hash = '#/scalars?sm=0.{number + 1}&ly=1'")
    for number, tab in enumerate(tabs):
        tab.wait_for_function(
            "() => window.__stepscope_test.complete() && window.__stepscope_test.charts().length > 0",
            timeout=30_000,
        )
        assert f"sm=0.{number + 1}" in tab.evaluate("location.hash")
    assert all(tab.locator("[data-link='live']").count() for tab in tabs)
    held = tabs[-1].evaluate(
        "async () => { const start = performance.now(); const answer = await fetch('api/v1/health');"
        " return {ok: answer.ok, body: await answer.text(), ms: performance.now() - start} }"
    )
    assert held["ok"], held
    assert json.loads(held["body"])["loading"] is None


def test_ranks_of_one_run_are_lines_of_their_own(tmp_path, written, serve, watch):
    write_ranks(written, tmp_path / "runs")
    page = watch(serve(tmp_path / "runs"), "#/scalars?sm=0")
    page.ready()
    lines = page.charts()["train/loss"]["lines"]
    assert len(lines) == 4
    assert len({line["colour"] for line in lines}) == 4
    page.goto(page.server.url + "/#/scalars?sm=0&group=~.*")
    page.reload()
    page.ready()
    [line] = page.charts()["train/loss"]["lines"]
    assert line["y"][0] == pytest.approx(5.15), "the mean over the ranks"


def parts(address):
    """What an address says, in whatever order and spelling."""
    return sorted(urllib.parse.unquote(address).partition("?")[2].split("&"))
