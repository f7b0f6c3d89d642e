"""Captures of JAX as the reader of XPlane sees them."""

import re
import time

import jax
import jax.numpy as jnp
import polars as pl
import pytest

import stepscope as ss
from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import view
from stepscope.capture.backend import CaptureOptions
from stepscope.errors import CaptureError
from stepscope.integrations.jax.profiler import make_backend
from stepscope.trace.model import Kind


@jax.jit
def step(weight):
    with jax.named_scope("outer"), jax.named_scope("inner"):
        return weight - 0.01 * jnp.tanh(weight @ weight)


def test_steps_and_operators_are_recorded_in_the_layout_that_tensorboard_reads(tmp_path):
    weight = step(jnp.ones((64, 64)))
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="jax")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(20)):
            weight = step(weight).block_until_ready()
    assert run.problems == {}
    (path,) = tmp_path.rglob("*.xplane.pb")
    place = path.relative_to(tmp_path).as_posix()
    assert place == "profiles/plugins/profile/step00000005/chief_rank0_step00000005.xplane.pb"
    trace = ss.load_trace(path, cache=False)
    assert (trace.format, trace.steps.number.tolist()) == ("xplane", [5, 6])
    assert any("dot" in name or "fusion" in name for name in trace.strings.texts())


def test_the_reader_of_jax_itself_sees_the_steps_and_operators_that_ours_sees(tmp_path):
    weight = step(jnp.ones((64, 64)))
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="jax")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(20)):
            weight = step(weight).block_until_ready()
    (path,) = tmp_path.rglob("*.xplane.pb")
    theirs = {
        event.name: event.duration_ns
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes
        for line in plane.lines
        for event in line.events
    }
    ours = ss.load_trace(path, cache=False)
    names = {ours.strings[number] for number in set(ours.name.tolist())}
    assert names & theirs.keys() >= {name for name in names if "dot" in name or "fusion" in name} != set()


@pytest.mark.slow
def test_an_operation_has_its_program_scope_and_source_line(tmp_path):
    @jax.jit
    def encode(weight):
        with jax.named_scope("encoder"):
            return weight @ weight

    weight = encode(jnp.ones((64, 64))).block_until_ready()
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="jax")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(20)):
            encode(weight).block_until_ready()
    (path,) = tmp_path.rglob("*.xplane.pb")
    trace = ss.load_trace(path, cache=False)
    table = trace.tables()["instructions"].filter(pl.col("framework").str.contains("encoder"))
    assert set(table["module"]) == {"jit_encode"}
    assert set(table["framework"]) == {"jit(encode)/encoder/dot_general"}
    [line] = set(table["line"])
    assert re.search(r"test_profiler\.py\(\d+\): .*encode$", line)
    assert set(trace.flops[table["row"].to_numpy()].tolist()) == {2 * 64**3}
    [label] = set(table["label"])
    rows = {row["name"]: row for row in view("op", trace, ViewOptions(max_depth=99)).as_dict()["rows"]}
    assert rows[label]["calls"] == 1
    runtime = [row for row in range(len(trace)) if trace.name_of(row).startswith("ThunkExecutor")]
    assert Kind.HOST_OP not in trace.kind[runtime]


def test_the_wait_for_data_is_part_of_the_step(tmp_path):
    def slow():
        for _ in range(9):
            time.sleep(0.02)
            yield jnp.ones((64, 64))

    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="jax")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for weight in run.steps(slow()):
            step(weight).block_until_ready()
    (path,) = tmp_path.rglob("*.xplane.pb")
    measured = breakdown(ss.load_trace(path, cache=False))
    assert [step.parts_ns["data_loading"] >= 20_000_000 for step in measured.steps] == [True, True]
    assert measured.ratio("data_loading") >= 0.2


def test_what_the_device_still_has_to_do_is_in_the_profile(tmp_path):
    """Nothing waits for the results of the captured step, as in a real loop."""
    weight = jnp.ones((700, 700))
    step(weight).block_until_ready()
    backend = make_backend()
    backend.start(CaptureOptions())
    with backend.mark(3):
        result = step(weight)
    export = backend.stop()
    trace = ss.load_trace(export(tmp_path / "a.xplane.pb").path, cache=False)
    assert any(
        name.startswith(("dot", "wrapped", "fusion")) or "dot" in name for name in trace.strings.texts()
    )
    del result


def test_another_profiler_is_left_alone(tmp_path):
    jax.profiler.start_trace(tmp_path)
    try:
        with pytest.raises(CaptureError, match="another profiler is already active"):
            make_backend().start(CaptureOptions())
    finally:
        jax.profiler.stop_trace()


def test_memory_is_the_resident_set_where_the_device_has_no_account():
    assert make_backend().memory()["resident_bytes"] > 1 << 20
