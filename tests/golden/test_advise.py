"""What is said of every recorded profile, sentence by sentence, each with the reason why it is true.

The sentences below were checked against the traces: by the device's idle time (HTA's figures agree), by
the sums of what the host did meanwhile, and by looking at the events that each finding names.
"""

import re
from pathlib import Path

import pytest
from support.recordings import DATA, recorded

from stepscope.analyze.advise import Advice, Facts, Finding, advise
from stepscope.analyze.glance import glance
from stepscope.trace.load import load_trace

TRACES = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"

SAID: dict[str, list[tuple[str, str]]] = {
    # 76 % of 222 ms no kernel runs, and in that time operators and untraced host code run: 88.0 + 79.1
    # + 2.7 ms. Conversions of layouts are 9 % of the device's time, but the device is not what the
    # steps wait for.
    "kineto/a100_ddp_rank0of2.json.gz": [
        ("host-bound", "the device waits for the host for 170 ms of 222 ms a step"),
    ],
    # An inference of one batch: 11.7 ms of kernels in 86.4 ms, 694 launches from Python through vLLM. Of the
    # 74.5 ms in which no kernel runs, a frame of Python is the innermost event of the thread for 39.5.
    "kineto/b200_rank0of8.json.gz": [
        ("python-overhead", "the device waits for Python for 74.5 ms of 86.4 ms of the recording"),
    ],
    # The data set's own authors say it: DataLoader with 0 workers takes 40 % of the step (69 of 175
    # ms), 59 ms of it while no kernel runs. What is left of the idle time, 17.6 ms, is launching, most
    # of it the optimizer's loop; 32-bit products are not waited for.
    "kineto/resnet50_v100_workers0.json.gz": [
        ("input-bound", "the step waits for data for 59.3 ms of 175 ms a step"),
        (
            "unfused-optimizer",
            "the optimizer updates parameter by parameter, 646 operators a step, "
            "for 22.0 ms of 175 ms a step",
        ),
    ],
    # With 4 workers loading is 1.4 ms. The device idles 28 %, 38 ms, all of it between launches. Steps
    # of 182 and 163 ms among those of 116 to 127 ms are there; no activity of the host accounts for
    # them.
    "kineto/resnet50_v100_workers4.json.gz": [
        ("host-bound", "the device waits for the host for 37.4 ms of 140 ms a step"),
    ],
    # 3,470 kernels a step, idle 42 %. Of the 147 ms operators have 116, launches 16, and nothing was recorded
    # for 15; CompiledFunctionBackward alone holds 85 ms a step within which nothing was.
    "kineto/v100_rank1of2.json.gz": [
        ("host-bound", "the device waits for the host for 147 ms of 348 ms a step"),
    ],
    # Known of this job: rank 7 comes last for 76 % of the waiting (48.5 ms of NCCL time, 96.5 % of it
    # waiting). Rank 7 itself launches late: its device idles 79 %.
    "dlrm_8xv100": [
        ("slow-rank", "rank 7 arrives last at 5 of 8 collectives and the others wait for it 6.03 ms of 16.1 "
                      "ms a step"),
        ("host-bound", "rank 7: the device waits for the host for 8.69 ms of 12.5 ms a step"),
        ("input-bound", "rank 7: the step waits for data for 1.16 ms of 12.5 ms a step"),
    ],
    # First uses of a device: of 43.3 s the driver takes 29.9 s in one call, kernels 66 ms in all. To
    # launch less would not help; that call is named.
    "critical_path/alexnet.json.gz": [
        ("host-bound", "the device waits for the host for 43.3 s of 43.3 s of the recording, 29.9 s of it in "
         "one call of cudaDeviceGetStreamPriorityRange"),
    ],
    "critical_path/simple_add.json.gz": [
        ("host-bound", "the device waits for the host for 41.1 s of 41.1 s of the recording, 24.6 s of it in "
         "one call of cudaDeviceGetStreamPriorityRange"),
    ],
    # One tiny step: aten::empty, the first allocation, takes 2.19 of 3.15 ms.
    "critical_path/cuda_event_sync.json.gz": [
        ("host-bound", "the device waits for the host for 3.09 ms of 3.15 ms a step, 2.19 ms of it in one "
         "call of aten::empty"),
    ],
    # Three products of 372 µs in all, with 18.5 ms of the host before and between, of which nothing tells.
    "critical_path/cuda_event_sync_multi_stream.json.gz": [
        ("host-bound", "the device waits for the host for 19.5 ms of 19.9 ms of the recording"),
    ],
    # Eight devices work 2.5 % of the time. The first execution takes 47.7 ms on the host; for 78.1 ms more
    # the main thread waits in block_until_ready while no device works: what for was not recorded, so that
    # low utilisation stays a finding of its own, which has no gain.
    "xplane/jax_mi300_8dev.xplane.pb": [
        ("host-bound", "the device waits for the host for 48.2 ms of 139 ms of the recording, 42.6 ms of it "
         "in one call of PjRtStreamExecutorLoadedExecutable::Execute"),
    ],
}  # fmt: skip


