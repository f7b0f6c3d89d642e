"""A figure or a sentence that stands in several places of the page is the same in all, in ten logs."""

import math
import re
import shutil

import pytest
from support.everything import staged, write_records
from support.recordings import estimator, recorded

import stepscope as ss

COLLECT = """() => [...document.querySelectorAll("[data-fact]")].map(element => ({
  fact: element.dataset.fact, text: element.textContent.trim(), unit: element.dataset.unit ?? "",
  exact: element.title,
}))"""
COMPLETE = """() => {
  const test = window.__stepscope_test;
  return test && (test.complete() || !document.querySelector("main [data-chart]"));
}"""
JUDGED = """() => {
  const findings = document.getElementById("findings");
  return !location.hash.includes("overview?q=run:") || findings?.querySelector(".covered");
}"""
JUDGED_MS = 60_000
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
UNITS = {
    "": 1.0, "s": 1.0,
    "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "%": 1e-2, "/s": 1.0, "k": 1e3, "M": 1e6, "T": 1e12,
    "million/s": 1e6, "billion/s": 1e9,
    "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    "B/s": 1.0, "KiB/s": 2.0**10, "MiB/s": 2.0**20, "GiB/s": 2.0**30,
}  # fmt: skip
"""Units as factors: a fact has one kind of unit, so that bytes and billions do not meet."""
MINUS, TIMES, NONE = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
FIGURE = re.compile(rf"([-{MINUS}]?)\s*([\d,]+(?:\.\d+)?)(?:{TIMES}10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))?\s*([^\d\s]*)$")


EXACT = re.compile(
    r"(-?[\d.]+(?:e[-+]\d+)?)(?:\N{NO-BREAK SPACE}?([a-zµ/ ]+))?(?:, best of the runs shown)?$"
)
"""A recorded value with all its digits, in the unit in which it was recorded."""
RECORDED = {"bytes": "B", "bytes per second": "B/s", "per second": "/s"}


def read(text, unit):
    """The number that a text ends in, and half of what its last digit counts; what is not finite as text."""
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    unit = RECORDED.get(unit, unit)
    if re.fullmatch(r"-?[\d.]+(e[-+]\d+)?", text) and "e" in text:
        return float(text) * UNITS[unit], 0.0
    if text in ("NaN", "∞", f"{MINUS}∞"):
        return text, 0.0
    match = FIGURE.search(text)
    assert match, f"not a figure: {text!r}"
    sign, digits, power, own = match.groups()
    factor = UNITS[own or unit] * 10.0 ** int((power or "0").translate(POWERS))
    decimals = len(digits.partition(".")[2])
    value = float(digits.replace(",", "")) * (-1 if sign else 1)
    return value * factor, 0.5000001 * 10.0**-decimals * factor


def differ(one, other):
    (a, a_half), (b, b_half) = one, other
    if isinstance(a, str) or isinstance(b, str):
        return a != b
    return abs(a - b) > a_half + b_half


@pytest.fixture(scope="module")
def logs(tmp_path_factory, written):
    root = tmp_path_factory.mktemp("facts") / "logs"
    falling = [2 * math.exp(-step / 30) + 0.3 + 0.01 * (step * 7 % 5) for step in range(300)]
    usual = {"train/loss": falling, "eval/loss": [loss + 0.04321 for loss in falling[::25]]}
    speed = {
        "speed/step_time_ms": [103.7 + step % 9 for step in range(300)],
        "speed/copy_ms": [0.0345 + 41.2 * (step < 9) + 0.001 * (step % 9) for step in range(300)],
    }
    slow = {
        "speed/step_time_ms": [103.7 + 240 * (step >= 150) + step % 9 for step in range(300)],
        "speed/data_wait_ms": [3.3 + 240 * (step >= 150) + step % 9 for step in range(300)],
    }
    written(root / "usual", usual | speed, config={"lr": 1e-3}, total_steps=300)
    written(root / "slower", usual | slow, config={"lr": 3e-3}, total_steps=300)
    written(root / "nan", {**usual, "train/loss": [*falling[:250], *[math.nan] * 50]})
    written(
        root / "between", {**usual, "train/loss": [math.nan if at % 7 else x for at, x in enumerate(falling)]}
    )
    written(root / "tiny", usual | {"train/lr": [1.2345e-8 * (step + 1) for step in range(300)]})
    large = {"memory/peak_bytes": [3.21e9 + 1e7 * step for step in range(300)], "tokens": [1e15] * 300}
    written(root / "large", usual | large)
    written(root / "again", usual, attempt=1)
    again = {tag: [1.1 * value for value in values] for tag, values in usual.items()}
    written(root / "again", again, attempt=2, start=1.7e9 + 5000)
    write_records(root / "records")
    staged(root / "job")
    shutil.copytree(estimator() / "single", root / "estimator")
    for path, name in PROFILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        shutil.copy(recorded(f"traces/kineto/{name}"), root / path)
    return root


