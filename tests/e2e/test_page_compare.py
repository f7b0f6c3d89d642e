"""The Compare page: two selections of runs, what differs between them, and what does not."""

import json
import os
import random
import re
import time

import pytest
from support.records import write_series

import stepscope as ss
from stepscope.events import EventWriter

HOSTILE = 'x",<img src=y onerror="document.title=1">*'
STEPS = 120
MINUS = "\u2212"
HOME = "#/compare"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Two seeds of two rates, a series of one rate alone, a run of later steps, a name to break out with."""
    log_dir = tmp_path_factory.mktemp("compare")
    for name, rate, seed in (("slow-0", 0.1, 0), ("slow-1", 0.1, 1), ("fast-0", 0.2, 0), ("fast-1", 0.2, 1)):
        with ss.Run(log_dir / name, config={"rate": rate, "seed": seed, "layers": 2}) as run:
            for step in run.steps(range(STEPS)):
                run.scalar("train/loss", 2 / (1 + rate * step) + 0.001 * seed)
                run.scalar("eval/accuracy", rate + 0.01 * seed)
                if rate == 0.1:
                    run.scalar("only/slow", 1.0)
    for name, first, value in (("early", 0, 1.0), ("late", 500, 3.0), (HOSTILE.replace("/", "_"), 0, 2.0)):
        writer = EventWriter(log_dir / name, clock=lambda: 1.7e9)
        for step in range(50):
            writer.scalar("train/loss", value, first + step, 1.7e9 + step)
        writer.close()
    return log_dir


GROUPS = "#/compare?a=rate:0.1&b=rate:0.2"


def card(page, name):
    return page.get_by_role("article", name=name, exact=True)


def test_two_runs_are_compared_at_the_cursor_that_all_charts_share(opened):
    page = opened("#/compare?a=run:slow-0&b=run:fast-0&sm=0&part=curves")
    page.ready()
    loss = card(page, "train/loss")
    text = loss.inner_text()
    first, last = map(int, re.search(r"mean of steps (\d+)\u2013(\d+)", text).groups())
    assert STEPS / 2 <= first < last < STEPS
    half = range(first, last + 1)
    mean = [sum(2 / (1 + rate * step) for step in half) / len(half) for rate in (0.1, 0.2)]
    shown = [float(value) for value in re.findall(r"^0\.\d+$", text, re.MULTILINE)]
    assert shown == pytest.approx(mean, rel=0.02)
    lead = page.get_by_role("region", name="Largest difference").inner_text()
    assert f"mean of steps {first}\N{EN DASH}{last}:" in lead, "one window for the sentence and the cards"
    loss.get_by_role("img").focus()
    page.keyboard.press("Home")
    loss.get_by_text("step 0").wait_for()
    card(page, "eval/accuracy").get_by_text("step 0").wait_for()
    assert loss.inner_text().count("2.00") == 2
    page.keyboard.press("ArrowRight")
    loss.get_by_text("step 1", exact=True).wait_for()
    assert f"{2 / 1.1:.2f}" in loss.inner_text()
    assert f"{2 / 1.2:.2f}" in loss.inner_text()
    assert "only/slow" in page.get_by_role("region", name="Only in A").inner_text()


def test_groups_show_the_mean_of_their_runs_and_how_many_there_are(opened):
    page = opened(GROUPS + "&part=figures")
    page.wait("() => document.body.innerText.includes('0.105')")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="eval/accuracy", exact=True))
    text = row.inner_text()
    assert "0.105" in text
    assert "0.205" in text
    assert text.count("n 2") == 2
    assert "+95.2" in text
    assert "better" in text
    alone = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="only/slow", exact=True))
    assert "not recorded" in alone.inner_text()
    page.get_by_role("button", name="At step").click()
    page.get_by_label("Step", exact=True).fill("12")
    page.get_by_label("Step", exact=True).press("Enter")
    page.wait("() => location.hash.includes('upto=12')")
    loss = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="train/loss", exact=True))
    loss.get_by_text(f"{2 / 2.2 + 0.0005:.3f}").first.wait_for()
    assert f"{2 / 3.4 + 0.0005:.3f}" in loss.inner_text()


def test_curves_of_groups_are_means(opened):
    watched = opened(GROUPS + "&sm=0&part=curves")
    watched.ready()
    lines = {line["run"]: line for line in watched.charts()["train/loss"]["lines"]}
    assert lines["A"]["y"][0] == pytest.approx(2.0005)
    assert lines["B"]["y"][10] == pytest.approx(2 / 3 + 0.0005)
    assert "n 2 and 2" in card(watched.page, "train/loss").inner_text()


def test_the_largest_difference_beyond_the_spread_leads_and_says_how_it_is_known(tmp_path, serve, watch):
    for name, takes in (("fast", 10.0), ("slow", 30.0)):
        writer = EventWriter(tmp_path / "log" / name, clock=lambda: 1.7e9)
        for step in range(100):
            writer.scalar("speed/step_time_ms", takes + 0.1 * (step % 2), step, 1.7e9 + step)
            writer.scalar("eval/accuracy", 0.9, step, 1.7e9 + step)
            writer.scalar(
                "loss", 1 / (1 + step) + 0.1 * (step % 3 if name == "fast" else 1), step, 1.7e9 + step
            )
            writer.scalar("written_bytes", step * takes, step, 1.7e9 + step)
        writer.close()
    page = watch(serve(tmp_path / "log", "--no-cache")).open("#/compare?a=run:fast&b=run:slow&part=curves")
    lead = page.get_by_role("region", name="Largest difference")
    page.locator("[aria-label='Largest difference'][aria-busy='false']").wait_for()
    text = lead.inner_text()
    assert "step_time" in text
    assert re.search(r"10\S* → 30\S* ms, (2\.9\d|3\.0\d|3) times A, worse", text)
    assert "B above A at all" in text
    assert "one run per side" in text
    page.get_by_role("button", name="Swap A and B").click()
    lead.get_by_text("better").wait_for()


def test_a_run_that_has_just_begun_is_compared_over_the_steps_that_it_has(tmp_path, serve, watch):
    for name, takes, steps in (("whole", 10.0, 2000), ("begun", 30.0, 60)):
        times = [takes + 0.1 * (step % 2) for step in range(steps)]
        write_series(tmp_path / "log" / name, {"speed/step_time_ms": times})
    page = watch(serve(tmp_path / "log", "--no-cache")).open("#/compare?a=run:whole&b=run:begun&part=curves")
    page.locator("[aria-label='Largest difference'][aria-busy='false']").wait_for()
    text = page.get_by_role("region", name="Largest difference").inner_text()
    assert re.search(r"10\S* → 30\S* ms, .* times A, worse", text)
    assert re.search(r"steps [23]\d\S5\d", text)


def test_steps_that_do_not_overlap_are_said_and_not_compared(opened):
    watched = opened("#/compare?a=run:early&b=run:late&part=curves")
    watched.ready()
    loss = card(watched.page, "train/loss")
    assert "The steps of A and B do not overlap" in loss.inner_text()
    assert "%" not in loss.inner_text()


def test_config_and_environment_where_they_differ_and_all_of_it(opened):
    page = opened("#/compare?a=run:slow-0&b=run:fast-1&part=config").page
    table = page.get_by_role("group", name="Table of config")
    table.get_by_role("rowheader", name="rate").wait_for()
    assert table.get_by_role("rowheader").all_inner_texts() == ["rate", "seed"]
    assert table.get_by_role("row").nth(1).inner_text().split() == ["rate", "0.1", "0.2"]
    page.get_by_role("button", name="Only what differs").first.click()
    table.get_by_role("rowheader", name="layers").wait_for()
    environment = page.get_by_role("group", name="Table of environment")
    environment.get_by_role("rowheader", name="python").wait_for()


def test_findings_stand_side_by_side(opened):
    page = opened("#/compare?a=run:slow-0&b=run:fast-0&part=findings").page
    region = page.get_by_role("region", name="Findings")
    region.get_by_text("runs with findings").wait_for()  # how many there are is up to the machine's load
    page.wait_for_function(
        "() => !document.querySelector('section[aria-label=Findings]').innerText.includes('Judging')"
    )


def test_without_profiles_it_says_how_to_get_one(opened):
    page = opened("#/compare?a=run:slow-0&b=run:fast-0&part=operations").page
    page.get_by_text("No profile of A and B").wait_for()


def test_sides_are_chosen_swapped_and_linked_by_keyboard_alone(opened):
    page = opened("#/compare?part=curves")
    page.ready()
    page.get_by_label("Runs of A", exact=True).focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("run:slow-0")
    page.keyboard.press("Enter")
    page.wait("() => location.hash.includes('a=run:slow-0')")
    page.get_by_label("Runs of B", exact=True).focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("rate:0.2")
    page.keyboard.press("Enter")
    page.wait("() => location.hash.includes('b=rate:0.2')")
    page.get_by_role("button", name="fast-0 on side A").press("Enter")
    page.wait("() => location.hash.includes('a=run:slow-0,fast-0')")
    page.get_by_text("fast-0 is on both sides").wait_for()
    page.keyboard.press("u")
    page.wait("() => location.hash.includes('b=run:slow-0,fast-0')")
    page.reload()
    page.ready()
    assert page.get_by_label("Runs of A", exact=True).input_value() == "rate:0.2"
    assert page.get_by_label("Runs of B", exact=True).input_value() == "run:slow-0,fast-0"
    page.locator("[data-run='early'] .name").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("a")
    page.wait("() => location.hash.includes('early')")


def test_a_side_without_runs_and_a_log_of_one_run_say_what_to_do(opened, tmp_path, serve, watch):
    page = opened("#/compare?a=nothing&part=curves").page
    page.get_by_text("No run is on side A").wait_for()
    with ss.Run(tmp_path / "log" / "a") as run:
        run.scalar("loss", 1.0)
    page = watch(serve(tmp_path / "log")).open("#/compare")
    page.get_by_text("There is only one run here").wait_for()


def test_a_hostile_name_is_a_name(opened):
    page = opened("#/compare?part=curves")
    page.ready()
    name = HOSTILE.replace("/", "_")
    page.get_by_role("button", name=f"{name} on side B").click()
    page.get_by_role("region", name="Both sides").get_by_text("2 runs").wait_for()
    page.reload()
    page.ready()
    page.get_by_role("button", name="Config", exact=True).click()
    assert page.get_by_label("Runs of B", exact=True).input_value().startswith("run:")
    assert page.locator("main img[src]").count() == 0
    assert page.title() != "1"


@pytest.mark.slow
def test_sixty_runs_are_two_means(tmp_path, serve, watch):
    for at in range(60):
        losses = [float(at % 2 + step) for step in range(40)]
        write_series(tmp_path / "log" / f"{'ab'[at % 2]}{at}", {"loss": losses})
    watched = watch(serve(tmp_path / "log", "--no-cache"), "#/compare?a=a&b=b&sm=0&part=curves")
    watched.ready()
    assert "n 30 and 30" in card(watched.page, "loss").inner_text()
    assert {line["run"]: line["y"][0] for line in watched.charts()["loss"]["lines"]} == {"A": 0, "B": 1}


def captured(directory, name, cause, step, wall):
    """Write a profile of one step as a run's hook leaves it: the trace, and what is known of it."""
    profiles = directory / "profiles"
    profiles.mkdir(exist_ok=True)
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": 1000, "dur": 900},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1010, "dur": 800},
    ]
    content = {
        "schemaVersion": 1,
        "traceEvents": [each | {"pid": 1, "tid": 1, "args": {}} for each in events],
    }
    (profiles / f"{name}.pt.trace.json").write_text(json.dumps(content))
    facts = {
        "name": name, "path": f"profiles/{name}.pt.trace.json", "rank": 0, "world_size": 1,
        "steps": [step], "cause": cause, "wall": wall, "format": "kineto",
    }  # fmt: skip
    (profiles / f"{name}.profile.json").write_text(json.dumps(facts))