def sentence(one: Finding) -> str:
    """Return the first sentence of a finding without its share of the step, which follows from the times."""
    return re.sub(r" \((?:over )?\d+%\)", "", one.summary.split("; ")[0])


def said(name: str) -> Advice:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the trace is not here: {path}")
    return advise(Facts(load_trace(path, cache=False)))


def test_the_optimizers_line_is_that_of_its_step() -> None:
    """Of its 149.1 ms 113.0 are in line 51, ``optimizer.step()``, 36.1 in line 49, ``zero_grad()``."""
    found = said("kineto/resnet50_v100_workers0.json.gz").findings
    one = next(each for each in found if each.rule == "unfused-optimizer")
    assert (one.place["file"], one.place["line"]) == ("resnet50_profiler_api.py", 51)


def test_mending_the_late_rank_alone_gains_what_a_replay_of_all_ranks_gives() -> None:
    """Ranks 2 and 6 wait for rank 7 but 1.4 ms a step: no step becomes 6 ms shorter by mending that one."""
    late = said("dlrm_8xv100").findings[0]
    assert (late.rule, late.gain_from) == ("slow-rank", "ranks")
    assert 0 < late.gain_ns <= min([one["wait_ns"] for one in late.evidence["waiting"]]) < late.cost_ns
    assert "as fast as the median of the others" in late.gain_text


def test_an_exchange_is_on_the_path_of_a_rank_that_waits_in_it() -> None:
    """The operators after the all-to-all of 2.1 ms begin 1 and 3 µs after it; launches take 5 to 15 µs."""
    facts = Facts(load_trace(recorded("traces/dlrm_8xv100/rank0.json.gz"), cache=False))
    first = glance(facts)["waited_for"][0]
    assert first["name"].startswith("ncclKernel_SendRecv")
    assert first["bound"] == "communication"
    assert first["ns"] == pytest.approx(3_178_000, abs=1_000)


def test_what_the_path_holds_between_operators_is_what_the_thread_was_in() -> None:
    """By hand: ``Execute`` takes 44.6 ms, ``block_until_ready`` then waits 78.9 ms while nothing runs."""
    path = recorded("traces/xplane/jax_mi300_8dev.xplane.pb")
    waited = glance(Facts(load_trace(path, cache=False)))["waited_for"]
    assert (waited[0]["name"], waited[0]["bound"]) == ("$api.py:3165 try_to_block", "host_gap")
    assert waited[0]["ns"] == pytest.approx(78_857_000, abs=1_000)
    assert waited[1]["name"] == "nothing recorded within PjRtStreamExecutorLoadedExecutable::Execute"
    assert "not recorded" not in {one["name"] for one in waited}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_of_a_recorded_profile(name: str) -> None:
    found = [one for one in said(name).findings if one.gain_ratio is not None]
    told = [(one.rule, sentence(one).split(" in resnet50")[0]) for one in found]
    for expected in SAID[name]:
        assert expected in told
    assert told[0] == SAID[name][0]
    # Variation among steps may come last, nothing else is added.
    assert {rule for rule, _ in told} - {rule for rule, _ in SAID[name]} <= {"step-variation"}


EVERY = sorted(
    path.relative_to(TRACES).as_posix()
    for folder in ("kineto", "critical_path", "xplane")
    for path in (TRACES / folder).glob("[!.]*")
)
EVERY.append("dlrm_8xv100")


