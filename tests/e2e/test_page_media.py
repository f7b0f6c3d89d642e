"""PR curves, embeddings, meshes, sounds and films: what was recorded is shown, by pointer and by keys."""

import numpy as np
import pytest

import stepscope as ss

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><svg onload=\"document.title='taken'\">"
SQUARE = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
RED = [[255, 0, 0]] * 4
STEPS = (0, 10, 20)


def sure(step, rate, random):
    """Labels and predictions that get better."""
    labels = random.random(400) < 0.4
    return labels, np.clip(
        0.5 + rate * (labels - 0.5) * (0.2 + step / 30) + 0.2 * random.normal(size=400), 0, 1
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Two runs by Stepscope; of the second some steps are missing."""
    log_dir = tmp_path_factory.mktemp("media")
    random = np.random.default_rng(0)
    groups = np.repeat(np.eye(4, 6) * 20, 30, axis=0)
    for name, rate in (("a", 1.0), ("b", 0.3)):
        with ss.Run(log_dir / name) as run:
            for step in STEPS:
                run.pr_curve("eval/cats", *sure(step, rate, random), step, num_thresholds=101)
                if name == "a" or step != 10:
                    run.image("picture", np.full((4, 6, 3), 10 * step if name == "a" else 50, np.uint8), step)
                scale = 1 + step / 20
                run.mesh("square", np.array(SQUARE) * scale, step, colors=RED, faces=[[0, 1, 2], [0, 2, 3]])
            wave = np.stack([np.sin(np.arange(4000) / 3) * 0.5, np.zeros(4000)], 1).astype("f4")
            run.audio("voice", wave, 20, sample_rate=8000, label=HOSTILE)
            frames = np.zeros((3, 6, 8, 3), np.uint8)
            frames[1:] = 255
            run.video("film", frames, 20)
            labels = [[f"group {at // 30}", f"{at} {HOSTILE}" if at == 7 else str(at)] for at in range(120)]
            run.embedding(
                "hidden", groups + random.normal(size=(120, 6)), 20, labels=labels,
                columns=["class", HOSTILE], images=np.zeros((120, 4, 4, 1), np.uint8),
            )  # fmt: skip
    return log_dir


def test_curves_of_runs_lie_above_each_other_with_the_figures_of_a_threshold(opened, log):
    page = opened("#/media?medium=curves")
    card = page.get_by_role("region", name="eval/cats")
    page.wait("() => document.querySelector('svg[data-curves]')?.dataset.curves === '2'")
    rows = card.get_by_role("row")
    assert [row.inner_text().split()[0] for row in rows.all()] == ["Run", "a", "b"]
    page.get_by_role("slider", name="Threshold").fill("0.3")
    page.wait("() => location.hash.includes('thr=0.3')")
    with ss.open(log, cache=False) as read:
        for at, name in enumerate("ab"):
            curve = read.run(name).record("eval/cats")[-1][-1]
            figures = rows.nth(at + 1).inner_text().split()
            assert figures[2] == "0.300"
            assert [int(one) for one in figures[-4:]] == curve[:4, 30].astype(int).tolist()
            assert float(figures[3]) == pytest.approx(curve[4, 30], abs=6e-4)
    page.get_by_role("button", name="Previous step").click()
    page.wait("() => location.hash.includes('at=10')")
    page.reload()
    page.wait("() => document.querySelector('svg[data-curves]')?.dataset.curves === '2'")
    assert page.get_by_role("slider", name="Threshold").input_value() == "0.3"


def test_a_point_of_an_embedding_is_found_by_keys_alone_with_those_nearest(opened):
    page = opened("#/media?medium=embeddings")
    view = page.get_by_role("application")
    view.wait_for()
    assert "120 points of 6 dimensions" in view.get_attribute("aria-label")
    drawn = "() => Number(document.querySelector('canvas[data-drawn]')?.dataset.drawn)"
    page.wait(f"() => ({drawn})() > 0")
    before = page.evaluate(drawn)
    view.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("+")
    page.wait(f"before => ({drawn})() > before", before)
    page.get_by_role("textbox", name="Find points by their labels").fill("group 2")
    page.get_by_text("30 found").wait_for()
    page.get_by_role("listbox", name="Points found").focus()
    page.keyboard.press("ArrowDown")
    page.wait("() => location.hash.includes('point=60')")
    near = page.get_by_role("region", name="Nearest points")
    near.get_by_text("group 2").nth(19).wait_for()
    assert near.get_by_role("button", name="group").count() == 20
    near.get_by_role("button", name="Euclidean").click()
    page.wait("() => location.hash.includes('near=euclidean')")
    page.get_by_role("button", name="2-D").click()
    page.get_by_role("combobox", name="Colour by").select_option(HOSTILE)
    page.get_by_role("button", name="UMAP").click()
    page.wait("() => location.hash.includes('method=umap') || document.body.innerText.includes('umap-learn')")
    assert "taken" not in page.title()


def test_a_point_is_picked_with_the_pointer(opened):
    page = opened("#/media?medium=embeddings&flat=1&q=run:a")
    page.wait("() => Number(document.querySelector('canvas[data-drawn]')?.dataset.drawn) > 0")
    assert page.get_by_role("application").count() == 1  # nothing else was shown before it
    place = page.evaluate(
        """() => {
            const canvas = document.querySelector('canvas[data-drawn]');
            const box = canvas.getBoundingClientRect();
            const copy = document.createElement('canvas');
            Object.assign(copy, {width: canvas.width, height: canvas.height});
            const context = copy.getContext('2d', {willReadFrequently: true});
            context.drawImage(canvas, 0, 0);
            const {data, width} = context.getImageData(0, 0, canvas.width, canvas.height);
            for (let at = 0; at < data.length; at += 4) {
                const [across, down] = [(at / 4) % width, Math.floor(at / 4 / width)];
                const scale = box.width / width;
                if (data[at + 3]) return [box.left + across * scale, box.top + (down + 2) * scale];
            }
        }"""
    )
    page.mouse.click(*place)
    page.wait("() => /point=[0-9]/.test(location.hash)")
    page.get_by_role("button", name="Clear").click()
    page.wait("() => !location.hash.includes('point=')")


def test_nothing_else_is_shown_while_embeddings_are_asked_for(log, serve_long, watch):
    watched = watch(serve_long(log))
    page, held = watched.page, []
    page.route("**/embeddings?*", lambda route: held.append(route))
    with page.expect_response("**/records?*"):
        watched.open("#/media?medium=embeddings&q=run:a")
    page.get_by_text("Reading what was recorded").wait_for()
    page.wait_for_timeout(1000)  # the tags have come long since, and would be drawn
    assert page.get_by_text("Reading what was recorded").is_visible()
    assert page.locator("canvas").count() == 0
    assert held
    page.unroute("**/embeddings?*")  # lets those go on that are held
    page.get_by_role("application").wait_for()


@pytest.fixture
def growing(tmp_path, serve, watch):
    """A run that goes on, and its embedding on the page, one point of it selected."""
    run = ss.Run(tmp_path / "log" / "a", flush_secs=0.1)
    run.embedding("hidden", np.eye(4), 0, labels=list("wxyz"))
    run.flush()
    watched = watch(serve(tmp_path / "log", "--no-cache"), "#/media?medium=embeddings&point=1")
    watched.page.get_by_role("application").wait_for()
    yield run, watched
    run.close()


def test_embeddings_stay_when_the_server_gives_no_answer(growing):
    run, watched = growing
    page, asked = watched.page, []

    def refuse(route):
        asked.append(route)
        route.fulfill(body="cut of")

    page.route("**/embeddings?*", refuse)
    run.image("picture", np.zeros((4, 6, 3), np.uint8), 30)
    run.close()
    page.get_by_role("button", name="Images, audio, video").wait_for()
    page.wait_for_timeout(500)
    assert asked
    assert page.get_by_role("application").is_visible()


def test_points_and_those_nearest_stay_as_they_are_while_the_run_goes_on(growing):
    run, page = growing
    page.get_by_role("region", name="Nearest points").get_by_role("button", name="z", exact=True).wait_for()

    def asked(what):
        return sum(f"/{what}?" in request.url for request in page.requests)

    before = asked("embedding"), asked("neighbours"), asked("embeddings")
    run.image("picture", np.zeros((4, 6, 3), np.uint8), 30)
    run.flush()
    page.get_by_role("button", name="Images, audio, video").wait_for()
    page.wait_for_timeout(500)
    assert asked("embeddings") > before[2]
    assert (asked("embedding"), asked("neighbours")) == before[:2]
    run.embedding("hidden", 2 * np.eye(4), 1)  # of a later step: shown as it comes
    run.close()
    page.get_by_role("application", name="hidden:00000001").wait_for()
    assert asked("embedding") == before[0] + 1


def test_a_mesh_is_drawn_in_its_colours_and_turned(opened):
    page = opened("#/media?medium=meshes&q=run:a")
    reds = """() => {
        const canvas = document.querySelector('canvas[data-drawn]');
        if (!canvas) return 0;
        const copy = document.createElement('canvas');
        Object.assign(copy, {width: canvas.width, height: canvas.height});
        const context = copy.getContext('2d', {willReadFrequently: true});
        context.drawImage(canvas, 0, 0);
        const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
        let reds = 0;
        const red = at => data[at] > 80 && data[at + 1] === 0 && data[at + 3] > 0;
        for (let at = 0; at < data.length; at += 4) reds += red(at);
        return reds;
    }"""
    page.wait(f"() => ({reds})() > 10000")
    page.get_by_role("application", name="square of a, step 20, 4 points, 2 triangles").focus()
    seen = page.evaluate(reds)
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    page.wait(f"seen => ({reds})() < 0.6 * seen", seen)  # from its edge a square is thin
    page.get_by_role("button", name="Previous step").click()
    page.get_by_role("application", name="square of a, step 10").wait_for()


def test_a_sound_says_what_it_is_and_its_samples_are_drawn(opened):
    page = opened("#/media?q=run:a&medium=sheet")
    page.get_by_role("region", name="voice").scroll_into_view_if_needed()
    page.get_by_role("img", name="Waveform of voice, step 20, 0.50 seconds, peak 0.50").wait_for()
    words = page.get_by_role("region", name="voice").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "8,000 Hz, stereo, 16 bits, peak 0.50, WAV" in words
    assert page.get_by_role("region", name="voice").locator("canvas").get_attribute("data-drawn") == "2"
    assert HOSTILE.split(" ")[0] in words  # as text
    assert "taken" not in page.title()


def test_a_film_stands_still_until_it_is_played(opened):
    page = opened("#/media?q=run:a&medium=sheet").page
    region = page.get_by_role("region", name="film")
    region.get_by_role("img", name="film, step 20, first frame").wait_for()
    region.get_by_role("button", name="Play film, step 20").click()
    region.get_by_role("img", name="film, step 20", exact=True).wait_for()


def test_pictures_of_runs_are_compared_and_a_missing_step_is_named(opened):
    page = opened("#/media?medium=sheet&at=10")
    region = page.get_by_role("region", name="picture")
    region.get_by_text("none at step 10, nearest: step 0").wait_for()
    page.get_by_role("combobox", name="Size of pictures").select_option("x16")
    picture = region.get_by_role("img", name="picture, step 10")
    page.wait("() => [...document.images].every(image => image.complete)")
    assert picture.bounding_box()["width"] == 96
    page.get_by_role("slider", name="Brightness").fill("2")
    assert "brightness(2)" in region.locator("a").first.get_attribute("style")
    page.get_by_role("combobox", name="Compare pictures").select_option("a")
    region.get_by_role("img", name="difference from a").wait_for()


def test_what_torch_and_tensorboard_write_is_shown_too(tmp_path, serve, watch):
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path / "log" / "t"))
    random = np.random.default_rng(0)
    writer.add_pr_curve("cats", *sure(5, 1, random), 3)
    writer.add_embedding(
        random.normal(size=(20, 5)), [f"word {at}" for at in range(20)], tag="words", global_step=3
    )
    writer.add_mesh(
        "cloud",
        np.array([SQUARE], "f4"),
        colors=np.array([RED]),
        faces=np.array([[[0, 1, 2]]]),
        global_step=3,
    )
    writer.close()
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/media")
    page.get_by_role("img", name="Precision over recall of cats: t area 0.").wait_for()
    page.get_by_role("button", name="Meshes").click()
    page.get_by_role("application", name="cloud of t, step 3, 4 points, 1 triangle").wait_for()
    page.get_by_role("button", name="Embeddings").click()
    page.get_by_role("application", name="words:00003: 20 points of 5 dimensions").wait_for()
    page.get_by_role("option", name="word 0").wait_for()


@pytest.mark.slow
def test_axe_finds_nothing_in_sounds(opened, axe):
    watched = opened("#/media?medium=sheet&at=20")
    watched.locator(".sound canvas[data-drawn]").first.wait_for()
    axe(watched.page)


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Three runs of several tags with one picture a step, of which one run lacks one, and one tag of four."""
    log_dir = tmp_path_factory.mktemp("grid")
    random = np.random.default_rng(0)
    for name in "abc":
        with ss.Run(log_dir / name) as run:
            for tag in ("input", "target", "prediction", "mask"):
                if (name, tag) != ("b", "target"):
                    run.image(tag, random.random((8, 8, 3)), 0)
            run.image("samples", random.random((4, 8, 8, 3)), 0)
    return log_dir


def test_pictures_of_any_shape_have_one_height_and_every_step_is_in_the_strip(tmp_path, serve, watch):
    shapes = {"wide": (6, 60, 3), "tall": (60, 6, 3), "square": (16, 16, 3), "photo": (48, 64, 3)}
    with ss.Run(tmp_path / "log" / "a") as run:
        for step in range(0, 30, 10):
            for number in range(2):
                for name, shape in shapes.items():
                    run.image(f"{name}/{number}", np.full(shape, step, np.uint8), step)
            run.text("words", f"text of step {step}", step)
            run.audio("sound", np.zeros(800), step, sample_rate=8000)
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/media")
    page.get_by_role("region", name="words", exact=True).get_by_text("text of step 20").wait_for()
    page.wait("() => document.querySelectorAll('figure img').length === 8")
    cards = [page.get_by_role("region", name=f"{name}/{at}", exact=True) for name in shapes for at in (0, 1)]
    cards += [page.get_by_role("region", name=name, exact=True) for name in ("words", "sound")]
    boxes = [card.bounding_box() for card in cards]
    assert all(box["y"] + box["height"] <= 900 for box in boxes)  # ten tags on a screen
    for card, (wide, tall) in zip(cards[::2], ((60, 6), (6, 60), (16, 16), (64, 48)), strict=False):
        box = card.locator("img").bounding_box()
        assert box["width"] / box["height"] == pytest.approx(wide / tall, rel=0.2)
        assert box["height"] <= 152
    line = page.get_by_role("region", name="Steps of photo/0")
    assert [each.inner_text() for each in line.get_by_role("button").all()] == [
        "step 0",
        "step 10",
        "step 20",
    ]
    page.get_by_role("button", name="Steps of words").click()
    line = page.get_by_role("region", name="Steps of words")
    line.get_by_role("button", name="Step 10 of words").click()
    page.get_by_role("region", name="words", exact=True).get_by_text("text of step 10").wait_for()
    page.wait("() => /at=10/.test(location.hash) && /rec=words/.test(location.hash)")


@pytest.mark.parametrize(("width", "least"), [(1440, 2), (390, 1)])
def test_tags_lie_in_a_grid_with_each_runs_pictures_at_one_place(grid, serve, watch, width, least):
    page = watch(serve(grid, "--no-cache"))
    page.set_viewport_size({"width": width, "height": 900})
    page.open("#/media")
    # Pictures are fetched where they are seen: what lies below is scrolled to.
    region = page.get_by_role("region", name="target")
    region.scroll_into_view_if_needed()
    region.get_by_text("b: not recorded").wait_for()
    page.get_by_role("region", name="samples").scroll_into_view_if_needed()
    page.wait("() => document.querySelectorAll('section[aria-label=samples] figure img').length === 12")

    def lefts(name):
        cells = page.get_by_role("region", name=name).locator("figure, p:has-text('not recorded')")
        return [cell.bounding_box()["x"] for cell in cells.all()]

    tops = {}
    for name in ("input", "target", "prediction", "mask"):
        box = page.get_by_role("region", name=name).bounding_box()
        tops.setdefault(round(box["y"]), []).append(box)
        found = lefts(name)
        assert found == sorted(found)
        offsets = [round(x - found[0]) for x in found]
        assert offsets == [round(x - lefts("input")[0]) for x in lefts("input")]
        assert len(set(offsets)) == 3  # the runs stand beside each other, on a phone too
    assert max(map(len, tops.values())) >= least
    rows = page.locator("section[aria-label=samples] figure")
    columns = [[img.bounding_box()["x"] for img in row.locator("img").all()] for row in rows.all()]
    assert len(columns) == 3
    assert columns[0] == columns[1] == columns[2]
    assert len(set(columns[0])) == 4 if width == 1440 else len(set(columns[0])) > 1
    panel = page.get_by_role("region", name="samples", exact=True).bounding_box()
    for img in rows.locator("img").all():  # nothing is cut
        box = img.bounding_box()
        assert panel["x"] < box["x"]
        assert box["x"] + box["width"] < panel["x"] + panel["width"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
