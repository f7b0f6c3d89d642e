"""Kernels, memory, trees, steps, differences and captures on the Profile page, on real profiles."""

import gzip
import json
import re
import shutil
import threading

import pytest
from support.recordings import recorded, whole

RESNET, WORKERS = "resnet50_v100_workers0.json.gz", "resnet50_v100_workers4.json.gz"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Two profiles of one model, three of a run over its training, and one of tfprof's own."""
    log = tmp_path_factory.mktemp("log")
    for name in (RESNET, WORKERS):
        shutil.copy(whole(f"traces/kineto/{name}"), log)
    (log / "estimator").mkdir()
    for step in (400, 800, 1200):
        shutil.copy(recorded(f"tf_estimator/single/timeline-{step}.json.gz"), log / "estimator")
    (log / "convnet").mkdir()
    shutil.copy(recorded("tfprof/convnet/profile.context"), log / "convnet")
    return log


def place(path, show, more=""):
    return f"#/profile?prof={path}&show={show}{more}"


def test_kernels_are_sorted_found_and_lead_to_the_timeline_by_keyboard(opened):
    page = opened(place(RESNET, "kernels"))
    grid = page.get_by_role("grid", name="Kernels")
    grid.get_by_text("cudnn::detail::dgrad_engine").first.wait_for()
    panel = page.get_by_role("complementary", name="Selected kernel")
    panel.get_by_text("13.5 ms", exact=True).wait_for()
    panel.get_by_text("float32 15.7").wait_for()
    page.get_by_role("button", name="Calls per step").click()
    assert grid.get_by_role("columnheader", name="Calls per step").get_attribute("aria-sort") == "descending"
    grid.get_by_text("515", exact=True).wait_for()
    page.get_by_label("Find by name").fill("sgemm_128x32")
    page.wait("() => document.querySelector('[role=grid]').getAttribute('aria-rowcount') < 10")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.wait("() => document.querySelector('[role=grid] [aria-selected=true]') !== null")
    panel.get_by_role("heading", name="sgemm_128x32").wait_for()
    page.keyboard.press("Enter")
    page.wait("() => /show=timeline/.test(location.hash) && /ev=\\d/.test(location.hash)")
    page.get_by_role("complementary", name="Selected event").get_by_text("sgemm_128x32").first.wait_for()


def test_a_step_is_chosen_for_all_tables_and_stays_in_the_address(opened):
    page = opened(place(RESNET, "kernels"))
    page.get_by_role("button", name="Steps: All 6 steps").click()
    page.get_by_role("textbox", name="Steps", exact=True).fill("6-8")
    page.get_by_role("group", name="Choose steps").get_by_role("button", name="Set").click()
    page.wait("() => location.hash.includes('steps=6-8')")
    page.keyboard.press("Escape")
    page.get_by_text("By step, 6").wait_for()
    page.get_by_role("button", name="Steps: the next one").click()
    page.wait("() => location.hash.includes('steps=8')")
    page.get_by_role("button", name="Operations", exact=True).click()
    page.get_by_text("step 8", exact=False).first.wait_for()
    page.get_by_role("button", name="Memory", exact=True).click()
    page.get_by_text("Peak, step 8").wait_for()
    page.reload()
    page.get_by_text("Peak, step 8").wait_for()


def test_memory_says_what_held_the_peak(opened):
    page = opened(place(RESNET, "memory"))
    held = page.get_by_role("region", name="Held at the peak")
    held.get_by_role("row", name="Activations").get_by_text("97.5").wait_for()
    held.get_by_text("matched by size").wait_for()
    held.get_by_role("button", name="Operator").click()
    held.get_by_role("row", name="aten::empty").first.wait_for()
    page.get_by_role("button", name="Steps", exact=True).click()
    page.get_by_role("grid", name="Memory by step").get_by_text("Step 10").wait_for()
    page.get_by_text("Peaks of 6 steps: min").wait_for()
    page.get_by_role("img", name="Memory of Tesla V100").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait("() => location.hash.includes('show=timeline') && /[?&]t=/.test(location.hash)")


