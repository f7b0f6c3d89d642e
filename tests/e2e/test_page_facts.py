"""A figure or a sentence that stands in several places of the page is the same in all, in ten logs."""

import math
import re
import shutil

import pytest
from support.everything import staged, write_records
from support.recordings import estimator, recorded

COLLECT = """() => [...document.querySelectorAll("[data-fact]")].map(element => ({
  fact: element.dataset.fact, text: element.textContent.trim(), unit: element.dataset.unit ?? "",
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
    "k/s": 1e3,
    "M/s": 1e6, "G/s": 1e9, "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
}  # fmt: skip
"""Units as factors: a fact has one kind of unit, so that bytes and billions do not meet."""
MINUS, TIMES, NONE = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
FIGURE = re.compile(rf"([-{MINUS}]?)\s*([\d,]+(?:\.\d+)?)(?:{TIMES}10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))?\s*([^\d\s]*)$")


def read(text, unit):
    """The number that a text ends in, and half of what its last digit counts; what is not finite as text."""
    text = text.replace("\N{NO-BREAK SPACE}", " ")
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
    speed = {"speed/step_time_ms": [103.7 + step % 9 for step in range(300)]}
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


def test_no_figure_stands_anywhere_with_another_value(logs, serve_long, watch):
    watched = watch(serve_long(logs))
    seen, where = {}, {}

    def collect(place):
        for at, each in enumerate(watched.page.evaluate(COLLECT)):
            if each["text"] not in ("", NONE):
                seen.setdefault(each["fact"], {}).setdefault((each["text"], each["unit"]), place)
                where.setdefault(each["fact"], set()).add((place, at))

    def have_read():
        watched.wait("() => !document.querySelector('main :is(.reading, .blank[role=status])')")

    def look(hash_):
        watched.open(f"#/{hash_}")
        watched.wait(COMPLETE)
        have_read()
        watched.page.wait_for_function(JUDGED, timeout=JUDGED_MS)
        collect(hash_)

    look("overview")
    for reading in ("best", "min", "max"):
        look(f"overview?read={reading}")
    look("scalars?rail=1")
    for run in RUNS:
        look(f"overview?q=run:{run}")
        look(f"scalars?q=run:{run}")
    for part in ("curves", "figures"):
        look(f"compare?a=run:usual&b=run:slower&part={part}")
    look("compare?a=run:usual&b=run:nan")
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
    sentences = {fact: texts for fact, texts in seen.items() if fact.endswith(SENTENCE)}
    told = {fact: {text.lower() for text, _ in texts} for fact, texts in sentences.items()}
    assert {fact: texts for fact, texts in told.items() if len(texts) > 1} == {}
    wrong = {}
    for fact, texts in seen.items():
        values = [] if fact in sentences else [read(*each) for each in texts]
        if any(differ(one, other) for one in values for other in values):
            wrong[fact] = texts
    assert wrong == {}
    assert len(seen) >= 150
    # What is compared stands in several places: a fact that only one page states proves nothing.
    several = {fact for fact, places in where.items() if len(places) > 1}
    for path in PROFILES:
        assert {f"{path} | {part} | mean per step" for part in ("step", "Forward", "Idle")} <= several
    assert "nan | nonfinite-loss of train/loss | first step" in several
    for part in ("Forward", "Idle"):
        places = {
            place for place, _ in where[f"{EARLIER} to {SLOWER} | {part} | difference of means per step"]
        }
        assert {f"diff&with={EARLIER}, parts", "history, parts"} <= places
    for rule in ("data-wait", "nonfinite-loss"):
        assert any(f" | {rule} of " in fact and fact.endswith(SENTENCE) for fact in several), rule
