"""The model as tfprof sees it: graph nodes with their times, memory, shapes and Python stacks, step by step.

Read from a ``ProfileProto`` file (``profile.context``), or put together as tfprof does from a ``GraphDef``,
one ``RunMetadata`` per step and, optionally, an ``OpLogProto``. The rules for accelerator time, dropped
values and rounding are tfprof's own (TensorFlow 2.15), because its numbers must be matched exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy.typing as npt

from stepscope.errors import TraceError
from stepscope.trace.schema import message, text
from stepscope.trace.set import context_file, step_files

_CPU_TIME = re.compile(r".*/(device:gpu|gpu|device:cpu|cpu):[0-9]+", re.DOTALL)
_GPU_NUMBER = re.compile(r"gpu:[0-9]+")


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python frame of the stack that created a node."""

    file: str
    line: int
    function: str
    function_line: int


@dataclass(slots=True)
class NodeMemory:
    """Bytes of one scheduling of a node."""

    requested: int = 0
    peak: int = 0
    residual: int = 0
    output: int = 0
    at_micros: int = 0
    in_use: int = 0
    persistent: int = 0


@dataclass(slots=True)
class Execution:
    """The work of a node in one step. Times are pairs of start and duration in microseconds."""

    run_count: int = 0
    start_micros: int = 0
    end_micros: int = 0
    accelerator: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    cpu: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    memory: list[NodeMemory] = field(default_factory=list)
    allocations: list[tuple[int, int]] = field(default_factory=list)

    @property
    def accelerator_micros(self) -> int:
        """Time on the accelerator: the ``stream:all`` entries alone, because the others repeat them."""
        return sum(duration for times in self.accelerator.values() for _, duration in times)

    @property
    def cpu_micros(self) -> int:
        """Time on the host; for an accelerator's op that is scheduling, with waiting."""
        return sum(duration for times in self.cpu.values() for _, duration in times)


@dataclass(slots=True)
class ProfileNode:
    """One node of the graph."""

    name: str
    op: str = ""
    types: set[str] = field(default_factory=set)
    inputs: dict[int, str] = field(default_factory=dict)
    source_outputs: dict[str, int] = field(default_factory=dict)
    shape: list[int] = field(default_factory=list)
    output_shapes: dict[int, list[int]] = field(default_factory=dict)
    canonical_device: str = ""
    host_device: str = ""
    float_ops: int = 0
    data_format: str | None = None
    stack: list[Frame] = field(default_factory=list)
    executions: dict[int, Execution] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """Product of the ``shape`` attribute; 0 if there is none or a dimension is unknown."""
        return prod(self.shape) if self.shape and min(self.shape) >= 0 else 0


@dataclass(slots=True)
class Profile:
    """A profiled model.

    ``nodes`` is in the byte order of the names, the order in which tfprof visits them.
    """

    nodes: dict[str, ProfileNode] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    has_stacks: bool = False
    misses_accelerator_stream: bool = False
    covered: set[str] = field(default_factory=set)
    numbers: dict[int, npt.NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)
    """Results that views derive from the nodes, by step."""

    def input_shapes(self, node: ProfileNode) -> dict[int, list[int]]:
        """Shape per input index; an empty list if it is not known."""
        shapes = {}
        for index, source in sorted(node.inputs.items()):
            output = node.source_outputs.get(source)
            known = self.nodes[source].output_shapes if source in self.nodes else {}
            shapes[index] = known.get(output, []) if output is not None else []
        return shapes


def in_byte_order(names: Iterable[str]) -> list[str]:
    """Sort names as C++ compares strings."""
    return sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape"))


# --- ProfileProto -------------------------------------------------------------------------------------


def is_profile(head: bytes) -> bool:
    """Return whether a file that starts like this can be a ProfileProto.

    Its first field is a map entry that starts with a number; a GraphDef's starts with a name.
    """
    return head[:1] == b"\x0a" and bool(re.match(rb"\x0a[\x80-\xff]{0,4}[\x00-\x7f]\x08", head[:8]))


