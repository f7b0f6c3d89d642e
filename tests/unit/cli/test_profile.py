"""``stepscope profile``, ``advise``, ``timeline`` and ``diff`` in the process: words, output, exit codes."""

import json
import re
from pathlib import Path

import pytest
from support.recordings import recorded

from stepscope.cli import main
from stepscope.cli.profile import _command
from stepscope.errors import UsageError

TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{step}",
            "pid": 1,
            "tid": 1,
            "ts": at,
            "dur": 900,
        }
        for step, at in ((1, 1000), (2, 2000), (3, 3000))
    ]
    + [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at + 10, "dur": dur}
        for at in (1000, 2000, 3000)
        for name, dur in (("aten::linear", 500), ("aten::mm", 300))
    ],
}


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE))
    return str(path)


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_view_in_one_shot(capsys, trace: str) -> None:
    code, out, err = run(capsys, "profile", "op", trace, "-order_by", "micros", "--no-cache")
    assert (code, err) == (0, "")
    assert "mean per step over 3 profiled steps" in out
    assert out.index("aten::mm") < out.index("aten::linear")


@pytest.mark.parametrize(
    "words",
    [
        ["op", "TRACE", "-max_depth", "0", "--json", "--no-cache"],
        ["TRACE", "op", "-max_depth=0", "--json", "--no-cache"],
        ["op", "-max_depth", "0", "TRACE", "--no-cache", "--json"],
        ["--json", "--no-cache", "--max-depth", "0", "op", "TRACE"],
        ["-max_depth", "0", "-account_displayed_op_only", "op", "TRACE", "--json", "--no-cache"],
        ["op", "-account_displayed_op_only", "TRACE", "-max_depth", "0", "--json", "--no-cache"],
    ],
)
def test_options_may_stand_anywhere(capsys, trace: str, words: list[str]) -> None:
    code, out, _ = run(capsys, "profile", *(trace if word == "TRACE" else word for word in words))
    assert code == 0
    assert [row["name"] for row in json.loads(out)["rows"]] == ["(all)", "(nothing recorded)"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "no profile given"),
        (["op"], 2, "no profile given to op"),
        (["ops", "TRACE"], 2, "did you mean 'op'?"),
        (["op", "TRACE", "-max_dept", "1"], 2, "did you mean 'max_depth'?"),
        (["op", "TRACE", "-max_depth", "one"], 2, "expected a whole number"),
        (["op", "TRACE", "-order_by", "depth"], 2, "expected name"),
        (["op", "TRACE", "-show_name_regexes", "*"], 2, "not a regular expression"),
        (["op", "TRACE", "more"], 2, "takes one profile"),
        (["op", "TRACE", "-step", "9"], 1, "step 9 was not profiled"),
        (["code", "TRACE"], 1, "which line of code"),
        (["kernel", "TRACE"], 1, "which kernels ran"),
        (["memory", "TRACE"], 1, "what used memory"),
        (["timeline", "TRACE"], 1, "timeline needs the file to write"),
        (["diff", "TRACE"], 1, "diff needs one other profile"),
        (["op", "/no/such/profile"], 1, "no such profile"),
        (["steps", "TRACE", "-x"], 1, "takes no option"),
        (["sql", "TRACE", "select", "nothing"], 1, "cannot run the query"),
        (["op", "TRACE", "-output", "file:outfile=/no/such/place"], 1, "cannot write the file"),
    ],
)
def test_what_is_wrong_is_said(capsys, trace: str, words: list[str], code: int, message: str) -> None:
    got, out, err = run(
        capsys, "profile", *(trace if word == "TRACE" else word for word in words), "--no-cache"
    )
    assert (got, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_a_profile_of_nothing_is_an_error(capsys, tmp_path: Path) -> None:
    for content in (b"", b"\x00\x01", b"{", b'{"traceEvents": []}'):
        path = tmp_path / "broken"
        path.write_bytes(content)
        code, _, err = run(capsys, "profile", "op", str(path), "--no-cache")
        assert code == 1
        assert "Traceback" not in err


def test_output_goes_where_it_is_sent(capsys, trace: str, tmp_path: Path) -> None:
    code, shown, _ = run(capsys, "profile", "op", trace, "--no-cache")
    written = tmp_path / "view.txt"
    assert run(capsys, "profile", "op", trace, "--no-cache", "-output", f"file:outfile={written}") == (
        0, "", f"written to {written}\n",
    )  # fmt: skip
    assert written.read_text() == shown
    assert run(capsys, "profile", "op", trace, "--no-cache", "-output", "none")[:2] == (code, "")
    pprof = tmp_path / "view.pb.gz"
    assert run(capsys, "profile", "op", trace, "--no-cache", "-output", f"pprof:outfile={pprof}")[0] == 0
    assert pprof.read_bytes()[:2] == b"\x1f\x8b"
    timeline = tmp_path / "view.json"
    assert (
        run(capsys, "profile", "op", trace, "--no-cache", "-output", f"timeline:outfile={timeline}")[0] == 0
    )
    names = {event["name"] for event in json.loads(timeline.read_text())["traceEvents"]}
    assert {"aten::linear", "aten::mm"} <= names


def test_steps_and_sql(capsys, trace: str) -> None:
    code, out, _ = run(capsys, "profile", "steps", trace, "--json", "--no-cache")
    assert (code, [row["step"] for row in json.loads(out)]) == (0, [1, 2, 3])
    query = "select name, count(*) as n from events where name like 'aten%' group by name order by name"
    code, out, _ = run(capsys, "profile", "sql", trace, query, "--json", "--no-cache")
    assert (code, json.loads(out)) == (0, [{"name": "aten::linear", "n": 3}, {"name": "aten::mm", "n": 3}])
    code, out, _ = run(capsys, "profile", "sql", trace, "--no-cache")
    assert out.startswith("events: ")


def test_advice(capsys, trace: str, tmp_path: Path) -> None:
    code, out, _ = run(capsys, "advise", trace, "--json", "--no-cache", "--html", str(tmp_path / "r.html"))
    advice = json.loads(out)
    assert code == 0
    assert set(advice) == {"findings", "abstained", "judged", "caveats", "verdict"}
    assert "input-bound" in [one["rule"] for one in advice["abstained"]]
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert (
        run(capsys, "profile", "advise", trace, "--no-cache")[1]
        == run(capsys, "advise", trace, "--no-cache", "-v")[1]
    )


@pytest.mark.parametrize("model", ["wide_deep", "convnet"])
def test_advice_on_tfprofs_profile_has_each_line_of_tfprofs_own(capsys, model: str) -> None:
    folder = recorded("tfprof") / model
    code, out, _ = run(capsys, "profile", "advise", str(folder / "profile.context"), "--no-cache")
    reports = re.findall(r'reports: "(.*)"', (folder / "advise.txt").read_text())
    lines = [line for report in reports for line in report.split("\\n") if line]
    assert code == 0
    assert len(lines) >= 5
    assert [line for line in lines if line not in out] == []


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("t.json.gz", "chrome"),
        ("t.speedscope.json", "speedscope"),
        ("t.folded", "folded"),
        ("t.csv", "csv"),
        ("t.parquet", "parquet"),
    ],
)
def test_the_ending_chooses_what_timeline_writes(
    capsys, trace: str, tmp_path: Path, name: str, chosen: str
) -> None:
    path = tmp_path / name
    code, out, err = run(capsys, "timeline", trace, "-o", str(path), "--json", "--no-cache")
    assert (code, json.loads(out)["format"]) == (0, chosen)
    assert path.stat().st_size
    assert str(path) in err
    code, _, err = run(capsys, "timeline", trace, "-o", str(tmp_path / "no" / name), "--no-cache")
    assert (code, "Traceback" in err) == (1, False)