def test_profiles_of_usual_steps_are_compared_though_slow_ones_came_later(tmp_path, serve, watch):
    for run in ("one", "two"):
        write_series(tmp_path / run, {"train/loss": [1 / (step + 1) for step in range(50)]})
        captured(tmp_path / run, "usual", "schedule", 20, 1_700_000_020)
        captured(tmp_path / run, "slow", "slow step", 41, 1_700_000_041)
        later = time.time() + 5
        os.utime(tmp_path / run / "profiles" / "slow.pt.trace.json", (later, later))
    page = watch(serve(tmp_path), "#/compare?a=run:one&b=run:two&part=operations")
    shown = [page.get_by_label(f"Profile of {side}") for side in "AB"]
    for each in shown:
        each.wait_for()
        chosen = each.evaluate("one => one.selectedOptions[0].label")
        assert "usual.pt.trace.json, step 20, schedule" in chosen
    assert page.get_by_text("so its steps are not the run's usual ones").count() == 0
    shown[1].select_option("two/profiles/slow.pt.trace.json")
    page.get_by_text("Both were captured for something unusual").wait_for()
    shown[0].select_option("one/profiles/usual.pt.trace.json")
    page.get_by_text("B was captured for a slow step, so its steps are not the run's usual ones").wait_for()


def test_only_what_is_beyond_the_spread_is_called_better_or_worse(tmp_path, serve, watch):
    """Equal figures, what only counts, differences within and beyond the steps' noise, one value alone."""
    for name, seed, loss, written, clear in (
        ("a", 1, 0.016482, 4000, 0.5), ("b", 2, 0.016484, 900, 0.8)
    ):  # fmt: skip
        writer = EventWriter(tmp_path / name)
        numbers = random.Random(seed)
        for step in range(50):
            values = [
                ("eval/loss", loss),
                ("checkpoint/written_bytes", written * (step + 1.0)),
                ("noisy/loss", (0.5 if name == "a" else 0.52) + (step < 49) * numbers.gauss(0, 0.1)),
                ("clear/loss", clear + numbers.gauss(0, 0.02)),
            ]
            if step == 49:
                values.append(("final/accuracy", clear))
            writer.scalars(values, step, 1_700_000_000 + step)
        writer.close()
    page = watch(serve(tmp_path), "#/compare?a=run:a&b=run:b&part=curves")
    page.ready()
    for name in ("eval/loss", "checkpoint/written_bytes"):
        readout = card(page, name).or_(card(page, name.removesuffix("_bytes"))).first.locator(".readout")
        assert readout.locator(".bad, .ok").count() == 0, name
    assert card(page, "noisy/loss").locator(".delta").inner_text().startswith("B \N{MINUS SIGN} A")
    assert card(page, "noisy/loss").locator(".readout").locator(".bad, .ok").count() == 0
    assert "within the steps' noise" in card(page, "noisy/loss").locator(".delta").get_attribute("title")
    assert card(page, "clear/loss").locator(".readout .bad").count() == 1
    page.open("#/compare?a=run:a&b=run:b&part=figures")
    for name, verdict in {
        "eval/loss": "the same",
        "noisy/loss": "within the steps' noise",
        "clear/loss": "worse",
        "final/accuracy": "too few values to tell",
    }.items():
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        row.get_by_text(verdict, exact=True).wait_for()
        assert row.locator(".bad, .ok").count() == (2 if verdict == "worse" else 0), name
    written = page.get_by_role("row").filter(has_text="written")
    assert not {"better", "worse"} & set(written.inner_text().split())
    assert page.locator("svg.bad").count() == 1