USUAL, EARLIER, SLOWER = (
    f"{name}.json.gz"
    for name in ("usual/profiles/step100", "slower/profiles/step50", "slower/profiles/step200")
)
PROFILES = {
    USUAL: "resnet50_v100_workers4.json.gz",
    EARLIER: "resnet50_v100_workers4.json.gz",
    SLOWER: "resnet50_v100_workers0.json.gz",
}
SENTENCE = " | sentence"
RUNS = ("usual", "slower", "nan", "between", "tiny", "large", "again", "records", "job", "estimator")


class Stated:
    """What the views of a page state, by fact."""

    def __init__(self, watched):
        self.watched = watched
        self.texts, self.places, self.exact = {}, {}, {}

    @property
    def inexact(self):
        """Figures whose tooltip has another value than they have."""
        read_both = {fact: (read(*figure), read(*exact)) for fact, (figure, exact) in self.exact.items()}
        return {fact: both for fact, both in read_both.items() if differ(*both)}

    @property
    def units(self):
        """The units in which the figures of each series are shown, of those that have one."""
        units = {}
        for fact, texts in self.texts.items():
            of, what, statistic = fact.rsplit(" | ", 2)
            if statistic in ("last", "best", "min", "max"):
                figures = [
                    (unit, FIGURE.search(text.replace("\N{NO-BREAK SPACE}", " "))) for text, unit in texts
                ]
                units.setdefault(f"{of} | {what}", set()).update(
                    unit or figure[4] for unit, figure in figures if figure
                )
        return {series: several - {""} for series, several in units.items() if several - {""}}

    def add(self, place, at, fact, text, unit=""):
        if text not in ("", NONE):
            self.texts.setdefault(fact, {}).setdefault((text, unit), place)
            self.places.setdefault(fact, set()).add((place, at))

    def collect(self, place):
        for at, each in enumerate(self.watched.page.evaluate(COLLECT)):
            self.add(place, at, each["fact"], each["text"], each["unit"])
            if match := EXACT.match(each["exact"]):
                self.exact[each["fact"], place] = (each["text"], each["unit"]), match.groups("")

    def have_read(self):
        self.watched.wait("() => !document.querySelector('main :is(.reading, .blank[role=status])')")

    def look(self, hash_):
        self.watched.open(f"#/{hash_}")
        self.watched.wait(COMPLETE)
        self.have_read()
        self.watched.page.wait_for_function(JUDGED, timeout=JUDGED_MS)
        if reading := re.search(r"overview\?.*read=(\w+)", hash_):
            # The cells show the reading before until this one has come.
            self.watched.page.locator(f'[data-fact$=" | {reading[1]}"]').first.wait_for()
        self.collect(hash_)

    @property
    def contradictions(self):
        wrong = {}
        for fact, texts in self.texts.items():
            if fact.endswith(SENTENCE):
                differing = len({text.lower() for text, _ in texts}) > 1
            else:
                values = [read(*each) for each in texts]
                differing = any(differ(one, other) for one in values for other in values)
            if differing:
                wrong[fact] = texts
        return wrong

    @property
    def several(self):
        """Facts in several places: one that only one place states proves nothing."""
        return {fact for fact, places in self.places.items() if len(places) > 1}


def test_no_figure_stands_anywhere_with_another_value(logs, serve_long, watch):
    watched = watch(serve_long(logs))
    stated = Stated(watched)
    look, collect, have_read = stated.look, stated.collect, stated.have_read
    look("overview")
    for reading in ("best", "min", "max"):
        look(f"overview?read={reading}")
    look("scalars?rail=1")
    for run in RUNS:
        look(f"overview?q=run:{run}")
        look(f"scalars?q=run:{run}")
    for part in ("curves", "figures"):
        look(f"compare?a=run:usual&b=run:slower&part={part}")
    look("compare?a=run:usual&b=run:nan&part=curves")
    watched.page.get_by_text("is not finite since step 250").wait_for(timeout=JUDGED_MS)
    collect("a loss that is lost")
    for path in PROFILES:
        for tab in ("summary", "operations", "operations&tree=scope", "operations&tree=op"):
            look(f"profile?prof={path}&show={tab}")
    for tab in (f"diff&with={USUAL}", f"diff&with={EARLIER}", "history"):
        look(f"profile?prof={SLOWER}&show={tab}")
        watched.page.get_by_role("button", name="Parts", exact=True).click()
        watched.page.get_by_role("rowheader", name="Data loading").wait_for()
        have_read()  # what was shown before is shown until then
        collect(f"{tab}, parts")
    look("ranks?run=job")
    assert stated.contradictions == {}
    assert len(stated.texts) >= 150
    assert {series: units for series, units in stated.units.items() if len(units) > 1} == {}
    assert stated.inexact == {}
    assert {fact.rsplit(" | ", 1)[1] for fact, _ in stated.exact} >= {"last", "best", "min", "max"}
    assert stated.units["slower | speed/data_wait_ms"] == {"ms"}
    assert stated.units["usual | speed/copy_ms"] == {"µs"}
    for path in PROFILES:
        assert {f"{path} | {part} | mean per step" for part in ("step", "Forward", "Idle")} <= stated.several
    assert "nan | nonfinite-loss of train/loss | first step" in stated.several
    for part in ("Forward", "Idle"):
        places = {
            place
            for place, _ in stated.places[f"{EARLIER} to {SLOWER} | {part} | difference of means per step"]
        }
        assert {f"diff&with={EARLIER}, parts", "history, parts"} <= places
    for rule in ("data-wait", "nonfinite-loss"):
        assert any(f" | {rule} of " in fact and fact.endswith(SENTENCE) for fact in stated.several), rule


