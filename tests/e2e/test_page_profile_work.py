"""Critical path, overlap and rates by shapes on the Profile page, on real profiles."""

import json
import re
import shutil

import pytest
from support.recordings import recorded, whole

RESNET, RANKS, SMALL = "resnet50_v100_workers0.json.gz", "dlrm", "simple_add.json.gz"
DEVICE = "device.json"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A profile of six steps, eight ranks of one capture, one without shapes, one without a host."""
    log = tmp_path_factory.mktemp("log")
    shutil.copy(whole(f"traces/kineto/{RESNET}"), log)
    shutil.copytree(whole("traces/dlrm_8xv100"), log / RANKS)
    shutil.copy(whole(f"traces/critical_path/{SMALL}"), log)
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 5,
              "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    (log / DEVICE).write_text(json.dumps({"schemaVersion": 1, "traceEvents": [kernel]}))
    (log / "convnet").mkdir()
    shutil.copy(recorded("tfprof/convnet/profile.context"), log / "convnet")
    return log


def place(path, show):
    return f"#/profile?prof={path}&show={show}"


def test_the_critical_path_names_what_steps_are_bound_by_and_leads_to_it(opened):
    page = opened(place(RESNET, "path"))
    bounds = page.get_by_role("region", name="What steps are bound by")
    bounds.get_by_role("row", name="Data loading").get_by_text("36.8").wait_for()
    bounds.get_by_text("6 paths, mean 188").wait_for()
    path = page.get_by_role("region", name="The path in order of time")
    row = path.get_by_role("row", name="enumerate(DataLoader)")
    row.get_by_text("Data loading").wait_for()
    path.locator("svg.strip rect").nth(100).wait_for(state="attached")
    row.get_by_role("button").click()
    page.wait("() => /show=timeline/.test(location.hash) && /find=enumerate/.test(location.hash)")
    page.get_by_role("group", name="Timeline", exact=True).wait_for()


def test_a_stretch_of_the_path_opens_its_event(opened):
    watched = opened(place(SMALL, "path"))
    strip = watched.page.get_by_role("region", name="The path in order of time").locator("svg.strip rect")
    strip.first.wait_for(state="attached")
    strip.evaluate_all(
        "all => all.sort((a, b) => b.getAttribute('width') - a.getAttribute('width'))[0]"
        ".dispatchEvent(new MouseEvent('click', { bubbles: true }))"
    )
    watched.wait("() => /show=timeline/.test(location.hash) && /[?&]t=/.test(location.hash)")


def test_overlap_says_of_every_rank_what_hides_behind_computation(opened):
    page = opened(place(RANKS, "overlap"))
    panel = page.get_by_role("region", name="Mean step of each device")
    panel.get_by_role("img", name="Rank 1, device 1: Computing 1.25").wait_for()
    panel.get_by_text(re.compile(r"^2\.5\s% of 11\.3\sms communication hidden$")).wait_for()
    grid = page.get_by_role("grid", name="Overlap by device and step")
    grid.get_by_role("row", name="Rank 7, device 7, step 10").dblclick()
    page.wait("() => /show=timeline/.test(location.hash) && /[?&]t=/.test(location.hash)")


def test_only_what_a_known_peak_tells_is_called_bound(opened):
    page = opened(place(RESNET, "roofline")).page
    legend = page.locator("figure p").filter(has_text="larger is more time")
    legend.get_by_text("launch bound").wait_for()
    assert "roof not known" not in legend.inner_text()

    def without_peak(route):
        answer = route.fetch()
        found = answer.json()
        found["peak"] = None
        for row in found["rows"]:
            row |= {"bound": None, "efficiency_ratio": None, "attainable_flops_per_second": None}
        route.fulfill(response=answer, json=found)

    page.route("**/profile/shapes?*", without_peak)
    page.reload()
    legend.get_by_text("roof not known").wait_for()
    assert " bound" not in legend.inner_text()
    assert page.locator("figure circle.unknown").count() == page.locator("figure circle").count() > 0


def test_rates_stand_below_the_roof_and_without_a_peak_of_the_whole_it_is_said(opened):
    page = opened(place(RESNET, "roofline"))
    page.get_by_role("img", name="Achieved operations per second over intensity of 3 operators").wait_for()
    grid = page.get_by_role("grid", name="Work by shapes")
    grid.get_by_role("row", name="aten::addmm").get_by_text("launch").wait_for()
    page.get_by_text("Unknown: part of the work has no operations that are counted").wait_for()
    page.get_by_text(
        "Left out, so utilisation is not known: what was recorded does not tell the work of 318 calls"
    ).wait_for()
    page.get_by_role("button", name="Steps: the next one").click()
    page.wait("() => location.hash.includes('steps=5')")
    steps = page.get_by_role("region", name="Model FLOPs utilisation").get_by_role("row")
    page.wait("([table]) => table.querySelectorAll('tbody tr').length === 1", [
        page.get_by_role("region", name="Model FLOPs utilisation").element_handle()
    ])  # fmt: skip
    assert steps.count() == 2


@pytest.mark.parametrize(
    ("path", "show", "why"),
    [
        (SMALL, "roofline", "Cannot tell how many operations there were"),
        (DEVICE, "path", "Cannot tell the critical path"),
        ("convnet/profile.context", "overlap", "Cannot tell how a device spent its time"),
    ],
)
def test_where_it_cannot_be_known_it_says_why(opened, path, show, why):
    watched = opened(place(path, show))
    watched.page.get_by_role("alert").get_by_text(why).wait_for()
    watched.messages[:] = [line for line in watched.messages if "422" not in line]
