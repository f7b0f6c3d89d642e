"""``stepscope glance`` of a profile made by hand in PyTorch's format."""

import json

import pytest

from stepscope.cli import main
from stepscope.cli.glance import _ms, _waited_for


def slice_of(name, start, duration, category="cpu_op", **args):
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": 1,
        "tid": 1,
        "ts": start,
        "dur": duration,
        "args": args,
    }


@pytest.fixture
def profile(tmp_path):
    events = []
    for step, (start, mm) in enumerate([(0, 400), (1000, 500), (2000, 600)]):
        events += [
            slice_of(f"ProfilerStep#{step}", start, 1000, "user_annotation"),
            slice_of("nn.Module: Net", start + 100, 700, "user_annotation"),
            slice_of("aten::mm", start + 150, mm),
            slice_of("aten::add", start + 780, 10),
        ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    return path


def test_steps_operations_and_advice_aggregate_over_all_steps(profile, capsys):
    assert main(["glance", str(profile), "--json", "--no-cache"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == {
        "numbers": [0, 1, 2], "count": 3, "ranks": 1, "mean_ns": 1_000_000, "min_ns": 1_000_000,
        "median_ns": 1_000_000, "max_ns": 1_000_000,
    }  # fmt: skip
    multiply = next(row for row in found["operations"]["rows"] if row["name"] == "aten::mm")
    assert [multiply[f"step_{what}_ns"] for what in ("min", "median", "max")] == [400_000, 500_000, 600_000]
    assert multiply["host_ns"] == 500_000
    assert found["parts_missing"]["data_loading"] == "no event of data loading was recorded"
    assert any(row["name"].endswith("nn.Module: Net") for row in found["scopes"]["rows"])
    assert found["advice"][0].keys() >= {"rule", "severity", "summary", "action"}
    assert found["memory"] == []


def test_a_recorder_that_tells_no_durations_is_not_called_idle(tmp_path, capsys):
    entry = {
        "pg_id": 0, "process_group": ["0", "default"], "collective_seq_id": 1, "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "input_dtypes": ["Float"],
        "output_sizes": [[4]], "output_dtypes": ["Float"], "state": "scheduled", "is_p2p": False,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
    }  # fmt: skip
    entries = [entry | {"record_id": n, "time_created_ns": 10**9 * (n + 1)} for n in range(3)]
    path = tmp_path / "dump_0"
    path.write_text(json.dumps({"version": "2.9", "pg_config": {}, "pg_status": {}, "entries": entries}))
    assert main(["glance", str(path), "--no-cache"]) == 0
    said = capsys.readouterr().out
    assert "no time was recorded" in said
    assert "PATH" not in said
    assert "idle" not in said
    assert "nothing to gain" not in said
    assert main(["profile", "op", str(path), "--no-cache"]) == 0
    assert "(nothing recorded)" not in capsys.readouterr().out


def test_time_between_steps_is_said_where_steps_do_not_touch(profile, tmp_path, capsys):
    assert main(["glance", str(profile), "--no-cache"]) == 0
    assert "between steps" not in capsys.readouterr().out
    document = json.loads(profile.read_text())
    apart = [each | {"ts": each["ts"] * 1.5} for each in document["traceEvents"]]
    profile.write_text(json.dumps(document | {"traceEvents": apart}))
    assert main(["glance", str(profile), "--no-cache"]) == 0
    assert "  between steps     0.500 ms   in no step, the mean" in capsys.readouterr().out.splitlines()


def test_the_summary_of_a_file_is_whole_or_not_there(profile, tmp_path, capsys):
    target = tmp_path / "out.json"
    assert main(["glance", str(profile), "--output", str(target), "--no-cache"]) == 0
    assert json.loads(target.read_text())["steps"]["count"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "out.json"]
    assert capsys.readouterr().out == ""
    assert main(["glance", str(profile), "--output", str(tmp_path / "no" / "x"), "--no-cache"]) == 1


def test_for_people(profile, capsys):
    assert main(["glance", str(profile), "--no-cache"]) == 0
    shown = capsys.readouterr().out
    first = "the training thread runs none of the framework's operators for 490 µs of 1.00 ms a step (49%): "
    assert shown.splitlines()[0].startswith(first)
    assert "\n3 steps: mean 1.000 ms, min 1.000 ms, median 1.000 ms, max 1.000 ms\n" in shown
    # It only holds others, and its time is not said to be its own.
    assert "  nothing recorded within nn.Module: Net (host gap)" in shown
    assert "  nn.Module: Net (" not in shown
    assert any(line.split() == ["0.500", "ms", "50.0", "%", "aten::mm"] for line in shown.splitlines())


def test_a_file_that_is_no_profile_is_the_users_mistake(tmp_path, capsys):
    (tmp_path / "a.json").write_text("{}")
    assert main(["glance", str(tmp_path / "a.json"), "--no-cache"]) == 1
    assert "hint:" in capsys.readouterr().err


def test_what_matters_most_comes_first(tmp_path, capsys):
    events = []
    for step in range(3):
        start = 1000 * step
        events += [
            slice_of(f"ProfilerStep#{step}", start, 1000, "user_annotation"),
            slice_of("data_loading", start, 600, "user_annotation"),
            slice_of("aten::mm", start + 600, 390),
        ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    assert main(["glance", str(path), "--no-cache"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert (
        first
        == "the step waits for data for 600 µs of 1.00 ms a step (60%); without it a step takes about 400 µs"
    )


def test_a_name_of_a_thousand_characters_fits_a_line_and_is_whole_in_json(tmp_path, capsys):
    name = "gemm_" + "x" * 500 + "_end"
    path = tmp_path / "a.json"
    events = [slice_of(name, 0, 1000), slice_of("aten::add", 1000, 10)]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert main(["glance", str(path), "--no-cache"]) == 0
    shown = capsys.readouterr().out
    line = next(each for each in shown.splitlines() if "%  gemm_" in each)
    assert "…" in line
    assert "_end" in line
    assert len(line) < 150
    assert "what the work waited for, by its critical path from the first to the last" in shown, "no step"
    assert main(["glance", str(path), "--no-cache", "--json"]) == 0
    assert name in capsys.readouterr().out


def capture(run, name, *, rank=0, steps, wall, content):
    folder = run / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(content)
    facts = {"rank": rank, "name": name, "steps": steps, "wall": wall, "path": f"profiles/{name}.json"}
    (folder / f"{name}.profile.json").write_text(json.dumps(facts))


def test_of_a_run_the_newest_profile_is_taken(profile, tmp_path, capsys):
    content, run = profile.read_text(), tmp_path / "run"
    other = content.replace("aten::mm", "aten::bmm")
    capture(run, "chief_rank0_step9", steps=[9, 10], wall=300.0, content=content)
    capture(run, "chief_rank0_step99", steps=[99, 100], wall=200.0, content=other)  # of an earlier attempt
    assert main(["glance", str(run), "--json", "--no-cache"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["profile"] == str(run / "profiles/chief_rank0_step9.json")
    assert found["notes"][0] == "showing profiles/chief_rank0_step9.json, the newest of 2 profiles of the run"
    assert "aten::mm" in {row["name"] for row in found["operations"]["rows"]}
    assert found["steps"]["count"] == 3


def test_of_ranks_that_captured_the_same_steps_the_first_is_shown(profile, tmp_path, capsys):
    content, run = profile.read_text(), tmp_path / "run"
    capture(run, "worker_rank1_step9", rank=1, steps=[9], wall=301.0, content=content)
    capture(run, "chief_rank0_step9", rank=0, steps=[9], wall=300.0, content=content)
    capture(run, "chief_rank0_gone", rank=0, steps=[99], wall=900.0, content=content)
    (run / "profiles/chief_rank0_gone.json").unlink()
    assert main(["glance", str(run), "--no-cache"]) == 0
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("showing profiles/chief_rank0_step9.json, the newest of 2 profiles of the run; ")
    assert said.endswith("; 1 other rank captured the same steps")


def test_a_directory_that_is_no_run_is_read_whole(profile, tmp_path, capsys):
    assert main(["glance", str(tmp_path), "--json", "--no-cache"]) == 0
    assert "profile" not in json.loads(capsys.readouterr().out)


def test_shares_of_a_path_that_is_not_the_whole_step_say_of_what():
    piece = {"name": "aten::mm", "bound": "host", "ns": 2_000_000, "ratio": 0.5, "pieces": 1.0}
    found = {"steps": {"count": 1, "mean_ns": 10_000_000}, "waited_for": [piece]}
    assert _waited_for(found)[0].endswith("; shares are of that path, 4.000 ms of 10.000 ms")
    found["steps"]["mean_ns"] = 4_100_000
    assert _waited_for(found)[0].endswith("mean per step")
    assert _ms(320) == "< 0.001 ms"
    assert _ms(0) == "0.000 ms"
