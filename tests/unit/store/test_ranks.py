"""The files of ranks, read: listing, growth, damage, rank by step."""

import itertools
import json
import os
import socket
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from support.errors import raises

import stepscope as ss
from stepscope.cli import main
from stepscope.errors import UsageError
from stepscope.events import damage, rank_file
from stepscope.events.framing import frame, header
from stepscope.events.rank_file import MAX_STEP, MOST_FACTS_BYTES
from stepscope.events.telemetry import (
    END,
    FACTS,
    HANG,
    HEAD,
    LATE,
    MAX_RANKS,
    ROW,
    ROWS,
    TAGS,
    TIMED,
    Name,
    TelemetryRow,
    as_event,
    encoded,
    encoded_facts,
    parse_name,
)
from stepscope.files import MAX_VALUES, bounded_object
from stepscope.store import ranks as store_ranks
from stepscope.store.ranks import Ranks, cut
from stepscope.trace.ranks import absent_ranks

START = 1.7e9
DAY = 86400.0


class Job:
    """Writes files of ranks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "ranks"
        self.folder.mkdir()

    def path(self, rank, *, attempt=1, size=4, kind="rank", number=0, host="node"):
        return self.folder / str(Name(kind, rank, size, attempt, 0, host, 999_999_999, number))

    def write(self, path, *records):
        with path.open("ab") as file:
            file.write(b"".join(records))

    def rank(self, rank, steps=(), *, facts=None, end=None, **place):
        path = self.path(rank, **place)
        self.write(path, words(FACTS, rank=rank, role="worker", host="node", **(facts or {})), *steps)
        if end:
            self.write(path, words(END, status=end, reason=None))
        return path


def words(kind, **facts):
    return frame(encoded_facts(kind, **facts))


def rows(*steps, kind=ROWS, memory=(1e9, float("nan")), **values):
    """A record of some steps; values are the same for all, or a function of the step."""

    def row(step):
        filled = {name: value(step) if callable(value) else value for name, value in values.items()}
        return TelemetryRow(START + step, has_loss="loss" in filled, ended=True, **filled)

    return frame(encoded(kind, [(step, row(step)) for step in steps], memory))


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.fixture
def ranks(tmp_path):
    return Ranks(str(tmp_path))


def test_a_run_without_ranks(tmp_path):
    ranks = Ranks(str(tmp_path / "none"))
    assert (ranks.count(), ranks.size(), ranks.attempts(), ranks.members()) == (0, None, [], [])
    grid = ranks.grid("loss")
    assert grid.mean.shape == (0, 0)
    assert (grid.labels, grid.end) == ([], 0)


def test_listing_needs_names_only(job, ranks, monkeypatch):
    for rank in range(3):
        job.rank(rank, attempt=2)
    job.rank(0, attempt=1)
    job.rank(0, attempt=2, kind="ps")
    (job.folder / "notes.txt").write_text("")
    monkeypatch.setattr(store_ranks, "RankFile", None)  # nothing is opened
    assert (ranks.count(), ranks.size(), ranks.attempts()) == (4, 4, [1, 2])
    assert repr(ranks).endswith("ranks': 4>")


def test_a_rank_in_brief(job, ranks):
    job.rank(
        2,
        [rows(0, 1, 2, seconds=lambda s: 0.1 * (s + 1), waited=0.02, loss=lambda s: 3.0 - s)],
        end="finished",
    )
    (member,) = ranks.members()
    assert (member.label, member.role, member.state, member.host, member.attempts) == (
        "rank 2", "worker", "finished", "node", (1,)
    )  # fmt: skip
    digest = member.digest
    assert (digest.steps, digest.last_step, digest.last_wall) == (3, 2, START + 2)
    assert digest.median_step_s == pytest.approx(0.2)
    assert digest.wait_ratio == pytest.approx(0.1)
    assert (digest.loss, digest.nonfinite) == (1.0, 0)
    assert (digest.resident_bytes, digest.device_bytes) == (1e9, None)


def test_what_was_not_recorded_is_none(job, ranks):
    job.rank(0, [rows(5)])
    job.rank(1)
    first, second = ranks.members()
    assert (first.digest.last_step, first.digest.median_step_s, first.digest.wait_ratio) == (5, None, None)
    assert first.digest.loss is None
    assert (second.digest.steps, second.digest.last_step, second.digest.resident_bytes) == (0, None, None)


def test_an_empty_file_is_a_rank_of_which_the_name_tells(job, ranks):
    job.path(3).touch()
    (member,) = ranks.members()
    assert (member.label, member.role, member.host, member.digest.steps) == ("rank 3", None, "node", 0)


class TestStates:
    def state(self, ranks, job, *, quiet=0.0, **facts):
        return ranks.members(now=job.rank(0, facts=facts).stat().st_mtime + quiet)[0].state

    def test_a_rank_that_wrote_just_now_runs(self, ranks, job):
        assert self.state(ranks, job) == "running"

    def test_one_that_is_silent_is_stalled(self, ranks, job):
        assert self.state(ranks, job, quiet=61) == "stalled"

    def test_one_whose_process_is_gone_is_stalled_at_once(self, ranks, job):
        job.write(job.path(0), words(FACTS, rank=0, host=socket.gethostname(), started=START))
        (member,) = ranks.members()
        assert (member.state, member.reason) == ("stalled", "its process is gone")

    def test_one_in_a_container_is_not_looked_for_among_the_processes_here(self, ranks, job):
        facts = {"rank": 0, "host": socket.gethostname(), "started": START, "pid_namespace": "a container's"}
        job.write(job.path(0), words(FACTS, **facts))
        (member,) = ranks.members()
        assert (member.state, member.reason) == ("running", None)

    @pytest.mark.parametrize("state", ["finished", "failed", "stopped"])
    def test_how_it_ended(self, ranks, job, state):
        job.rank(0, end=state)
        assert ranks.members(now=START + DAY)[0].state == state


def test_a_growing_file_is_followed(job, ranks):
    path = job.rank(0, [rows(0, 1, loss=1.0)])
    assert ranks.steps(0).step.tolist() == [0, 1]
    record = rows(2, 3, loss=2.0)
    job.write(path, record[:-5])
    assert ranks.steps(0).step.tolist() == [0, 1]
    job.write(path, record[-5:], rows(4, loss=3.0))
    assert ranks.steps(0).loss.tolist() == [1, 1, 2, 2, 3]
    assert ranks.members()[0].digest.loss == 3.0
    assert ranks.members()[0].skipped == 0


def test_a_new_rank_and_a_file_that_is_gone(job, ranks):
    path = job.rank(0, [rows(0)])
    assert len(ranks.members()) == 1
    job.rank(1, [rows(0)])
    assert [member.label for member in ranks.members()] == ["rank 0", "rank 1"]
    path.unlink()
    assert [member.label for member in ranks.members()] == ["rank 1"]


def test_a_replaced_file_is_read_anew(job, ranks):
    path = job.rank(0, [rows(*range(9))])
    assert len(ranks.steps(0).step) == 9
    path.write_bytes(rows(7))
    assert ranks.steps(0).step.tolist() == [7]


class TestDamage:
    def test_a_record_with_a_wrong_checksum_is_left_out_and_counted(self, job, ranks):
        path = job.rank(0)
        bad = bytearray(rows(1, 2))
        bad[60] ^= 1
        job.write(path, rows(0), bytes(bad), rows(3))
        assert ranks.steps(0).step.tolist() == [0, 3]
        assert ranks.members()[0].skipped == 1

    def test_rubbish_between_records(self, job, ranks):
        job.write(job.rank(0), rows(0), b"\xff" * 100, rows(1), bytes(64))
        assert ranks.steps(0).step.tolist() == [0, 1]
        assert ranks.members()[0].skipped == 1

    def test_nothing_but_rubbish(self, job, ranks):
        job.path(0).write_bytes(os.urandom(5000))
        assert len(ranks.steps(0).step) == 0

    def test_records_that_hold_something_else_are_counted(self, job, ranks):
        path = job.rank(0, [rows(0)])
        job.write(
            path,
            frame(as_event(ROWS, bytes(64)).replace(TAGS[ROWS].encode(), b"rowz")),
            frame(as_event(FACTS, b"{")),
        )
        assert ranks.steps(0).step.tolist() == [0]
        assert ranks.members()[0].skipped == 2

    def test_a_record_that_is_no_whole_number_of_rows(self, job, ranks):
        path = job.rank(0)
        whole = HEAD.pack(0, 1e9, 1e9) + ROW.pack(0, 0, 0, 1, 1, 1)
        job.write(path, rows(0), *(frame(as_event(ROWS, text, 1)) for text in (whole + b"123", whole[:5])))
        job.write(path, rows(2))
        assert ranks.steps(0).step.tolist() == [0, 2]
        assert ranks.members()[0].skipped == 2

    def test_a_pipe_is_not_waited_for_and_the_others_are_read(self, job, ranks):
        job.rank(0, [rows(0, 1)])
        os.mkfifo(job.path(1))
        os.mkfifo(job.folder / f"{HANG}1.json")
        first, second = ranks.members()
        assert (first.digest.steps, second.digest.steps) == (2, 0)
        assert ranks.stalled() == []

    def test_facts_nested_without_end_are_counted(self, job, ranks):
        job.rank(0, [frame(as_event(FACTS, b"[" * 200_000)), rows(0)])
        assert ranks.members()[0].skipped == 1
        assert ranks.steps(0).step.tolist() == [0]

    def test_a_terabyte_that_is_not_there_is_passed(self, job, ranks):
        with job.rank(0, [rows(0)]).open("r+b") as file:
            file.truncate(1 << 40)
            file.seek(1 << 40)
            file.write(rows(1))
        assert ranks.steps(0).step.tolist() == [0, 1]
        assert ranks.members()[0].skipped == 1

    def test_a_file_is_read_a_portion_at_a_time(self, job, ranks, monkeypatch):
        monkeypatch.setattr(rank_file, "PORTION_BYTES", 200)
        path = job.rank(0, [rows(step) for step in range(200)])
        job.write(path, frame(as_event(ROWS, bytes(1_000))), rows(200), rows(201)[:-3])
        assert ranks.steps(0).step.tolist() == list(range(201))
        job.write(path, rows(201)[-3:])
        assert ranks.steps(0).step.tolist() == list(range(202))

    def test_headers_that_begin_no_record_are_given_up(self, job, ranks, monkeypatch):
        monkeypatch.setattr(damage, "FREE_BYTES", 1 << 20)
        job.rank(0, [rows(0), b"\xff", header(1_000_000) * 170_000])
        assert ranks.steps(0).step.tolist() == [0]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, job, ranks):
        job.rank(0, [rows(0)]).chmod(0)
        assert ranks.members()[0].digest.steps == 0


def test_values_that_came_late_are_in_their_rows(job, ranks):
    job.rank(
        0,
        [
            rows(0, 1, 2, seconds=0.1),
            rows(1, kind=LATE, loss=5.0, nonfinite=2),
            rows(0, 1, 9, kind=LATE, loss=6.0),
        ],
    )
    steps = ranks.steps(0)
    assert steps.step.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(steps.loss, np.array([6.0, 6.0, np.nan], np.float32))
    assert steps.nonfinite_count.tolist() == [0, 2, 0]
    assert ranks.members()[0].digest.nonfinite == 2


class TestAttempts:
    def test_the_newest_is_the_default(self, job, ranks):
        job.rank(0, [rows(*range(10), loss=1.0)])
        job.rank(0, [rows(*range(5, 8), loss=2.0)], attempt=2)
        job.rank(1, [rows(*range(10), loss=1.0)])
        assert ranks.steps(0).step.tolist() == [5, 6, 7]
        assert len(ranks.steps(0, attempt=1).step) == 10
        assert ranks.grid("loss").labels == ["rank 0"]
        assert ranks.grid("loss", attempt=1).labels == ["rank 0", "rank 1"]
        assert [member.attempts for member in ranks.members()] == [(1, 2), (1,)]

    def test_none_such(self, job, ranks):
        job.rank(0)
        with pytest.raises(UsageError, match="no rank 1 in attempt"):
            ranks.steps(1)
        with pytest.raises(UsageError, match="no rank 0 in attempt 5"):
            ranks.steps(0, attempt=5)

    def test_two_files_of_one_rank_follow_each_other(self, job, ranks):
        job.rank(0, [rows(0, 1)])
        job.rank(0, [rows(2)], number=1)
        assert ranks.steps(0).step.tolist() == [0, 1, 2]
        assert ranks.count() == 1


class TestGrid:
    def test_a_column_per_step_and_gaps(self, job, ranks):
        job.rank(0, [rows(0, 1, 2, 3, loss=lambda s: s)])
        job.rank(2, [rows(2, 3, 4, loss=lambda s: 10 + s)])
        grid = ranks.grid("loss")
        assert (grid.labels, grid.ranks.tolist(), grid.end) == (["rank 0", "rank 2"], [0, 2], 5)
        assert grid.steps.tolist() == [0, 1, 2, 3, 4]
        nan = np.nan
        for values in (grid.maximum, grid.mean):
            np.testing.assert_array_equal(values, np.array([[0, 1, 2, 3, nan], [nan, nan, 12, 13, 14]], "f4"))
        assert grid.count.tolist() == [[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]

    def test_several_steps_to_a_column_hide_nothing(self, job, ranks):
        values = np.random.default_rng(3).random(1000).astype(np.float32)
        values[777] = 50.0
        job.rank(0, [rows(*range(1000), seconds=lambda s: float(values[s]))])
        grid = ranks.grid("step_time_s", columns=7)
        edges = [*grid.steps.tolist(), grid.end]
        assert len(edges) == 8
        parts = [values[low:high] for low, high in itertools.pairwise(edges)]
        np.testing.assert_array_equal(grid.maximum[0], [part.max() for part in parts])
        np.testing.assert_allclose(grid.mean[0], [part.mean() for part in parts], rtol=1e-5)
        assert grid.count[0].tolist() == [len(part) for part in parts]

    def test_what_is_not_finite_is_counted_and_not_averaged(self, job, ranks):
        inf, nan = float("inf"), float("nan")
        losses = [1.0, inf, 3.0, nan]
        job.rank(0, [rows(s, loss=losses[s], nonfinite=int(s in (1, 3))) for s in range(4)])
        grid = ranks.grid("loss", columns=1)
        assert (grid.maximum[0, 0], grid.mean[0, 0], grid.count[0, 0], grid.nonfinite[0, 0]) == (3, 2, 4, 2)

    def test_a_range_of_steps(self, job, ranks):
        job.rank(0, [rows(*range(100), loss=lambda s: s)])
        grid = ranks.grid("loss", begin=10, end=20, columns=5)
        assert grid.steps.tolist() == [10, 12, 14, 16, 18]
        assert grid.maximum[0].tolist() == [11, 13, 15, 17, 19]

    def test_steps_far_apart(self, job, ranks):
        job.rank(0, [rows(0, loss=1.0), rows(1 << 40, loss=1.0)])
        assert ranks.grid("loss").steps.tolist() == [0, 1 << 40]
        assert ranks.grid("loss", columns=3).count.tolist() == [[1, 0, 1]]

    def test_steps_that_come_again(self, job, ranks):
        job.rank(0, [rows(0, 1, 2, loss=1.0), rows(1, 2, loss=5.0)])
        grid = ranks.grid("loss", columns=3)
        assert grid.maximum[0].tolist() == [1, 5, 5]
        assert grid.count[0].tolist() == [1, 2, 2]

    def test_parameter_servers_come_last(self, job, ranks):
        job.rank(0, [rows(0, loss=1.0)], kind="ps")
        job.rank(1, [rows(0, loss=1.0)])
        assert ranks.grid("loss").labels == ["rank 1", "ps 0"]
        assert [member.label for member in ranks.members()] == ["rank 1", "ps 0"]

    def test_no_such_fact(self, ranks):
        with raises(UsageError, match="no fact 'speed' of ranks", hint_has="step_time_s"):
            ranks.grid("speed")


def test_what_is_let_go_is_read_again(job, ranks):
    job.rank(0, [rows(0, 1)])
    assert len(ranks.steps(0).step) == 2
    ranks.release()
    assert ranks._files == {}
    assert len(ranks.steps(0).step) == 2


def test_many_files_are_read_by_threads(job, ranks):
    for rank in range(40):
        job.rank(rank, [rows(*range(20), loss=lambda s, rank=rank: rank)], size=40)
    assert ranks.grid("loss", columns=4).mean[:, 0].tolist() == list(range(40))


def test_a_run_knows_its_ranks(tmp_path):
    with ss.Run(tmp_path / "a", rank=0, world_size=2) as run:
        for _ in run.steps(range(3)):
            run.scalar("loss", 1.0)
    with ss.open(tmp_path, cache=False) as log:
        found = log.run("a").ranks
        assert (found.count(), found.size()) == (1, 2)
        assert found.steps(0).loss.tolist() == [1, 1, 1]
        assert log.run("a").ranks is found


def staged_rows(steps, *stages, seconds=1.0, waited=0.1, completed=(), kind=ROWS):
    """A record of steps of a second, which marked stages for so many seconds each."""
    row = TelemetryRow(START, seconds, waited, ended=True, spent=(0.0, *stages), completed=completed)
    return frame(encoded(kind, [(step, row) for step in steps], (1e9, 1e9), len(stages)))


class TestStages:
    """How long each stage of each step took each rank."""

    ORDER = {"stages": ["forward", "backward"], "stage_order": [1, 2]}  # noqa: RUF012

    def test_a_step_is_the_wait_for_data_its_stages_and_the_rest(self, job, ranks):
        job.rank(0, [staged_rows([0, 1], 0.25, 0.5)], facts=self.ORDER | {"group": "policy"})
        job.rank(1, [staged_rows([0], 0.4, 0.2)], facts=self.ORDER | {"devices": ["cuda:0"]})
        table = ranks.stages()
        assert (table.stages, table.ranks, table.hosts) == (
            ["data", "forward", "backward", "rest"], [0, 1], ["node", "node"],
        )  # fmt: skip
        assert table.steps.tolist() == [0, 1]
        nan = [np.nan] * 4
        expected = [[[0.1, 0.25, 0.5, 0.15], [0.1, 0.4, 0.2, 0.3]], [[0.1, 0.25, 0.5, 0.15], nan]]
        np.testing.assert_allclose(table.durations_s, expected, atol=1e-4)
        assert (table.groups, table.doubled, table.clock, table.devices) == ({0: "policy"}, [], "host", True)

    @pytest.mark.parametrize(
        ("rested_s", "stages"),
        [
            ([[5.0, 0.0, 1.0], [1.0, 0.0, 0.0]], ["data", "rest", "forward", "backward"]),
            ([[1.0, 5.0, 0.0], [1.0, 0.0, 2.0]], ["data", "forward", "rest", "backward"]),
            ([[1.0, 0.0, 1.0], [0.0, 0.0, 5.0]], ["data", "forward", "backward", "rest"]),
            ([[0.02, 0.0, 0.0], [0.03, 0.0, 0.0]], ["data", "forward", "backward", "rest"]),
            ([None, "damaged"], ["data", "forward", "backward", "rest"]),
        ],
    )
    def test_the_rest_stands_where_most_of_it_was(self, job, ranks, rested_s, stages):
        for rank, seconds in enumerate(rested_s):
            facts = self.ORDER | {"rested_s": seconds, "stages_s": 10}
            job.rank(rank, [staged_rows([0], 0.25, 0.5)], facts=facts)
        table = ranks.stages()
        assert table.stages == stages
        expected = {"data": 0.1, "forward": 0.25, "backward": 0.5, "rest": 0.15}
        np.testing.assert_allclose(table.durations_s[0, 0], [expected[stage] for stage in stages], atol=1e-4)

    def test_a_stage_that_was_not_marked_took_no_time_if_another_was(self, job, ranks):
        job.rank(0, [staged_rows([0], 0.25, 0.5)], facts=self.ORDER)
        job.rank(1, [staged_rows([0], 0.25)], facts={"stages": ["forward"], "stage_order": [1]})
        job.rank(2, [rows(0, seconds=1.0, waited=0.1)])
        durations = ranks.stages().durations_s[0]
        np.testing.assert_allclose(durations[1], [0.1, 0.25, 0, 0.65], atol=1e-4)
        assert np.isnan(durations[2, 1:]).all()  # of which it told nothing
        assert durations[2, 0] == np.float32(0.1)

    def test_a_rest_is_never_negative(self, job, ranks):
        job.rank(0, [staged_rows([0], 0.6, 0.5)], facts=self.ORDER)
        assert ranks.stages().durations_s[0, 0, -1] == 0

    def test_where_no_rank_knows_its_wait_there_is_no_such_stage(self, job, ranks):
        job.rank(0, [staged_rows([0], 0.25, 0.5, waited=float("nan"))], facts=self.ORDER)
        table = ranks.stages()
        assert table.stages == ["forward", "backward", "rest"]
        np.testing.assert_allclose(table.durations_s[0, 0], [0.25, 0.5, 0.25], atol=1e-4)

    def test_steps_of_a_range(self, job, ranks):
        job.rank(0, [staged_rows(range(10), 0.25, 0.5)], facts=self.ORDER)
        assert ranks.stages(begin=3, end=6).steps.tolist() == [3, 4, 5]
        assert ranks.stages(begin=8).steps.tolist() == [8, 9]
        assert ranks.stages(end=2).steps.tolist() == [0, 1]

    def test_of_a_step_that_comes_again_the_newest_counts(self, job, ranks):
        job.rank(0, [staged_rows([0, 1], 0.25, 0.5)], facts=self.ORDER)
        job.rank(1, [staged_rows([0, 1], 0.25, 0.5), staged_rows([1, 2], 0.3, 0.5)], facts=self.ORDER)
        table = ranks.stages()
        assert (table.steps.tolist(), table.doubled) == ([0, 1, 2], [1])
        np.testing.assert_allclose(table.durations_s[:, 1, 1], [0.25, 0.3, 0.3], atol=1e-4)

    def test_the_files_of_one_process_are_joined(self, job, ranks):
        job.rank(0, [staged_rows([0, 1], 0.25, 0.5)], facts=self.ORDER)
        job.rank(0, [staged_rows([2], 0.3, 0.5)], facts=self.ORDER, number=1)
        table = ranks.stages()
        assert table.steps.tolist() == [0, 1, 2]
        np.testing.assert_allclose(table.durations_s[:, 0, 1], [0.25, 0.25, 0.3], atol=1e-4)

    def test_many_ranks_are_turned_some_at_a_time(self, job, ranks):
        count = store_ranks.TURNED + 3
        for rank in range(count):
            job.rank(rank, [staged_rows([0, 1], rank / 100, 0.1)], facts=self.ORDER)
        np.testing.assert_allclose(ranks.stages().durations_s[1, :, 1], np.arange(count) / 100, atol=1e-4)

    def test_a_job_of_parameter_servers_alone_has_none(self, job, ranks):
        job.rank(0, [rows(0, seconds=1.0)], kind="ps")
        table = ranks.stages()
        assert (table.ranks, table.steps.tolist(), table.durations_s.shape) == ([], [], (0, 0, 2))

    def test_stages_end_as_the_devices_do_where_all_have_timed_the_same_steps(self, job, ranks):
        """A step on the device may be longer than the host's; its parts are of that."""
        enough = range(store_ranks.FEWEST_TIMED)
        timed = staged_rows(enough, 0.25, 0.5, completed=(0.2, 0.3, 1.0, 0.5), kind=TIMED)
        job.rank(0, [timed, staged_rows([99], 0.25, 0.5)], facts=self.ORDER)
        table = ranks.stages()
        assert table.clock == "device"
        np.testing.assert_allclose(table.durations_s[0, 0], [0.2, 1.0, 0.5, 0.3], rtol=1e-3)
        assert np.isnan(table.durations_s[-1, 0, 0])  # its device has not timed that one
        assert ranks.stages(begin=1).clock == ranks.stages(end=enough[-1]).clock == "host"  # too few
        job.rank(1, [staged_rows(enough, 0.25, 0.5)], facts=self.ORDER)
        assert ranks.stages().clock == "host"

    def test_a_grid_of_a_stage(self, job, ranks):
        job.rank(0, [staged_rows([0, 1], 0.25, 0.5)], facts=self.ORDER)
        job.rank(1, [rows(0, 1, seconds=1.0)])
        grid = ranks.grid("stage/backward")
        np.testing.assert_allclose(grid.maximum, [[0.5, 0.5], [np.nan, np.nan]], atol=1e-4)
        assert ranks.grid("stage/nothing").count.tolist() == [[], []]


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ([2, 1], ["backward", "forward"]),
        ([1, 1, 2], ["forward", "backward"]),
        ([0, 2, 3, "1"], ["backward"]),  # beyond the names
        (None, []),
    ],
)
def test_stages_are_named_in_the_order_in_which_they_ran(job, order, found):
    path = job.rank(0, facts={"stages": ["forward", "backward"], "stage_order": order})
    file = rank_file.RankFile(str(path), None)
    file.follow()
    assert file.stage_names == found


