"""Profiles to measure on: recorded ones where they are at hand, and synthetic ones of any size."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from stepscope.trace.draft import Draft
from stepscope.trace.model import Kind, Lane, Trace
from stepscope.trace.names import Strings
from stepscope.trace.structure import build

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks"


def shared(name: str) -> Path | None:
    """Return a recorded profile from the data folder beside the checkout, None where there is none."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data" / name
    return path if path.exists() else None


def kineto(megabytes: int) -> Path:
    """Return a synthetic Kineto trace of about this size as JSON, gzipped; made once."""
    path = CACHE / f"kineto-{megabytes}.json.gz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with gzip.open(partial, "wb", compresslevel=3) as file:
            file.write(HEAD)
            size, step, time, number = len(HEAD), 0, 10_000_000, 1
            while size < megabytes * 1_000_000:
                text, time, number = _step(step, time, number)
                file.write(text)
                size, step = size + len(text), step + 1
            file.write(b'  {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}}\n]}\n')
        partial.replace(path)
    return path


HEAD = (
    b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Synthetic", "numSms": 108}], '
    b'"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, '
    b'"baseTimeNanoseconds": 1700000000000000000, "traceEvents": [\n'
)
LAYERS = 60
OPERATORS = (
    "linear",
    "addmm",
    "gelu",
    "layer_norm",
    "dropout",
    "softmax",
    "matmul",
    "add",
    "mul",
    "transpose",
)


def _step(step: int, time: int, number: int) -> tuple[bytes, int, int]:
    """Write one training step: layers of operators, each with a runtime call, a launch arrow and a kernel."""
    lines, start = [], time
    for layer in range(LAYERS):
        for place, name in enumerate(OPERATORS):
            time += 5_000 + 37 * place
            lines.append(_operator(name, time, number, layer, place))
            number += 1
    time += 20_000
    lines.append(
        f'  {{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": 7, "tid": 7, '
        f'"ts": {us(start)}, "dur": {us(time - start)}, "args": {{"External id": {number}}}}},\n'
    )
    return "".join(lines).encode(), time, number + 1


def _operator(name: str, time: int, number: int, layer: int, place: int) -> str:
    host = f'"pid": 7, "tid": 7, "ts": {us(time + 900)}'
    device = f'"pid": 0, "tid": 7, "ts": {us(time + 6_500)}'
    kernel = (
        f"void at::native::vectorized_{name}_kernel<4, at::native::{name}_functor<float>, "
        f"at::detail::Array<char*, {2 + place % 3}> >(int, float, at::detail::Array<char*, 3>)"
    )
    return (
        f'  {{"ph": "X", "cat": "cpu_op", "name": "aten::{name}", "pid": 7, "tid": 7, "ts": {us(time)}, '
        f'"dur": {us(4_000)}, "args": {{"External id": {number}, "Record function id": {number}, '
        f'"Ev Idx": {number}, "Input Dims": [[{32 + layer % 8}, 1024], [1024, {1024 + place}]], '
        f'"Input type": ["float", "float"]}}}},\n'
        f'  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", {host}, "dur": {us(2_100)}, '
        f'"args": {{"External id": {number}, "cbid": 211, "correlation": {number}}}}},\n'
        f'  {{"ph": "s", "id": {number}, {host}, "cat": "ac2g", "name": "ac2g"}},\n'
        f'  {{"ph": "X", "cat": "kernel", "name": "{kernel}", {device}, "dur": {us(4_800)}, '
        f'"args": {{"External id": {number}, "queued": 0, "device": 0, "context": 1, "stream": 7, '
        f'"correlation": {number}, "registers per thread": 32, "shared memory": 0, '
        f'"blocks per SM": {1 + place}.5, "warps per SM": 12.25, "grid": [{128 + layer}, 1, 1], '
        f'"block": [128, 1, 1], "est. achieved occupancy %": 38}}}},\n'
        f'  {{"ph": "f", "id": {number}, {device}, "cat": "ac2g", "name": "ac2g", "bp": "e"}},\n'
    )


def us(ns: int) -> str:
    """Write nanoseconds as Kineto does: microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def synthetic(events: int, *, lanes: int = 16, seed: int = 0) -> Trace:
    """Return a trace of nested events on several lanes, without writing a file."""
    random = np.random.default_rng(seed)
    per_lane = events // lanes
    outer = per_lane // 5
    gaps = random.integers(1_000, 40_000, (lanes, outer))
    duration = random.integers(500, 30_000, (lanes, outer))
    start = np.cumsum(gaps + duration, axis=1) - duration
    starts, durations = [start], [duration]
    for child in range(4):
        starts.append(start + child * duration // 4)
        durations.append(np.maximum(duration // 4 - 1, 1))
    start, duration = np.concatenate(starts, axis=1), np.concatenate(durations, axis=1)
    lane = np.repeat(np.arange(lanes, dtype=np.int32), start.shape[1])
    n = start.size
    return build(
        Draft(
            format="chrome",
            path="",
            strings=Strings.of([f"event {i}" for i in range(1000)]),
            lanes=[Lane(rank=0, process="process", thread=f"thread {i}") for i in range(lanes)],
            name=random.integers(0, 1000, n, dtype=np.int32),
            kind=np.full(n, Kind.HOST_OP, np.uint8),
            lane=lane,
            start_ns=start.ravel(),
            duration_ns=duration.ravel(),
        )
    )
