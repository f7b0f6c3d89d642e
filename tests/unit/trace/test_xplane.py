"""XPlane files made by hand: clocks, planes of CPU, GPU and TPU, steps, allocations, damage."""

import pytest
from support.protobuf import field

import stepscope as ss
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Kind

START = 1_771_595_639_214_724_894


class Plane:
    """Builds an XPlane; names get ids as they come."""

    def __init__(self, name):
        self.name, self.names, self.stat_names, self.lines, self.stats = name, {}, {}, [], []

    def stat(self, name, value):
        number = self.stat_names.setdefault(name, len(self.stat_names) + 1)
        if isinstance(value, tuple):  # a reference to another stat's name
            value = 7, self.stat_names.setdefault(value[0], len(self.stat_names) + 1)
        elif isinstance(value, float):
            value = 2, value
        else:
            value = (5 if isinstance(value, str) else 4), value
        return field(1, number) + field(*value)

    def line(self, name, clock, events):
        body = field(2, name) + field(3, clock)
        for title, offset, duration, stats in events:
            number = self.names.setdefault(title, len(self.names) + 1)
            event = field(1, number) + field(2, offset) + field(3, duration)
            body += field(4, event + b"".join(field(4, self.stat(*item)) for item in stats.items()))
        self.lines.append(body)
        return self

    def facts(self, **stats):
        self.stats += [self.stat(*item) for item in stats.items()]
        return self

    def encode(self, metadata_stats=None):
        extra = {
            n: b"".join(field(5, self.stat(*s)) for s in v.items()) for n, v in (metadata_stats or {}).items()
        }
        body = field(2, self.name) + b"".join(field(3, line) for line in self.lines)
        for name, number in self.names.items():
            entry = field(1, number) + field(2, name) + extra.get(name, b"")
            body += field(4, field(1, number) + field(2, entry))
        for name, number in self.stat_names.items():
            body += field(5, field(1, number) + field(2, field(1, number) + field(2, name)))
        return field(1, body + b"".join(field(6, stat) for stat in self.stats))


def load(tmp_path, *planes):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(b"".join(planes) + field(4, "tw003"))
    return ss.load_trace(path, cache=False)


def gpu():
    name = "jit(f)/layer/dot_general"
    return (
        Plane("/device:GPU:0")
        .facts(device_vendor="Nvidia", core_count=132, memory_size=80, compute_cap_major=9)
        .line(
            "Stream #16(Kernel)",
            1000,
            [
                (
                    "gemm_kernel",
                    5_000_999,
                    3_000_002,
                    {
                        "correlation_id": 9,
                        "tf_op": (name + ":",),
                        "hlo_op": "dot.1",
                        "kernel_details": "regs:32 grid:4,2,1 block:128,1,1",
                        "occupancy_pct": 50.0,
                    },
                ),
                ("ncclDevKernel_AllReduce_Sum_f32(x)", 9_000_000, 1_000_000, {}),
                ("MemcpyH2D", 11_000_000, 500_000, {"memcpy_details": "kind:H2D size:4096 dest:0 async:1"}),
            ],
        )
        .line("XLA Modules", 1000, [("jit_f(1)", 5_000_000, 9_000_000, {})])
    )


def host():
    return Plane("/host:CPU").line(
        "python",
        1000,
        [
            ("train", 0, 20_000_000, {"step_num": 12}),
            ("$train.py:3 f", 1_000_000, 8_000_000, {}),
            ("cuLaunchKernel", 2_000_000, 1_000_000, {"correlation_id": 9}),
            ("Iterator::Prefetch::Batch", 15_000_000, 1_000_000, {}),
            (
                "MemoryAllocation",
                3_000_000,
                0,
                {
                    "allocator_name": "GPU_0_bfc",
                    "allocation_bytes": 64,
                    "addr": 77,
                    "bytes_allocated": 1000,
                    "bytes_reserved": 2000,
                },
            ),
            ("MemoryDeallocation", 4_000_000, 0, {"allocator_name": "GPU_0_bfc", "allocation_bytes": 64}),
        ],
    )


def task():
    return Plane("Task Environment").facts(profile_start_time=START).encode()