def test_a_stage_of_a_rank_without_steps_has_none(job):
    file = rank_file.RankFile(str(job.rank(0, facts={"stages": ["forward"], "stage_order": [1]})), None)
    file.follow()
    assert file.stage("forward").tolist() == []
    assert file.steps().step.tolist() == []


def test_a_record_may_have_more_stages_than_a_byte_counts(job):
    names = [f"stage{number}" for number in range(300)]
    path = job.rank(
        0,
        [staged_rows([0, 1], *[0.5] * 299, 0.25)],
        facts={"stages": names, "stage_order": [*range(1, 301)]},
    )
    file = rank_file.RankFile(str(path), None)
    file.follow()
    assert (file.skipped, len(file.stage_names)) == (0, 300)
    np.testing.assert_allclose(file.stage("stage299"), [0.25, 0.25], atol=1e-4)


# Files of ranks that somebody else wrote: names, numbers and JSON are bounded, and cost milliseconds.


NAME = "rank-{rank:05d}-of-{size:05d}.attempt-1.restart-0.host.{rank}.0.steps"


def write(run, *, size=2, facts=b"{}", steps=(0,), name=NAME):
    folder = run / "ranks"
    folder.mkdir(parents=True)
    rows = HEAD.pack(0, 1e6, 1e6) + b"".join(ROW.pack(at, 0, at, 0.1, 0.01, 1.0) for at in range(3))
    events = [as_event(FACTS, facts), *(as_event(ROWS, rows, step, 5.0) for step in steps)]
    content = b"".join(map(frame, events))
    for rank in range(2):
        (folder / name.format(rank=rank, size=size)).write_bytes(content)
    return Ranks(str(run))


