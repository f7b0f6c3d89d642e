"""Encode scalars as records: against TensorBoard's messages with its record framing.

Into memory, nothing reaches a disk: what is measured is the Python that a scalar costs the writing thread.
"""

from __future__ import annotations

import io
import struct
import sys
import tempfile
import time

import google_crc32c
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from stepscope.events import EventWriter

SCALARS = 50_000
RUNS = 5
TAGS = [f"train/metric_{number}" for number in range(10)]


def main() -> int:
    """Measure and print; the goal of a logged scalar as a whole is in ``record_scalar``."""
    ours, several, theirs, floor = [], [], [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as directory:
            ours.append(one_by_one(EventWriter(directory)))
            several.append(ten_at_a_time(EventWriter(directory)))
        theirs.append(tensorboard())
        floor.append(checksums())
    measured = {"o": ours, "w": several, "t": theirs, "f": floor}
    each = {name: min(took) / SCALARS * 1e6 for name, took in measured.items()}
    ratio = each["t"] / each["o"]
    print(f"{SCALARS:,} scalars of {len(TAGS)} tags")
    print(f"  a scalar: {each['o']:.2f} us, TensorBoard's messages and framing {each['t']:.2f} us:", end=" ")
    print(f"{ratio:.1f} x")
    print(f"  a scalar of an event with {len(TAGS)}: {each['w']:.2f} us")
    print(f"  limit: packing two numbers and one checksum, nothing else: {each['f']:.2f} us")
    return 0


def one_by_one(writer: EventWriter) -> float:
    began = time.perf_counter()
    for step in range(SCALARS // len(TAGS)):
        for tag in TAGS:
            writer.scalar(tag, 0.5, step, 1.7e9)
    took = time.perf_counter() - began
    writer.close()
    return took


def ten_at_a_time(writer: EventWriter) -> float:
    began = time.perf_counter()
    for step in range(SCALARS // len(TAGS)):
        writer.scalars([(tag, 0.5) for tag in TAGS], step, 1.7e9)
    took = time.perf_counter() - began
    writer.close()
    return took


def tensorboard() -> float:
    out = RecordWriter(io.BytesIO())
    began = time.perf_counter()
    for step in range(SCALARS // len(TAGS)):
        for tag in TAGS:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=0.5)])
            out.write(Event(wall_time=1.7e9, step=step, summary=summary).SerializeToString())
    return time.perf_counter() - began


def checksums() -> float:
    pack, crc, data = struct.Struct("<df").pack, google_crc32c.value, bytes(46)
    began = time.perf_counter()
    for _ in range(SCALARS):
        pack(1.7e9, 0.5)
        crc(data)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
