"""Tables that trainers leave as files beside a run, written as those trainers write them."""

import json
import os

import pandas
import pytest

import stepscope as ss
from stepscope.errors import EventFileError
from stepscope.store.tables import tables_beside


def trl(place, step):
    """As ``GRPOTrainer`` with ``log_completions``: a data frame by ``to_parquet``."""
    place.mkdir(parents=True, exist_ok=True)
    frame = pandas.DataFrame(
        {
            "step": [step] * 2,
            "prompt": ["2 + 2?"] * 2,
            "completion": ["4", "5"],
            "accuracy_reward": [1.0, 0.0],
            "advantage": [0.7, -0.7],
        }
    )
    frame.to_parquet(place / f"completions_{step:05d}.parquet")


def verl(place, step, own=True):
    """As ``RayPPOTrainer._dump_generations``: JSON Lines, a file for each step."""
    place.mkdir(parents=True, exist_ok=True)
    rows = [{"input": "2 + 2?", "output": "4", "gts": "4", "score": 1.0} | ({"step": step} if own else {})]
    (place / f"{step}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")


@pytest.fixture
def found(tmp_path):
    """Returns the tables beside a run by name, each with the steps in the names of its files."""

    def of(run, *others):
        for name in (run, *others):
            with ss.Run(tmp_path / name) as made:
                made.scalar("loss", 1.0, 0)
        with ss.open(tmp_path, cache=False) as log:
            return {name: [file.step for file in files] for name, files in tables_beside(log, run).items()}

    return of


@pytest.mark.parametrize(
    ("run", "others", "tables", "expected"),
    [
        pytest.param("a", (), {"a/completions": trl}, {"completions": [3, 20]}, id="of TRL in the run"),
        pytest.param("o/runs/x", (), {"o/completions": trl}, {"completions": [3, 20]}, id="TRL above"),
        pytest.param("a", (), {"a/rollouts": verl}, {"rollouts": [20, 3]}, id="verl, by names"),
        pytest.param("a", (), {"a": verl}, {"rows": [20, 3]}, id="directly in the run"),
        pytest.param("a", (), {"a/v": verl, "a/x": trl}, {"v": [20, 3], "x/completions": [3, 20]}, id="two"),
        pytest.param("a", ("b",), {"b/completions": trl}, {}, id="of another run"),
        pytest.param("a", ("a/b",), {"a/b/completions": trl}, {}, id="of a run below"),
        pytest.param("x/a", ("y/b",), {"y/completions": trl}, {}, id="of another job"),
        pytest.param("a", (), {"a/.hidden": trl}, {}, id="hidden"),
        pytest.param("a", (), {"a/1/2/3/4": trl}, {}, id="too deep"),
    ],
)  # fmt: skip
def test_tables_are_those_of_the_run(tmp_path, found, run, others, tables, expected):
    for place, write in tables.items():
        for step in (3, 20):
            write(tmp_path / place, step)
    assert found(run, *others) == expected


@pytest.mark.parametrize(
    ("name", "text", "table"),
    [
        ("samples.jsonl", '{"step": 1, "text": "a"}\n', {"samples": [None]}),
        ("samples.jsonl", '{"text": "a"}\n', {}),
        ("settings.jsonl", "no JSON\n", {}),
        ("events.out.compacted.x.00000.parquet", "", {}),
        ("samples.json", '{"step": 1}', {}),
    ],
)
def test_a_file_without_steps_is_no_table(tmp_path, found, name, text, table):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).write_text(text)
    assert found("a") == table


def read(tmp_path, name):
    with ss.Run(tmp_path / "a") as run:
        run.scalar("loss", 1.0, 0)
    with ss.open(tmp_path, cache=False) as log:
        (files,) = tables_beside(log, "a").values()
    return next(file for file in files if file.path.endswith(name)).read()


def test_both_formats_are_read(tmp_path):
    trl(tmp_path / "a" / "completions", 3)
    assert read(tmp_path, "completions_00003.parquet") == {
        "step": [3, 3], "prompt": ["2 + 2?"] * 2, "completion": ["4", "5"], "accuracy_reward": [1.0, 0.0],
        "advantage": [0.7, -0.7],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('{"a": 1}\n{"b": "x"}\n', {"a": [1, None], "b": [None, "x"]}),
        ('{"a": 1}\n\n{"a": NaN}', {"a": [1, pytest.approx(float("nan"), nan_ok=True)]}),
        ('{"a": 1}\n{"a": 2', {"a": [1]}),
        ("", {}),
    ],
)
def test_lines_are_read_as_far_as_they_are_written(tmp_path, text, columns):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "7.jsonl").write_text(text)
    assert read(tmp_path, "7.jsonl") == columns


@pytest.mark.parametrize("text", ["[1]\n", "{\n}\n", "\xff\n"])
@pytest.mark.parametrize("name", ["7.jsonl", "7.parquet"])
def test_a_damaged_file_is_named(tmp_path, text, name):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).write_text(text, encoding="latin-1")
    with pytest.raises(EventFileError, match=name):
        read(tmp_path, name)


def test_a_pipe_is_not_waited_for(tmp_path, found):
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "7.jsonl")
    assert found("a") == {}
