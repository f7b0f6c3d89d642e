"""Pages whose parts come with answers of their own: what is already there hardly moves when they come."""

import pytest
from support.everything import PROFILE, write_all, write_records

LATENCY_MS = 150
"""Of every answer: each state in between is painted, as where the machine or the network is busy."""
PAGES = {
    "overview?q=name:job": "aside.blame",
    "overview?q=name:a": "section[aria-label=Findings] .covered",
    "compare?a=name:a&b=name:b&part=curves": ".sheet-of-panels canvas",
    "compare?a=name:a&b=name:b&part=figures": "table",
    "media?q=name:records": "section[aria-label^='Steps of'] img",
    "graph?q=name:a": ".box",
    "profile?prof={profile}": "h2",
    "profile?prof={profile}&show=timeline": ".timeline canvas",
    "profile?prof={profile}&show=operations": "table, [role=treegrid]",
    "ranks?q=name:job": ".heat canvas",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long):
    log_dir = tmp_path_factory.mktemp("shift")
    write_all(log_dir)
    write_records(log_dir / "records")
    return serve_long(log_dir)


SHIFTS = """window.shifts = [];
new PerformanceObserver(list => list.getEntries().forEach(entry => {
  if (entry.hadRecentInput) return;
  shifts.push({ value: entry.value, of: entry.sources.map(({ node, previousRect, currentRect }) =>
    [node?.nodeName, node?.className ?? node?.textContent, previousRect.y, currentRect.y].join(' ')) });
})).observe({ type: 'layout-shift', buffered: true })"""


def slowly(watched, width, height):
    """The page of a slow network, which notes what moves."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": height})
    page.add_init_script(SHIFTS)
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    slow = {"offline": False, "latency": LATENCY_MS, "downloadThroughput": -1, "uploadThroughput": -1}
    network.send("Network.emulateNetworkConditions", slow)
    return page


@pytest.mark.parametrize("hash_", list(PAGES))
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1024, 768), (1440, 900)])
def test_little_shifts(server, watch, hash_, width, height):
    watched = watch(server)
    page = slowly(watched, width, height)
    watched.open(f"#/{hash_.format(profile=PROFILE)}")
    page.locator(PAGES[hash_]).first.wait_for(state="attached")  # a phone's overview hides its bar
    page.wait_for_load_state("networkidle")
    watched.wait("() => document.documentElement.scrollWidth <= innerWidth")
    shifts = page.evaluate("shifts")
    assert sum(one["value"] for one in shifts) < 0.05, shifts


def test_a_run_that_was_seen_before_has_room_for_what_is_wrong_with_it(server, watch):
    watched = watch(server)
    page = slowly(watched, 1024, 768)
    moved = []
    for _ in range(2):
        watched.open("#/scalars?q=name:job")
        page.locator("aside.blame").wait_for()
        page.locator(".chart canvas").first.wait_for()
        page.wait_for_load_state("networkidle")
        moved.append([of for one in page.evaluate("shifts") for of in one["of"] if of.startswith("MAIN")])
        page.goto("about:blank")
    first, second = moved
    assert len(first) <= 1
    assert second == []
