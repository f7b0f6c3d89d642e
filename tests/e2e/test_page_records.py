"""Distributions, Media, Text & config: what was recorded is what is shown, at the step asked for."""

import numpy as np
import pytest

import stepscope as ss

SCRIPT = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Two runs: tensors of which one widens at the end, pictures, a sound, texts and a table."""
    log_dir = tmp_path_factory.mktemp("records")
    noise = np.random.default_rng(1)
    for name, rate in (("a", 0.001), ("b", 0.01)):
        with ss.Run(log_dir / name, config={"lr": rate, "layers": 2}) as run:
            for step in run.steps(range(20)):
                wide = 50.0 if step > 16 else 1.0
                run.histogram("gradients/calm/histogram", noise.normal(size=500), buckets="fixed")
                run.histogram("gradients/wild/histogram", wide * noise.normal(size=500), buckets="fixed")
                if step % 5 == 0:
                    run.image("samples", np.full((4, 4, 3), step * 10, np.uint8))
                    run.audio("voice", np.zeros(800, np.float32), sample_rate=8000)
                    run.text("notes", f"**Step {step}** {SCRIPT} [x](javascript:alert(1))")
                    run.table("predictions", columns=["truth", "p"], rows=[["cat", step / 10]])
    return log_dir


def test_the_tensor_that_widened_comes_first_and_is_looked_at(opened):
    page = opened("#/distributions?q=run:a")
    cards = page.get_by_role("region", name="gradients", exact=True).locator("button.card")
    page.get_by_role("region", name="gradients/wild/histogram").wait_for()
    page.wait(
        "() => document.querySelector('section[aria-label=gradients] .card')?.innerText.startsWith('wild')"
    )
    assert float(cards.first.inner_text().split()[2]) > 5
    cards.nth(1).click()
    page.get_by_role("region", name="gradients/calm/histogram").wait_for()
    page.wait("() => location.hash.includes('rec=gradients/calm/histogram')")
    heat = page.locator("section.focus canvas")
    page.wait("() => document.querySelector('section.focus canvas')?.dataset.drawn === '20'")
    drawn = heat.evaluate(
        """canvas => {
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const wide = canvas.width;
            return [...Array(wide).keys()].filter(x =>
                [...Array(canvas.height).keys()].some(y => data[4 * (y * wide + x) + 3] > 0)).length / wide;
        }"""
    )
    assert drawn == 1.0, "a column for each step, to the last one"


@pytest.fixture(scope="module")
def sigmoids(tmp_path_factory):
    """A layer of sigmoids that is saturated, and the same with batch norm; a third run has another layer."""
    log_dir = tmp_path_factory.mktemp("sigmoids")
    for name, scale in (("plain", 25.0), ("batch_norm", 1.0), ("other", 1.0)):
        tag = "hidden_1/activation" if name == "other" else "hidden_0/activation"
        with ss.Run(log_dir / name) as run:
            for step in run.steps(range(12)):
                before = scale * np.random.default_rng(step).normal(size=2000)
                run.histogram(tag, 1 / (1 + np.exp(-before)), buckets="fixed")
    return log_dir


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_two_runs_of_sigmoids_stand_on_one_linear_axis(sigmoids, serve_long, watch, scheme):
    """Saturated values lie at both ends of it: on an axis of magnitudes half of them were not to be seen."""
    page = watch(serve_long(sigmoids), "#/distributions?run=plain", theme=scheme)
    page.get_by_label("Compare with").select_option("batch_norm")
    both = [
        page.get_by_role("region", name=f"hidden_0/activation of {name}") for name in ("plain", "batch_norm")
    ]
    ticks = []
    for one in both:
        one.wait_for()
        one.locator("header").get_by_text("value, 12 histograms").wait_for()
        one.locator("canvas").first.wait_for()
        ticks.append(one.locator("figure").first.inner_text())
    assert ticks[0].split() == ticks[1].split(), "one axis"
    assert {"0", "1"} <= set(ticks[0].split())
    page.get_by_label("Compare with").select_option("other")
    page.get_by_text("other has no histogram hidden_0/activation").wait_for()


def test_pictures_are_those_of_the_step_and_sounds_can_be_played(opened):
    page = opened("#/media?q=run:a")
    page.get_by_role("img", name="samples, step 15, 1 of 1").wait_for()
    line = page.get_by_role("region", name="Steps of samples")
    assert line.get_by_role("button", pressed=True).inner_text() == "step 15"
    page.wait("() => [...document.images].every(image => image.complete && image.naturalWidth === 4)")
    line.get_by_role("button", name="Step 10 of samples").click()
    page.get_by_role("img", name="samples, step 10, 1 of 1").wait_for()
    page.wait("() => location.hash.includes('at=10')")
    pixel = page.evaluate(
        """async () => {
            const image = document.querySelector('img[alt="samples, step 10, 1 of 1"]');
            await image.decode();
            const canvas = Object.assign(document.createElement('canvas'), {width: 4, height: 4});
            const context = canvas.getContext('2d');
            context.drawImage(image, 0, 0);
            return [...context.getImageData(1, 1, 1, 1).data];
        }"""
    )
    assert pixel == [100, 100, 100, 255]
    sound = page.locator("audio")
    page.get_by_role("region", name="voice").scroll_into_view_if_needed()
    assert sound.evaluate(
        "async audio => { audio.preload = 'auto'; audio.load();"
        " await new Promise((done, failed) => { audio.onloadedmetadata = done; audio.onerror = failed; });"
        " return audio.duration; }"
    ) == pytest.approx(0.1, abs=0.01)


def test_two_runs_stand_beside_each_other(opened):
    page = opened("#/media").page
    page.get_by_role("img", name="samples").nth(1).wait_for()
    assert page.get_by_role("region", name="samples").locator("figcaption").all_inner_texts() == ["a", "b"]


def test_texts_are_shown_as_text_and_do_nothing(opened):
    page = opened("#/text")
    notes = page.get_by_role("region", name="notes")
    notes.get_by_text("Step 15", exact=True).first.wait_for()
    assert SCRIPT.split(">")[0] in notes.inner_text()
    assert notes.locator("img, script, a").count() == 0
    assert "taken" not in page.title()
    assert page.get_by_role("region", name="predictions", exact=True).count() == 1  # its table stands for it
    page.get_by_role("region", name="predictions").get_by_text("1.5").first.wait_for()


def test_only_the_config_that_differs_is_listed(opened):
    watched = opened("#/text")
    table = watched.page.get_by_role("group", name="Table of config")
    table.get_by_role("columnheader", name="lr", exact=True).wait_for()
    heads = table.get_by_role("columnheader").all_inner_texts()
    assert heads[0] == "Run"
    assert "lr" in heads
    assert not any("layers" in head for head in heads)
    assert table.get_by_role("rowheader").count() > 1, "a row for each run"
    watched.page.get_by_role("button", name="Only what differs").click()
    table.get_by_role("columnheader", name="layers").wait_for()


@pytest.mark.parametrize(
    ("page_name", "words"),
    [
        ("distributions", "No histogram yet"),
        ("media", "No image, audio or video yet"),
        ("text", "No text or table yet"),
        ("graph", "No graph yet"),
        ("ranks", "No run here has more than one rank"),
    ],
)
def test_where_nothing_was_recorded_it_says_how(tmp_path, serve, watch, page_name, words):
    with ss.Run(tmp_path / "log" / "a") as run:
        run.scalar("loss", 1.0)
    watch(serve(tmp_path / "log")).open(f"#/{page_name}").get_by_text(words).wait_for()


def test_a_restart_goes_on_where_the_earlier_attempt_left_off(tmp_path, serve, watch):
    """Of steps that both recorded, the new ones are shown; what came before stays."""
    for first, level in ((0, 1.0), (10, 5.0)):
        with ss.Run(tmp_path / "log" / "resumed", start_step=first) as run:
            for step in run.steps(range(15)):
                run.histogram("weights/x/histogram", np.full(10, level))
                run.image("samples", np.full((4, 4, 3), int(level) * 40, np.uint8))
                run.scalar("train/loss", 1.0 / (1 + first + step))
    watched = watch(serve(tmp_path / "log", "--no-cache"))
    page = watched.open("#/distributions?rec=weights/x/histogram")
    page.get_by_role("img", name="weights/x/histogram, steps 0 to 24", exact=True).first.wait_for()
    watched.wait("() => document.querySelector('section.focus canvas')?.dataset.drawn === '25'")
    page = watched.open("#/media?at=9")
    page.get_by_role("img", name="samples, step 9, 1 of 1").wait_for()
    colour = """async () => {
        const image = document.querySelector('figure img');
        await image.decode();
        const canvas = Object.assign(document.createElement('canvas'), {width: 4, height: 4});
        canvas.getContext('2d').drawImage(image, 0, 0);
        return canvas.getContext('2d').getImageData(1, 1, 1, 1).data[0];
    }"""
    assert page.evaluate(colour) == 40
    page.get_by_role("button", name="Next step").click()
    page.get_by_role("img", name="samples, step 10, 1 of 1").wait_for()
    assert page.evaluate(colour) == 200


def test_a_tensor_that_stops_being_finite_says_since_when(tmp_path, serve, watch):
    random = np.random.default_rng(0)
    with ss.Run(tmp_path / "logs" / "diverged") as run:
        for step in run.steps(range(240)):
            run.scalar("gradients/a/nonfinite_count", 500 if step >= 160 else 0)
            run.scalar("gradients/b/nonfinite_count", 0)
            if step % 4 == 0 and step < 160:
                run.histogram("gradients/a/histogram", random.normal(size=500))
            if step % 4 == 0:
                run.histogram("gradients/b/histogram", random.normal(size=500))
    page = watch(serve(tmp_path / "logs", "--no-cache")).open("#/distributions?rec=gradients/a/histogram")
    focus = page.get_by_role("region", name="gradients/a/histogram")
    focus.get_by_text("Not finite from step 160: no value of 500 is finite, to step 239").wait_for()
    assert focus.locator(".hatched").count() == 2, "of the heat map and of the percentiles"
    page.get_by_role("img", name="gradients/a/histogram, steps 0 to 156, not finite from 160").wait_for()
    page.get_by_role("img", name="gradients/b/histogram, steps 0 to 236").wait_for()
    page.get_by_title("gradients/b/histogram").first.click()
    focus = page.get_by_role("region", name="gradients/b/histogram")
    focus.get_by_text("Step 236").wait_for()
    assert focus.locator(".hatched").count() == focus.get_by_text("ot finite").count() == 0


def test_a_tensor_that_is_recorded_no_more_is_not_called_bad(tmp_path, serve, watch):
    random = np.random.default_rng(0)
    with ss.Run(tmp_path / "logs" / "quiet") as run:
        for step in run.steps(range(240)):
            run.scalar("loss", 1.0)
            if step % 4 == 0 and step < 160:
                run.histogram("gradients/a/histogram", random.normal(size=500))
    page = watch(serve(tmp_path / "logs", "--no-cache")).open("#/distributions")
    focus = page.get_by_role("region", name="gradients/a/histogram")
    focus.get_by_text("No histogram from step 160: the run went on to step 239").wait_for()
    assert focus.locator(".hatched").count() == 2
    assert focus.locator(".tone-bad").count() == focus.get_by_text("finite").count() == 0


def test_percentiles_and_ridgelines_have_axes(opened):
    page = opened("#/distributions?q=run:a&rec=gradients/wild/histogram").page
    focus = page.get_by_role("region", name="gradients/wild/histogram")
    focus.get_by_role("img", name="Percentiles of gradients/wild/histogram over steps").wait_for()
    heat, percentiles, ridges = (focus.locator("figure").nth(at) for at in range(3))
    for figure in (heat, percentiles):
        assert len(figure.locator(".up").all_inner_texts()) >= 3, "values"
        steps = figure.locator(".across span").all_inner_texts()
        assert len(steps) >= 3
        assert all(0 <= float(step.replace(",", "")) <= 20 for step in steps)
    assert len(ridges.locator(".across span").all_inner_texts()) >= 3, "values"
    assert "19" in ridges.locator(".up").all_inner_texts(), "steps, the newest in front"