def test_the_filter_bar_sets_tfprofs_options(opened):
    page = opened(place(RESNET, "operations", "&tree=op"))
    grid = page.get_by_role("treegrid", name="Operations")
    page.get_by_role("button", name="Advanced").click()
    grid.get_by_text("(all)").wait_for()
    page.get_by_label("Preset").select_option("device only")
    page.wait("() => location.hash.includes('min_accelerator_micros:1')")
    page.wait("() => Number(document.querySelector('[role=treegrid]').getAttribute('aria-rowcount')) < 40")
    grid.get_by_role("button", name="calls").click()
    page.wait("() => location.hash.includes('order_by:occurrence')")
    page.get_by_label("Add an option").select_option("hide_name_regexes")
    page.get_by_label("hide_name_regexes", exact=True).fill(".*cudnn.*")
    page.get_by_label("hide_name_regexes", exact=True).press("Enter")
    page.wait("() => !document.querySelector('[role=treegrid]').textContent.includes('cudnn')")
    page.get_by_role("button", name="Remove hide_name_regexes").click()
    grid.get_by_text("aten::cudnn_convolution", exact=True).wait_for()
    page.get_by_label("min_micros", exact=True).fill("many")
    page.get_by_label("min_micros", exact=True).press("Enter")
    page.get_by_role("alert").get_by_text("whole number").wait_for()
    page.get_by_role("button", name="Clear all").click()
    page.wait("() => !location.hash.includes('opt=')")


def test_tfprofs_own_profile_shows_tfprofs_columns(opened):
    more = "&opt=select:micros\\,bytes\\,float_ops\\,op_types"
    watched = opened(place("convnet/profile.context", "operations", more))
    grid = watched.page.get_by_role("treegrid", name="Operations")
    grid.get_by_role("columnheader", name="FLOPs total").wait_for()
    grid.get_by_role("columnheader", name="types").wait_for()
    grid.get_by_role("row", name="_TFProfRoot").get_by_text("3.66").first.wait_for()
    watched.page.get_by_text("mean over the steps in which a node ran, of 4").wait_for()


def test_a_difference_says_what_explains_it(opened):
    page = opened(place(WORKERS, "diff", f"&with={RESNET}"))
    region = page.get_by_role("region", name="A/B difference")
    region.get_by_text("Not judged", exact=True).wait_for()
    region.get_by_text("In these profiles B is 35.1 ms a step faster, mostly in loading data").wait_for()
    region.get_by_text("58.1 ms, 100 % of all parts that became faster").wait_for()
    fall = page.get_by_role("region", name="What the difference is made of")
    told = fall.locator("header .note").inner_text().replace("\u2212 ", "-").replace("+ ", "")
    *terms, total = (float(term) for term in re.findall(r"-?[\d.]+", told))
    assert len(terms) == 6, "the step of A and five parts; a sixth is the same"
    assert sum(terms) == pytest.approx(total, abs=0.5), "the rest is rounding"
    dots = page.get_by_role("region", name="Every step").get_by_role("img")
    assert re.fullmatch(
        r"A: 6 steps, mean 175\sms, sd \S+\sms; B: 6 steps, mean 140\sms, sd \S+\sms",
        dots.get_attribute("aria-label"),
    )
    grid = page.get_by_role("grid", name="Differences")
    page.get_by_role("button", name="Operators, step").click()
    page.get_by_role("button", name="Changed", exact=True).click()
    grid.get_by_text("Gone", exact=True).first.wait_for()
    assert grid.get_by_text("Unclear", exact=True).count() == 0
    assert grid.get_by_text("Same", exact=True).count() == 0
    page.get_by_role("button", name="Swap").click()
    region.get_by_text("In these profiles B is 35.1 ms a step slower").wait_for()
    page.wait(f"() => location.hash.includes('prof={RESNET}')")


