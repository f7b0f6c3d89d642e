"""Which process wrote which file: restarts are attempts, overlap means several writers."""

import pytest

from stepscope.events.writer import own_name
from stepscope.store.writers import NAME

NAMES = {
    "events.out.tfevents.1700000000.node-1.example.org.4711.0": (
        "1700000000",
        "node-1.example.org",
        "4711",
        "0",
        None,
    ),
    "events.out.tfevents.1700000000.host.12.3.v2": ("1700000000", "host", "12", "3", ".v2"),
    "events.out.tfevents.1700000000.host.12.3rank1": ("1700000000", "host", "12", "3", "rank1"),
    "events.out.tfevents.1795257579.vm": ("1795257579", "vm", None, None, None),
    "my.tfevents.log": None,
}


@pytest.mark.parametrize(("name", "parts"), NAMES.items())
def test_names(name, parts):
    match = NAME.search(name)
    assert (match.groups() if match else None) == parts


def layout(run):
    """Writers as {id: [(attempt, first step of that attempt's 'loss')]}."""
    return {
        writer.id: [
            (attempt.number, int(attempt.part.tags["loss"].columns.step[0])) for attempt in writer.attempts
        ]
        for writer in run.writers
    }


def name(stamp, pid, suffix=""):
    return f"events.out.tfevents.{1_700_000_000 + stamp}.host.{pid}.0{suffix}"


def test_a_file_that_begins_after_another_is_the_next_attempt(make):
    make.line("a", "loss", range(10), name=name(0, 1))
    make.line("a", "loss", range(5, 20), wall=100, name=name(100, 2))
    make.line("a", "loss", range(12, 30), wall=200, name=name(200, 3))
    assert layout(make.open().run("a")) == {"host.1": [(1, 0), (2, 5), (3, 12)]}


def test_files_that_overlap_are_different_writers(make):
    make.line("a", "loss", range(10), name=name(0, 1))
    make.line("a", "loss", range(10), wall=0.5, name=name(0, 2))
    assert layout(make.open().run("a")) == {"host.1": [(1, 0)], "host.2": [(1, 0)]}


def test_files_of_one_process_have_different_ids(make):
    make.line("a", "loss", range(10), name="events.out.tfevents.1700000000.host.1.0")
    make.line("a", "loss", range(10), wall=0.5, name="events.out.tfevents.1700000000.host.1.1")
    assert list(layout(make.open().run("a"))) == ["host.1", "host.1#2"]


@pytest.mark.parametrize(("beside", "attempts"), [(True, [(1, 0), (1, 5)]), (False, [(1, 0), (2, 5)])])
def test_a_full_file_whose_facts_are_lost_is_of_the_process_that_its_name_tells(make, beside, attempts):
    for number, begins in enumerate((0, 5)):
        log = f"events.out.tfevents.1700000000.host.1.{number}"
        file = make.line("a", "loss", range(begins, begins + 5), wall=10 * number, name=log)
        if beside:
            file.with_name(own_name(log)).touch()
    assert layout(make.open().run("a")) == {"host.1": attempts}


def test_equal_times_prove_nothing_and_count_as_side_by_side(make):
    for number in (1, 2):
        make.points(make.file(f"a/{name(0, number)}"), "loss", [(step, 0, step) for step in range(3)])
    assert layout(make.open().run("a")) == {"host.1": [(1, 0)], "host.2": [(1, 0)]}


def test_ranks_are_told_apart_by_what_they_recorded(make):
    for attempt, wall in ((1, 0), (2, 100)):
        for rank in (0, 1) if attempt == 1 else (1, 0):
            file = make.line(
                "a",
                "loss",
                range(attempt * 10, 20 + attempt),
                wall=wall + rank / 8,
                name=name(wall, wall + rank),
            )
            make.info(file, wall=wall + 1, rank=rank, attempt=attempt)
    run = make.open().run("a")
    assert {writer.rank: [attempt.number for attempt in writer.attempts] for writer in run.writers} == {
        0: [1, 2],
        1: [1, 2],
    }
    for writer in run.writers:
        assert {source.info.rank for source in writer.sources} == {writer.rank}


def test_unranked_writers_are_continued_by_the_one_with_the_same_tags(make):
    for wall in (0, 100):
        for pid, tag in ((1, "loss"), (2, "val_loss")) if wall == 0 else ((3, "val_loss"), (4, "loss")):
            make.line("a", tag, range(5), wall=wall + pid / 8, name=name(wall, pid))
    run = make.open().run("a")
    assert [[sorted(a.part.tags) for a in writer.attempts] for writer in run.writers] == [
        [["loss"], ["loss"]],
        [["val_loss"], ["val_loss"]],
    ]


def test_suffixes_keep_writers_apart(make):
    make.line("a", "loss", range(5), name=name(0, 1, ".train"))
    make.line("a", "loss", range(5), wall=100, name=name(100, 1, ".eval"))
    assert [len(writer.attempts) for writer in make.open().run("a").writers] == [1, 1]


def test_a_recorded_attempt_counts_where_earlier_files_are_gone(make):
    make.info(make.line("a", "loss", range(5)), attempt=3)
    assert layout(make.open().run("a")) == {"host.1": [(3, 0)]}


def test_a_session_start_begins_an_attempt(make):
    file = make.file(f"a/{name(0, 1)}")
    make.session_start(file, 0, 1)
    make.points(file, "loss", [(step, 2 + step, step) for step in range(10)])
    make.session_start(file, 5, 20)
    make.points(file, "loss", [(step, 20 + step, step) for step in range(5, 8)])
    run = make.open().run("a")
    assert layout(run) == {"host.1": [(1, 0), (2, 5)]}
    assert [series.superseded_from for series in run.columns("loss")] == [5, None]
    assert run.num_points() == 13


def test_a_file_that_turns_out_to_overlap_becomes_another_writer(make):
    first = make.line("a", "loss", range(5), name=name(0, 1))
    make.line("a", "loss", range(3, 9), wall=50, name=name(50, 2))
    log = make.open()
    assert layout(log.run("a")) == {"host.1": [(1, 0), (2, 3)]}
    make.points(first, "loss", [(5, 51, 0.5)])  # the first process was alive all the time
    changes = log.refresh()
    assert layout(log.run("a")) == {"host.1": [(1, 0)], "host.2": [(1, 3)]}
    assert changes.changed == {"a": {"loss"}}


def test_files_without_events_belong_to_nobody(make):
    make.line("a", "loss", range(5))
    (make.root / "a" / name(1, 9)).write_bytes(b"")
    (make.root / "a" / name(2, 9)).write_bytes(b"\x07" * 4096)
    assert layout(make.open().run("a")) == {"host.1": [(1, 0)]}