def test_seeds_of_one_configuration_have_no_winner_however_far_apart(tmp_path, serve, watch, written):
    """How fast they are is no chance between seeds, and is still told."""
    for seed, loss in enumerate((1.0, 0.5)):
        values = {"train/loss": [loss + 1 / (1 + step) for step in range(60)]}
        values["speed/step_time_ms"] = [10.0 + 10 * seed] * 60
        written(tmp_path / f"s{seed}", values, config={"lr": 0.1, "model": {"seed": seed}})
    page = watch(serve(tmp_path), "#/compare?a=run:s0&b=run:s1&part=curves")
    page.ready()
    lead = page.get_by_role("region", name="Largest difference")
    lead.get_by_text("runs of one configuration").wait_for()
    text = lead.inner_text()
    assert "model.seed 0 → 1" in text
    assert "runs of one configuration with other seeds" in text
    assert "speed/step_time" in text, "that difference is real"
    assert card(page, "train/loss").locator(".readout").locator(".bad, .ok").count() == 0
    page.get_by_role("region", name="Both sides").get_by_text("may be chance between seeds").wait_for()
    page.open("#/compare?a=run:s0&b=run:s1&part=figures")
    for name, verdict in (("train/loss", "may be chance between seeds"), ("speed/step_time", "worse")):
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))
        row.get_by_text(verdict, exact=True).wait_for()