@pytest.mark.parametrize("name", EVERY)
def test_no_share_is_above_one_and_no_gain_above_the_step(name: str) -> None:
    for one in said(name).findings:
        shares = [
            value for key, value in one.evidence.items() if key.endswith("_ratio") and value is not None
        ]
        assert all(0 <= value <= 1 or key_may_exceed(one.rule) for value in shares), one
        if one.gain_ns is not None:
            assert 0 <= one.gain_ns <= one.evidence.get("step_ns", one.gain_ns)
            assert 0 <= one.gain_ratio <= 1
            assert 0 <= one.cost_ratio <= 1
            assert one.gain_from in ("replay", "ranks", "bound")
        assert_whole(one)
        if one.rule in ("host-bound", "launch-bound", "python-overhead") and "untraced_ns" in one.evidence:
            parts = [one.evidence[f"{part}_ns"] for part in ("launching", "python", "operators", "untraced")]
            assert sum(parts) == pytest.approx(one.evidence["waited_ns"], abs=4)


RECORDED = sorted(
    path.relative_to(DATA).as_posix()
    for pattern in ("traces/kineto/*", "traces/critical_path/*", "traces/xplane/*.pb", "traces/dlrm_8xv100",
                    "tf_estimator/**/timeline-*", "tfprof/*/timeline-*", "tfprof/*/run_metadata_*")
    for path in DATA.glob(pattern)
)  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_parts_add_up_to_each_step_and_rows_of_a_glance_to_no_more(name: str) -> None:
    facts = Facts(load_trace(recorded(name), cache=False))
    for step in facts.breakdown.steps:
        assert sum(part for part in step.parts_ns.values() if part is not None) == step.wall_ns
    found = glance(facts)
    shares = [part["ratio"] for part in found["parts"] if part["ratio"] is not None]
    assert sum(shares) == pytest.approx(1)
    assert sum(piece["ratio"] or 0 for piece in found["waited_for"] or ()) <= 1 + 1e-9
    for table in ("operations", "kernels"):
        rows = found[table]["rows"][1:] if found[table] else []
        for column in ("step_ratio", "device_ratio"):
            values = [row[column] for row in rows if row.get(column) is not None]
            assert all(0 <= value <= 1 + 1e-9 for value in values), (table, column)
        assert sum(row.get("step_ratio") or 0 for row in rows) <= 1 + 1e-9
    for finding in advise(facts).findings:
        if finding.gain_ns is not None:
            assert 0 <= finding.gain_ns <= finding.evidence.get("step_ns", finding.gain_ns)
            assert 0 <= finding.gain_ratio <= 1
            assert 0 <= finding.cost_ratio <= 1


HANGS = {
    # A fault of the GPU was injected in ranks 12 and 14.
    "gpu_error_1st": (
        "the job waits for ranks 12 and 14: device stopped (ranks 0 to 11, 13 and 15 wait)",
        "Xid",
    ),
    # Ranks 9 and 14 held the interpreter's lock for ever.
    "lock_gil_1st": (
        "the job waits for ranks 9 and 14: did not join (ranks 0 to 8, 10 to 13 and 15 wait)",
        "py-spy",
    ),
}


@pytest.mark.parametrize("scenario", HANGS)
def test_of_dumps_that_have_no_time_the_hang_is_told_and_nothing_else(scenario: str) -> None:
    path = recorded(f"traces/flight_recorder/{scenario}")
    advice = advise(Facts(load_trace(path, cache=False), path=str(path)))
    assert advice.judged == ["hang"]
    (finding,) = advice.findings
    summary, remedy = HANGS[scenario]
    assert (finding.summary, finding.severity) == (summary, "high")
    assert remedy in finding.action
    assert finding.command == f"stepscope ranks {path}"
    assert all(0 < one["confidence_ratio"] < 1 for one in finding.evidence["suspects"])
    assert_whole(finding)
    # Rules that lack the same thing are one line.
    assert advice.text.count("(no event has a duration)") == 1


def test_one_ranks_dump_accuses_nobody() -> None:
    path = recorded("traces/flight_recorder/lock_gil_1st/dump_0.pkl")
    advice = advise(Facts(load_trace(path, cache=False)))
    assert (advice.findings, advice.judged) == ([], [])
    assert "hang (one rank's dump alone does not tell which rank the others wait for" in advice.text


