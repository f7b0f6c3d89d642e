"""tfprof's ProfileProto as a trace, and the files that count as tfprof sources."""

from pathlib import Path

import pytest
from support.recordings import recorded

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace import context, structure
from stepscope.trace.model import Kind
from stepscope.trace.schema import message
from stepscope.trace.tfprof import (
    Execution,
    Frame,
    Profile,
    ProfileNode,
    find_profile,
    is_profile,
    read_graph,
    read_profile,
    step_files,
)  # fmt: skip

DATA = recorded("tfprof")
GPU = "/device:gpu:0"


def profile() -> Profile:
    one = ProfileNode(
        "net/fc", op="MatMul", stack=[Frame("a.py", 3, "main", -1)], float_ops=100, canonical_device=GPU,
        executions={
            0: Execution(1, 10, 25, accelerator={f"{GPU}/stream:all": [(20, 5)]}, cpu={GPU: [(10, 4)]}),
            1: Execution(1, 110, 125, accelerator={f"{GPU}/stream:all": [(120, 5)]}, cpu={GPU: [(110, 4)]}),
        },
    )  # fmt: skip
    return Profile(nodes={one.name: one}, steps=[0, 1], has_stacks=True)


def test_times_steps_scopes_and_stacks_arrive() -> None:
    trace = structure.build(context.draft_profile(profile(), "profile.context"))
    on_device = trace.device >= 0
    assert [(trace.name_of(row), Kind(trace.kind[row])) for row in range(2)] == [("MatMul", Kind.HOST_OP)] * 2
    assert trace.start_ns[on_device].tolist() == [10_000, 110_000]
    assert trace.duration_ns[~on_device].tolist() == [4000, 4000]
    assert trace.step.tolist() == [0, 1, 0, 1]
    assert trace.scopes.text(int(trace.scope[0])) == "net/fc"
    assert trace.stacks.parts(int(trace.stack[0])) == ["a.py(3): main"]
    assert trace.flops[on_device].tolist() == [100, 100]
    assert (trace.flops[~on_device] == -1).all()  # counted once for each execution
    assert {"stacks", "modules", "flops", "steps", "device"} <= trace.recorded


def test_a_profile_of_nothing_says_so() -> None:
    with pytest.raises(EmptyTraceError, match="no executed node"):
        context.draft_profile(Profile(nodes={"a": ProfileNode("a")}), "p")


def test_sources_are_told_by_content(tmp_path: Path) -> None:
    folder = DATA / "convnet"
    renamed = tmp_path / "anything"
    renamed.write_bytes((folder / "profile.context").read_bytes())
    for path in (renamed, folder, folder / "graph.pb"):
        read = find_profile(path)
        assert read is not None
        assert len(read().nodes) == 327
    for other in (folder / "run_metadata_step0.pb", folder / "timeline-0.json.gz", tmp_path / "absent"):
        assert find_profile(other) is None


def test_the_two_ways_to_a_profile_agree() -> None:
    folder = DATA / "wide_deep"
    whole, parts = (
        read_profile(folder / "profile.context"),
        read_graph(folder / "graph.pb", step_files(folder)),
    )
    assert list(whole.nodes) == list(parts.nodes)
    for name, node in whole.nodes.items():
        assert parts.nodes[name].executions == node.executions
        assert parts.nodes[name].inputs == node.inputs


def test_steps_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for step in (0, 2, 10):
        (tmp_path / f"run_metadata_step{step}.pb").touch()
    assert [path.name[17:-3] for path in step_files(tmp_path)] == ["0", "2", "10"]


def test_damage_is_an_error_message(tmp_path: Path) -> None:
    path = tmp_path / "profile.context"
    proto = message("Profile")()
    entry = proto.nodes.add(key=1)
    entry.value.name = b"a"
    entry.value.inputs.add(key=0, value=7)
    for raw, said in (
        (proto.SerializeToString(), "something refers to number 7"),
        (proto.SerializeToString()[:-3], "do not parse"),
        (b"", "no named graph node"),
        (b"\x0a\x02\x08\x01", "no named graph node"),
    ):
        path.write_bytes(raw)
        with pytest.raises(TraceError, match=said):
            read_profile(path)
    with pytest.raises(TraceError, match="cannot read"):
        read_profile(tmp_path / "absent")
    (tmp_path / "g.pb").write_bytes(b"")
    with pytest.raises(TraceError, match="not a GraphDef"):
        read_graph(tmp_path / "g.pb")


def test_a_bad_byte_in_a_name_costs_only_the_name(tmp_path: Path) -> None:
    proto = message("Profile")()
    proto.nodes.add(key=1).value.name = b"a\xff"
    path = tmp_path / "p"
    path.write_bytes(proto.SerializeToString())
    assert is_profile(path.read_bytes()[:64])
    assert list(read_profile(path).nodes) == ["a\udcff"]
