"""Every chart becomes a file that looks like it, and carries nothing of a log but text."""

import re
import struct

import numpy as np
import pytest
from support.records import write_series

import stepscope as ss

HOSTILE = '</title><script>window.hacked=1</script>"onload="x'
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chart_is_saved_as_it_looks(sweep, watch, files, theme):
    page = watch(sweep, "#/scalars", theme=theme)
    page.ready()
    card = page.locator("article[aria-label='train/learning_rate']")
    card.hover()
    file = files.save(page, card, "train/learning_rate", "SVG, as it looks")
    assert file.suggested_filename == "train-learning_rate.svg"
    found = files.drawing(file.path().read_text())
    texts = [element.text for element in found if element.tag == SVG + "text"]
    assert "train/learning_rate" in texts
    assert {"a", "c"} <= set(texts), "the legend"
    assert any(text and "points drawn" in text for text in texts), "the reduction is stated"
    strokes = {element.get("stroke") for element in found}
    assert {line["colour"] for line in page.charts()["train/learning_rate"]["lines"]} <= strokes
    assert not [element for element in found if element.tag == SVG + "image"], "lines, not pixels"
    background = found[2].get("fill") if found[2].tag == SVG + "path" else None
    assert background == ("#14171c" if theme == "dark" else "#fff")
    card.hover()
    picture = files.save(page, card, "train/learning_rate", "PNG, twice the size").path().read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert (width, height) == (
        2 * round(float(found[0].get("width"))),
        2 * round(float(found[0].get("height"))),
    )


def test_hostile_names_stay_text(tmp_path, written, serve, watch, files):
    written(tmp_path / "runs" / "a", {HOSTILE: [1.0, 2.0, 3.0]}, config={"x": HOSTILE})
    written(tmp_path / "runs" / "b", {HOSTILE: [2.0, 2.0, 3.0]}, config={"x": "y"})
    page = watch(serve(tmp_path / "runs"), "#/scalars?group=x")
    page.ready()
    card = page.locator("article").first
    card.hover()
    card.get_by_role("button", name="Save ").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG, as it looks").click()
    text = download.value.path().read_text()
    files.drawing(text)
    assert "/" not in download.value.suggested_filename
    assert "<script" not in text
    address = page.evaluate("text => URL.createObjectURL(new Blob([text], {type: 'image/svg+xml'}))", text)
    other = page.context.new_page()
    other.set_content("<p>")
    assert address.startswith("blob:")
    other.set_content(text)
    assert other.evaluate("window.hacked") is None
    other.close()


def test_step_time_has_a_file_too(tmp_path, written, serve, watch, files):
    """What recording took over all steps is no part of the newest."""
    values = {
        "speed/step_time_ms": [100.0] * 50,
        "speed/data_wait_ms": [30.0] * 50,
        "train/loss": [1.0] * 50,
        "stepscope/overhead_us_per_step": [500.0] * 50,
        "stepscope/overhead_ratio": [0.005] * 50,
    }
    written(tmp_path / "runs" / "a", values)
    page = watch(serve(tmp_path / "runs"), "#/overview")
    page.ready()
    panel = page.locator("section[aria-label='Step time']")
    # Its bars are boxes of the page, which an SVG of shapes does not hold.
    assert files.colours(page, files.save(page, panel, "Step time", "PNG, twice the size")) > 3
    assert page.get_by_role("button", name="SVG, as it looks").count() == 0
    rows = files.table(files.save(page, panel, "Step time", "CSV, these figures"))
    assert rows[0].keys() == {"part", "seconds", "share"}
    shares = {row["part"]: float(row["share"]) for row in rows}
    assert shares == pytest.approx({"Waiting for data": 0.3, "Everything else": 0.7})


SEEN = {
    "scalars": ("scalars?q=run:a", "Recorded values"),
    "overview": ("overview", "Training"),
    "text": ("text", "Config"),
}


@pytest.mark.parametrize("name", list(SEEN))
def test_a_view_is_one_file_that_needs_no_server(sweep, watch, chromium, tmp_path, name):
    hash_, text = SEEN[name]
    page = watch(sweep, f"#/{hash_}")
    if name != "text":  # where no chart is
        page.ready()
    page.get_by_text(text).first.wait_for()
    drawn = page.evaluate("[...document.querySelectorAll('canvas')].filter(one => one.offsetWidth).length")
    page.get_by_role("button", name="Saved views").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as one file").click()
    assert download.value.suggested_filename.endswith(f"-{hash_.partition('?')[0]}.html")
    path = tmp_path / "seen.html"
    download.value.save_as(path)
    assert "<script" not in path.read_text()
    context = chromium.new_context(offline=True)
    seen = context.new_page()
    asked, said = [], []
    seen.on("request", lambda request: asked.append(request.url))
    seen.on("console", lambda message: said.append(message.text))
    seen.goto(path.as_uri())
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert said == []
    assert seen.get_by_text(text).first.is_visible()
    assert seen.get_by_text("Nothing in this file is live").is_visible()
    assert seen.get_by_role("button", name="Save as one file").count() == 0
    assert seen.evaluate("getComputedStyle(document.body).backgroundColor") == page.evaluate(
        "getComputedStyle(document.body).backgroundColor"
    )
    shown = "one => one.offsetWidth && one.naturalWidth > 1 && one.src.startsWith('data:')"
    assert seen.evaluate(f"[...document.images].filter({shown}).length") >= drawn
    # What is drawn is drawn: the pictures have more than one colour.
    if drawn:
        colours = seen.evaluate("""() => {
            const image = [...document.images].find(one => one.offsetWidth > 100);
            const canvas = document.createElement('canvas');
            [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
            const context = canvas.getContext('2d');
            context.drawImage(image, 0, 0);
            const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }""")
        assert colours > 3
    context.close()