def test_a_difference_is_one_notation_and_its_verdict_is_whole_at_1280(tmp_path, serve, watch, written):
    written(tmp_path / "a", {"eval/loss": [1.0, 0.1]}, config={"lr": 0.1})
    written(tmp_path / "b", {"eval/loss": [2.0, 1.6]}, config={"lr": 0.1})
    page = watch(serve(tmp_path), "#/compare?a=run:a&b=run:b&part=curves")
    page.page.set_viewport_size({"width": 1280, "height": 800})
    strip = page.get_by_role("region", name="Both sides")
    word = strip.get_by_text("too few values to tell")
    word.wait_for()
    assert word.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert "+1,500\N{NO-BREAK SPACE}%" in strip.inner_text()
    assert "\N{MULTIPLICATION SIGN}" not in page.locator("main").inner_text()
    page.get_by_text("Every setting of the config is the same").wait_for()


def test_a_side_has_one_colour_in_the_rail_and_in_every_chart(opened):
    page = opened("#/compare?a=run:slow-1&b=run:fast-1&part=curves")
    page.ready()
    lines = {line["run"]: line["colour"] for line in page.charts()["train/loss"]["lines"]}
    fill = "one => one.querySelector('circle').getAttribute('fill')"
    for side, run in (("A", "slow-1"), ("B", "fast-1")):
        assert page.locator(f".rail [data-run='{run}'] .marker").evaluate(fill) == lines[side]
    assert lines["A"] != lines["B"]
    assert page.locator(".rail [data-run='early'] .marker").evaluate(fill) not in lines.values()


