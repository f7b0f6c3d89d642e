"""Answers fit their budget, the most important first, and say what they lack."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.cli.budget import shorter_data, shorter_text, within
from stepscope.cli.output import Output
from stepscope.errors import UsageError
from stepscope.serve.questions.answer import LEAST_BUDGET, Answer, Quote, Table, fitted
from stepscope.serve.questions.curves import thinned
from stepscope.serve.questions.query import parse_query
from stepscope.serve.types import RunSummary

DATA = Path(__file__).parents[3] / "data"
ROWS = tuple((f"sweep/2026-11/run-{at:03d}", at, at / 7) for at in range(300))


def answer_of(rows: tuple[tuple[object, ...], ...] = ROWS, **more: object) -> Answer:
    table = Table("runs", ("run", "step", "loss"), rows, 10_000, "limit=300 offset=300", names=("run",))
    return Answer("runs", ("300 runs",), (table,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [LEAST_BUDGET, 150, 400, 1000, 4000])
def test_an_answer_fits(budget: int) -> None:
    made = fitted(answer_of(), budget)
    assert len(made.text) <= 4 * budget
    assert made.lines == ("300 runs",)
    left = 10_000 - sum(len(each.rows) for each in made.tables)
    assert f"{left:,} of 10,000 runs" in made.left_out
    assert "limit=300 offset=300" in made.left_out


def test_names_lose_what_they_share_only_if_there_is_no_room() -> None:
    short, whole = fitted(answer_of(), 400).tables[0], fitted(answer_of(), 10_000).tables[0]
    assert (short.columns[0], short.rows[0][0]) == ('run (after "sweep/2026-11/run-")', "000")
    assert (whole.columns[0], whole.rows[0][0]) == ("run", "sweep/2026-11/run-000")


@pytest.mark.parametrize(
    ("number", "shown"),
    [(1 / 3, 0.3333), (1234.56, 1235.0), (1.7e9 + 0.4, 1.7e9), (float("nan"), "nan"), (7, 7)],
)
def test_numbers_have_four_digits(number: float, shown: object) -> None:
    assert fitted(Answer("x", (), (Table("t", ("n",), ((number,),)),))).tables[0].rows == ((shown,),)


def test_everything_is_there_without_a_budget() -> None:
    assert len(fitted(answer_of(), 0).tables[0].rows) == 300


def test_too_small_a_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="expected 60 or more"):
        fitted(answer_of(), LEAST_BUDGET - 1)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.text(max_size=60), min_size=1, max_size=3),
    st.lists(st.tuples(st.text(max_size=60), st.floats(), st.integers()), max_size=8),
    st.text(max_size=200),
    st.integers(LEAST_BUDGET, 150),
)
def test_any_answer_fits(lines: list[str], rows: list[tuple[object, ...]], text: str, budget: int) -> None:
    table = Table("things", ("name", "x", "n"), tuple(rows), names=("name",))
    quotes = (Quote("notes", text, len(text)),) if text else ()
    assert len(fitted(Answer("x", tuple(lines), (table,), quotes), budget).text) <= 4 * budget


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.floats(width=32), min_size=3, max_size=400), st.integers(2, 60), st.data())
def test_a_thinned_curve_keeps_its_ends_extremes_and_onsets(values: list[float], count: int, data) -> None:
    step, value = np.arange(len(values)), np.array(values)
    onset = data.draw(st.integers(0, len(values) - 1))
    rows = thinned(step, value, count, keep=[onset])
    assert rows == sorted(set(rows))
    assert {0, len(values) - 1, onset} <= set(rows) or len(values) <= count
    assert len(rows) <= max(count, 6)
    finite = value[np.isfinite(value)]
    if len(finite):
        assert {finite.min(), finite.max()} <= set(value[rows].tolist())


def test_texts_and_json_of_commands_fit() -> None:
    text = "".join(f"line {at}\n" for at in range(500))
    assert shorter_text(text, 4000).endswith(
        "left out: 51 of 500 lines; --budget 4000 shows more, --budget 0 all\n"
    )
    data = {
        "findings": [{"rule": "x" * 50, "rows": list(range(100))}] * 40,
        "rest": list(range(500)),
        "n": 1 / 3,
    }
    made = shorter_data(data, 2000)
    assert len(json.dumps(made)) <= 2000
    assert made["n"] == 0.3333
    assert made["left_out"]["rest"] == 500
    assert made["findings"]
    assert within(Output(text, data), 0).data is data


def summary(facts: dict[str, object]) -> RunSummary:
    base: dict[str, object] = dict.fromkeys(RunSummary.__struct_fields__)
    base |= {"tags": [], "labels": [], "step_notes": [], "problems": [], "config": {}, "seeds": []}
    base |= {"name": "r", "base": "r", "state": "finished", "note": "", "archived": False}
    return RunSummary(**{**base, **facts})  # type: ignore[arg-type]


CASES = json.loads((DATA / "run_queries.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["query"] or "empty")
def test_queries_match_as_on_the_page(case: dict[str, object]) -> None:
    metrics: dict[str, object] = case.get("metrics", {})  # type: ignore[assignment]
    values = {name: float(value) for name, value in metrics.items()}  # type: ignore[arg-type]
    asked = parse_query(str(case["query"]), lambda run, name: values.get(name))
    assert asked.matches(summary(case["run"])) is case["matches"]  # type: ignore[arg-type]