@pytest.fixture
def saved(chromium, tmp_path):
    """A function that saves what is seen as one file, and opens that without a server."""
    contexts = []

    def save(page):
        page.get_by_role("button", name="Saved views").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as one file").click()
        download.value.save_as(tmp_path / "seen.html")
        contexts.append(chromium.new_context(offline=True, viewport={"width": 1440, "height": 900}))
        seen = contexts[-1].new_page()
        seen.goto((tmp_path / "seen.html").as_uri())
        return seen

    yield save
    for context in contexts:
        context.close()


def test_a_saved_view_holds_the_rows_that_were_not_on_the_screen(tmp_path, written, serve, watch, saved):
    for run in range(150):
        written(tmp_path / "runs" / f"run{run:03d}", {"train/loss": [1.0, 2.0]})
    page = watch(serve(tmp_path / "runs"), "#/overview")
    page.ready()
    names = page.get_by_role("row").filter(has_text="run0")
    names.first.wait_for()
    assert names.count() < 60
    seen = saved(page)
    page.wait("() => document.querySelectorAll('[role=row], tr').length < 100")
    assert len(set(re.findall(r"run\d{3}", seen.locator("main").inner_text()))) == 150


def test_a_saved_view_has_its_sound(tmp_path, serve, watch, saved):
    with ss.Run(tmp_path / "runs" / "a") as run:
        run.audio("beep", np.sin(np.arange(800) / 5), 0, sample_rate=8000)
    page = watch(serve(tmp_path / "runs"), "#/media?q=run:a")
    page.locator("audio").first.wait_for()
    seen = saved(page)
    seconds = "() => new Promise(done => { const one = document.querySelector('audio');"
    seconds += " one.onloadedmetadata = () => done(one.duration); one.preload = 'auto'; one.load(); })"
    assert seen.evaluate(seconds) == pytest.approx(0.1)


def test_a_saved_view_runs_nothing_that_a_log_says(tmp_path, written, serve, watch, saved):
    written(tmp_path / "runs" / "a", {HOSTILE: [1.0, 2.0, 3.0]}, config={"x": HOSTILE})
    page = watch(serve(tmp_path / "runs"), "#/overview")
    page.ready()
    seen = saved(page)
    assert seen.evaluate("window.hacked") is None
    assert HOSTILE in seen.evaluate("document.body.innerText")


def test_a_saved_view_holds_the_charts_that_were_not_on_the_screen(tmp_path, serve, watch, saved):
    series = {f"part{part}/layer{at:02d}": range(at, at + 20) for part in range(3) for at in range(40)}
    write_series(tmp_path / "runs" / "one", series)
    page = watch(serve(tmp_path / "runs"), "#/scalars?sm=0")
    page.ready()
    assert len(page.charts()) < 60
    seen = saved(page)
    page.wait("() => window.__stepscope_test.charts().length < 60")
    cards = seen.get_by_role("article")
    assert cards.count() == len(series)
    drawn = """cards => cards.map(card => [...card.querySelectorAll('img')].some(image => {
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0);
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size > 3;
    }))"""
    assert seen.evaluate("Promise.all([...document.images].map(image => image.decode()))") is not None
    assert all(cards.evaluate_all(drawn))
    assert cards.last.locator(".value").inner_text() == "58"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_a_saved_view_has_its_film(tmp_path, serve, watch, saved, motion):
    frames = np.zeros((3, 8, 8, 3), np.uint8)
    frames[1, ..., 0], frames[2, ..., 2] = 255, 255
    with ss.Run(tmp_path / "runs" / "a") as run:
        run.video("film", frames, 0, fps=20)
    watched = watch(serve(tmp_path / "runs"))
    watched.page.emulate_media(reduced_motion=motion)
    page = watched.open("#/media?q=run:a")
    page.get_by_role("button", name="Stop" if motion == "no-preference" else "Play").wait_for()
    watched.wait("() => document.querySelector('.film canvas')?.dataset.drawn === '1'")
    seen = saved(page)
    film = seen.get_by_role("img", name="film, step 0", exact=True)
    if motion == "reduce":
        assert not film.is_visible(), "it stands still until somebody plays it"
        seen.get_by_text("Play", exact=True).click()
    assert film.is_visible()
    shots = set()
    for _ in range(20):  # a canvas would only get the first frame
        shots.add(film.screenshot())
        seen.wait_for_timeout(20)
    assert len(shots) >= 2, "it moves"
    assert film.evaluate("one => one.src.startsWith('data:image/gif')")