@pytest.mark.parametrize("size", [999_999_999, 10**12, MAX_RANKS + 1])
def test_a_name_of_more_ranks_than_a_job_has_is_left_out_and_said(tmp_path, size, capsys):
    ranks = write(tmp_path / "run", size=size)
    tracemalloc.start()
    assert ranks.size() is None
    [note] = ranks.notes()
    assert f"of-{size}" in note
    assert "and 1 more" in note
    assert main(["ranks", "--no-cache", str(tmp_path / "run")]) == 1
    assert main(["ls", "--ranks", str(tmp_path)]) in (0, 1)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        NAME.replace("{rank:05d}-of", "9{rank:024d}-of"),
        NAME.replace("attempt-1", "attempt-" + "9" * 30),
        NAME.replace("host.{rank}", "host." + "9" * 30 + "{rank}"),
        NAME.replace("restart-0", "restart-\u0663"),
    ],
)
def test_numbers_of_names_that_fit_into_no_column_are_left_out(name):
    assert parse_name(NAME.format(rank=1, size=2)) is not None
    assert parse_name(name.format(rank=1, size=2)) is None


def test_a_job_as_large_as_they_come_is_listed(tmp_path):
    ranks = write(tmp_path / "run", size=MAX_RANKS)
    assert ranks.size() == MAX_RANKS
    assert ranks.notes() == []
    assert absent_ranks(MAX_RANKS, [0, 1]) == list(range(2, MAX_RANKS))
    assert absent_ranks(10**15, [0]) == []


