"""Every analysis answers or abstains on every recorded profile, whatever its format; none fails."""

from functools import cache

import pytest
from support.recordings import recorded

from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.critical_path import critical_paths
from stepscope.analyze.diff import diff
from stepscope.analyze.idle import idle
from stepscope.analyze.kernel_details import kernel_details
from stepscope.analyze.launch import launches
from stepscope.analyze.memory import memory
from stepscope.analyze.operators import operator_table
from stepscope.analyze.overlap import overlap, overlap_by_step
from stepscope.analyze.parameter_server import parameter_server
from stepscope.analyze.shapes import shape_table
from stepscope.errors import EmptyTraceError
from stepscope.trace.load import load_trace

PROFILES = (
    "traces/kineto/b200_rank0of8.json.gz", "traces/critical_path/simple_add.json.gz", "traces/dlrm_8xv100",
    "traces/xplane/jax_mi300_8dev.xplane.pb", "traces/flight_recorder/lock_gil_1st",
    "tf_estimator/single/timeline-400.json.gz", "tf_estimator/distributed/chief_0",
    "tfprof/convnet/run_metadata_step1.pb", "tfprof/wide_deep/timeline-0.json.gz",
)  # fmt: skip
ANALYSES = (
    breakdown, critical_paths, idle, kernel_details, launches, memory, operator_table, overlap,
    overlap_by_step, parameter_server, shape_table, lambda trace: diff(trace, trace),
)  # fmt: skip


@cache
def trace(name):
    return load_trace(recorded(name), cache=False)


def answer(analysis, found):
    try:
        return analysis(found)
    except EmptyTraceError as error:
        return error.message


@pytest.mark.parametrize("name", PROFILES)
def test_every_analysis_answers_or_abstains(name):
    found = trace(name)
    assert [analysis.__name__ for analysis in ANALYSES if answer(analysis, found) is None] == []


def test_eight_ranks_wait_for_each_other():
    """All ranks of a job are kept apart, and each of its all-reduces is communication."""
    found = overlap(trace("traces/dlrm_8xv100"))
    assert [device.rank for device in found] == list(range(8))
    assert all(device.communication_ns > 0 for device in found)


def test_eight_devices_of_one_process():
    found = overlap(trace("traces/xplane/jax_mi300_8dev.xplane.pb"))
    assert [device.device for device in found] == list(range(8))
    for device in found:
        assert device.busy_ns + device.idle_ns == device.window_ns