def test_gpu_and_host(tmp_path):
    trace = load(tmp_path, gpu().encode(), host().encode(), task())
    shown = [
        (trace.name_of(r), Kind(trace.kind[r]).name, int(trace.start_ns[r]), int(trace.duration_ns[r]))
        for r in range(len(trace))
    ]
    assert shown == [
        ("train", "STEP", 0, 20_000),
        ("$train.py:3 f", "PYTHON_FRAME", 1000, 8000),
        ("cuLaunchKernel", "RUNTIME_CALL", 2000, 1000),
        ("Iterator::Prefetch::Batch", "DATA_LOADING", 15_000, 1000),
        ("jit_f(1)", "ANNOTATION", 5000, 9000),
        ("gemm_kernel", "KERNEL", 5000, 3001),
        ("ncclDevKernel_AllReduce_Sum_f32(x)", "COLLECTIVE", 9000, 1000),
        ("MemcpyH2D", "MEMCPY", 11_000, 500),
    ]
    gemm = 5
    assert trace.name_of(int(trace.launch[gemm])) == "cuLaunchKernel"
    assert trace.scopes.parts(int(trace.scope[gemm])) == ["jit(f)", "layer", "dot_general"]
    assert trace.stacks.text(int(trace.stack[gemm])) == "$train.py:3 f"
    assert (trace.kernels.grid.tolist(), trace.kernels.block.tolist()) == ([8], [128])
    assert trace.kernels.occupancy.tolist() == [0.5]
    assert (trace.bytes[7], trace.step.tolist()) == (4096, [12] * 8)
    assert trace.steps.number.tolist() == [12]
    assert [trace.strings[int(n)] for n in trace.collectives.operation] == ["all_reduce"]
    assert (trace.memory.bytes.tolist(), trace.memory.device.tolist()) == ([64, -64], [0, 0])
    assert (trace.memory.allocated_bytes.tolist(), trace.memory.reserved_bytes.tolist()) == (
        [1000, -1],
        [2000, -1],
    )
    assert (trace.clock, trace.origin_ns) == ("unix", START + 1000)
    [device] = trace.devices
    assert (device.name, device.multiprocessors, device.capability) == ("Nvidia", 132, "9.0")
    assert trace.sources[0].host == "tw003"


def test_a_line_whose_clock_is_unix_time(tmp_path):
    trace = load(tmp_path, Plane("/host:CPU").line("t", START, [("a", 5000, 1000, {})]).encode(), task())
    assert (trace.clock, trace.origin_ns) == ("unix", START + 5)


def test_no_clock_at_all_is_relative(tmp_path):
    plane = Plane("/host:CPU").line("t", 7, [("a", 5000, 1000, {})]).encode()
    assert load(tmp_path, plane).clock == "relative"


def test_tpu_lines(tmp_path):
    plane = (
        Plane("/device:TPU:1")
        .line("Steps", 0, [("7", 0, 90_000, {})])
        .line(
            "XLA Ops",
            0,
            [("while.3", 0, 80_000, {}), ("fusion.1", 1000, 20_000, {}), ("all-reduce.2", 30_000, 9000, {})],
        )
        .line("XLA Modules", 0, [("jit_f", 0, 90_000, {})])
    )
    other = Plane("/device:TPU:0").line("XLA Ops", 0, [("fusion.1", 1000, 20_000, {})])
    metadata = {"fusion.1": {"tf_op": "jit(f)/mlp/dot:", "flops": 12345, "bytes_accessed": 678}}
    trace = load(tmp_path, plane.encode(metadata), other.encode())
    fusion = [int(row) for row in trace.named("fusion.1")]
    assert trace.device[fusion].tolist() == [0, 1]
    assert (trace.flops[fusion[1]], trace.bytes[fusion[1]]) == (12345, 678)
    assert trace.scopes.text(int(trace.scope[fusion[1]])) == "jit(f)/mlp/dot"
    assert trace.name_of(int(trace.parent[fusion[1]])) == "while.3"
    assert trace.self_ns[trace.parent[fusion[1]]] == 80 - 20 - 9
    assert trace.steps.number.tolist() == [7]
    assert Kind(trace.kind[trace.named("all-reduce.2")[0]]) == Kind.COLLECTIVE


def test_a_cut_file_keeps_its_whole_planes(tmp_path):
    whole = host().encode() + gpu().encode()
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(whole[: len(host().encode()) + 200])
    trace = ss.load_trace(path, cache=False)
    assert trace.named("train").tolist() == [0]
    assert "cut short" in trace.notes[0]


def test_planes_without_events(tmp_path):
    with pytest.raises(EmptyTraceError, match="holds no events"):
        load(tmp_path, Plane("/host:CPU").line("t", 0, []).encode())


def test_the_profilers_own_complaints_are_kept(tmp_path):
    trace = load(tmp_path, host().encode(), field(3, "events were dropped"))
    assert trace.notes == ("the profiler reported: events were dropped",)