def read_profile(path: str | Path) -> Profile:
    """Read a ProfileProto file.

    Raises:
        TraceError: The file is not one, or holds no node.
    """
    proto = _parse("Profile", path)
    if not proto.nodes or not all(entry.value.name for entry in proto.nodes):
        raise TraceError(
            "not a tfprof profile: found no named graph node",
            hint="pass profile.context, or what Profiler.serialize_to_string() returns, in a file",
            path=path,
        )
    strings = {entry.key: text(entry.value) for entry in proto.id_to_string}
    names = {entry.key: text(entry.value.name) for entry in proto.nodes}
    try:
        nodes = [_profile_node(entry.value, names, strings) for entry in proto.nodes]
    except KeyError as error:
        raise TraceError(
            f"a damaged tfprof profile: something refers to number {error}, which is not in it",
            path=path,
            hint="write the profile again: Profiler.serialize_to_string()",
        ) from None
    return Profile(
        nodes={
            node.name: node
            for node in sorted(nodes, key=lambda node: node.name.encode("utf-8", "surrogateescape"))
        },
        steps=sorted(set(proto.steps)),
        has_stacks=proto.has_trace,
        misses_accelerator_stream=proto.miss_accelerator_stream,
    )


def _profile_node(proto: Any, names: dict[int, str], strings: dict[int, str]) -> ProfileNode:
    return ProfileNode(
        name=text(proto.name),
        op=text(proto.op),
        types={text(kind) for kind in proto.op_types},
        inputs={entry.key: names[entry.value] for entry in proto.inputs},
        source_outputs={names[entry.key]: entry.value for entry in proto.src_output_index},
        shape=list(proto.shape),
        output_shapes={entry.key: list(entry.value.int64_values) for entry in proto.output_shapes},
        canonical_device=text(proto.canonical_device),
        host_device=text(proto.host_device),
        float_ops=proto.float_ops,
        data_format=_data_format(proto.attrs),
        stack=_stack(proto.trace, strings),
        executions={
            entry.key: _execution(entry.value) for entry in sorted(proto.execs, key=lambda entry: entry.key)
        },
    )


def _stack(code: Any, strings: dict[int, str]) -> list[Frame]:
    return [
        Frame(strings[trace.file_id], trace.lineno, strings[trace.function_id], trace.func_start_line)
        for trace in code.traces
    ]


def _execution(proto: Any) -> Execution:
    return Execution(
        run_count=proto.run_count,
        start_micros=proto.all_start_micros,
        end_micros=proto.latest_end_micros,
        accelerator=_times(proto.accelerator_execs),
        cpu=_times(proto.cpu_execs),
        memory=[
            NodeMemory(
                requested=memory.requested_bytes,
                peak=memory.peak_bytes,
                residual=memory.residual_bytes,
                output=memory.output_bytes,
                at_micros=memory.memory_micros,
                in_use=memory.allocator_bytes_in_use,
                persistent=memory.accelerator_persistent_bytes,
            )
            for memory in proto.memory_execs
        ],
        allocations=[(record.alloc_micros, record.alloc_bytes) for record in proto.allocations],
    )


def _times(entries: Any) -> dict[str, list[tuple[int, int]]]:
    times = {}
    for entry in sorted(entries, key=lambda entry: entry.key):
        pairs = [tuple(pair.int64_values) for pair in entry.value.times]
        times[text(entry.key)] = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
    return times


def _data_format(attributes: Any) -> str | None:
    return next((text(entry.value.s) for entry in attributes if entry.key == b"data_format"), None)


# --- GraphDef, RunMetadata, OpLogProto ----------------------------------------------------------------


