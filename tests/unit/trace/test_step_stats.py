"""TensorFlow's RunMetadata: arrows from the node that made a tensor, and the life of what was allocated."""

import pytest

from stepscope.analyze.memory import memory_rows
from stepscope.serve.profiles.tracks import lifetimes
from stepscope.trace import load_trace
from stepscope.trace.schema import message


@pytest.fixture
def made(tmp_path):
    """Writes the RunMetadata of nodes: name, label, start and end in µs, and allocations as (µs, bytes)."""

    def make(*nodes, device="/job:localhost/replica:0/task:0/device:CPU:0"):
        run = message("RunMetadata")()
        stats = run.step_stats.dev_stats.add()
        stats.device = device.encode()
        for name, inputs, start, end, *allocated in nodes:
            node = stats.node_stats.add()
            node.node_name = name.encode()
            node.timeline_label = f"{name} = Op({', '.join(inputs)})".encode()
            node.all_start_micros, node.all_end_rel_micros = 1000 + start, end - start
            used = node.memory.add()
            used.allocator_name = b"cpu"
            for at, size in allocated:
                record = used.allocation_records.add()
                record.alloc_micros, record.alloc_bytes = 1000 + at, size
        path = tmp_path / "run_meta_7"
        path.write_bytes(run.SerializeToString())
        return load_trace(path, cache=False)

    return make


def edges(trace):
    scope = [trace.scopes.text(number) for number in trace.scope.tolist()]
    return [
        (scope[source], scope[target], trace.strings[name])
        for source, target, name in zip(
            trace.flows.source.tolist(), trace.flows.target.tolist(), trace.flows.name.tolist(), strict=True
        )
    ]


def test_arrows_lead_from_the_maker_of_a_tensor_to_its_users_on_other_lanes(made):
    trace = made(
        ("a", [], 0, 10),
        ("b", [], 2, 12),
        ("c", ["a", "b:1", "^b", "gone"], 20, 30),
        ("d", ["a/_123", "b"], 25, 28),
    )
    assert sorted(edges(trace)) == [("a", "d", "a"), ("b", "c", "b:1")]


def test_an_allocation_lives_until_it_is_freed(made):
    trace = made(("a", [], 0, 10, (1, 64), (2, 64), (5, -64), (9, -64)), ("b", [], 11, 20, (12, 32)))
    begin, end = lifetimes(trace, memory_rows(trace, 0, int(trace.memory.device[0])))
    assert sorted(zip(trace.memory.time_ns[begin].tolist(), end.tolist(), strict=True)) == [
        (1000, 5000), (2000, 9000), (12_000, 20_000),
    ]  # fmt: skip
    assert trace.memory.bytes[begin].tolist() == [64, 64, 32]