COLOURS = """(scope) => Object.fromEntries([...scope.querySelectorAll('.swatch')].map((mark) => {
  const { backgroundColor, backgroundImage } = getComputedStyle(mark);
  return [mark.parentElement.textContent.trim(), `${backgroundColor} ${backgroundImage}`];
}))"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_part_of_the_step_has_one_colour_and_length_in_summary_flame_graph_and_comparison(opened, theme):
    """Nodes and times are those of tests/unit/serve/profiles/test_one_tree.py; here what is drawn of them."""
    page = opened(place(RESNET, "summary"), theme=theme)
    summary = page.get_by_role("region", name="Where the time of a step goes")
    summary.get_by_role("row", name="Forward").wait_for()
    colours = summary.locator("tbody").evaluate(COLOURS)
    assert len(set(colours.values())) == len(colours) == 8
    steps = float(re.search(r"mean ([\d.]+)\sms", summary.locator("header").inner_text()).group(1))
    forward = summary.get_by_role("row", name="Forward").locator("td").first.inner_text()
    page.open(place(RESNET, "operations"))
    page.get_by_label("Flame graph of the tree below").wait_for()
    flame = page.locator(".icicle")
    assert float(re.search(r"([\d.]+)\sms", flame.locator(".note").inner_text()).group(1)) == steps
    drawn = flame.locator("header").evaluate(COLOURS)
    assert {"Data loading", "Forward", "Backward"} <= drawn.keys()
    assert drawn == {name: colours[name] for name in drawn}
    page.open(place(RESNET, "diff", f"&with={RESNET}&steps=5-7"))  # all steps, and three of them
    fall = page.get_by_role("region", name="What the difference is made of")
    row = fall.locator("li").filter(has_text="Forward")
    row.wait_for()
    compared = fall.evaluate(COLOURS)
    assert compared.keys() >= {"Data loading", "Forward", "Backward"}
    assert compared == {name: colours[name] for name in compared}
    told = re.fullmatch(r"Forward: ([\d.]+)\sms → [\d.]+\sms", row.get_attribute("title")).group(1)
    assert float(told) == pytest.approx(float(forward.removesuffix("ms")), abs=0.05)


def test_steps_of_one_profile_are_compared_in_halves(opened):
    page = opened(place(RESNET, "diff", "&with="))
    page.get_by_text("The first half of the steps against the second").wait_for()
    region = page.get_by_role("region", name="A/B difference")
    region.get_by_text("3 steps, 5").wait_for()
    # Three steps against three can never be told apart for certain.
    region.get_by_text("Unclear", exact=True).first.wait_for()


def test_profiles_of_a_run_stand_beside_each_other(opened):
    page = opened(place("estimator/timeline-1200.json.gz", "history"))
    grid = page.get_by_role("grid", name="Times over training")
    grid.get_by_role("columnheader", name="Step 800").wait_for()
    grid.get_by_role("row").nth(1).wait_for()
    strip = page.get_by_role("region", name="Mean step of each profile").get_by_role("button")
    assert [text.split()[-1] for text in strip.all_inner_texts()] == ["400", "800", "1,200"], (
        "of others nothing"
    )
    page.get_by_role("button", name="Step 400").first.click()
    page.wait("() => location.hash.includes('timeline-400')")


@pytest.mark.parametrize("size", [(1440, 900), (700, 420)])
def test_every_row_over_time_is_reached(opened, size):
    page = opened(place("estimator/timeline-1200.json.gz", "history"))
    page.set_viewport_size({"width": size[0], "height": size[1]})
    grid = page.get_by_role("grid", name="Times over training")
    grid.get_by_role("row").nth(1).wait_for()
    count = int(grid.get_attribute("aria-rowcount"))
    assert count > 40, "more than fit on the screen"
    grid.focus()
    seen = """([grid, at]) => {
        const row = grid.querySelector(`[aria-rowindex="${at}"]`);
        if (row?.getAttribute('aria-selected') !== 'true') return false;
        const {left, top, bottom} = row.getBoundingClientRect();
        const hit = document.elementFromPoint(Math.max(left, 0) + 20, (top + bottom) / 2);
        return bottom <= innerHeight && row.contains(hit);
    }"""
    for key, at in (("End", count), ("Home", 2), ("PageDown", None), ("End", count)):
        page.keyboard.press(key)
        if at is not None:
            page.wait(seen, [grid.element_handle(), at])


def test_what_was_not_recorded_is_said(opened):
    page = opened(place("convnet/profile.context", "memory"))
    page.get_by_role("alert").get_by_text("cannot tell what used memory").wait_for()
    page.messages[:] = [line for line in page.messages if "422" not in line]
    page.open(place("estimator/timeline-1200.json.gz", "kernels"))
    page.get_by_text("operators of the host, self time").wait_for()
    page.get_by_text("Not recorded: device").wait_for()


@pytest.mark.slow
def test_axe_finds_nothing(opened, axe):
    page = opened(place(RESNET, "kernels"))
    for show, text in (
        (place(RESNET, "kernels"), "By step, 5"),
        (place(RESNET, "memory"), "97.5"),
        (place(RESNET, "operations", "&opt=min_micros:5,hide_name_regexes:x"), "Hottest path"),
        (place(WORKERS, "diff", f"&with={RESNET}"), "Operators, step"),
        (place("estimator/timeline-1200.json.gz", "history"), "Step 800"),
    ):
        page.open(show)
        page.get_by_text(text).first.wait_for()
        if "kernels" in show:
            page.get_by_role("button", name="Steps: All 6 steps").click()
        axe(page, show)
        if "memory" in show:
            for name in ("Steps", "Allocator"):
                page.get_by_role("group", name="Table").get_by_role("button", name=name).click()
                axe(page, f"memory {name}")


HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def test_hostile_names_stay_text(tmp_path, serve, watch):
    kernel = {"ph": "X", "cat": "kernel", "name": HOSTILE, "pid": 0, "tid": 7, "ts": 20, "dur": 5,
              "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    level = {"Total Allocated": 64, "Total Reserved": 128, "Device Type": 1, "Device Id": 0, "Addr": 1}
    memory = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 12,
              "s": "t", "args": {**level, "Bytes": 64}}  # fmt: skip
    operator = {"ph": "X", "cat": "cpu_op", "name": HOSTILE, "pid": 1, "tid": 1, "ts": 10, "dur": 50}
    process = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": HOSTILE}}
    (tmp_path / "log").mkdir()
    for name in ("<b>1.json.gz", "<b>2.json.gz"):
        trace = json.dumps({"schemaVersion": 1, "traceEvents": [operator, kernel, memory, process]}).encode()
        (tmp_path / "log" / name).write_bytes(gzip.compress(trace))
    page = watch(serve(tmp_path / "log", "--no-cache"))
    for show, role, name in (
        ("kernels", "grid", "Kernels"), ("memory", "grid", "Largest allocations"),
        ("operations&tree=op&opt=max_depth:10000", "treegrid", "Operations"), ("diff", "grid", "Differences"),
        ("history", "grid", "Times over training"), ("timeline&ev=0", "complementary", "Selected event"),
    ):  # fmt: skip
        page.open(f"#/profile?show={show}")
        page.get_by_role(role, name=name).get_by_text(HOSTILE).first.wait_for()
        assert page.locator("img").count() == 0
    page.get_by_role("button", name="Summary").click()
    page.get_by_role("button", name=HOSTILE).first.wait_for()
    assert page.locator("img").count() == 0


def test_a_running_run_is_asked_for_a_profile_that_then_opens(tmp_path, serve, watch):
    """From the button to the profile: the run stands in for training and captures when it is asked."""
    import time

    import stepscope as ss

    stop = threading.Event()
    log = tmp_path / "log"

    def train():
        with ss.Run(log / "live", hooks=[ss.ProfilerHook()]) as run:
            for step in run.steps(range(100_000)):
                run.scalar("train/loss", 1.0 / (step + 1))
                time.sleep(0.02)
                if stop.is_set():
                    break

    trainer = threading.Thread(target=train)
    trainer.start()
    try:
        page = watch(serve(log), "#/profile")
        page.get_by_role("button", name="Capture now").click()
        page.get_by_role("button", name="Open", exact=True).click(timeout=40_000)
        page.get_by_text("Where the time of a step goes").wait_for()
        page.wait("() => location.hash.includes('prof=live/profiles/')")
    finally:
        stop.set()
        trainer.join(timeout=30)
    assert not trainer.is_alive()
