"""Tables over all steps and runs: filtered and sorted as a naive reader would."""

import json
import time
from functools import partial

import pytest
from support.addresses import Addresses

import stepscope as ss
from stepscope.serve.records.tables import RUN_BITS, Pairs, Side, Table, TableAnswers
from stepscope.serve.reply import Refusal

TABLE = "completions/table"
LONG = "word " * 200
ROWS = [
    # step, prompt, completion, reward, done
    (0, "Add 2 and 2", "It is 4", 1.0, True),
    (0, "Add 2 and 2", "It is five", 0.0, True),
    (0, "Name a fox", LONG, None, False),
    (10, "Add 2 and 2", "4", 0.75, True),
    (10, "Name a fox", "Reynard", float("nan"), True),
    (10, 'Say "no"', "no", float("-inf"), False),
]
NAMES = ("prompt", "completion", "my reward", "done")


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    place = tmp_path_factory.mktemp("log")
    with ss.Run(place / "a") as run:
        for step in (0, 10):
            run.table("completions", [row[1:] for row in ROWS if row[0] == step], step, columns=NAMES)
    with ss.Run(place / "b") as run:
        run.table("completions", [{"prompt": "Add 2 and 2", "advantage": -1}], 10)
        run.scalar("loss", 1.0, 10)
    (place / "b" / "rollouts").mkdir()
    (place / "b" / "rollouts" / "5.jsonl").write_text(json.dumps({"input": ["x"], "score": 1}) + "\n")
    (place / "b" / "rollouts" / "6.jsonl").write_text("{]\n")
    with ss.open(place, cache=False) as log:
        addresses = Addresses(log=log)

        def ask(address="table", **query):
            runs = query.pop("run", ["a"])
            pairs = [("run", run) for run in runs] + [(name, str(value)) for name, value in query.items()]
            if address in ("table", "table_differences"):
                pairs = [("tag", TABLE), *(pair for pair in pairs)] if "tag" not in query else pairs
            return addresses.json(address, pairs)

        yield ask