def test_all_seeds_are_offered_where_they_settle_the_question(tmp_path, serve, watch, written):
    """Single runs share too few values to tell; their configurations differ by more than their seeds."""
    for lr, loss in ((0.1, 1.0), (0.2, 0.5), (0.3, 0.99)):
        for seed in range(3):
            values = {"eval/loss": [3.0, 2.0, loss + 0.02 * seed]}
            written(tmp_path / f"lr{lr}-s{seed}", values, config={"lr": lr, "seed": seed})
    watched = watch(serve(tmp_path))
    lead = watched.page.get_by_role("region", name="Largest difference")
    watched.open("#/compare?a=run:lr0.1-s0&b=run:lr0.3-s1&part=curves")
    lead.get_by_text("do not settle it either").wait_for()
    watched.open("#/compare?a=run:lr0.1-s0&b=run:lr0.1-s1&part=curves")
    lead.get_by_text("runs of one configuration").wait_for()
    watched.open("#/compare?a=run:lr0.1-s0&b=run:lr0.2-s1&part=curves")
    lead.get_by_text(f"settle it: eval/loss {MINUS}16").wait_for()
    lead.get_by_role("button", name="Use all 3 seeds of each").click()
    watched.page.get_by_text("3 runs").nth(1).wait_for()
    assert (
        watched.page.get_by_label("Runs of B", exact=True).input_value() == "run:lr0.2-s0,lr0.2-s1,lr0.2-s2"
    )