@pytest.mark.parametrize("first", [-(2**63), 2**63 - 2, 2**63 - 1, MAX_STEP + 2, -MAX_STEP - 2])
def test_steps_that_no_training_reaches_are_skipped_and_counted(tmp_path, first):
    ranks = write(tmp_path / "run", steps=(0, first))
    assert [rank.skipped for rank in ranks.members()] == [1, 1]
    assert ranks.grid("step_time_s", columns=100).steps.tolist() == [0, 1, 2]
    assert ranks.stages().steps.tolist() == [0, 1, 2]


@pytest.mark.parametrize("steps", [(0, 2**40), (-(2**60), 2**60), (-MAX_STEP, MAX_STEP - 5)])
@pytest.mark.parametrize("columns", [None, 1, 7, 4096])
def test_steps_far_apart_are_a_grid_of_few_columns(tmp_path, steps, columns):
    grid = write(tmp_path / "run", steps=steps).grid("step_time_s", columns=columns)
    assert grid.count.sum() == 12
    assert (np.diff(grid.steps) > 0).all()
    assert len(grid.steps) <= 4096 + 12


@pytest.mark.parametrize(("first", "span", "parts"), [(0, 10, 4), (-(2**61), 2**62, 4096), (5, 2**62 - 5, 3)])
def test_a_range_is_cut_into_parts_of_about_one_length(first, span, parts):
    edges = cut(first, span, parts).tolist()
    assert (edges[0], edges[-1], len(edges)) == (first, first + span, parts + 1)
    widths = [after - before for before, after in itertools.pairwise(edges)]
    assert max(widths) - min(widths) <= 1