def test_the_list_holds_recorded_tables_and_files(ask):
    assert [(each["tag"], each["name"]) for each in ask("tables", run=["b"])["tables"]] == [
        (TABLE, "completions"),
        ("rollouts", "rollouts"),
    ]
    assert [each["tag"] for each in ask("tables")["tables"]] == [TABLE]


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ("step=0", [0, 1, 2]),
        ("step>0 my_reward>=0.75", [3]),
        ("MY_REWARD>0.5", [0, 3]),
        ("my_reward<=0", [1, 5]),
        ("my_reward=1,0.75", [0, 3]),
        ("-my_reward>0.5", [1, 2, 4, 5]),
        ("my_reward=none", [2]),
        ("done=false", [2, 5]),
        ("done!=false", [0, 1, 3, 4]),
        ("prompt:FOX", [2, 4]),
        ('prompt:"2 and"', [0, 1, 3]),
        ("prompt:fox,say", [2, 4, 5]),
        ("completion=4", [3]),
        ("completion=it*", [0, 1]),
        (r'prompt="Say \"no\""', [5]),
        ("reynard", [4]),
        ("4", [0, 3]),
        ("-4 step<5", [1, 2]),
        ("unknown:4", []),
        ('"unknown:4"', []),
        ('"', [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_filter_finds_these_rows(ask, where, places):
    answer = ask(where=where, sort="step", up=1)
    assert [row["number"] for row in answer["rows"]] == places
    assert (answer["found"], answer["total"]) == (len(places), len(ROWS))


@pytest.mark.parametrize(
    ("sort", "up", "places"),
    [
        ("", 0, [3, 4, 5, 0, 1, 2]),
        ("step", 1, [0, 1, 2, 3, 4, 5]),
        ("my reward", 1, [5, 1, 3, 0, 2, 4]),
        ("my reward", 0, [0, 3, 1, 5, 2, 4]),
        ("completion", 1, [3, 0, 1, 4, 5, 2]),
        ("done", 1, [2, 5, 0, 1, 3, 4]),
    ],
)
def test_rows_are_sorted_by_any_column_and_those_without_a_value_are_last(ask, sort, up, places):
    assert [row["number"] for row in ask(sort=sort, up=up)["rows"]] == places
    parts = [ask(sort=sort, up=up, offset=at, limit=2)["rows"] for at in (0, 2, 4)]
    assert [row["number"] for part in parts for row in part] == places


def test_columns_name_their_numbers_in_the_rows_that_were_found(ask):
    columns = {column["name"]: column for column in ask(where="step=0")["columns"]}
    assert list(columns) == list(NAMES)
    assert columns["my reward"] == {
        "name": "my reward", "typed": "my_reward", "kind": "number", "low": 0.0, "mean": 0.5, "high": 1.0,
    }  # fmt: skip
    assert columns["prompt"]["kind"] == "text"
    assert columns["prompt"]["low"] is None


def test_cells_are_cut_in_lists_and_whole_alone(ask):
    (row,) = ask(where="step=0 completion:word")["rows"]
    assert len(row["cells"][1]) < len(LONG)
    assert row["cells"][1].endswith("…")
    (row,) = ask(row=row["number"])["rows"]
    assert row["cells"] == ["Name a fox", LONG, None, False]
    assert [each["cells"][2] for each in ask(where="step=10")["rows"]] == [0.75, "nan", "-inf"]


def test_rows_with_the_same_cell_are_found_in_all_runs(ask):
    answer = ask(run=["a", "b"], row=0, same="prompt", sort="step", up=1)
    assert [(row["run"], row["step"]) for row in answer["rows"]] == [(0, 0), (0, 0), (0, 10), (1, 10)]
    assert [column["name"] for column in answer["columns"]] == [*NAMES, "advantage"]
    assert answer["rows"][-1]["cells"] == ["Add 2 and 2", None, None, None, -1]
    assert answer["steps"] == [0, 10]


def test_files_are_rows_as_well_and_say_what_could_not_be_read(ask):
    answer = ask(run=["b"], tag="rollouts")
    assert [(row["step"], row["cells"]) for row in answer["rows"]] == [(5, ['["x"]', 1])]
    (note,) = answer["notes"]
    assert note.startswith("cannot read '6.jsonl'")


def pairs_of(answer):
    return [(row["a"], row["b"]) for row in answer["rows"]]


def test_two_steps_of_a_run_differ_in_rows_that_share_a_prompt(ask):
    answer = ask("table_differences", run=["a", "a"], a=0, b=10)
    other = 1 << RUN_BITS
    assert (answer["key"], answer["steps"], answer["known"]) == ("prompt", [0, 10], [[0, 10], [0, 10]])
    assert pairs_of(answer) == [(0, other + 3), (1, None), (2, other + 4), (None, other + 5)]
    first, alone, *_ = answer["rows"]
    assert (first["cells_a"][1:3], first["cells_b"][1:3]) == (["It is 4", 1.0], ["4", 0.75])
    assert (alone["cells_a"][1], alone["cells_b"][1]) == ("It is five", None)
    # Of two pairs of four cells: completions and rewards differ, and in one whether it is done.
    assert (answer["compared"], answer["changed"], answer["found"]) == (8, 5, 4)


def test_rows_are_ordered_by_how_much_a_column_differs(ask):
    rising = ask("table_differences", run=["a", "a"], a=0, b=10, sort="my reward", up=1)
    assert pairs_of(rising)[0][0] == 0
    with pytest.raises(Refusal, match="no column 'reword'"):
        ask("table_differences", run=["a", "a"], sort="reword")


def test_rows_that_are_the_same_are_left_out_unless_they_are_asked_for(ask):
    query = {"run": ["a", "a"], "a": 10, "b": 10}
    assert (ask("table_differences", **query)["rows"], ask("table_differences", **query)["changed"]) == (
        [],
        0,
    )
    assert ask("table_differences", **query, same=1)["found"] == 3


def test_tables_of_two_runs_differ_at_their_newest_steps(ask):
    answer = ask("table_differences", run=["a", "b"])
    assert answer["steps"] == [10, 10]
    row = answer["rows"][0]
    assert row["cells_a"] == ["Add 2 and 2", "4", 0.75, True, None]
    assert row["cells_b"] == ["Add 2 and 2", None, None, None, -1]


def test_files_of_two_steps_are_compared_too(tmp_path):
    for run, scores in (("a", (0, 1)), ("b", (1, 3))):
        with ss.Run(tmp_path / run) as one:
            one.scalar("loss", 1.0, 0)
        (tmp_path / run / "rollouts").mkdir()
        for step in (1, 2):
            lines = [{"input": name, "score": step * score} for name, score in zip("xy", scores, strict=True)]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (tmp_path / run / "rollouts" / f"{step}.jsonl").write_text(text)
    with ss.open(tmp_path, cache=False) as log:
        runs = [("run", "a"), ("run", "b"), ("tag", "rollouts")]
        answer = Addresses(log=log).json("table_differences", [*runs, ("a", "1"), ("sort", "score")])
    assert (answer["steps"], answer["key"]) == ([1, 2], "input")
    cells = [(row["cells_a"], row["cells_b"]) for row in answer["rows"]]
    assert cells == [(["y", 1], ["y", 6]), (["x", 0], ["x", 2])]


@pytest.mark.parametrize(
    ("tables", "key", "pairs"),
    [
        ({"id": ([3, 1], [1, 2]), "p": ([0.5, 1], [0.5, 1])}, "id", [(0, None), (1, 0), (None, 1)]),
        ({"p": ([0.5, 0.5], [0.5, 0.7, 1.5])}, None, [(0, 0), (1, 1), (None, 2)]),
        ({"text": (["x", "y"], ["v", "w"]), "n": ([1, 1], [1, 1])}, None, [(0, 0), (1, 1)]),
        ({"done": (["no", "no"], ["no", "no"]), "q": (["x", "y"], ["y", "x"])}, "q", [(0, 1), (1, 0)]),
        ({"q": (["x"] * 2, ["x"] * 3)}, "q", [(0, 0), (1, 1), (None, 2)]),
        ({"q": ([], ["x"])}, None, [(None, 0)]),
    ],
)
def test_rows_are_partners_by_the_column_that_tells_them_apart(tables, key, pairs):
    of = [{name: list(both[side]) for name, both in tables.items()} for side in (0, 1)]
    table = Table([[(5, columns)] for columns in of])
    found = Pairs(table, Side(table, 0, None), Side(table, 1, None))
    rows = [found.row(at) for at in range(len(found.a))]
    numbers = [(row.a, None if row.b is None else row.b - (1 << RUN_BITS)) for row in rows]
    assert (found.key, numbers) == (key, pairs)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"run": ["a"]}, "1 runs"),
        ({"run": ["a", "a"], "a": 7}, "no row at step 7"),
        ({"run": ["a", "a"], "tag": "other"}, "no table 'other'"),
    ],
)
def test_what_cannot_be_compared_is_refused(ask, query, words):
    with pytest.raises(Refusal, match=words):
        ask("table_differences", **query)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"sort": "reword"}, "no column 'reword'"),
        ({"row": 99}, "no row 99"),
        ({"row": 0, "same": "reword"}, "no column 'reword'"),
        ({"tag": "other"}, "no table 'other'"),
    ],
)
def test_what_is_not_there_is_refused(ask, query, words):
    with pytest.raises(Refusal, match=words):
        ask(**query)