ESTIMATOR: dict[str, list[tuple[str, str]]] = {
    # Row 0 runs 365 operators for 604 µs in all, 75 of them the optimizer's: the sum of the others and of the
    # gaps below 20 µs between them is the 1.03 ms. IteratorGetNext takes 71 µs, IteratorV2 4. The optimizer
    # (Adagrad, Ftrl) has an operator for each of 10 parameters and 65 around them, sparse gradients' most.
    "tf_estimator/single/timeline-1200.json.gz": [
        ("small-kernels", "365 operators a step, 99% of them shorter than 10 µs, take 1.10 ms of 1.27 ms "
         "a step with what lies between them"),
        ("input-bound", "the step waits for data for 75.0 µs of 1.27 ms a step"),
    ],
    # RecvTensor runs while no operator does for 11.79 ms of 25.46.
    "tf_estimator/distributed/chief_0/timeline-4554.json.gz": [
        ("communication-bound", "communication that no computation hides takes 11.8 ms of 25.5 ms a step"),
    ],
    # RecvTensor alone for 15.74 ms; the step's first operator, IteratorGetNext, takes 3.096.
    "tf_estimator/distributed/worker_0/timeline-5484.json.gz": [
        ("communication-bound", "communication that no computation hides takes 15.7 ms of 40.7 ms a step"),
        ("input-bound", "the step waits for data for 3.10 ms of 40.7 ms a step"),
    ],
    # Products take half; the calls of 80 operators of a microsecond each, most of the rest.
    "tfprof/wide_deep/run_metadata_step0.pb": [
        ("small-kernels", "80 operators a step, 95% of them shorter than 10 µs, take 216 µs of 436 µs a step "
         "with what lies between them"),
    ],
    "tfprof/wide_deep/timeline-0.json.gz": [
        ("small-kernels", "79 operators a step, 95% of them shorter than 10 µs, take 195 µs of 437 µs a step "
         "with what lies between them"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ESTIMATOR)
def test_what_is_said_of_a_recorded_step_of_an_estimator(name: str) -> None:
    found = [one for one in advise(Facts(load_trace(recorded(name), cache=False))).findings if one.gain_ns]
    assert [(one.rule, sentence(one)) for one in found] == ESTIMATOR[name]


HOSTS = [name for name in RECORDED if name.startswith("tf")]


@pytest.mark.parametrize("name", HOSTS)
def test_the_most_expensive_operations_are_those_of_a_glance(name: str) -> None:
    facts = Facts(load_trace(recorded(name), cache=False))
    shown = {row["name"]: row["step_ns"] for row in glance(facts)["operations"]["rows"][1:]}
    named = next(one for one in advise(facts).findings if one.rule == "expensive-operation")
    for one in named.evidence["operators"]:
        assert shown[one["name"]] == pytest.approx(one["host_ns"], abs=1)


def test_the_most_expensive_operation_of_a_tensorflow_step_is_that_of_all_threads() -> None:
    """By hand: ``_MklMatMul`` takes 130 of 436 µs and ``ResourceApplyAdam`` 69, on four rows of threads."""
    facts = Facts(load_trace(recorded("tfprof/wide_deep/run_metadata_step0.pb"), cache=False))
    named = next(one for one in advise(facts).findings if one.rule == "expensive-operation")
    assert named.summary == "_MklMatMul takes 30% of the steps"


def assert_whole(one: Finding) -> None:
    """Hold what every finding has: where, why, what to do, how to see it, and when it would not be said."""
    assert one.summary
    assert one.action
    assert one.evidence
    assert one.command.startswith("stepscope ")
    assert one.withdrawn
    assert isinstance(one.place["rank"], int)
    assert one.events, one
    assert all(event["name"] and event["row"] >= 0 for event in one.events)
    assert (one.gain_ns is None) == (one.gain_ratio is None) == (one.cost_ns is None)


def key_may_exceed(rule: str) -> bool:
    """A longest step may well be more than twice the median."""
    return rule == "step-variation"


def test_a_trace_that_was_cut_is_not_judged(tmp_path: Path) -> None:
    import gzip

    path = TRACES / "kineto/resnet50_v100_workers0.json.gz"
    if not path.exists():
        pytest.skip(f"the trace is not here: {path}")
    whole = gzip.decompress(path.read_bytes())
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: len(whole) // 2])
    advice = advise(Facts(load_trace(cut, cache=False)))
    assert not advice.findings
    assert "cut short" in advice.as_dict()["caveats"][0]
