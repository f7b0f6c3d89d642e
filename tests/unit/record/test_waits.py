"""Waits for a processor, from files as Linux has them."""

from itertools import pairwise

import pytest

from stepscope.record.waits import CPU_WAIT, MAX_THREADS, ProcessorWaits


def write(proc, process, thread, waited_s, children=""):
    folder = proc / process / "task" / thread
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"12345 {round(waited_s * 1e9)} 7\n")
    (folder / "children").write_text(children)


def test_waits_of_all_threads_and_children_are_summed_over_the_time_between_two_readings(tmp_path):
    write(tmp_path, "self", "1", 10.0, "7 8 ")
    write(tmp_path, "7", "7", 3.0)
    waits = ProcessorWaits(str(tmp_path))
    assert waits.read(100.0, trains=False) == {}
    write(tmp_path, "self", "1", 14.0, "7 8 ")
    write(tmp_path, "self", "2", 0.5)  # begun since
    write(tmp_path, "7", "7", 5.0)
    assert waits.read(104.0, trains=False) == {}  # not due
    assert waits.read(110.0, trains=False) == {CPU_WAIT: pytest.approx((4.0 + 0.5 + 2.0) / 10)}
    (tmp_path / "self" / "task" / "2" / "schedstat").unlink()  # ended
    assert waits.read(120.0, trains=False) == {CPU_WAIT: 0.0}


def test_what_the_system_does_not_count_is_not_recorded(tmp_path):
    (tmp_path / "self" / "task" / "1").mkdir(parents=True)
    waits = ProcessorWaits(str(tmp_path))
    assert [waits.read(now, trains=False) for now in (0.0, 10.0, 20.0)] == [{}, {}, {}]


def test_of_too_many_threads_nothing_is_recorded(tmp_path):
    waits = ProcessorWaits(str(tmp_path))
    for thread in range(MAX_THREADS + 1):
        write(tmp_path, "self", str(thread), 1.0)
    assert [waits.read(now, trains=False) for now in (0.0, 10.0)] == [{}, {}]


def test_a_short_run_has_readings_and_one_at_its_end(tmp_path):
    write(tmp_path, "self", "1", 0.0)
    waits = ProcessorWaits(str(tmp_path))
    turns = [at / 4 for at in range(4 * 120)]
    due = [now for now in turns if waits.read(now, trains=True)]
    assert due[:4] == [0.25, 0.5, 0.75, 1.0]
    apart = [later - earlier for earlier, later in pairwise(due)]
    assert apart == sorted(apart)
    assert apart[-1] == 5.0
    assert not waits.read(due[-1] + 0.04, trains=True, last=True)
    assert waits.read(due[-1] + 0.06, trains=True, last=True)
    assert not waits.read(due[-1] + 1, trains=False, last=True)
