"""Many runs on the Overview: table, plots, ranges that choose runs; hyper-parameters of other writers."""

import itertools
import re

import pytest
from support.records import write_series
from support.waiting import until

RATES = (1e-4, 1e-3, 1e-2, 1e-1)
HOSTILE = "<img src=y onerror=document.title=1>"
STEPS = 40
HOME = "#/overview"


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long, written):
    """Four rates of two optimizers: the loss falls with the rate, the least is not the newest."""
    log_dir = tmp_path_factory.mktemp("board")
    for place, rate in enumerate(RATES):
        for optimizer in ("adam", HOSTILE):
            name = f"{optimizer[:4].strip('<')}-{place}"
            losses = [10 - place - step / 10 for step in range(STEPS)] + [20.0 - place]
            values = {"train/loss": losses, "eval/accuracy": [0.1 * place] * STEPS}
            written(log_dir / name, values, config={"lr": rate, "optimizer": optimizer, "layers": 2})
    written(log_dir / "plain", {"train/loss": [float("nan")] * 3})
    return serve_long(log_dir)


def names(page):
    return page.get_by_role("group", name="Table of runs").get_by_role("rowheader").all_inner_texts()


def test_the_table_reads_the_newest_the_best_or_a_step(opened):
    page = opened("#/overview?sort=metric:train/loss")
    page.wait("() => document.querySelector('.board tbody')?.innerText.includes('17.0')")
    assert names(page)[0] == "adam-3"
    assert names(page)[-1] == "plain"  # what is not finite is last
    page.get_by_role("button", name="Best", exact=True).click()
    page.wait("() => document.querySelector('.board tbody').innerText.includes('3.1')")
    page.get_by_role("button", name="At step", exact=True).click()
    page.get_by_label("Step", exact=True).fill("10")
    page.get_by_label("Step", exact=True).press("Enter")
    page.wait("() => document.querySelector('.board tbody').innerText.includes('6.0')")
    page.wait("() => location.hash.includes('upto=10')")
    page.reload()
    page.wait("() => document.querySelector('.board tbody')?.innerText.includes('6.0')")


def test_the_table_says_which_run_is_sick_and_of_what(opened):
    page = opened().page
    row = page.get_by_role("group", name="Table of runs").get_by_role("row").filter(has_text="plain")
    health = row.locator("td.health.bad")
    health.get_by_text("loss is not finite").wait_for()
    assert "Since step" in health.get_attribute("title")


@pytest.mark.parametrize(("count", "told"), [(12, True), (13, False)])
def test_of_few_runs_all_are_judged_though_a_small_screen_shows_some(
    tmp_path, written, serve, watch, count, told
):
    for run in range(count):
        losses = [float("nan") if run == 4 else 4.0 / (step + 1) for step in range(60)]
        written(tmp_path / f"run{run:02d}", {"train/loss": losses})
    page = watch(serve(tmp_path), HOME).page
    page.set_viewport_size({"width": 1280, "height": 300})
    strip = page.get_by_role("region", name="All runs")
    strip.get_by_text("runs", exact=True).wait_for()
    if told:
        strip.get_by_text("11 of 12").wait_for()
        assert "nothing wrong found" in strip.inner_text()
        assert "loss is not finite" in strip.inner_text()
    else:
        page.locator("td.health").filter(has_text=re.compile(r"\w")).first.wait_for()
        assert "healthy" not in strip.inner_text()


def test_columns_are_chosen_by_name_and_kept_in_the_address(opened):
    page = opened()
    page.ready()
    table = page.get_by_role("group", name="Table of runs")
    table.get_by_role("columnheader", name="lr").wait_for()
    assert table.get_by_role("columnheader", name="layers").count() == 0
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Find a column").fill("layers")
    page.get_by_label("layers").check()
    table.get_by_role("columnheader", name="layers").wait_for()
    page.wait("() => location.hash.includes('config:layers')")


def test_a_scatter_of_rate_against_loss_is_read_by_keyboard(opened):
    page = opened("#/overview?board=scatter&px=log:config:lr&py=metric:train/loss")
    plot = page.locator("svg[data-dots]")
    page.wait("() => document.querySelector('svg[data-dots]')?.dataset.dots === '8'")
    assert "1 cannot be drawn here" in page.get_by_role("region", name="Runs", exact=True).inner_text()
    assert "rank correlation −1.00" in page.get_by_role("region", name="Runs", exact=True).inner_text()  # noqa: RUF001
    paths = page.locator("svg[data-dots] path").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d'))"
    )
    across = sorted({int(at) for path in paths for at in re.findall(r"M(\d+)", path.replace(".5", ""))})
    steps = [b - a for a, b in itertools.pairwise(across)]
    assert steps == pytest.approx([steps[0]] * 3, abs=1)  # decades are equally far apart, to a pixel
    plot.focus()
    page.keyboard.press("ArrowRight")
    page.wait("() => document.querySelector('[role=status][aria-live]').textContent.includes('lr 1e-4')")
    page.keyboard.press("Enter")
    page.wait("() => location.hash.includes('run=')")


