"""The Profile page on real traces: from the advice to the line responsible, by mouse and by keyboard."""

import colorsys
import json
import re
import shutil

import pytest
from support.recordings import recorded, whole

import stepscope as ss
from stepscope.trace.schema import message


def lay(log):
    """Make a directory with one real trace, and one of eight ranks."""
    log.mkdir()
    shutil.copy(whole("traces/kineto/resnet50_v100_workers0.json.gz"), log)
    shutil.copytree(recorded("traces/dlrm_8xv100"), log / "dlrm")
    return log


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return lay(tmp_path_factory.mktemp("profile") / "log")


RESNET = "prof=resnet50_v100_workers0.json.gz"


def drawn(watched):
    watched.wait("() => Number(document.querySelector('.timeline canvas[tabindex]')?.dataset.drawn) > 0")
    watched.wait(
        "() => document.querySelector('.timeline [role=status]')?.textContent.includes('events in view')"
    )


def test_a_newcomer_finds_the_line_that_makes_it_input_bound_in_four_clicks(opened):
    page = opened()
    page.get_by_role("button", name="Open the newest").click()
    page.get_by_label("Profile", exact=True).select_option("resnet50_v100_workers0.json.gz")
    page.get_by_role("region", name="Advice").get_by_text("the step waits for data for").first.wait_for()
    page.get_by_role("button", name="enumerate(DataLoader)").first.or_(
        page.get_by_role("button", name="Step 5", exact=True)
    ).first.click()
    drawn(page)
    page.get_by_label("Find events by name").fill("DataLoader")
    panel = page.get_by_role("complementary", name="Selected event")
    panel.get_by_text("Data loading, data loading").wait_for()
    panel.get_by_text("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__").first.wait_for()
    panel.get_by_text("38.9").or_(panel.get_by_text("step 5 +")).first.wait_for()


def test_what_is_open_and_shown_is_in_the_address(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline&t=180000000-350000000&ev=5000")
    drawn(page)
    page.get_by_role("complementary", name="Selected event").get_by_text("aten::view").first.wait_for()
    page.reload()
    drawn(page)
    page.get_by_role("complementary", name="Selected event").get_by_text("aten::view").first.wait_for()
    page.get_by_role("button", name="Operations").first.click()
    page.wait("() => location.hash.includes('show=operations')")
    page.go_back()
    page.wait("() => location.hash.includes('show=timeline')")


def test_the_timeline_obeys_the_keyboard(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    page.locator(".timeline canvas[tabindex]").focus()
    page.keyboard.press("w")
    page.wait("() => /[?&]t=\\d/.test(location.hash)")
    before = window_of(page)
    page.keyboard.press("d")
    page.wait("(before) => !location.hash.includes(before)", f"t={before[0]:.15g}-{before[1]:.15g}")
    after = window_of(page)
    assert after[0] > before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0], rel=1e-6)
    page.keyboard.press(".")
    page.get_by_text("Step 8", exact=True).or_(page.get_by_text("Step 9", exact=True)).first.wait_for()
    page.keyboard.press("f")
    page.wait("() => !/[?&]t=\\d/.test(location.hash)")


COLOURS = """selector => {
  const {width, height} = document.querySelector(selector);
  const copy = Object.assign(document.createElement("canvas"), {width, height})
    .getContext("2d", {willReadFrequently: true});
  copy.drawImage(document.querySelector(selector), 0, 0);
  const pixels = new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) if (pixel >>> 24 > 250) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  return [...counts].filter(([, count]) => count > 20)
    .map(([pixel]) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255]);
}"""
LEGEND = """() => [...document.querySelectorAll(".tools .legend .swatch")]
  .map(one => getComputedStyle(one).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number))"""


