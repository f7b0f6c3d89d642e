"""What the endpoints of shapes, critical paths and overlap answer, and where findings are."""

import json

import msgspec
import pytest
from support.addresses import Addresses
from support.errors import raises

from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.summary import summary
from stepscope.serve.profiles.work import critical, overlaps, shapes
from stepscope.serve.reply import Refusal
from stepscope.trace.model import Device


@pytest.fixture
def profile(make):
    """Two steps: a product of 64 x 32 x 16 launches a kernel each; the device idles for most of a step."""
    event, kind = make.event, make.Kind
    events, rows, kernels = [], [], []
    for step in range(2):
        at = step * 100_000
        rows.append(len(events) + 1)
        events += [
            event(f"step {step}", kind.STEP, at, 100_000, step=step),
            event("aten::mm", kind.HOST_OP, at + 1_000, 80_000),
            event("launch", kind.RUNTIME_CALL, at + 70_000, 1_000, correlation=step + 1),
        ]
        kernels.append(event("sgemm", kind.KERNEL, at + 75_000, 20_000 + step, device=0, stream=7,
                             correlation=step + 1))  # fmt: skip
    found = {"timeline", "steps", "device", "launches", "shapes"}
    device = Device(rank=0, index=0, name="NVIDIA A100-SXM4-40GB", memory_bytes=40 << 30)
    operators = {
        "row": rows, "shapes": ["[[64,32],[32,16]]"] * 2, "types": ['["float","float"]'] * 2,
        "values": ["[]"] * 2,
    }  # fmt: skip
    trace = make.build(
        [*events, *kernels], tables={"operators": operators}, recorded=found, devices=(device,)
    )
    return OpenProfile("run/trace.json", trace)


def test_shapes_have_rates_roof_and_the_use_of_the_device_by_step(profile):
    said = shapes(profile)
    (row,) = said.rows
    assert (row.name, row.kind, row.calls, row.total_ns, row.on_device) == (
        "aten::mm", "product", 2, 40_001, True,
    )  # fmt: skip
    assert row.flops == 2 * 64 * 32 * 16
    assert row.flops_per_second == pytest.approx(2 * row.flops / 40_001e-9)
    assert row.bound == "launch"
    assert [(step.rank, step.step, step.flops) for step in said.steps] == [(0, 0, 65536), (0, 1, 65536)]
    assert said.peak is not None
    for step in said.steps:
        most = said.peak.flops_per_second[row.number_format]
        assert step.utilisation_ratio == pytest.approx(step.flops / (step.wall_ns * 1e-9 * most))
    assert said.command == "stepscope profile shapes run/trace.json"
    one = shapes(profile, "1")
    assert [step.step for step in one.steps] == [1]
    assert one.command.endswith(" --steps 1")
    json.dumps(msgspec.to_builtins(said))


def test_a_critical_path_fills_its_step_and_leads_to_events(profile):
    said = critical(profile)
    assert [(one.rank, one.number) for one in said.steps] == [(0, 0), (0, 1)]
    for one in said.steps:
        whole = one.end_ns - one.start_ns
        assert sum(one.by_bound_ns.values()) == sum(part.time_ns for part in one.parts) == whole
        assert sum(piece.duration_ns for piece in one.pieces) == one.pieces_ns == whole
        assert [piece.start_ns for piece in one.pieces] == sorted(piece.start_ns for piece in one.pieces)
        assert {piece.bound for piece in one.pieces} <= set(said.bounds)
        for piece in one.pieces:
            assert piece.name == (profile.trace.name_of(piece.row) if piece.row is not None else "")
    assert said.steps[0].by_bound_ns["compute"] == 20_000
    assert [one.number for one in critical(profile, "1").steps] == [1]


def test_of_many_pieces_the_longest_are_listed_and_the_rest_is_counted(profile):
    whole, few = critical(profile).steps[0], critical(profile, "", 1).steps[0]
    assert (len(few.pieces), few.pieces_total) == (1, len(whole.pieces))
    assert few.pieces_ns == max(piece.duration_ns for piece in whole.pieces)


def test_overlap_fills_each_step(profile):
    rows = overlaps(profile).rows
    assert [(row.rank, row.device, row.step) for row in rows] == [(0, 0, 0), (0, 0, 1)]
    for row in rows:
        exposed = row.exposed_communication_ns + row.exposed_copy_ns
        assert row.compute_ns + exposed + row.idle_ns == row.window_ns
        assert row.overlap_ratio is None
    assert rows[0].compute_ns == 20_000


@pytest.mark.parametrize("ask", [shapes, critical, overlaps])
def test_what_is_not_there_is_refused_with_what_to_record(profile, make, ask):
    with raises(Refusal, status=400, hint="steps: 0, 1"):
        ask(profile, "99")
    nothing = OpenProfile("a", make.build([make.event("frame", make.Kind.PYTHON_FRAME, 0, 10)]))
    with pytest.raises(Refusal) as refusal:
        ask(nothing)
    assert refusal.value.status == 422
    assert refusal.value.hint


def test_a_finding_tells_its_place_gain_and_events(profile):
    first = summary(profile).findings[0]
    assert first.rule == "host-bound"
    assert first.place.rank == 0
    assert first.gain_ns is not None
    assert first.cost_ns is not None
    assert 0 < first.gain_ratio <= 1
    assert first.gain_from in ("replay", "bound")
    assert first.events
    for event in first.events:
        assert profile.trace.name_of(event.row) == event.name


def test_the_endpoints_are_there(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 7},
    ]}))  # fmt: skip
    addresses = Addresses(tmp_path)
    assert addresses.json("profile/path", "path=a.json&pieces=5")["steps"][0]["by_bound_ns"]["host"] == 7000
    for pieces in (-1, 10**9):
        with pytest.raises(Refusal, match=r"pieces is .*: expected a whole number from 0"):
            addresses.ask("profile/path", f"path=a.json&pieces={pieces}")
    for name in ("shapes", "overlap"):
        with pytest.raises(Refusal):
            addresses.ask(f"profile/{name}", path="a.json")
