"""What the endpoints of profiles say of traces made by hand."""

import csv
import gc
import gzip
import io
import json
import weakref
from dataclasses import replace

import msgspec
import pytest
from support.addresses import Addresses
from support.errors import raises
from support.waiting import until

from stepscope.serve.frame import array_of
from stepscope.serve.profiles import draw, open_profiles
from stepscope.serve.profiles.category import CATEGORIES, categories
from stepscope.serve.profiles.event import event as describe
from stepscope.serve.profiles.open_profiles import OpenProfile, Profiles
from stepscope.serve.profiles.range import within
from stepscope.serve.profiles.spans import events_csv
from stepscope.serve.profiles.summary import summary
from stepscope.serve.profiles.tree import tree
from stepscope.serve.profiles.types import TimelineHeader
from stepscope.serve.reply import Refusal
from stepscope.trace.model import Kind, Source

STEP, LOAD, OP, LAUNCH, KERNEL, COPY = (
    Kind.STEP, Kind.DATA_LOADING, Kind.HOST_OP, Kind.RUNTIME_CALL, Kind.KERNEL, Kind.MEMCPY
)  # fmt: skip


@pytest.fixture
def profile(make):
    """One step: loading, an operator that launches a kernel; a copy; then a second call of the operator."""
    event = make.event
    return OpenProfile(
        "run/trace.json",
        make.build(
            [
                event("step", STEP, 0, 1000, step=4),
                event("next", LOAD, 0, 300),
                event("mm", OP, 300, 200),
                event("launch", LAUNCH, 350, 50, correlation=7),
                event("mm", OP, 600, 100),
                event("gemm", KERNEL, 400, 400, device=0, stream=7, lane="stream 7", correlation=7),
                event("copy", COPY, 850, 50, device=0, stream=7, lane="stream 7", bytes=4096),
            ]
        ),
    )


def opened(frame):
    import struct

    _, size = struct.unpack_from("<II", frame)
    header = msgspec.json.decode(frame[8 : 8 + size], type=TimelineHeader)
    body = memoryview(frame)[8 + size + (-(8 + size) % 8) :]
    return header, {name: array_of(body, column).tolist() for name, column in header.columns.items()}


def test_the_summary_says_lanes_steps_and_what_takes_time(profile):
    said = summary(profile)
    assert (said.events, said.ranks, said.start_ns, said.end_ns) == (7, [0], 0, 1000)
    assert [(lane.thread, lane.device, lane.events, lane.depth) for lane in said.lanes] == [
        ("main", -1, 5, 3),
        ("stream 7", 0, 2, 1),
    ]
    (step,) = said.steps
    assert (step.number, step.wall_ns) == (4, 1000)
    assert sum(value or 0 for value in step.parts_ns.values()) == 1000
    assert step.parts_ns["data_loading"] == 300
    assert [(one.name, one.total_ns) for one in said.device_top] == [("gemm", 400), ("copy", 50)]
    assert [(one.name, one.calls, one.total_ns) for one in said.host_top] == [("mm", 2, 300)]
    json.dumps(msgspec.to_builtins(said))


def test_categories_colour_by_kind_and_phase(profile, make):
    named = {
        profile.trace.name_of(row): CATEGORIES[number]
        for row, number in enumerate(categories(profile.trace).tolist())
    }
    assert named == {
        "step": "step", "next": "loading", "mm": "host", "launch": "runtime", "gemm": "compute",
        "copy": "copy",
    }  # fmt: skip
    assert CATEGORIES[categories(make.build([make.event("AddmmBackward0", OP, 0, 5)]))[0]] == "backward"


def test_the_timeline_is_a_frame_of_the_window_and_lanes(profile):
    header, columns = opened(draw.timeline(profile, 0, 1000, 1000, None))
    assert header.events == 7
    rectangles = [
        (lane, depth, start, end, header.names[name])
        for lane, depth, start, end, name in zip(
            columns["lane"], columns["depth"], columns["start"], columns["end"], columns["name"], strict=True
        )
    ]
    assert (0, 0, 0.0, 1000.0, "step") in rectangles
    assert (1, 0, 400.0, 800.0, "gemm") in rectangles
    header, columns = opened(draw.timeline(profile, 500, 560, 10, [1]))
    assert header.names == ["gemm"]
    header, columns = opened(draw.timeline(profile, 0, 1000, 2, None))
    assert sum(columns["count"]) == 7


@pytest.mark.parametrize(("window", "pixels", "lanes"), [((5, 5), 10, None), ((0, 10), 10, [9])])
def test_a_window_that_cannot_be_is_refused(profile, window, pixels, lanes):
    with raises(Refusal, status=400):
        draw.timeline(profile, *window, pixels, lanes)