@pytest.mark.parametrize(
    "facts",
    [
        b'{"a": [' + b"[]," * (MOST_FACTS_BYTES // 3) + b"[]]}",
        b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"a": "' + b"x" * MOST_FACTS_BYTES + b'"}',
        b"[]",
        b"\xff",
    ],
)
def test_what_a_rank_says_of_itself_is_bounded(tmp_path, facts):
    ranks = write(tmp_path / "run", facts=facts)
    assert [(rank.facts, rank.skipped) for rank in ranks.members()] == [({}, 1)] * 2


def test_objects_of_others_are_bounded_and_their_numbers_fit():
    assert bounded_object(b'{"a": [' + b"[]," * MAX_VALUES + b"[]]}") is None
    numbers = b'{"a": 1' + b"0" * 30 + b', "b": -9223372036854775808, "c": 9223372036854775808}'
    assert bounded_object(numbers) == {
        "a": 1e30, "b": -(2**63), "c": 2.0**63,
    }  # fmt: skip


def test_a_stalled_rank_that_says_too_much_is_left_out(tmp_path):
    ranks = write(tmp_path / "run")
    path = tmp_path / "run" / "ranks" / "hang-0.json"
    path.write_bytes(b'{"rank": 0, "pid": 0, "a": [' + b"[]," * 10_000_000 + b"[]]}")
    assert ranks.stalled() == []
    path.write_text(json.dumps({"rank": 0, "pid": 0, "stacks": ["a"]}))
    assert [each["stacks"] for each in ranks.stalled()] == [["a"]]