def read_graph(
    graph: str | Path | None,
    run_metadata: Sequence[str | Path] = (),
    op_log: str | Path | None = None,
) -> Profile:
    """Put a profile together from a graph and one RunMetadata file per step, as tfprof's command line did.

    Args:
        graph: GraphDef file, ideally written with ``add_shapes=True``; None if only times are known.
        run_metadata: One file per step; they become steps 0, 1, 2, …
        op_log: OpLogProto file (``tfprof_log``): FLOPs, Python stacks, extra types.

    Raises:
        TraceError: A file is not of its expected type.
    """
    profile = Profile()
    if graph is not None:
        _add_graph(profile, _parse("GraphDef", graph), graph)
    if op_log is not None:
        _add_op_log(profile, _parse("OpLog", op_log))
    for step, path in enumerate(run_metadata):
        proto = _parse("RunMetadata", path)
        if not proto.step_stats.dev_stats:
            raise TraceError(
                "not a RunMetadata file: found no step_stats",
                hint="trace the step with RunOptions(trace_level=FULL_TRACE)",
                path=path,
            )
        add_run_metadata(profile, step, proto)
    profile.nodes = {name: profile.nodes[name] for name in in_byte_order(profile.nodes)}
    return profile


def _add_graph(profile: Profile, proto: Any, path: str | Path) -> None:
    if not proto.node or not all(definition.name for definition in proto.node):
        raise TraceError(
            "not a GraphDef file: found no named node",
            hint="write graph.as_graph_def(add_shapes=True).SerializeToString()",
            path=path,
        )
    for definition in proto.node:
        name = text(definition.name)
        if name not in profile.nodes:
            profile.nodes[name] = _graph_node(name, definition)


def _graph_node(name: str, definition: Any) -> ProfileNode:
    node = ProfileNode(name, op=text(definition.op), types={text(definition.op)})
    for entry in definition.attr:
        if entry.key == b"shape" and entry.value.HasField("shape"):
            node.shape = _dimensions(entry.value.shape)
        elif entry.key == b"_output_shapes":
            node.output_shapes = {
                index: _dimensions(shape) for index, shape in enumerate(entry.value.list.shape)
            }
    node.data_format = _data_format(definition.attr)
    for index, raw in enumerate(definition.input):
        source = text(raw).split(":", 1)[0].removeprefix("^")
        node.inputs[index] = source
        # The released tfprof parses the output number inside a debug-only assertion, so it is always 0.
        node.source_outputs[source] = 0
    return node


def _dimensions(shape: Any) -> list[int]:
    if not shape.dim and not shape.unknown_rank:
        return [1]
    return [dimension.size for dimension in shape.dim]


def _add_op_log(profile: Profile, proto: Any) -> None:
    strings = {entry.key: text(entry.value) for entry in proto.id_to_string}
    for entry in proto.log_entries:
        node = profile.nodes.get(text(entry.name))
        if node is None:
            continue
        node.types.update(text(kind) for kind in entry.types)
        if entry.float_ops:
            node.float_ops = entry.float_ops
        if entry.HasField("code_def"):
            profile.has_stacks = True
            node.stack = node.stack or _stack(entry.code_def, strings)


def add_run_metadata(profile: Profile, step: int, proto: Any) -> None:
    """Add one step's RunMetadata to the nodes; nodes that the graph does not hold are made."""
    if step not in profile.steps:
        profile.steps = sorted([*profile.steps, step])
    scheduled = streamed = False
    for device_stats in proto.step_stats.dev_stats:
        name = text(device_stats.device)
        device = "".join(letter.lower() if letter.isascii() else letter for letter in name)
        scheduled = scheduled or "gpu" in device
        streamed = streamed or ("gpu" in device and "stream:all" in device)
        for stats in device_stats.node_stats:
            name = text(stats.node_name).split(":", 1)[0]
            node = profile.nodes.get(name)
            if node is not None:
                profile.covered.add(name)
            elif name in ("RecvTensor", "_SOURCE") or "MEMCPY" in name:
                continue
            else:
                node = profile.nodes[name] = ProfileNode(name, op=name, types={name})
            _add_stats(node, step, device, stats)
    if scheduled and not streamed:
        profile.misses_accelerator_stream = True