@pytest.fixture(scope="module")
def sweep_and_tables(tmp_path_factory, written):
    """Two configurations of three seeds, one of a single run, and completions of two runs."""
    root = tmp_path_factory.mktemp("facts") / "sweep"
    for number, (rate, seeds) in enumerate(((1e-3, 3), (1e-2, 3), (1e-1, 1))):
        for seed in range(seeds):
            level = 0.1234 * (number + 1) + 0.0123 * seed
            values = [level + 2 * math.exp(-step / 20) + 0.01 * (step * 7 % 5) for step in range(100)]
            config = {"lr": rate, "width": 8 * number, "seed": seed}
            written(root / f"trial-{number}-s{seed}", {"train/loss": values}, config=config)
    for name, gain in (("grpo-a", 0.0), ("grpo-b", 0.5)):
        with ss.Run(root / name) as run:
            for step in (0, 10):
                rows = [
                    {"prompt": f"question {at}", "reward": 0.12345 * at + gain, "length": 1e5 * at}
                    for at in range(20)
                ]
                run.table("completions", rows, step)
    rates = [1.0] * 100 + [0.1] * 100 + [0.01] * 100
    losses = [2.0 if step < 150 else 5.4321 + 0.01 * (step % 9) for step in range(300)]
    with ss.Run(root / "changing") as run:
        for step in run.steps(range(300)):
            run.scalar("lr", rates[int(step)])
            run.scalar("train/loss", losses[int(step)])
    return root


TRIALS = "trial-0-s0, trial-0-s1, trial-0-s2"
LAST = (
    "SELECT run, tag, arg_max(value, step) AS last FROM series "
    "WHERE tag IN ('train/loss', 'lr') GROUP BY run, tag"
)


def test_nor_in_a_sweep_in_completions_in_changes_or_in_answers_to_sql(sweep_and_tables, serve_long, watch):
    watched = watch(serve_long(sweep_and_tables))
    page, stated = watched.page, Stated(watched)
    stated.look("scalars?rail=1")
    for reading in ("last", "best", "min", "max"):
        stated.look(f"overview?board=table&read={reading}")
    watched.open("#/overview?board=configurations")
    page.get_by_text("configurations of", exact=False).first.wait_for()
    page.get_by_text("sd of train/loss, mean of steps 50", exact=False).wait_for()
    stated.collect("configurations")
    for part in ("curves", "figures"):
        watched.open(f"#/compare?a=run:trial-0*&b=run:trial-1*&part={part}")
        page.locator(f'[data-fact^="{TRIALS} | train/loss"]').first.wait_for()
        stated.collect(f"compared, {part}")
    watched.open("#/text?rail=1")
    panel = page.get_by_role("region", name="completions")
    for at in (3, 7):
        panel.get_by_role("row").nth(at).click()
        panel.get_by_role("button", name="Close").wait_for()
        stated.collect(f"completion {at}")
    stated.look("overview?q=run:changing")
    changes = page.get_by_role("region", name="Changes")
    changes.get_by_text("lr 1 → 0.01, changed 2 times from step 100 to step 200").wait_for()
    changes.get_by_text("train/loss 2 → 5.4", exact=False).wait_for()
    watched.open(f"#/sql?rail=1&sql={LAST}")
    rows = page.get_by_role("group", name="Rows").locator("tbody tr")
    rows.nth(7).wait_for()
    for at, row in enumerate(rows.all()):
        run, tag, last = row.locator("th, td").all_inner_texts()
        stated.add("sql", at, f"{run} | {tag} | last", last)
    stated.collect("beside sql")
    assert stated.contradictions == {}
    several = stated.several
    both = f"{TRIALS} | train/loss train | mean of steps 50\N{EN DASH}99"
    assert {"configurations", "compared, curves", "compared, figures"} <= {
        place for place, _ in stated.places[both]
    }
    assert {f"{run} | train/loss | last" for run in ("trial-0-s1", "trial-2-s0", "changing")} <= several
    assert any(fact.endswith(", reward | cell") for fact in several)