def test_search_finds_every_event_whatever_the_case_and_states_the_total(profile):
    found = draw.search(profile, "MM", 1)
    assert (found.total, found.total_ns, found.names, len(found.hits)) == (3, 700, 2, 1)
    assert (found.hits[0].start_ns, found.hits[0].name) == (300, "mm")
    assert draw.search(profile, "", 5).total == 0
    assert draw.search(profile, "nothing", 5).total == 0


def test_a_range_cuts_events_at_its_ends_and_takes_children_off(profile):
    found = within(profile, 250, 400, None)
    rows = {row.name: (row.calls, row.total_ns, row.self_ns) for row in found.rows}
    assert rows == {"step": (1, 150, 0), "next": (1, 50, 50), "mm": (1, 100, 50), "launch": (1, 50, 50)}
    assert within(profile, 250, 500, [1]).rows[0].total_ns == 100
    with pytest.raises(Refusal):
        within(profile, 10, 10, None)


def test_every_event_of_a_window_is_a_row(profile, make):
    def rows(*window):
        return list(
            csv.DictReader(io.StringIO(b"".join(events_csv(profile, *window).data).decode(), newline=""))
        )

    found = rows(0, 2000, None)
    assert [row["name"] for row in found] == ["step", "next", "mm", "launch", "mm", "gemm", "copy"]
    assert found[3] == {
        "row": found[3]["row"], "rank": "0", "process": found[3]["process"], "thread": "main", "depth": "2",
        "category": "runtime", "name": "launch", "start_ns": "350", "duration_ns": "50",
    }  # fmt: skip
    assert [row["name"] for row in rows(820, 900, [1])] == ["copy"]
    with pytest.raises(Refusal, match="empty window"):
        rows(5, 5, None)
    named = OpenProfile("x", make.build([make.event('=1+1,"<b>', OP, 0, 5)]))
    [row] = csv.DictReader(io.StringIO(b"".join(events_csv(named, 0, 9, None).data).decode(), newline=""))
    assert row["name"] == "'=1+1,\"<b>"


def test_an_event_knows_what_launched_it_and_its_like(profile):
    (gemm,) = profile.trace.named("gemm").tolist()
    said = describe(profile, gemm)
    assert (said.name, said.kind, said.duration_ns, said.step) == ("gemm", "kernel", 400, 4)
    (link,) = said.predecessors
    assert (link.how, link.event.name, said.predecessors_total) == ("launch", "launch", 1)
    launch = describe(profile, link.event.row)
    assert [(one.how, one.event.name) for one in launch.successors] == [("launch", "gemm")]
    assert [one.name for one in launch.ancestors] == ["mm", "step"]
    first, second = profile.trace.named("mm").tolist()
    said = describe(profile, first)
    assert (said.previous, said.next) == (None, second)
    assert (said.spread.calls, said.spread.min_ns, said.spread.max_ns, said.spread.median_ns) == (
        2, 100, 200, 150,
    )  # fmt: skip
    assert sum(said.spread.counts) == 2
    assert said.bytes is None
    (copy,) = profile.trace.named("copy").tolist()
    assert describe(profile, copy).bytes == 4096
    with pytest.raises(Refusal):
        describe(profile, 99)


def test_a_view_takes_tfprofs_options_and_gives_the_command(profile):
    said = tree(profile, "op", {"min_micros": "0"})
    assert said.rows
    assert all(len(row.values) == len(said.columns) for row in said.rows)
    assert said.command == (
        "stepscope profile op run/trace.json -order_by micros -max_depth 10000 -min_micros 0"
    )
    units = {column.key: column.unit for column in said.columns}
    assert units["host_ns"] == "ns"
    assert units["calls"] == "count"


@pytest.mark.parametrize(
    ("view", "options"),
    [
        ("nosuch", {}),
        ("op", {"max_dept": "1"}),
        ("op", {"order_by": "x"}),
        ("op", {"output": "file:outfile=/tmp/x"}),
    ],
)
def test_a_view_that_cannot_be_is_refused(profile, view, options):
    with raises(Refusal, status=400):
        tree(profile, view, options)


# --- opening ------------------------------------------------------------------------------------------

