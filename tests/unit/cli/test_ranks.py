"""``stepscope ranks`` over dumps, profiles and the telemetry of a run."""

import gzip
import json
import os
import pickle
import shutil
import socket

import numpy as np
import pytest
from support.recordings import recorded

import stepscope as ss
from stepscope.cli import main
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.events.framing import frame
from stepscope.events.processes import pid_namespace
from stepscope.events.telemetry import END, FACTS, ROWS, Name, TelemetryRow, encoded, encoded_facts
from stepscope.serve.job_report import verdict

START = 1.7e9


@pytest.fixture
def telemetry(tmp_path):
    """A run of four ranks, of which rank 2 waits long for data from step 40 on."""

    def write(slow=2, ranks=(0, 1, 2, 3), steps=120, changing=0.0, grows=0.0):
        random = np.random.default_rng(0)
        folder = tmp_path / "ranks"
        folder.mkdir()
        waited = 0.002 * (1 + 0.1 * random.random((steps, 4)))
        if slow is not None:
            waited[40:, slow] += 0.05
        late = np.flatnonzero(random.random(steps) < changing)
        waited[late, random.integers(0, 4, len(late))] += 0.2
        seconds = waited.max(1, keepdims=True) + 0.1 * np.ones((steps, 4))
        seconds[steps // 2 :] += grows
        for rank in ranks:
            rows = [
                (
                    step,
                    TelemetryRow(
                        START + step, ended=True, seconds=seconds[step, rank], waited=waited[step, rank]
                    ),
                )
                for step in range(steps)
            ]
            path = folder / str(Name("rank", rank, 4, 1, 0, "node", 999_999_999, 0))
            path.write_bytes(frame(encoded(ROWS, rows, (1e9, float("nan")))))
        return tmp_path

    return write


def ask(capsys, *words):
    assert main(["ranks", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_a_run_says_who_holds_the_others_up_and_since_when(telemetry, capsys):
    text = ask(capsys, telemetry(), "-v")
    assert text.startswith("rank 2 on node makes the 3 other ranks wait in data since step 40: ")
    assert "LEADER" in text
    assert text.splitlines()[4].split()[0] == "data"


def test_without_v_the_answer_takes_four_lines_at_most(telemetry, capsys):
    place = telemetry()
    lines = ask(capsys, place).splitlines()
    assert lines[0].startswith("rank 2 on node makes the 3 other ranks wait in data since step 40: ")
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["do", "see"]
    assert lines[-1].endswith(f"stepscope ranks {place} -v")


def notes_of(capsys, *words):
    """What is said beside the answer."""
    assert main(["ranks", *map(str, words)]) == 0
    return capsys.readouterr().err


def test_a_job_whose_number_of_ranks_changed_is_told_of_its_newest_attempt(telemetry, capsys):
    run = telemetry(ranks=(0, 1, 2, 3))
    changed = "the number of ranks changed"
    assert changed not in notes_of(capsys, run)
    for path in (run / "ranks").iterdir():
        if "rank-00003" not in path.name:
            shutil.copy(path, path.with_name(path.name.replace("of-00004.attempt-1", "of-00003.attempt-2")))
    text = notes_of(capsys, run)
    assert f"{changed}: attempt 1 had 4, attempt 2 has 3; everything here is about attempt 2 alone" in text
    assert "not recorded: rank" not in text
    found = json.loads(ask(capsys, run, "--json"))
    assert (found["ranks"], found["missing"], found["stragglers"][0]["rank"]) == (3, [], 2)


def test_ranks_that_disagree_on_how_many_they_are(telemetry, capsys):
    run = telemetry(ranks=(0, 1, 2))
    [one] = (run / "ranks").glob("rank-00002*")
    one.rename(one.with_name(one.name.replace("of-00004", "of-00003")))
    text = notes_of(capsys, run)
    assert "ranks of attempt 1 disagree on how many there are: 3 and 4" in text
    assert "the number of ranks changed" not in text


def test_a_run_as_json(telemetry, capsys):
    found = json.loads(ask(capsys, telemetry(), "--json"))
    assert (found["source"], found["ranks"], found["missing"]) == ("run", 4, [])
    (straggler,) = found["stragglers"]
    assert (straggler["rank"], straggler["since"], straggler["stage"]) == (2, 40, "data")
    assert sum(stage["exposed_s"] for stage in found["stages"]) == pytest.approx(
        120 * 0.1022 + 80 * 0.05, rel=0.02
    )
    assert (found["suspects"], found["stage_clock"], found["clock"]["offsets_ns"]) == ([], "host", {})
    assert found["clock"]["refused"].startswith("not needed")
    blamed = found["blame"][0]
    assert (blamed["rank"], blamed["cause"], blamed["clear"]) == (2, "data", True)
    # The three others wait 50 ms in each of 80 steps.
    assert blamed["wait_caused_ns"] == pytest.approx(3 * 80 * 0.05e9, rel=0.05)
    assert sum(row["share"] for row in found["blame"]) == pytest.approx(1.0)
    assert found["wait"]["total_ns"] == sum(row["wait_caused_ns"] for row in found["blame"])
    (change,) = found["what_if"]
    assert (change["rank"], change["change"]) == (2, "rank 2 like the median rank")
    assert change["recorded_ns"] - change["predicted_ns"] == pytest.approx(0.05e9, rel=0.05)
    assert change["predicted_ns"] == pytest.approx(0.1022e9, rel=0.02)


def test_a_healthy_run_accuses_nobody(telemetry, capsys):
    text = ask(capsys, telemetry(slow=None))
    assert text.startswith("no rank makes the others wait")
    assert "rank 2" not in text


def test_single_steps_of_changing_ranks_accuse_no_rank(telemetry, capsys):
    text = ask(capsys, telemetry(slow=None, changing=0.15))
    assert text.startswith("single steps of changing ranks make the others wait in data: ")


def test_what_is_slower_on_all_ranks_accuses_no_rank(telemetry, capsys):
    text = ask(capsys, telemetry(slow=None, grows=0.05))
    assert text.startswith("since step 60 a step of all ranks takes 152")
    assert "no single rank causes it" in text.splitlines()[0]


def test_a_few_steps_of_a_run_cannot_tell(telemetry, capsys):
    text = ask(capsys, telemetry(slow=None, steps=8))
    assert text.startswith("too few points: 8 steps of all ranks, it needs 20")


def test_ranks_of_a_run_that_left_nothing(telemetry, capsys):
    assert "not recorded: rank 2" in ask(capsys, telemetry(ranks=(0, 1, 3)))


def test_one_rank_of_a_run_is_an_error(telemetry):
    with pytest.raises(EmptyTraceError, match="expected the telemetry of several ranks, found 1"):
        ss.load_ranks(telemetry(ranks=(0,)))


def end(place, rank, status, reason=None):
    """Write how a rank ended."""
    (path,) = (place / "ranks").glob(f"rank-{rank:05d}-*")
    with path.open("ab") as file:
        file.write(frame(encoded_facts(END, status=status, reason=reason, ended=START)))


def test_ranks_that_failed_or_vanished_are_named_the_first_to_end_first(telemetry):
    place = telemetry()
    for rank, status, reason in (
        (0, "finished", None),
        (1, "failed", "ValueError: x"),
        (3, "stopped", "SIGTERM"),
    ):
        end(place, rank, status, reason)
    (path,) = (place / "ranks").glob("rank-00002-*")
    rows = [(step, TelemetryRow(START + step, ended=True, seconds=0.1, waited=0.0)) for step in range(60)]
    path.write_bytes(frame(encoded(ROWS, rows, (1e9, float("nan")))))
    os.utime(path, (START, START))
    assert ss.load_ranks(place).notes[:2] == (
        "rank 2 stopped recording at step 59: silent for more than a minute",
        "rank 1 failed at step 119: ValueError: x",
    )


def stalls(place, ranks):
    """Write what ranks say whose step does not end."""
    for rank in ranks:
        facts = {
            "rank": rank, "pid": 999_999_999, "host": "node", "step": 120, "stalled_s": 30.0, "wall": START,
            "threads": [{"name": "MainThread", "frames": [{"function": "wait", "file": "a.py", "line": 1}]}],
        }  # fmt: skip
        (place / "ranks" / f"hang-{rank}.json").write_text(json.dumps(facts))


def gone(place, rank, steps=60):
    """Have a rank of this machine end without a word: its process was killed."""
    (path,) = (place / "ranks").glob(f"rank-{rank:05d}-*")
    facts = {**own_process(), "pid": 999_999_999, "rank": rank, "world_size": 4, "started": START}
    rows = [(step, TelemetryRow(START + step, ended=True, seconds=0.1, waited=0.0)) for step in range(steps)]
    path.write_bytes(frame(encoded_facts(FACTS, **facts)) + frame(encoded(ROWS, rows, (1e9, float("nan")))))


def own_process():
    """Return what tells this machine from others."""
    return {"host": socket.gethostname(), "pid_namespace": pid_namespace()}


def test_a_rank_that_was_killed_is_named_where_the_others_are_stuck(telemetry):
    place = telemetry()
    gone(place, 2)
    for rank in (0, 1, 3):
        end(place, rank, "running")
    stalls(place, (0, 1, 3))
    job = ss.load_ranks(place)
    assert job.notes[0] == "rank 2 was killed at step 59: no record how"
    assert job.ends == {2: "was killed at step 59: no record how"}
    assert job.data()["ends"] == [{"rank": 2, "end": "was killed at step 59: no record how"}]
    told = verdict(job)
    assert told.startswith("no step ended for 30 s; rank 2 was killed at step 59: no record how; ")
    assert "no stacks" not in told


def test_a_rank_whose_stacks_are_missing_and_that_lives_is_no_killed_one(telemetry):
    place = telemetry()
    for rank in range(4):
        end(place, rank, "running")
    stalls(place, (0, 1, 3))
    job = ss.load_ranks(place)
    assert not job.ends
    assert verdict(job) == "no step ended for 30 s; rank 2 left no stacks, ranks 0, 1 and 3 did"


def waits(place, ranks, wall):
    """Write dumps of ranks that wait for rank 2 in their sixth collective."""
    for rank in ranks:
        entries = [
            {
                "record_id": number, "pg_id": 0, "process_group": ["0", "default_pg"],
                "collective_seq_id": number, "p2p_seq_id": 0, "profiling_name": "gloo:all_reduce",
                "time_created_ns": int((START + 100) * 1e9) + number, "input_sizes": [[4]],
                "input_dtypes": ["Float"], "output_sizes": [[4]], "output_dtypes": ["Float"],
                "state": "scheduled", "retired": number < 6, "is_p2p": False,
            }
            for number in range(1, 7)
        ]  # fmt: skip
        groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
        content = {"version": "2.10", "pg_config": groups, "pg_status": {}, "entries": entries}
        (place / "ranks" / f"flight-recorder-{rank}").write_bytes(pickle.dumps(content))
        path = place / "ranks" / f"hang-{rank}.json"
        facts = json.loads(path.read_text()) | {"recorder": f"flight-recorder-{rank}", "wall": wall}
        path.write_text(json.dumps(facts))


@pytest.mark.parametrize(("seconds", "late"), [(118, True), (150, False)])
def test_a_rank_that_ended_a_step_after_the_first_dump_is_not_accused_for_having_none(
    telemetry, seconds, late
):
    """All ranks ended step 119 after 119 s. Rank 2 was late for it, or it stopped there."""
    place = telemetry()
    for rank in range(4):
        end(place, rank, "running")
    stalls(place, (0, 1, 3))
    waits(place, (0, 1, 3), START + seconds)
    hang = ss.load_ranks(place).hang
    assert [(each.rank, each.reason) for each in hang.suspects] == ([] if late else [(2, "left no dump")])
    unknown = "nothing is known of the calls of rank 2"
    assert any(note.startswith(unknown) and "or look again" in note for note in hang.notes) == late


def test_a_killed_rank_is_accused_though_it_ended_a_step_after_the_first_dump(telemetry):
    place = telemetry()
    gone(place, 2, steps=120)
    for rank in (0, 1, 3):
        end(place, rank, "running")
    stalls(place, (0, 1, 3))
    waits(place, (0, 1, 3), START + 118)
    assert [(each.rank, each.reason) for each in ss.load_ranks(place).hang.suspects] == [(2, "left no dump")]


def test_the_signal_that_a_rank_wrote_down_is_named(telemetry):
    place = telemetry()
    end(place, 1, "stopped", "SIGTERM")
    for rank in (0, 2, 3):
        end(place, rank, "running")
    stalls(place, (0, 2, 3))
    job = ss.load_ranks(place)
    assert job.ends == {1: "was killed by SIGTERM at step 119"}
    assert verdict(job).startswith("no step ended for 30 s; rank 1 was killed by SIGTERM at step 119; ")


def test_ranks_that_a_launcher_stopped_after_one_was_lost_are_not_blamed(telemetry):
    place = telemetry()
    gone(place, 2)
    for rank in (0, 1, 3):
        end(place, rank, "stopped", "SIGTERM")
    assert not ss.load_ranks(place).ends  # the job was ended, and nobody knows which was first
    end(place, 0, "failed", "ConnectionError: peer closed")
    assert list(ss.load_ranks(place).ends) == [2, 0]


def test_nothing_is_said_of_ranks_that_vanished_together(telemetry):
    place = telemetry()
    for path in (place / "ranks").iterdir():
        os.utime(path, (START, START))
    assert not [note for note in ss.load_ranks(place).notes if "recording" in note]


def test_many_ranks_that_failed_are_counted(telemetry):
    place = telemetry()
    rows = [(step, TelemetryRow(START + step, ended=True, seconds=0.1, waited=0.0)) for step in range(60)]
    for rank in range(8):
        name = Name("rank", rank, 8, 2, 0, "node", 999_999_999, 0)
        (place / "ranks" / str(name)).write_bytes(frame(encoded(ROWS, rows, (1e9, float("nan")))))
    for path in (place / "ranks").glob("*attempt-2*"):
        with path.open("ab") as file:
            file.write(frame(encoded_facts(END, status="failed", reason=None, ended=START)))
    notes = ss.load_ranks(place).notes
    assert notes[0] == "rank 0 failed at step 59"
    assert notes[4] == "4 more ranks failed, were killed or stopped recording"


def test_an_attempt_that_only_one_rank_has_begun_is_said_to_be_so(telemetry):
    place = telemetry()
    path = place / "ranks" / str(Name("rank", 1, 4, 2, 0, "node", 999_999_999, 0))
    rows = [(0, TelemetryRow(START, ended=True, seconds=0.1, waited=0.0))]
    path.write_bytes(frame(encoded(ROWS, rows, (1e9, float("nan")))))
    with pytest.raises(EmptyTraceError, match="found 1: of 4 ranks, only rank 1 has begun attempt 2") as told:
        ss.load_ranks(place)
    assert "wait for the other ranks" in told.value.hint


def test_nothing_there():
    with pytest.raises(TraceError, match="no such run or profile"):
        ss.load_ranks("/no/such/place")


def test_a_recommendation_model_on_eight_devices(capsys):
    """What is known of the recording: 96.5 % of communication is waiting, rank 7 causes 76 % of it."""
    found = json.loads(ask(capsys, recorded("traces/dlrm_8xv100"), "--json", "--no-cache"))
    assert found["wait"]["share_of_communication"] == pytest.approx(0.965, abs=0.005)
    assert sum(row["share"] for row in found["blame"] if row["rank"] == 7) == pytest.approx(0.76, abs=0.02)
    assert sum(row["wait_caused_ns"] for row in found["blame"]) == found["wait"]["total_ns"]
    assert [row["rank"] for row in found["stragglers"]] == [7]
    assert found["clock"]["refused"] is None
    assert all(abs(clock["offset"]) < 5_000 for clock in found["clock"]["offsets_ns"].values())
    gains = [change["gain_ns"] / change["recorded_ns"] for change in found["what_if"]]
    assert all(-0.02 <= gain < 1 for gain in gains)


@pytest.mark.parametrize(("scenario", "culprits"), [("gpu_error_1st", {12, 14}), ("lock_gil_1st", {9, 14})])
def test_dumps_of_a_hang(capsys, scenario, culprits):
    place = recorded(f"traces/flight_recorder/{scenario}")
    found = json.loads(ask(capsys, place, "--json", "--no-cache"))
    assert {suspect["rank"] for suspect in found["suspects"]} == culprits
    assert all(suspect["confidence"] > 0.9 and suspect["evidence"] for suspect in found["suspects"])
    assert ask(capsys, place, "--no-cache").startswith("the job waits for ranks ")


@pytest.mark.slow
def test_parameter_servers(capsys):
    found = json.loads(ask(capsys, recorded("tf_estimator/distributed"), "--json", "--no-cache"))
    assert [task["task"] for task in found["parameter_server"]] == [
        "chief:0", "worker:0", "worker:1", "worker:2", "worker:3", "ps:0", "ps:1"
    ]  # fmt: skip
    for task in found["parameter_server"]:
        if task["server"]:
            assert task["parts"] is None
            assert 0 < task["holds_ratio"] < 1
        else:
            assert sum(task["parts"].values()) == pytest.approx(1)
            assert min(task["parts"].values()) > 0
    assert not any(task["bottleneck"] for task in found["parameter_server"])
    text = ask(capsys, recorded("tf_estimator/distributed"), "--no-cache")
    assert text.startswith("worker:")
    assert "no parameter server stands out" in text.splitlines()[0]
    assert "cannot tell" not in text, "tasks that wait for servers need no collectives"


def ranks_of(place, ranks, into):
    """Copy the recordings of some ranks."""
    for rank in ranks:
        shutil.copy(next(place.glob(f"rank{rank}.json*")), into)
    return into


def test_two_recordings_of_one_rank_are_refused_with_the_reason(tmp_path):
    place = ranks_of(recorded("traces/dlrm_8xv100"), (0, 1), tmp_path)
    first = next(place.glob("rank0.json*"))
    shutil.copy(first, first.with_name(f"again-{first.name}"))
    with pytest.raises(EmptyTraceError, match="2 files of rank 0 overlap in time"):
        ss.load_ranks(place, cache=False)


def test_a_file_that_is_cut_off_is_named(tmp_path, capsys):
    place = ranks_of(recorded("traces/dlrm_8xv100"), (0, 1, 2), tmp_path)
    whole = next(place.glob("rank2.json*"))
    text = gzip.decompress(whole.read_bytes()) if whole.suffix == ".gz" else whole.read_bytes()
    whole.unlink()
    (place / "rank2.json").write_bytes(text[: len(text) // 2])
    assert main(["ranks", str(place), "--no-cache"]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert [note for note in notes if "ends too early" in note] == [
        "rank2.json: the document ends too early; all events before the cut were read"
    ]
    assert "rank 2: left out, as no collective matches those of the others" in notes


def test_whole_files_of_one_run_have_no_note(tmp_path, capsys):
    place = ranks_of(recorded("traces/dlrm_8xv100"), range(8), tmp_path)
    assert main(["ranks", str(place), "--no-cache"]) == 0
    assert not [line for line in capsys.readouterr().err.splitlines() if "rank0" in line or "sizes" in line]