def hues_of(colours):
    """The hues, 0 to 1, of colours that are no grey."""
    seen = [colorsys.rgb_to_hls(*(part / 255 for part in colour)) for colour in colours]
    return {hue for hue, light, saturation in seen if saturation > 0.45 and 0.15 < light < 0.85}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colours_of_the_timeline_are_those_of_its_legend_and_the_mini_map_shows_them(opened, theme):
    watched = opened(f"#/profile?{RESNET}&show=timeline", theme=theme)
    drawn(watched)
    watched.wait(f"() => ({COLOURS})('.map canvas').length > 2")
    legend = hues_of(watched.page.evaluate(LEGEND))
    assert len(legend) >= 3
    for canvas in (".timeline canvas", ".map canvas"):
        hues = hues_of(watched.page.evaluate(COLOURS, canvas))
        assert len(hues) >= 3, canvas
        apart = {hue: min(min(abs(hue - one), 1 - abs(hue - one)) for one in legend) for hue in hues}
        assert {hue: far for hue, far in apart.items() if far > 0.04} == {}, canvas


def window_of(page):
    text = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('t')")
    return [float(part) for part in text.split("-")]


def test_a_drag_sums_what_lies_within(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    box = page.locator(".timeline canvas[tabindex]").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 210, steps=4)
    page.mouse.up()
    panel = page.get_by_role("complementary", name="Selected range")
    panel.get_by_text("DataLoader").first.wait_for()
    page.keyboard.press("Escape")
    page.locator(".timeline canvas[tabindex]").focus()
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")


def test_a_range_and_its_sums_are_in_the_address_with_how_busy_lanes_were(opened):
    watched = opened(f"#/profile?{RESNET}&show=timeline&sel=180000000-350000000")
    panel = watched.page.get_by_role("complementary", name="Selected range")
    panel.get_by_text("enumerate(DataLoader)").first.wait_for()
    assert "%" in panel.get_by_role("row").filter(has_text="stream 7").inner_text()
    panel.get_by_role("button", name="Close").click()
    watched.wait("() => !location.hash.includes('sel=')")