def test_diff(capsys, trace: str) -> None:
    code, out, _ = run(capsys, "diff", trace, trace, "--no-cache")
    assert code == 0
    assert "same" in out
    assert run(capsys, "profile", "diff", trace, trace, "--json", "--no-cache")[0] == 0


def test_a_file_named_like_a_command_can_be_asked(monkeypatch, tmp_path: Path) -> None:
    assert _command(["op", "op"]) == ("op", "op", [])
    assert _command(["trace", "-select", "op"]) == (None, "trace", ["-select", "op"])
    with pytest.raises(UsageError):
        _command(["-select", "bytes"])


TFPROF = Path(__file__).resolve().parents[2] / "data" / "tfprof" / "convnet"
PROFILE = str(TFPROF / "profile.context")


@pytest.mark.parametrize(
    "words",
    [
        ["scope", f"--profile_path={PROFILE}", "-order_by", "micros"],
        ["scope", f"-profile_path={PROFILE}", "-order_by=micros"],
        ["scope", "--profile_path", PROFILE, "--order_by=micros"],
        [f"--profile_path={PROFILE}", "scope", "-order_by", "micros"],
        ["--profile-path", PROFILE, "--order-by", "micros", "scope"],
        ["-order_by", "micros", "scope", "-profile_path", PROFILE],
    ],
    ids=" ".join,
)
def test_tfprofs_own_command_lines_name_the_profile(capsys, words: list[str]) -> None:
    expected = run(capsys, "profile", "scope", PROFILE, "-order_by", "micros", "--no-cache")
    assert expected[0] == 0
    assert run(capsys, "profile", *words, "--no-cache") == expected


def test_a_graph_with_its_metadata_is_named_as_tfprof_did(capsys) -> None:
    graph, metadata = TFPROF / "graph.pb", ",".join(map(str, sorted(TFPROF.glob("run_metadata_*.pb"))))
    expected = run(capsys, "profile", "op", str(graph), "-run_meta_path", metadata, "--no-cache")
    assert expected[0] == 0
    named = [f"--graph_path={graph}", f"--run_meta_path={metadata}", "--no-cache"]
    assert run(capsys, "profile", "op", *named) == expected
    assert run(capsys, "profile", *named, "op") == expected
    code, out, err = run(capsys, "profile", "op", *named, "--checkpoint_path=model.ckpt")
    assert (code, out) == expected[:2]
    assert "--checkpoint_path is not read" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["op", f"--profile_path={PROFILE}", "--graph_path=g.pb"], "exclude each other"),
        (["op", f"--profile_path={PROFILE}", "--run_meta_path=m.pb"], "need --graph_path"),
        (["op", "--profile_path="], "names no file"),
        (["op", f"--profile_path={PROFILE}", PROFILE], "takes one profile"),
    ],
)
def test_profiles_that_are_named_twice_are_refused(capsys, words: list[str], said: str) -> None:
    code, out, err = run(capsys, "profile", *words, "--no-cache")
    assert (code, out) == (2, "")
    assert said in err