def test_ranges_choose_runs_everywhere_and_are_moved_by_keyboard(opened):
    page = opened("#/overview?board=parallel")
    page.wait("() => document.querySelector('svg[data-inside]')?.dataset.inside === '9'")
    page.get_by_role("slider", name="Min lr").focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
    page.wait("() => document.querySelector('svg[data-inside]').dataset.inside === '4'")
    page.wait("() => location.hash.includes('brush=config:lr')")
    page.keyboard.press("2")
    page.ready()
    assert {line["run"] for line in page.charts()["train/loss"]["lines"]} == {
        "adam-2", "adam-3", "img-2", "img-3",
    }  # fmt: skip
    page.go_back()
    page.wait("() => document.querySelector('svg[data-inside]')?.dataset.inside === '4'")
    page.reload()
    page.wait("() => document.querySelector('svg[data-inside]')?.dataset.inside === '4'")
    page.get_by_role("button", name="Clear ranges").click()
    page.wait("() => document.querySelector('svg[data-inside]').dataset.inside === '9'")


def test_a_drag_along_an_axis_is_a_range(opened):
    page = opened("#/overview?board=parallel")
    page.wait("() => document.querySelector('svg[data-inside]')?.dataset.inside === '9'")
    box = page.locator("svg[data-inside] .axis .catch").nth(1).bounding_box()
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + box["height"] - 8)
    page.mouse.down()
    page.mouse.move(middle, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    page.wait("() => location.hash.includes('brush=')")
    assert 0 < int(page.locator("svg[data-inside]").get_attribute("data-inside")) < 9


def test_the_matrix_has_every_pair_and_leads_to_it(opened):
    page = opened("#/overview?board=matrix")
    matrix = page.get_by_role("group", name="Scatter matrix")
    matrix.get_by_text("−1.00").first.wait_for()  # noqa: RUF001
    matrix.get_by_role("button", name="loss against lr, large").click()
    page.wait("() => location.hash.includes('board=scatter')")
    assert page.get_by_label("Up", exact=True).input_value() == "metric:train/loss"
    assert page.title() != "1"


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_a_long_name_of_a_metric_is_whole_in_its_column_head(tmp_path, written, serve, watch, width):
    long = "validation/segmentation_head/mean_intersection_over_union_of_rare_classes_ratio"
    for name, scale in (("a", 1.0), ("b", 0.9)):
        values = {long: [scale * 0.5, scale * 0.6], "train/loss": [scale, 0.5]}
        written(tmp_path / "log" / name, values, config={"lr": scale})
    page = watch(serve(tmp_path / "log"))
    page.set_viewport_size({"width": width, "height": 900})
    page.open("#/overview")
    head = page.get_by_role("columnheader").filter(has_text="mean_intersection")
    head.wait_for()
    assert re.search(r"rare_classes_ratio( \(eval\))?, %$", head.inner_text().replace("\n", ""))
    assert (
        page.evaluate(
            """() => [...document.querySelectorAll('thead .heading')].filter(one => {
            const [range, box] = [document.createRange(), one.closest('th').getBoundingClientRect()];
            range.selectNodeContents(one);
            const text = range.getBoundingClientRect();
            return text.left < box.left - 1 || text.right > box.right + 1 || text.bottom > box.bottom + 1;
        }).map(one => one.textContent)"""
        )
        == []
    )


def test_runs_without_config_say_what_there_is_to_draw(tmp_path, serve, watch):
    for name in ("a", "b"):
        write_series(tmp_path / "log" / name, {"loss": [1.0]})
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/overview?board=matrix")
    page.get_by_text("choose at least two columns").wait_for()
    page.open("#/overview?board=scatter")
    page.wait("() => document.querySelector('svg[data-dots]')?.dataset.dots === '2'")


def test_hyper_parameters_that_torch_wrote_are_columns(tmp_path, serve, watch):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for place in range(3):
        with tensorboard.SummaryWriter(str(tmp_path / "log" / f"trial{place}")) as writer:
            writer.add_scalar("loss", 3.0 - place, 0)
            writer.add_hparams({"lr": 10.0**-place, "units": 8}, {"hparam/accuracy": 0.5 + 0.1 * place})
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/overview")
    page.ready()
    table = page.get_by_role("group", name="Table of runs")
    table.get_by_role("columnheader", name="lr").wait_for()
    assert names(page) == ["trial2", "trial1", "trial0"], "the best come first"
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="trial2"))
    row.get_by_text("0.01", exact=True).wait_for()
    row.get_by_text("0.700").wait_for()