def test_a_kernel_leads_to_what_launched_it_and_back_by_keyboard(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline&find=cudnn")
    drawn(page)
    panel = page.get_by_role("complementary", name="Selected event")
    page.get_by_label("Find events by name").fill("sgemm")
    panel.get_by_text("sgemm").first.wait_for()
    page.locator(".timeline canvas[tabindex]").focus()
    before = page.evaluate("location.hash")
    page.keyboard.press("n")
    page.wait("(before) => location.hash !== before", before)
    page.locator(".find").filter(has_text=" of ").wait_for()
    panel.get_by_text("Predecessors").wait_for()
    panel.get_by_role("button", name="cudaLaunchKernel").first.press("Enter")
    panel.get_by_role("heading", name="cudaLaunchKernel").wait_for()
    panel.get_by_text("Successors").wait_for()
    page.locator(".timeline canvas[tabindex]").focus()
    page.keyboard.press("]")
    page.wait("(before) => location.hash !== before", page.evaluate("location.hash"))


TYPES_AS_AN_ANSWER_COMES = """() => {
    const ask = window.fetch.bind(window);
    window.fetch = async (...wanted) => {
        const answer = await ask(...wanted);
        if (!String(wanted[0]?.url ?? wanted[0]).includes('q=cudnn')) return answer;
        const field = document.querySelector('[aria-label="Find events by name"]');
        field.value = 'sgemm';
        field.dispatchEvent(new Event('input', { bubbles: true }));
        return answer;
    };
}"""


def test_what_is_typed_as_an_answer_to_less_of_it_comes_is_found(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    page.evaluate(TYPES_AS_AN_ANSWER_COMES)
    page.get_by_label("Find events by name").fill("cudnn")
    page.get_by_role("complementary", name="Selected event").get_by_text("sgemm").first.wait_for()


ACCENT = """() => {
    const canvas = document.querySelector('.timeline canvas[tabindex]');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let found = 0;
    for (let at = 0; at < data.length; at += 4) {
        if (data[at] === 0x1a && data[at + 1] === 0x5f && data[at + 2] === 0xc8) found += 1;
    }
    return found;
}"""
"""Number of pixels in the colour of arrows, which the frame of the selected event has, too."""


def arrows_go(watched):
    """Leave the arrows out: fewer pixels have their colour then. Return how many had and have it."""
    with_arrows = watched.page.evaluate(ACCENT)
    watched.page.get_by_role("button", name="Arrows").click()
    watched.wait("() => location.hash.includes('arrows=0')")
    watched.wait(f"(most) => ({ACCENT})() < most", with_arrows)
    # Chromium would have the test read the canvas in another way.
    watched.messages[:] = [line for line in watched.messages if "willReadFrequently" not in line]
    return with_arrows, watched.page.evaluate(ACCENT)


def test_arrows_are_drawn_and_can_be_left_out(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline&find=sgemm")
    drawn(page)
    page.get_by_role("complementary", name="Selected event").get_by_text("Predecessors").wait_for()
    page.wait(f"() => ({ACCENT})() > 60")
    arrows_go(page)


def test_memory_and_tensors_of_a_session_stand_below_its_lanes(tmp_path, serve, watch):
    (tmp_path / "log").mkdir()
    shutil.copy(recorded("tf_estimator/single/timeline-400.json.gz"), tmp_path / "log")
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/profile?show=timeline")
    drawn(page)
    for name in ("Allocator", "Tensors", "mklcpu"):
        page.get_by_text(name, exact=True).first.wait_for()
    page.get_by_label("Find events by name").fill("ConcatV2")
    panel = page.get_by_role("complementary", name="Selected event")
    panel.get_by_text("outputs", exact=True).wait_for()
    panel.get_by_text("int32[2]").wait_for()


def draw_as_tensorflow(folder, step):
    """Write the timeline that lies beside RunMetadata: without arrows, so none can come from it."""
    op = {"ph": "X", "cat": "Op", "name": "Const", "pid": 1, "tid": 0, "ts": 10**9, "dur": 400}
    drawing = {"traceEvents": [{**op, "args": {"name": "make", "op": "Const"}}]}
    (folder / f"timeline-{step}.json").write_text(json.dumps(drawing))


def test_arrows_lead_from_who_made_a_tensor_of_a_session_to_who_used_it(tmp_path, serve, watch):
    """Of RunMetadata that TensorFlow wrote, laid down as the hook of sessions does."""
    with ss.Run(tmp_path / "log" / "run") as run:
        run.scalar("loss", 1.0, 0)
    folder = tmp_path / "log" / "run" / "profiles" / "step00000001" / "chief_rank0_step00000001.tfprof"
    folder.mkdir(parents=True)
    shutil.copy(recorded("tfprof/convnet/run_metadata_step1.pb"), folder / "run_meta_1")
    draw_as_tensorflow(folder, 1)
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/profile?show=timeline&find=_MklNativeFusedMatMul")
    drawn(page)
    panel = page.get_by_role("complementary", name="Selected event")
    made = panel.locator("section", has=page.get_by_role("heading", name="Predecessors"))
    made.get_by_text("arrow").wait_for()
    made.get_by_role("button", name="ReadVariableOp").wait_for()
    page.wait(f"() => ({ACCENT})() > 100")
    with_arrows, without = arrows_go(page)
    assert with_arrows - without > 60
    made.get_by_role("button", name="ReadVariableOp").click()
    used = panel.locator("section", has=page.get_by_role("heading", name="Successors"))
    used.get_by_role("button", name="_MklNativeFusedMatMul").wait_for()


def capture_of_session(run, steps):
    """Leave what a session's capture leaves: RunMetadata of steps of 1 ms, one every second."""
    with ss.Run(run) as opened:
        opened.scalar("loss", 1.0, 0)
    folder = run / "profiles" / f"step{steps[0]:08d}" / f"chief_rank0_step{steps[0]:08d}.tfprof"
    folder.mkdir(parents=True)
    for at, step in enumerate(steps):
        metadata = message("RunMetadata")()
        stats = metadata.step_stats.dev_stats.add()
        stats.device = b"/job:localhost/replica:0/task:0/device:CPU:0"
        for node_name, label, start in (("make", "make = Const()", 0), ("beside", "beside = Const()", 10),
                                        ("use", "use = Add(beside, make)", 500)):  # fmt: skip
            node = stats.node_stats.add()
            node.node_name, node.timeline_label = node_name.encode(), label.encode()
            node.all_start_micros = 1_700_000_000_000_000 + at * 10**6 + start
            node.all_end_rel_micros = 400
            used = node.memory.add()
            used.allocator_name = b"cpu"
            for after, size in ((1, 4096), (390, -4096)):
                record = used.allocation_records.add()
                record.alloc_micros, record.alloc_bytes = node.all_start_micros + after, size
        (folder / f"run_meta_{step}").write_bytes(metadata.SerializeToString())
        draw_as_tensorflow(folder, step)


def test_a_capture_of_a_session_opens_at_a_step_and_with_tensors(tmp_path, serve, watch):
    """Of the run in the address, which is a symbolic link, though another has a newer capture."""
    log = tmp_path / "log"
    log.mkdir()
    capture_of_session(tmp_path / "elsewhere", [6, 7, 8])
    (log / "a").symlink_to(tmp_path / "elsewhere")
    capture_of_session(log / "b", [20])
    with ss.Run(log / "c") as run:
        run.scalar("loss", 1.0, 0)
    page = watch(serve(log, "--no-cache"), "#/profile?run=a&show=timeline")
    drawn(page)
    assert page.get_by_label("Profile", exact=True).input_value() == "a/profiles/step00000006"
    for name in ("Allocator", "Tensors"):
        page.get_by_text(name, exact=True).first.wait_for()
    page.wait("() => location.hash.includes('t=')")
    first, last = (
        int(each) for each in page.evaluate("location.hash").split("t=")[1].split("&")[0].split("-")
    )
    assert first > 1_990_000_000, "the last of three steps, a second apart"
    assert last - first < 2_000_000
    page.open("#/profile?run=c")
    page.get_by_text("No profile of c yet").wait_for()
    page.get_by_role("button", name="Show the newest of the other runs").click()
    page.get_by_label("Profile", exact=True).wait_for()


def test_a_click_selects_and_colours_are_those_of_the_legend(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    box = page.locator(".timeline canvas[tabindex]").bounding_box()
    # Row 1 of the thread that trains begins with data loading.
    group = page.locator(".labels > .group", has_text="host").first.bounding_box()
    x, y = 20, group["y"] - box["y"] + 20 + 3 + 17 + 8
    script = """([x, y]) => {
        const canvas = document.querySelector('.timeline canvas[tabindex]');
        const density = canvas.width / canvas.clientWidth;
        const context = canvas.getContext('2d');
        return [...context.getImageData(Math.round(x * density), Math.round((y + 6) * density), 1, 1).data];
    }"""
    red, green, blue, alpha = page.evaluate(script, [x, y])
    assert alpha == 255
    assert red > 150 > green > blue  # #ee5410, mixed with up to 16 % of black
    page.mouse.click(box["x"] + x, box["y"] + y)
    page.get_by_role("complementary", name="Selected event").get_by_text(
        "Data loading, data loading"
    ).wait_for()


def test_operations_show_tfprofs_views_with_its_options(opened):
    page = opened(f"#/profile?{RESNET}&show=operations&tree=op")
    grid = page.get_by_role("treegrid", name="Operations")
    grid.get_by_text("Data loading", exact=True).first.wait_for()
    told = page.locator(".operations .tools").inner_text()
    assert re.search(r"Step \S+\s\S+ = (data loading|backward) \S+\s\S+ \+ ", told), told
    page.get_by_role("button", name="Advanced").click()
    grid.get_by_text("aten::cudnn_convolution_backward_weight").first.wait_for()
    rows = int(grid.get_attribute("aria-rowcount"))
    page.get_by_label("min_micros").fill("5000")
    page.get_by_label("min_micros").press("Enter")
    page.wait(
        "(rows) => Number(document.querySelector('[role=treegrid]').getAttribute('aria-rowcount')) < rows",
        rows,
    )
    page.wait("() => location.hash.includes('opt=min_micros:5000')")
    before = grid.locator("[aria-level='1']").first.inner_text()
    page.get_by_role("button", name="Scope", exact=True).click()
    page.wait(
        """(before) => {
            const first = document.querySelector("[role=treegrid] [aria-level='1']");
            return first && first.innerText !== before;
        }""",
        before,
    )
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.wait("() => document.querySelector('[role=treegrid] [aria-selected=true]') !== null")


def test_an_impossible_option_is_said_with_what_to_do(opened):
    watched = opened(f"#/profile?{RESNET}&show=operations&opt=show_name_regexes:(")
    watched.page.get_by_role("alert").get_by_text("not a regular expression").wait_for()
    watched.messages[:] = [line for line in watched.messages if "400" not in line]  # the browser's own line


def test_devices_come_first_and_lanes_are_pinned_hidden_folded_and_their_labels_widened(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    assert page.locator(".labels > .group .strong").all_inner_texts() == ["GPU 0", "python"]
    first = page.locator(".labels > .lane .cut").first
    assert first.inner_text() == "stream 7"
    page.get_by_role("button", name="Hide stream 7").dispatch_event("click")
    page.get_by_role("button", name="Show 1 hidden lane").click()
    page.locator(".labels > .lane .cut", has_text="stream 7").wait_for()
    thread = page.locator(".labels > .lane .cut", has_text="thread").first.inner_text()
    page.get_by_role("button", name=f"Pin {thread}").dispatch_event("click")
    page.locator(".labels > .group", has_text="Pinned").wait_for()
    assert first.inner_text() == thread
    page.get_by_role("button", name=f"Pin {thread}").dispatch_event("click")
    page.locator(".labels > .group", has_text="Pinned").wait_for(state="detached")
    page.get_by_role("button", name="GPU 0").click()
    page.locator(".labels > .group", has_text="1 lane folded").wait_for()
    assert first.inner_text() == thread
    handle = page.get_by_role("separator", name="Width of the labels")
    handle.focus()
    page.keyboard.press("ArrowRight")
    assert handle.get_attribute("aria-valuenow") == "208"
    assert page.locator(".labels").evaluate("one => one.getBoundingClientRect().width") == 208


def test_lanes_stay_as_they_were_arranged_over_a_reload_and_are_moved(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    threads = page.locator(".labels > .lane")
    names = page.locator(".labels > .lane .cut")
    stream, first, second = names.all_inner_texts()
    threads.nth(2).focus()
    page.keyboard.press("Alt+ArrowUp")
    page.wait("() => location.hash.includes('lm=')")
    assert names.all_inner_texts() == [stream, second, first]
    upper, lower = threads.nth(1).bounding_box(), threads.nth(2).bounding_box()
    page.mouse.move(upper["x"] + 30, upper["y"] + 8)
    page.mouse.down()
    page.mouse.move(upper["x"] + 30, upper["y"] + 40)
    page.mouse.move(lower["x"] + 30, lower["y"] + lower["height"] - 2)
    page.locator(".landing").wait_for()
    page.mouse.up()
    page.wait(
        "names => [...document.querySelectorAll('.labels > .lane .cut')]"
        ".every((one, at) => one.innerText === names[at])",
        [stream, first, second],
    )
    assert threads.nth(2).get_attribute("aria-expanded") == "true"  # a move is not a click
    page.get_by_role("button", name=f"Pin {second}").dispatch_event("click")
    page.locator(".labels > .group", has_text="Pinned").wait_for()
    page.get_by_role("button", name="Hide stream 7").dispatch_event("click")
    threads.nth(0).click()
    page.get_by_role("button", name="Show 1 hidden lane").wait_for()
    page.wait("() => ['lp=', 'lh=', 'lc='].every(part => location.hash.includes(part))")
    page.reload()
    drawn(page)
    page.get_by_role("button", name="Show 1 hidden lane").wait_for()
    assert names.all_inner_texts() == [second, first]
    assert threads.nth(0).get_attribute("aria-expanded") == "false"


def test_how_far_the_reading_of_a_profile_is_is_shown(opened):
    page = opened("")
    held = []
    answers = [
        {"state": "waiting", "read_bytes": 0, "total_bytes": 4 << 20},
        {"state": "reading", "read_bytes": 1 << 20, "total_bytes": 4 << 20},
    ]
    page.route("**/api/v1/outline?*", lambda route: held.append(route))
    page.route("**/api/v1/profile/reading?*", lambda route: route.fulfill(json=answers[0]))
    page.open(f"#/profile?{RESNET}&show=timeline")
    page.get_by_text("4.00 MiB; another profile is being read first").wait_for()
    answers.pop(0)
    page.get_by_text("25 % of 4.00 MiB").wait_for()
    assert page.get_by_role("progressbar", name="Reading").evaluate("one => one.value") == 0.25
    page.unroute("**/api/v1/outline?*")
    held[0].continue_()
    drawn(page)


def test_idle_gaps_of_a_device_say_their_reason_inside_the_box(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    page.wait("() => Number(document.querySelector('.timeline canvas[tabindex]').dataset.gaps) > 10")
    hover_longest(page, page, "gaps", RESNET.partition("=")[2], "gap => gap.duration_ns")
    tip = page.locator(".paper .tip")
    tip.get_by_text("Idle ").wait_for()
    tip.get_by_text("No stream of the device was busy").wait_for()
    inside = tip.evaluate("""tip => {
        const [a, b] = [tip.getBoundingClientRect(), tip.parentElement.getBoundingClientRect()];
        return a.left >= b.left && a.right <= b.right + 1 && a.bottom <= b.bottom + 1;
    }""")
    assert inside


def test_waits_of_a_rank_name_the_rank_that_is_waited_for(opened):
    page = opened("#/profile?prof=dlrm&show=timeline")
    drawn(page)
    page.wait("() => Number(document.querySelector('.timeline canvas[tabindex]').dataset.waits) > 30")
    hover_longest(page, page, "waits", "dlrm", "wait => wait.rank ? 0 : wait.end_ns - wait.start_ns")
    page.locator(".paper .tip").get_by_text("for rank 7").wait_for()


def hover_longest(watched, page, kind, path, weight):
    """Point at the middle of the longest wait or gap of the first rank, in a window around it."""
    [start, end] = page.evaluate(
        f"""async () => {{
            const answer = await (await fetch('api/v1/profile/{kind}?path={path}')).json();
            const weight = {weight};
            const one = answer.{kind}.sort((a, b) => weight(b) - weight(a))[0];
            return [one.start_ns, one.end_ns ?? one.start_ns + one.duration_ns];
        }}"""
    )
    page.evaluate(f"location.hash += '&t={start}-{end}'")
    watched.wait("() => document.querySelector('.timeline canvas[tabindex]').dataset.drawn > 1")
    lane = page.locator(".labels > .lane", has_text="stream 84" if kind == "waits" else "stream 7").first
    box, paper = lane.bounding_box(), page.locator(".timeline canvas[tabindex]").bounding_box()
    tip = page.locator(".paper .tip")
    for attempt in range(200):
        # Until the answer for this window is drawn there is no tip of it to be seen.
        page.mouse.move(paper["x"] + paper["width"] / 2 + attempt % 2, box["y"] + 9)
        if tip.count() and any(word in tip.inner_text() for word in ("Idle ", "Waits ")):
            return
        page.wait_for_timeout(100)
    raise AssertionError("no wait is drawn where the longest one is")


def test_ranks_of_one_capture_open_as_one(opened):
    watched = opened("#/profile?prof=dlrm&show=timeline")
    drawn(watched)
    watched.page.get_by_text("Rank 0, python3").wait_for()
    assert watched.page.get_by_label("Profile", exact=True).input_value() == "dlrm"
    watched.page.get_by_text("8 ranks").first.wait_for(state="attached")


@pytest.mark.slow
def test_axe_finds_nothing_in_operations_by_code(opened, axe):
    page = opened(f"#/profile?{RESNET}&show=operations&tree=code")
    page.get_by_text("Hottest path").first.wait_for(state="attached")
    axe(page)


def test_a_directory_without_profiles_says_how_to_record_one(tmp_path, serve, watch):
    (tmp_path / "log").mkdir()
    page = watch(serve(tmp_path / "log"), "#/profile")
    page.get_by_text("No profile yet").wait_for()
    page.get_by_text("ProfilerHook").wait_for()


def test_a_damaged_profile_is_said_and_the_others_open(tmp_path, serve, watch):
    traces = lay(tmp_path / "log")
    (traces / "damaged.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "na')
    page = watch(serve(traces, "--no-cache"), "#/profile?prof=damaged.json")
    page.get_by_role("alert").or_(page.get_by_text("Recorded")).first.wait_for()
    page.get_by_label("Profile", exact=True).select_option("resnet50_v100_workers0.json.gz")
    page.get_by_text("Where the time of a step goes").wait_for()
    page.messages[:] = [line for line in page.messages if "422" not in line]


def test_keys_steer_the_timeline_before_anything_of_it_has_the_focus(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("w")
    page.wait("() => /[?&]t=\\d/.test(location.hash)")
    page.keyboard.press("s")
    page.wait("() => !/[?&]t=\\d/.test(location.hash)")
    assert "solo=" not in page.evaluate("location.hash")
    page.keyboard.press("/")
    page.wait("() => document.activeElement?.ariaLabel === 'Find events by name'")
    page.keyboard.type("cudnn_convolution")
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Selected event").wait_for()
    page.keyboard.press("Escape")
    page.wait("() => !location.hash.includes('find=')")
    page.get_by_role("button", name="Timeline", exact=True).focus()
    page.open(f"#/profile?{RESNET}&show=timeline&ev=5000")
    page.get_by_role("complementary", name="Selected event").wait_for()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("m")
    page.get_by_role("complementary", name="Selected range").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search commands").fill("wasd")
    assert page.get_by_role("combobox", name="Search commands").input_value() == "wasd"


def test_the_words_at_the_pointer_stay_within_the_timeline(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    canvas = page.locator(".timeline canvas[tabindex]").bounding_box()
    inside = """() => { const tip = document.querySelector('.timeline .tip')?.getBoundingClientRect();
      const box = document.querySelector('.timeline canvas[tabindex]').getBoundingClientRect();
      return tip && tip.left >= box.left - 1 && tip.right <= box.right + 1 && tip.top >= box.top - 1
        && tip.bottom <= box.bottom + 1; }"""
    seen = 0
    for across in (2, canvas["width"] / 2, canvas["width"] - 2):
        for down in range(30, int(canvas["height"]), 40):
            page.mouse.move(canvas["x"] + across, canvas["y"] + down)
            if page.locator(".timeline .tip").count():
                assert page.evaluate(inside)
                seen += 1
    assert seen > 3


def test_spans_of_the_host_have_the_colours_of_their_categories(opened):
    page = opened(f"#/profile?{RESNET}&show=timeline")
    drawn(page)
    group = page.locator(".labels > .group", has_text="host").first.bounding_box()
    canvas = page.locator(".timeline canvas[tabindex]").bounding_box()
    count = """top => {
        const canvas = document.querySelector('.timeline canvas[tabindex]');
        const { width, height } = canvas;
        const data = canvas.getContext('2d').getImageData(0, top, width, height - top).data;
        const found = new Map();
        for (let at = 0; at < data.length; at += 4) {
            const [low, , high] = [data[at], data[at + 1], data[at + 2]].sort((a, b) => a - b);
            const key = [data[at] >> 5, data[at + 1] >> 5, data[at + 2] >> 5].join();
            if (high - low > 60) found.set(key, (found.get(key) ?? 0) + 1);
        }
        return [...found.values()].filter(pixels => pixels > 200).length;
    }"""
    assert page.evaluate(count, int(group["y"] - canvas["y"])) >= 3


def test_on_a_phone_advice_follows_where_the_time_goes(opened):
    page = opened(f"#/profile?{RESNET}")
    page.set_viewport_size({"width": 390, "height": 844})
    tops = {}
    for name in ("Where the time of a step goes", "Advice", "What was recorded", "Operators on the host"):
        region = page.get_by_role("region", name=name)
        region.wait_for()
        tops[name] = region.bounding_box()["y"]
    assert list(tops.values()) == sorted(tops.values())
    buttons = page.get_by_role("button", name="Open in Perfetto").bounding_box()
    chosen = page.locator(".sub-bar .which").bounding_box()
    assert abs(buttons["y"] + buttons["height"] / 2 - chosen["y"] - chosen["height"] / 2) < 4
    page.set_viewport_size({"width": 1440, "height": 900})
    advice = page.get_by_role("region", name="Advice")
    page.wait("() => document.querySelector('.right').getBoundingClientRect().left > 700")
    parts = page.get_by_role("region", name="Where the time of a step goes")
    assert abs(advice.bounding_box()["y"] - parts.bounding_box()["y"]) < 2