def _add_stats(node: ProfileNode, step: int, device: str, stats: Any) -> None:
    if counts_as_cpu_time(device):
        if node.canonical_device and node.canonical_device != device:
            return  # tfprof keeps a node's first device alone
        if not node.canonical_device:
            node.canonical_device = device
            node.host_device = _GPU_NUMBER.sub("cpu:0", device)
            node.types.add(device)
    execution = node.executions.setdefault(step, Execution())
    if stats.all_start_micros > 0:
        _add_time(execution, device, stats)
        if device == node.canonical_device:
            execution.memory.append(_memory(execution, device, stats))


def counts_as_cpu_time(device: str) -> bool:
    """Return whether entries of this (lower-case) device are host time: no stream or memcpy lane."""
    return bool(_CPU_TIME.fullmatch(device))


def _add_time(execution: Execution, device: str, stats: Any) -> None:
    start, duration = stats.all_start_micros, stats.op_end_rel_micros or 1
    execution.start_micros = min(execution.start_micros, start) if execution.start_micros > 0 else start
    execution.end_micros = max(execution.end_micros, start + duration)
    if "stream:all" in device:
        execution.accelerator.setdefault(device, []).append((start, duration))
    elif counts_as_cpu_time(device):
        execution.cpu.setdefault(device, []).append((start, duration))
        execution.run_count += 1


def _memory(execution: Execution, device: str, stats: Any) -> NodeMemory:
    memory = NodeMemory(at_micros=stats.all_start_micros + stats.op_end_rel_micros)
    for used in stats.memory:
        memory.requested += used.total_bytes
        memory.peak += used.peak_bytes
        memory.residual += used.live_bytes
        if b"GPU" in used.allocator_name:
            memory.in_use = max(memory.in_use, used.allocator_bytes_in_use)
            execution.allocations += [
                (record.alloc_micros, record.alloc_bytes) for record in used.allocation_records
            ]
    for output in stats.output:
        if output.tensor_description.HasField("allocation_description"):
            described = output.tensor_description.allocation_description
            memory.output += max(described.allocated_bytes, described.requested_bytes)
    persistent, temporary = stats.memory_stats.persistent_memory_size, stats.memory_stats.temp_memory_size
    memory.requested += persistent + temporary
    memory.peak += persistent + temporary
    memory.residual += persistent
    memory.persistent = 0 if "cpu" in device else persistent
    return memory


# --- files --------------------------------------------------------------------------------------------


def find_profile(path: str | Path) -> Callable[[], Profile] | None:
    """Return how to read a tfprof source at a path, None if there is none.

    A ProfileProto file, a GraphDef file, or a directory with ``profile.context``, or with ``run_metadata*``
    files and perhaps ``graph.pb`` and ``tfprof_log``.
    """
    path = Path(path)
    proto = profile_file(path)
    if proto is not None:
        return lambda: read_profile(proto)
    if path.is_dir():
        steps = step_files(path)
        graph, log = _optional(path / "graph.pb"), _optional(path / "tfprof_log")
        return (lambda: read_graph(graph, steps, log)) if steps else None
    if path.suffix in (".pb", ".graphdef") and path.is_file() and _parses_as_graph(path):
        return lambda: read_graph(path, step_files(path.parent), _optional(path.parent / "tfprof_log"))
    return None


def profile_file(path: Path) -> Path | None:
    """Return the ProfileProto file at a path: itself, or that of a directory or of its first rank."""
    path = context_file(path)
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        return path if is_profile(stream.read(64)) else None


def _optional(path: Path) -> Path | None:
    return path if path.is_file() else None


def _parses_as_graph(path: Path) -> bool:
    try:
        proto = _parse("GraphDef", path)
    except TraceError:
        return False
    return bool(proto.node) and all(definition.name and definition.op for definition in proto.node)


def _parse(kind: str, path: str | Path) -> Any:
    from google.protobuf.message import DecodeError

    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise TraceError(
            f"cannot read the profile: {error.strerror or error}",
            path=path,
            hint="check whether this user may read the file",
        ) from None
    proto = message(kind)()
    try:
        proto.ParseFromString(raw)
    except DecodeError:
        raise TraceError(
            f"not a {kind} message, or a damaged one: {len(raw):,} bytes do not parse",
            hint="check that the file was written whole and in binary, not text, form",
            path=path,
        ) from None
    return proto