def test_a_step_that_was_recorded_again_counts_once(tmp_path):
    for reward in (1, 2):
        with ss.Run(tmp_path / "a") as run:
            run.table("t", [{"reward": reward}], 5)
    with ss.open(tmp_path, cache=False) as log:
        answer = Addresses(log=log).json("table", {"run": "a", "tag": "t/table"})
    assert [row["cells"] for row in answer["rows"]] == [[2]]


MANY = 100_000


def quickest(work, rounds=3):
    """The least time of some rounds, in which the machine was busy with others least."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - began)
    return min(times), found


def test_many_rows_are_filtered_and_sorted_sooner_than_by_a_plain_loop(tmp_path):
    rows = [
        {"prompt": f"question {at * 7919 % MANY:06}", "completion": f"the answer {at}" if at % 3 else "none",
         "reward": at * 104_729 % MANY / MANY, "done": at % 2 == 0}
        for at in range(MANY)
    ]  # fmt: skip
    with ss.Run(tmp_path / "a") as run:
        for step in range(10):
            run.table("completions", rows[step * MANY // 10 : (step + 1) * MANY // 10], step)
    cases = {
        ("reward>0.5", "reward"): lambda row: row["reward"] > 0.5,
        ("answer -done=true", "prompt"): lambda row: (
            not row["done"] and any("answer" in str(cell).lower() for cell in row.values())
        ),
    }
    with ss.open(tmp_path, cache=False) as log:
        tables = TableAnswers()
        for (where, sort), passes in cases.items():
            answer = partial(tables.rows, log, ["a"], TABLE, where=where, sort=sort, up=1)
            answer()  # reads the table
            ours, found = quickest(answer)
            loop = partial(sorted, key=lambda row, sort=sort: row[sort])
            plain, expected = quickest(lambda passes=passes, loop=loop: loop(filter(passes, rows)))
            assert found.found == len(expected)
            at = [column.name for column in found.columns].index(sort)
            assert [row.cells[at] for row in found.rows] == [row[sort] for row in expected[:100]]
            assert ours < plain