def test_importance_says_which_key_the_loss_goes_with_and_what_chance_would_give(opened, files):
    page = opened("#/overview?board=configurations")
    table = page.get_by_role("group", name="Importance of config keys")
    table.wait_for()
    rate, optimizer = (table.get_by_role("row").filter(has_text=key) for key in ("lr", "optimizer"))
    assert "100" in rate.inner_text()
    assert "\u22121.00" in rate.inner_text()
    assert "0.1, median 4.67" in rate.inner_text()
    assert "no clearer than chance" in optimizer.inner_text()
    head = page.inner_text(".importance")
    assert "8 configurations of 8 runs, each key alone; 1 run without a finite value left out" in head
    rows = files.table(files.save(page, page, "Importance for train/loss", "CSV, every key"))
    assert [row["key"] for row in rows] == ["lr", "optimizer"]
    assert float(rows[0]["share"]) == pytest.approx(1)
    assert 0 < float(rows[0]["chance"]) < 1
    rate.get_by_role("button", name="lr").click()
    page.wait("() => /board=scatter/.test(location.hash) && /px=config:lr/.test(location.hash)")


def test_importance_of_few_runs_is_not_told(opened):
    page = opened("#/overview?board=configurations&q=optimizer:adam").page
    page.get_by_text("What train/loss depends on cannot be told: fewer than 8 configurations").wait_for()
    assert page.get_by_role("group", name="Importance of config keys").count() == 0


def test_of_many_runs_the_best_have_colours_and_the_others_none(tmp_path, written, serve, watch):
    for run in range(16):
        written(
            tmp_path / f"run{run:02d}", {"eval/loss": [9.0, 1.0 + (7 * run) % 16]}, config={"lr": run % 3}
        )
    page = watch(serve(tmp_path), "#/scalars")
    page.ready()
    rest = "getComputedStyle(document.documentElement).getPropertyValue('--rest').trim()"
    grey = f"() => window.__stepscope_test.charts()[0].lines.filter(one => one.colour === {rest})"
    page.wait(f"() => ({grey})().length === 4")
    lines = page.charts()["eval/loss"]["lines"]
    worst = {one["run"] for one in lines if one["last"]["value"] >= 13}
    assert {one["run"] for one in page.evaluate(f"({grey})()")} == worst
    assert len({one["colour"] for one in lines if one["run"] not in worst}) == 12
    page.get_by_label("Colour by").select_option("lr")
    key = page.get_by_role("group", name="Colours of lr")
    key.wait_for()
    assert key.inner_text().split() == ["0", "1", "2"]
    shades = key.locator(".mark").evaluate_all(
        "marks => marks.map(one => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(shades)) == 3
    rgb = "c => { const d = document.createElement('i'); d.style.color = c; return d.style.color; }"

    def drawn():
        return {page.evaluate(rgb, one["colour"]) for one in page.charts()["eval/loss"]["lines"]}

    until(lambda: drawn() == set(shades), "the lines have the colours of the key")


def test_a_click_anywhere_in_a_row_opens_its_run(opened):
    page = opened()
    page.ready()
    row = page.get_by_role("group", name="Table of runs").get_by_role("row").filter(has_text="adam-1")
    row.get_by_role("cell").nth(3).click()
    page.wait("() => location.hash.includes('q=run:adam-1')")


def test_runs_that_repeat_configurations_open_on_these(tmp_path, serve, watch, written):
    """The unit is the configuration; a choice of the table is kept."""
    for rate in (0.1, 0.2, 0.3):
        for seed in range(3):
            values = {"eval/loss": [3.0, rate + 0.001 * seed if (rate, seed) != (0.3, 2) else float("nan")]}
            written(tmp_path / f"r{rate}-s{seed}", values, config={"rate": rate, "seed": seed})
    page = watch(serve(tmp_path), "#/overview")
    page.get_by_text("3 configurations of 9 runs").wait_for()
    shown = page.get_by_role("group", name="How runs are shown")
    assert shown.get_by_role("button", pressed=True).inner_text() == "Configurations"
    page.get_by_text("1 run not finite").wait_for()
    page.get_by_text("0.101 ± 0.001", exact=False).wait_for()
    shown.get_by_role("button", name="Table").click()
    page.get_by_role("group", name="Table of runs").wait_for()
    page.page.reload()
    page.get_by_role("group", name="Table of runs").wait_for()


def test_runs_that_match_no_query_are_not_missed_while_the_log_is_read(server, watch):
    page = watch(server).page
    reading = {"files_done": 1, "files_total": 9, "bytes_done": 1, "bytes_total": 9}

    def still_reading(route):
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "loading": reading})

    page.route("**/api/v1/changes*", still_reading)
    for name in ("overview", "scalars"):
        page.goto(f"{server.url}/#/{name}?q=name:later")
        page.get_by_text("Reading the log directory", exact=True).wait_for()
        assert page.get_by_text("No run matches").count() == 0
    page.unroute_all(behavior="wait")  # an answer that is on its way is not given twice
    page.get_by_text("No run matches the query").wait_for()
