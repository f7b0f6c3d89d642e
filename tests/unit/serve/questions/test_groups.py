"""Two groups of runs compared: every run counts, and nothing is judged twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import stepscope as ss
from stepscope.serve.questions.answer import Answer
from stepscope.serve.questions.declare import answered
from stepscope.serve.questions.desk import Desk

MANY, FEW, STEPS = 60, 3, 20


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return a desk over 60 runs and 3 runs. The oldest of each have a higher loss; the 3 evaluate to NaN."""
    log = tmp_path_factory.mktemp("groups")
    for side, count in (("many", MANY), ("few", FEW)):
        for number in range(count):
            with ss.Run(log / f"{side}-{number:02d}", card=False, handle_sigterm=False) as run:
                for step in run.steps(range(STEPS)):
                    run.scalar("train/loss", 1 / (step + 1) + 5 * (number == 0) + 0.001 * number)
                if side == "few":
                    run.scalar("eval/loss", float("nan"))
    desk = Desk(log, cache=False)
    yield desk
    desk.close()


def compared(desk: Desk, **more: str) -> Answer:
    return answered("compare", desk, {"a": "many", "b": "few", **more}, 4000)


def rows_of(answer: Answer) -> dict[str, tuple[object, ...]]:
    [curves] = [table for table in answer.tables if table.name.startswith("curves")]
    return {str(tag): tuple(row) for tag, *row in curves.rows}


def test_every_run_that_a_query_matches_counts(desk: Desk) -> None:
    answer = compared(desk)
    assert answer.lines[:2] == ("A: 60 runs that match many", "B: 3 runs that match few")
    last_half = [1 / (step + 1) for step in range(STEPS // 2, STEPS)]
    mean = sum(last_half) / len(last_half)
    a, b = rows_of(answer)["train/loss"][:2]
    assert a == pytest.approx(mean + 5 / MANY + 0.001 * (MANY - 1) / 2, rel=0.01)
    assert b == pytest.approx(mean + 5 / FEW + 0.001 * (FEW - 1) / 2, rel=0.01)


def test_what_shows_fewer_runs_says_so(desk: Desk) -> None:
    lines = answered("series", desk, {"tags": "train/loss", "runs": "many"}, 4000).lines
    assert lines[0] == "60 runs match; the 50 newest are shown: name fewer in runs"
    assert answered("image", desk, {"tag": "train/loss", "runs": "many"}, 4000).lines[0] == lines[0]
    [table] = [table for table in compared(desk).tables if table.name.startswith("findings")]
    assert table.name == "findings of one side only, of its 4 newest runs"
    assert {row[0] for row in table.rows} == {"B"}


def test_times_of_steps_are_judged_once_and_costs_of_recording_are_no_result(desk: Desk) -> None:
    answer = compared(desk)
    assert [table.name for table in answer.tables].count("times of steps") == 1
    assert list(rows_of(answer)) == ["train/loss"]
    asked = rows_of(compared(desk, metric="speed/step_time_ms"))
    assert list(asked) == ["speed/step_time_ms", "train/loss"]


def test_a_verdict_has_no_second_test_beside_it(desk: Desk) -> None:
    [curves] = [table for table in compared(desk).tables if table.name.startswith("curves")]
    assert curves.columns == ("tag", "A", "B", "B - A", "verdict", "because")


def test_a_run_that_crashed_early_hides_no_difference(tmp_path: Path) -> None:
    for side, level in (("a", 1.0), ("b", 2.0)):
        for number in range(4):
            with ss.Run(tmp_path / f"{side}{number}", card=False, handle_sigterm=False) as run:
                for _ in run.steps(range(2 if (side, number) == ("a", 3) else 40)):
                    run.scalar("train/loss", level + 0.01 * number)
    desk = Desk(tmp_path, cache=False)
    answer = answered("compare", desk, {"a": "a", "b": "b"}, 4000)
    desk.close()
    a, b, _, verdict, why = rows_of(answer)["train/loss"]
    assert (a, b) == (pytest.approx(1.01), pytest.approx(2.015))
    assert verdict == "A is better"
    assert why == (
        "more than chance between 3 and 4 runs (Welch's test at 5 %); "
        "1 run that ended before step 39 left out"
    )


@pytest.mark.parametrize(
    ("b", "verdict", "why"),
    [
        ((1.0, 1.0), "the same", "the values are equal"),
        ((0.5, 1.6), "within the steps' noise", "the curves cross"),
    ],
)
def test_two_runs_alike(tmp_path: Path, b: tuple[float, float], verdict: str, why: str) -> None:
    """Curves cross only if each is above the other somewhere; what counts epochs is no result."""
    for name, (even, odd) in (("a", (1.0, 1.0)), ("b", b)):
        with ss.Run(tmp_path / name, card=False, handle_sigterm=False) as run:
            for step in range(40):
                run.scalars({"train/loss": odd if step % 2 else even, "epoch": step // 10}, step)
    desk = Desk(tmp_path, cache=False)
    answer = answered("compare", desk, {"a": "a", "b": "b"}, 4000)
    desk.close()
    assert {tag: row[3:] for tag, row in rows_of(answer).items()} == {"train/loss": (verdict, why)}
