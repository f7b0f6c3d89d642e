"""SQL over everything that is recorded; what it may not do is refused in words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.everything import PROFILE, write_all

import stepscope as ss
from stepscope.cli import main
from stepscope.errors import StepscopeError

duckdb = pytest.importorskip("duckdb", reason="stepscope[sql]")

from stepscope.serve.questions import sql as module  # noqa: E402
from stepscope.serve.questions.declare import answered  # noqa: E402
from stepscope.serve.questions.desk import Desk  # noqa: E402


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sql") / "logs"
    place.mkdir()
    write_all(place)
    for number, rate in enumerate((0.1, 0.2, 0.4)):
        with ss.Run(place / f"sweep-{number}", config={"lr": rate, "net": {"width": 8}, "name": "x"}) as run:
            for step in range(20):
                run.scalar("eval/loss", rate + 1 / (1 + step), step)
    return place


@pytest.mark.parametrize(
    ("query", "columns", "rows"),
    [
        ("SELECT count(*) n FROM runs WHERE run LIKE 'sweep-%'", ("n",), [(3,)]),
        (
            "SELECT r.run, r.step, s.number FROM runs r JOIN settings s USING (run) "
            "WHERE s.key = 'lr' AND run LIKE 'sweep-%' ORDER BY s.number DESC",
            ("run", "step", "number"),
            [("sweep-2", 19, 0.4), ("sweep-1", 19, 0.2), ("sweep-0", 19, 0.1)],
        ),
        (
            "SELECT DISTINCT value FROM settings WHERE key IN ('net.width', 'name') ORDER BY 1",
            ("value",),
            [("8",), ("x",)],
        ),
        (
            "SELECT run, min(value) best FROM series WHERE tag = 'eval/loss' AND run LIKE 'sweep-%' "
            "GROUP BY run ORDER BY best LIMIT 1",
            ("run", "best"),
            [("sweep-0", pytest.approx(0.15))],
        ),
        (
            "SELECT step, value FROM series WHERE run = 'sweep-0' AND tag = 'eval/loss' AND step < 2",
            ("step", "value"),
            [(0, pytest.approx(1.1)), (1, pytest.approx(0.6))],
        ),
        ("SELECT DISTINCT rank FROM ranks WHERE run = 'job' ORDER BY 1 LIMIT 2", ("rank",), [(0,), (1,)]),
        ("SELECT 1 AS one, NULL AS nothing", ("one", "nothing"), [(1, None)]),
    ],
)
def test_tables_are_joined(query, columns, rows, logs) -> None:
    [table] = ss.sql(query, logs).tables
    assert table.columns == columns
    assert list(table.rows) == rows


def test_numbers_are_whole_and_strange_values_are_texts(logs) -> None:
    query = "SELECT 1.23456789::DOUBLE a, 12.5::DECIMAL(4,1) b, DATE '2026-01-02' c, [1, 2] d, true e"
    [table] = ss.sql(query, logs).tables
    assert table.rows == ((1.23456789, 12.5, "2026-01-02", "[1, 2]", True),)


def test_events_are_those_of_the_profile_that_is_named(logs) -> None:
    query = "SELECT kind, count(*) n, sum(duration_ns) FROM events GROUP BY kind ORDER BY n DESC"
    found = ss.sql(query, logs, profile=PROFILE)
    trace = ss.load_trace(logs / PROFILE)
    assert sum(row[1] for row in found.tables[0].rows) == len(trace)
    [counted] = ss.sql("SELECT count(*) FROM events WHERE step IS NULL", logs, profile=PROFILE).tables
    assert counted.rows == ((int((trace.step < 0).sum()),),)


def test_findings_are_those_that_were_noted(tmp_path: Path) -> None:
    with ss.Run(tmp_path / "bad", hooks=[ss.HealthHook()]) as run:
        for step in range(30):
            run.scalar("train/loss", float("nan") if step > 20 else 1.0, step)
    [table] = ss.sql("SELECT run, severity, rule, step FROM findings", tmp_path).tables
    noted = [("bad", each.severity, each.rule, each.step) for each in ss.open(tmp_path).run("bad").findings]
    assert noted
    assert list(table.rows) == noted


@pytest.mark.parametrize(
    ("query", "place", "hint"),
    [
        ("SELECT * FORM runs", "(after 'SELECT * FORM')", "did you mean FROM instead of FORM?"),
        ("selct run from runs", "(at the beginning)", "did you mean SELECT instead of selct?"),
        (
            "SELECT run\nFROM runs\nWHER step>1",
            "(after 'WHER' in line 3)",
            "did you mean WHERE instead of WHER?",
        ),
        (
            "SELECT (run FROM runs",
            "(after 'SELECT (run')",
            "correct it there; the SQL is DuckDB's, such as SELECT",
        ),
        (
            "SELECT run FROM runs WHERE",
            "(after 'SELECT run FROM runs')",
            "the query ends with WHERE: say what",
        ),
        ("SELECT 'a FROM runs", "unterminated string literal (after 'SELECT')", "close it"),
        (
            "SELECT run FROM runs WHERE state = stopped",
            '"stopped" not found in FROM clause (after',
            "a text is written in single quotes: 'stopped'; runs has run, title",
        ),
        ("SELECT stat FROM runs", "not found", "did you mean 'state'? a text is written"),
        ("SELECT avgg(step) FROM runs", "name avgg does not exist (after 'SELECT')", 'Did you mean "avg"?'),
        ("SELECT state FROM runs GROUP BY run", "GROUP BY clause", "Either add it to the GROUP BY list"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_one_thing_to_do(query, place, hint, logs) -> None:
    with pytest.raises(StepscopeError) as caught:
        ss.sql(query, logs)
    assert place in caught.value.message
    assert caught.value.hint.startswith(hint)
    assert ("total_steps" in str(caught.value)) == ("runs has" in hint)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM read_csv('{file}')", "SQL reads no files and no network here"),
        ("SELECT * FROM read_text('http://127.0.0.1:1/x')", "SQL reads no files and no network here"),
        ("SELECT * FROM glob('/etc/*')", "SQL reads no files and no network here"),
        ("SELECT * FROM '{file}'", "SQL reads no files and no network here"),
        ("COPY runs TO '{file}.out'", "COPY is refused: SQL only reads here"),
        ("ATTACH '{file}.db'", "ATTACH is refused"),
        ("INSTALL httpfs", "LOAD is refused"),
        ("LOAD httpfs", "LOAD is refused"),
        ("SET memory_limit = '9GB'", "SET is refused"),
        ("CREATE TABLE x (a INT)", "CREATE is refused"),
        ("PRAGMA database_list", "PRAGMA is refused"),
        ("EXPORT DATABASE '{file}.d'", "EXPORT is refused"),
        ("SELECT 1; SELECT 2", "2 statements: expected one"),
        ("SELECT nope FROM runs", 'cannot answer: Referenced column "nope" not found'),
        ("SELECT * FROM serie", "did you mean 'series'?"),
        ("SELEC 1", "cannot answer: syntax error"),
        ("SELECT * FROM parquet_scan('{file}')", "SQL reads no files and no network here"),
        ("SELECT * FROM sniff_csv('{file}')", "SQL reads no files and no network here"),
        ("CALL pragma_version()", "CALL is refused"),
        ("INSERT INTO runs SELECT * FROM runs", "INSERT is refused"),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n FROM t) SELECT count(*) FROM t",
            "took more than 0 s",
        ),
        ("SELECT count(*) FROM range(1000000000000) a, range(1000) b", "took more than 0 s"),
        ("SELECT list(range) FROM range(1000000000)", "more than 64MB of memory"),
    ],
)
def test_what_it_may_not_do_is_refused_in_words(query, told, logs, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.3 if "took" in told else 60)
    monkeypatch.setattr(module, "MEMORY", "64MB")
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    with pytest.raises(StepscopeError, match=re.escape(told)):
        ss.sql(query.format(file=file), logs)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_no_more_is_read_or_shown_than_fits(logs, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    found = ss.sql("SELECT * FROM range(7)", logs)
    assert found.lines == ("more than 5 rows; the first are shown: aggregate them, or add LIMIT",)
    assert len(found.tables[0].rows) == 5
    monkeypatch.setattr(module, "MOST_POINTS", 10)
    with pytest.raises(StepscopeError, match="more than 10 points"):
        ss.sql("SELECT * FROM series", logs)


def test_the_command_prints_columns_or_objects(logs, capsys) -> None:
    query = "SELECT run, value FROM settings WHERE key = 'lr' AND run LIKE 'sweep-%' ORDER BY run LIMIT 2"
    assert main(["sql", query, str(logs)]) == 0
    assert capsys.readouterr().out.splitlines() == ["run      value", "sweep-0  0.1", "sweep-1  0.2"]
    assert main(["sql", query, str(logs), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {"run": "sweep-1", "value": "0.2"}
    assert main(["sql", "SELECT * FROM series", str(logs), "--budget", "60"]) == 0
    assert "left out: " in capsys.readouterr().out
    assert main(["sql", "SELECT * FROM series", str(logs), "--budget", "60", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"].startswith("left out: ")
    assert main(["sql", "", str(logs)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert main(["sql", "SELECT nope FROM runs", str(logs)]) == 1


def test_points_come_from_the_cache_file_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscope.files import Blob

    with ss.Run(tmp_path / "logs" / "a") as run:
        for step in range(50):
            for tag in range(20):
                run.scalar(f"tag-{tag}", step + tag, step)
    query = "SELECT count(*), count(DISTINCT tag), sum(value) FROM series WHERE tag LIKE 'tag-%'"
    first = ss.sql(query, tmp_path / "logs").tables[0].rows
    assert first == ((1000, 20, 34000.0),)

    def piecewise(blob: Blob, at: int, size: int) -> memoryview:
        assert blob._content is not None, "a column was read by itself"
        return memoryview(blob._content)[at : at + size]

    monkeypatch.setattr(Blob, "_bytes", piecewise)
    assert ss.sql(query, tmp_path / "logs").tables[0].rows == first


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM main.runs",
        "SELECT count(*) FROM/* of the log */runs",
        "SELECT count(*) FROM -- of the log\n runs",
        "SELECT count(*) FROM 'runs'",
        'SELECT count(*) FROM "Runs"',
        "SELECT count(*) FROM (TABLE runs)",
        "WITH one AS (FROM runs) SELECT count(*) FROM one",
    ],
)
def test_a_table_is_known_however_it_is_named(query: str, logs: Path) -> None:
    whole = len(ss.open(logs).runs())
    parts = sum(run.whole is not run for run in ss.open(logs).runs())
    assert ss.sql(query, logs).tables[0].rows == ((whole - parts,),)


def test_a_word_that_is_no_table_reads_none(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a table was read")

    sources = {name: source._replace(make=refuse) for name, source in module.SOURCES.items()}
    monkeypatch.setattr(module, "SOURCES", sources)
    answer = ss.sql("WITH events AS (SELECT 'a, runs' AS series) SELECT series FROM events", logs)
    assert answer.tables[0].rows == (("a, runs",),)
    assert answer.lines == ("1 row",)


def test_points_are_put_into_a_table_once_until_something_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    put = module._series_tables

    def counted(desk: Desk) -> dict[str, dict[str, module.Column]]:
        made.append(1)
        return put(desk)

    monkeypatch.setattr(module, "_series_tables", counted)
    run = ss.Run(tmp_path / "logs" / "a")
    desk = Desk(tmp_path / "logs", cache=False)
    query = {"query": "SELECT count(*), max(value) FROM series WHERE tag = 'loss'"}

    def rows() -> object:
        return answered("sql", desk, query).tables[0].rows

    try:
        run.scalar("loss", 1.0, 0)
        run.flush()
        assert rows() == rows() == ((1, 1.0),)
        assert len(made) == 1
        run.scalar("loss", 2.0, 1)
        run.flush()
        assert rows() == ((2, 2.0),)
        assert len(made) == 2
        monkeypatch.setattr(module, "KEPT_BYTES", 10)
        run.scalar("loss", 3.0, 2)
        run.flush()
        assert rows() == rows() == ((3, 3.0),)
        assert len(made) == 4
    finally:
        run.close()
        desk.close()