TRACE = json.dumps(
    {"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    ]}
)  # fmt: skip


def test_a_profile_is_read_once_and_again_after_it_changed(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text(TRACE)
    read = []
    load = open_profiles.load_trace
    monkeypatch.setattr(
        open_profiles, "load_trace", lambda *args, **options: read.append(1) or load(*args, **options)
    )
    profiles = Profiles(tmp_path, cache=False)
    assert profiles.get("a.json") is profiles.get("a.json")
    assert len(read) == 1
    path.write_text(TRACE + "\n")
    profiles.get("a.json")
    assert len(read) == 2


def test_the_least_recently_used_are_let_go(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.json").write_text(TRACE)
    profiles = Profiles(tmp_path, cache=False, kept_bytes=1)
    first = profiles.get("a.json")
    profiles.get("b.json")
    assert profiles.get("a.json") is not first


def test_what_nobody_asks_about_any_more_is_let_go(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(TRACE)
    profiles = Profiles(tmp_path, cache=False, kept_s=0.05)
    other = profiles.get("b.json")
    other.used += 1_000  # it is asked about all the time
    first = weakref.ref(profiles.get("a.json"))
    until(lambda: gc.collect() >= 0 and first() is None)
    assert profiles.get("b.json") is other
    assert profiles.get("a.json").trace is not None


@pytest.mark.parametrize("path", ["", "../x.json", "/etc/passwd", "a/../../x", "x\0y"])
def test_no_path_leads_out_of_the_log_directory(tmp_path, path):
    (tmp_path / "log").mkdir()
    (tmp_path / "x.json").write_text(TRACE)
    with pytest.raises(Refusal) as refusal:
        Profiles(tmp_path / "log", cache=False).get(path)
    assert refusal.value.status in (400, 403, 404)


def test_a_link_out_of_the_log_directory_is_not_followed(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "secret.json").write_text(TRACE)
    (tmp_path / "log" / "link.json").symlink_to(tmp_path / "secret.json")
    with raises(Refusal, status=403):
        Profiles(tmp_path / "log", cache=False).get("link.json")


def test_what_is_no_profile_is_refused_with_the_reason(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with raises(Refusal, match="not a profile", status=422):
        Profiles(tmp_path, cache=False).get("a.json")


def test_the_endpoints_answer(tmp_path):
    (tmp_path / "a.json").write_text(TRACE)
    addresses = Addresses(tmp_path)
    ask = addresses.json
    assert [entry["path"] for entry in ask("profiles")["profiles"]] == ["a.json"]
    assert ask("profile", "path=a.json")["events"] == 1
    assert addresses.ask("timeline", "path=a.json&pixels=100")[:4] == b"SSS1"
    assert ask("event", "path=a.json&row=0")["name"] == "aten::mm"
    assert ask("search", "path=a.json&q=MM")["total"] == 1
    assert ask("range", "path=a.json&start=0&end=2000")["events"] == 1
    assert ask("view", "path=a.json&view=op&max_depth=5")["view"] == "op"
    for query in ("path=a.json&row=x", "path=a.json"):
        with pytest.raises(Refusal):
            ask("event", query)
    for address, query in (
        ("timeline", "lanes=0,x"), ("timeline", "pixels=0"), ("tracks", "tracks=x"), ("tracks", "pixels=0")
    ):  # fmt: skip
        with pytest.raises(Refusal):
            ask(address, f"path=a.json&{query}")


def test_an_event_tells_the_lines_that_its_thread_stood_in(tmp_path, make):
    """Samples each 2 ms: three in the loader's line, two after it; the device's thread was not sampled."""
    ms = 1_000_000
    path = tmp_path / "a.json.gz"
    told = {
        "schema": 1, "interval_ns": 2 * ms, "cwd": "/home/u", "steps": [[4, 0, 1]],
        "frames": ["/home/u/train.py(3): main", "/home/u/data.py(9): load"], "stacks": [[], [0], [0, 1]],
        "times_ns": [0, 2 * ms, 4 * ms, 6 * ms, 8 * ms, 10 * ms], "runnable_ns": [0] * 6,
        "samples": [0, 2, 2, 2, 1, 1],
    }  # fmt: skip
    (tmp_path / "a.json.gz.stacks").write_bytes(gzip.compress(json.dumps(told).encode()))
    events = [
        make.event("ProfilerStep#4", STEP, 0, 10 * ms, step=4),
        make.event("next", LOAD, 0, 7 * ms),
        make.event("mm", OP, 7 * ms, 100_000),
        make.event("gemm", KERNEL, 7 * ms, 2 * ms, device=0, stream=7, lane="stream 7"),
    ]
    trace = replace(make.build(events), sources=(Source(str(path), "kineto", 0, 2),))
    profile = OpenProfile("a.json.gz", trace)
    found = {profile.trace.name_of(row): describe(profile, row).lines for row in range(len(profile.trace))}
    assert [(one.file, one.line, one.function, one.time_ns, one.samples) for one in found["next"]] == [
        ("data.py", 9, "load", 6 * ms, 3)
    ]
    assert found["mm"] == []
    assert found["gemm"] is None
