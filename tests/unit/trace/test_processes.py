"""Chrome traces of JAX and of rocprof, whose processes tell what runs in them; and many threads."""

import json

import stepscope as ss
from stepscope.trace.compact import WORTH_IT
from stepscope.trace.model import Kind


def load(tmp_path, *events, **metadata):
    path = tmp_path / "t.trace.json"
    path.write_text(json.dumps({"traceEvents": list(events), **metadata}))
    return ss.load_trace(path, cache=False)


def named(pid, name, tid=None, thread=""):
    events = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}]
    if tid is not None:
        events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}})
    return events


def event(name, pid, tid, ts, dur, **args):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kinds(trace):
    return {trace.name_of(row): Kind(trace.kind[row]).name for row in range(len(trace))}


def test_jax_writes_the_instruction_of_each_event(tmp_path):
    trace = load(
        tmp_path,
        *named(701, "/host:CPU", 1, "python"),
        *named(1, "/device:GPU:0", 5, "Stream #16(Kernel)"),
        event("train", 701, 1, 0, 100, step_num="3"),
        event("PjitFunction(step)", 701, 1, 5, 20),
        event("cuLaunchKernel", 701, 1, 7, 2, correlation_id="9"),
        event(
            "gemm_kernel", 1, 5, 30, 40, hlo_op="dot.1", hlo_module="jit_step", correlation_id="9",
            tf_op="jit(step)/encoder/dot_general:",
        ),
        event("MemcpyH2D", 1, 5, 75, 5),
        displayTimeUnit="ns",
    )  # fmt: skip
    assert kinds(trace) == {
        "train": "STEP", "PjitFunction(step)": "RUNTIME_CALL", "cuLaunchKernel": "RUNTIME_CALL",
        "gemm_kernel": "KERNEL", "MemcpyH2D": "MEMCPY",
    }  # fmt: skip
    [label] = [trace.strings[n] for n in trace.instructions.label.tolist()]
    gemm = int(trace.named("gemm_kernel")[0])
    assert label == "jit_step/dot.1"
    assert trace.scopes.text(int(trace.scope[gemm])) == "jit(step)/encoder/dot_general"
    assert (trace.name_of(int(trace.launch[gemm])), trace.steps.number.tolist()) == ("cuLaunchKernel", [3])
    assert [(lane.device, lane.stream) for lane in trace.lanes] == [(-1, -1), (0, 16)]


def test_a_source_line_without_a_program(tmp_path):
    trace = load(
        tmp_path,
        *named(1, "/device:TPU:0", 5, "XLA Ops"),
        event("fusion.1", 1, 5, 30, 40, hlo_op="fusion.1", source="/a/model.py:12", hlo_category="fusion"),
    )
    table = trace.tables()["instructions"].row(0, named=True)
    assert (table["label"], table["line"], table["opcode"]) == ("fusion.1", "/a/model.py(12)", "fusion")
    assert trace.stacks.text(int(trace.stack[0])) == "/a/model.py(12)"


def test_rocprof_before_version_3(tmp_path):
    trace = load(
        tmp_path,
        *named(2, "CPU HIP API"),
        *named(6, "GPU0"),
        *named(0, "COPY"),
        *named(1, "Markers and Ranges"),
        event("hipLaunchKernel", 2, 11, 0, 5, correlation_id="4"),
        event("gemm", 6, 1, 10, 5, correlation_id="4"),
        event("ncclKernel_AllReduce", 6, 1, 20, 5),
        event("hcCommandMemcpyHostToDevice", 0, 11, 30, 5),
        event("forward", 1, 11, 0, 50),
    )
    assert kinds(trace) == {
        "hipLaunchKernel": "RUNTIME_CALL", "gemm": "KERNEL", "ncclKernel_AllReduce": "COLLECTIVE",
        "hcCommandMemcpyHostToDevice": "MEMCPY", "forward": "ANNOTATION",
    }  # fmt: skip
    assert trace.name_of(int(trace.launch[int(trace.named("gemm")[0])])) == "hipLaunchKernel"


def test_other_chrome_traces_are_not_guessed_at(tmp_path):
    trace = load(tmp_path, *named(1, "GPU0 browser"), event("work", 1, 5, 30, 40, correlation_id="4"))
    assert kinds(trace) == {"work": "OTHER"}


def test_of_many_descriptions_of_a_thread_the_last_counts_and_none_stays_in_the_trace(tmp_path):
    many = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": f"{tid} {n}"}}
        for n in range(3)
        for tid in range(WORTH_IT)
    ]
    trace = load(tmp_path, *named(1, "main"), *many, event("a", 1, 7, 0, 5), event("b", 1, 7, 1, 2))
    assert [(lane.process, lane.thread) for lane in trace.lanes] == [("main", "7 2")]
    assert kinds(trace) == {"a": "OTHER", "b": "OTHER"}
    assert len(trace.strings) < 10


def test_copies_of_mtia_are_copies(tmp_path):
    work = [
        {**event(name, 0, 3, at, 5, device=0, stream=3), "cat": "mtia_ccp_events"}
        for at, name in enumerate(["dma_h2d", "DMA: d2h", "fba_kernel", "admadness"])
    ]
    call = {**event("runFunction - job", 1, 4, 0, 1), "cat": "mtia_runtime"}
    trace = load(tmp_path, call, *work, schemaVersion=1, deviceProperties=[])
    assert kinds(trace) == {
        "runFunction - job": "RUNTIME_CALL", "dma_h2d": "MEMCPY", "DMA: d2h": "MEMCPY",
        "fba_kernel": "KERNEL", "admadness": "KERNEL",
    }  # fmt: skip
