"""The device runs dry because the host is not ready; or there is only the host, and it runs Python.

It is one finding, named after the largest part of the host's time: ``launch-bound`` for launch calls,
``python-overhead`` for Python, otherwise ``host-bound``. If a device was recorded, only time in which no
device worked counts: the host's work while a device is busy costs nothing, and a launch call that blocks
because the device is busy is not a cost of launching. On a host alone without stacks, the time in which the
training thread runs no operator is all that is known: it may be Python, or a wait.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from stepscope.analyze.advise.callbacks import of_thread
from stepscope.analyze.advise.cause import Cause
from stepscope.analyze.advise.finding import ONE_RUN_EACH, WORTH, Abstain, Case, Facts, lines_told, top
from stepscope.analyze.advise.remedy import framework_of, made_of_samples
from stepscope.analyze.advise.waited import AWAITED, Waited, outermost
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.origin import SourceLine
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.sampled import MIN_SAMPLES
from stepscope.attribute.source_lines import EVERY, Share, leading
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.step_tree import innermost
from stepscope.text import most, time
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among

WIDTH = 3
"""The host's time includes calls one by one, and many small ones."""
MAIN_SHARE = 0.5
"""Share of the host's part from which on one kind of time names the finding."""
PYTHON = 0.2
"""Least share of Python on a host alone: recording stacks makes every call of a function slower."""
SAMPLED = 0.1
"""The same if stacks were sampled, which slows nothing down, and one line has most of it."""
MANY = 100
"""Kernels per step from which on the host may be busy launching them."""
ALONE = 0.8
"""Share of a line's time outside of operators from which on it runs hardly any."""
SMALL_NS = 10_000
"""A kernel below 10 µs is about as long as a launch takes from Python."""
_GRAPHS = re.compile(r"(?:cuda|hip|cu)GraphLaunch", re.IGNORECASE)
_COMPILED = re.compile(r"Torch-Compiled Region|CompiledFunction|triton_|PjitFunction|^jit_")
_FUNCTIONS = re.compile(r"^(?!Torch|CompiledFunction|\w*Backward\d+$)[A-Z_a-z]\w*$")
"""Names of classes, with which Kineto names a ``torch.autograd.Function``; torch's own operators have
``::``.
"""
_ENGINE = re.compile(r"(?:^|/)torch/autograd/\S+\.py\(\d+\): _engine_run_backward$")
"""The frame that runs the backward pass in C++: if it is the innermost one, no Python runs."""
_COPIES = re.compile(r"Memcpy|Memset|memcpy|Free|Malloc")


_CALLS = among(Kind.HOST_OP, Kind.RUNTIME_CALL)


def _cases(facts: Facts) -> list[Case]:
    """Replay the steps without the time in which the host works and no device does."""
    cases = []
    looked = [waited for waited in facts.waited if waited.lane >= 0]
    if not looked:
        raise Abstain("no operators of the host were recorded, so what the host did is not known")
    if not any(waited.has_device or waited.has_stacks or _has_operators(waited) for waited in looked):
        raise Abstain(
            "no work on an accelerator that could wait for the host, no operators of the training thread and "
            "no Python stacks"
        )
    for waited in looked:
        case = _case(waited)
        least = WORTH if waited.has_device else max(_least_alone(waited, case), WORTH)
        if case is not None and min(case.ratio, case.cost_ratio) >= least and not _of_the_loop(waited, case):
            cases.append(case)
    return cases


def _is_own(case: Case) -> bool:
    """Return whether most of sampled Python is in lines that do something other than call operators."""
    evidence = case.evidence
    return "own_ns" not in evidence or bool(evidence["own_ns"] >= MAIN_SHARE * evidence["seen_ns"])


def _say(case: Case) -> str:
    device = case.waited.has_device
    if "outside_ns" in case.evidence:
        ranges = case.evidence.get("ranges", [])
        within = (
            f", {time(ranges[0]['total_ns'] / case.waited.count)} of it in {ranges[0]['name']}"
            if ranges
            else ""
        )
        return (
            f"the training thread runs none of the framework's operators for {case.cost_text}{within}: what "
            "it did, Python or a wait, was not recorded"
        )
    who = {
        "host-bound": "the device waits for the host",
        "launch-bound": "the device waits for launch calls",
        "python-overhead": "the device waits for Python"
        if device
        else "the training thread runs its own code, outside the framework's operators,",
    }[case.rule]
    call = case.evidence.get("one_call")
    most = f", {time(case.evidence['one_call_ns'])} of it in one call of {call}" if call else ""
    if _untraced(case):
        most = f"; for {time(case.evidence['untraced_ns'])} of that nothing was recorded on the host"
    if "package" in case.evidence:
        most = f", which calls {case.evidence['package']}"
    return f"{who} for {case.cost}{most}"


def _untraced(case: Case) -> bool:
    """Return whether most of the host's time is unaccounted for."""
    evidence = case.evidence
    return "one_call" not in evidence and evidence.get("untraced_ns", 0) >= MAIN_SHARE * evidence.get(
        "waited_ns", 1
    )


def _case(waited: Waited) -> Case | None:
    parts = _parts(waited)
    if not waited.has_device:
        if len(waited.frames):
            return _python_alone(waited, parts["python_ns"].minus(_awaiting(waited)))
        if waited.sampled is not None:
            return _python_sampled(waited, parts["untraced_ns"])
        return _outside_operators(waited, parts["untraced_ns"]) if _has_operators(waited) else None
    if waited.graph is None:  # nothing tells what the device waited for
        return None
    own = Spans.empty().union(*parts.values())
    worth = waited.worth(host=dict.fromkeys(waited.host_lanes, own.intersect(waited.dry)))
    shares = {name: spans.intersect(waited.dry).measure_ns for name, spans in parts.items()}
    whole = max(sum(shares.values()), 1)
    lines = waited.lines(own.intersect(waited.dry))
    rule, one_call = "host-bound", _one_call(waited, whole)
    for name, named_after in (("python_ns", "python-overhead"), ("launching_ns", "launch-bound")):
        if not one_call and shares[name] >= MAIN_SHARE * whole:
            rule = named_after
    evidence: dict[str, Any] = {
        "device_idle_ratio": waited.dry.measure_ns / waited.wall_ns,
        "device_idle_ns": round(waited.dry.measure_ns / waited.count),
        "waited_ns": round(worth.cost_ns / waited.count),
        **{name: round(ns / waited.count) for name, ns in shares.items()},
        "host_waiting_ns": round(_host_waiting(waited, own).measure_ns / waited.count),
        **one_call,
        "lines": lines_told(lines, whole),
    }
    line, launches = leading(lines, whole), _dry_launches(waited)
    return Case(waited, worth, evidence, line, launches, _chain(waited, own), rule)


def _one_call(waited: Waited, whole: int) -> dict[str, Any]:
    """Return the one call that makes up most of the host's part, such as starting a device."""
    trace = waited.trace
    calls = _CALLS[trace.kind] & (trace.device < 0)
    rows = np.flatnonzero(
        calls & np.isin(trace.lane, waited.host_lanes) & ~waited.activities.waits[trace.name]
    )
    dry = np.minimum(trace.self_ns[rows], waited.dry.within(trace.start_ns[rows], trace.end_ns[rows]))
    if not len(rows) or dry.max() < MAIN_SHARE * whole:
        return {}
    row = int(rows[np.argmax(dry)])
    return {"one_call": trace.name_of(row), "one_call_ns": int(dry.max())}


def _host_waiting(waited: Waited, own: Spans) -> Spans:
    """Return the time in which the training thread waits and no device works: nobody's own time."""
    waits = waited.activities.waiting(waited.lane).minus(waited.activities.spans(waited.lane))
    return waits.intersect(waited.dry).minus(own)


def _python_alone(waited: Waited, python: Spans) -> Case:
    trace = waited.trace
    worth = waited.worth(host={waited.lane: python})
    lines = waited.lines(python)
    rows = waited.frames
    self_ns = np.minimum(trace.self_ns[rows], python.within(trace.start_ns[rows], trace.end_ns[rows]))
    evidence = {
        "python_ns": round(python.measure_ns / waited.count),
        "python_ratio": python.measure_ns / waited.wall_ns,
        "frames": [{"name": name, "self_ns": int(ns)} for name, ns in top(trace, rows, self_ns, count=5)],
        "lines": lines_told(lines, python.measure_ns),
    }
    line, longest = leading(lines, python.measure_ns), rows[np.argsort(-self_ns)][:5]
    return Case(waited, worth, evidence, line, longest, (SLOWED,), "python-overhead", python)


def _awaiting(waited: Waited) -> Spans:
    """Return the time in one place for most of which XLA's or TensorFlow's threads ran something.

    A call in C that waits for them, such as ``block_until_ready``, has no frame of its own.
    """
    trace, executing = waited.trace, waited.executing
    if not len(executing):
        return executing
    rows = np.flatnonzero(trace.lane == waited.lane)
    start, end, at = innermost(trace, rows, trace.lane[rows])
    awaits = trace.kind[rows[at]] == Kind.PYTHON_FRAME
    awaits &= executing.within(start, end) >= MAIN_SHARE * (end - start)
    return Spans.of(start[awaits], end[awaits])


def _python_sampled(waited: Waited, untraced: Spans) -> Case | None:
    """Return the time outside of operators in which the thread ran, by its sampled stacks."""
    if waited.sampled is None or waited.sampled.lane != waited.lane:
        return None
    engine = waited.sampled.innermost(_ENGINE)
    python = untraced.intersect(waited.sampled.working).minus(engine)
    lines = waited.lines(python, own=True)
    if not lines:  # too few stacks were taken in it to say that it is the program's own code
        return None
    worth = waited.worth(host={waited.lane: python})
    queued = waited.kept_ns(python)
    seen = max(sum(one.time_ns for one in lines), (python.measure_ns - queued) // 4)
    own = _without_operators(waited, python)
    lines = [*own, *(one for one in lines if one not in own)]
    evidence = {
        "own_ns": round(sum(one.time_ns for one in own) / waited.count),
        "python_ns": round((python.measure_ns - queued) / waited.count),
        "python_ratio": (python.measure_ns - queued) / waited.own_ns,
        "seen_ns": round(seen / waited.count),
        "lines": lines_told(lines, python.measure_ns),
    }
    line = own[0] if own else leading(lines, seen)
    if line is not None:
        package, ratio = waited.sampled.package_in(waited.sampled.of_line(line.line).intersect(python))
        evidence |= {"package": package} if ratio >= MAIN_SHARE else {}
    callers = [] if line is None else waited.sampled.callers(line.line)
    if callers:
        evidence["called_from"] = [str(one) for one in callers]
    return Case(waited, worth, evidence, line, rule="python-overhead", spans=python)


def _without_operators(waited: Waited, python: Spans) -> list[Share]:
    """Return the lines that run Python and hardly any operator, or whose functions do.

    The Python of all others is that of calling operators, in each line some of it. So is that of a library
    whose operators follow each other faster than stacks were sampled: samples fall between short operators,
    and hardly ever into one.
    """
    every: dict[object, list[int]] = {}
    lines = waited.lines(python, most=EVERY, own=True)
    whole = waited.lines(waited.spans, most=EVERY, own=True)
    begun = _operators_of(waited, lines)
    for place, several in ((0, whole), (1, lines)):
        for one in several:
            for group in (one.line, (one.line.file, one.line.function)):
                times = every.setdefault(group, [0, 0, 0, 0])
                times[place] += one.time_ns
                times[2] += one.rows * place
                times[3] += begun.get(one.line, 0) * place
    interval_ns = 0 if waited.sampled is None else waited.sampled.samples.interval_ns

    def alone(group: object) -> bool:
        time_ns, ran, rows, operators = every[group]
        return rows >= MIN_SAMPLES and ran >= ALONE * time_ns and operators * interval_ns <= time_ns

    own = [one for one in lines if alone(one.line) or alone((one.line.file, one.line.function))]
    count = max(sum(one.rows for one in whole), 1)
    known = [(count, min(sum(one.rows for one in own) / count, 1.0))]
    if waited.sampled is not None and (looks := waited.sampled.samples.looked.looks):
        # The run itself looked at all of its steps, less often in each.
        known.append((looks, waited.sampled.share_looked(one.line for one in own)))
    # Few samples might be there by chance: a share has an error of two standard deviations.
    least = max(share - 2 * (share * (1 - share) / count) ** 0.5 for count, share in known)
    return own if least >= WORTH else []


def _operators_of(waited: Waited, lines: list[Share]) -> dict[SourceLine, int]:
    """Return how many operators began in libraries' Python that each of some lines called."""
    if waited.sampled is None:
        return {}
    rows = outermost(waited.trace, waited.operators_in_steps)
    start = waited.trace.start_ns[rows]
    start = start[waited.sampled.in_libraries.holds(start)]
    return {one.line: int((waited.sampled.of_line(one.line).holds(start)).sum()) for one in lines}


def _has_operators(waited: Waited) -> bool:
    """Return whether operators of the thread that runs the steps were recorded as they ran, one by one."""
    if waited.trace.format in ONE_RUN_EACH:
        return False  # the lanes are devices, not threads
    return bool(len(waited.operators))


def _outside_operators(waited: Waited, other: Spans) -> Case | None:
    """Return the time in which the training thread ran no operator and waited for no other thread.

    Its work is not known: of events, only the user's own ranges lie there.
    """
    trace, mine = waited.trace, waited.trace.rank == waited.rank
    ranges = among(Kind.STEP, Kind.ANNOTATION, Kind.MODULE_SCOPE)[trace.kind]
    here = mine & (trace.lane == waited.lane) & ~ranges
    beside = mine & (trace.lane != waited.lane) & (trace.device < 0) & (trace.kind == Kind.HOST_OP)
    exchanges = mine & among(Kind.COLLECTIVE, Kind.SEND_RECV)[trace.kind]
    ran = rows_spans(trace, np.flatnonzero(beside | exchanges))
    left = other.minus(rows_spans(trace, np.flatnonzero(here)))
    # Where other threads ran something during such a stretch, the thread may have waited for them.
    alone = ran.within(left.start, left.end) < AWAITED * (left.end - left.start)
    left = Spans.of(left.start[alone], left.end[alone]).minus(ran)
    if not len(left):
        return None
    rows = np.flatnonzero(mine & (trace.lane == waited.lane) & (trace.kind == Kind.ANNOTATION))
    holding = _in_ranges(trace, rows, left) if len(rows) else []
    evidence: dict[str, Any] = {
        "outside_ns": round(left.measure_ns / waited.count),
        "outside_ratio": left.measure_ns / waited.wall_ns,
    }
    if holding and holding[0]["total_ns"] >= MAIN_SHARE * left.measure_ns:
        evidence["ranges"] = holding
    return Case(waited, waited.worth(host={waited.lane: left}), evidence, rule="host-bound", spans=left)


def _in_ranges(trace: Trace, rows: Ints, spans: Spans) -> list[dict[str, Any]]:
    """Return the innermost ranges of a thread that hold some time, most time first."""
    start, end, at = innermost(trace, rows, trace.lane[rows])
    held = spans.within(start, end)
    return [{"name": name, "total_ns": int(ns)} for name, ns in top(trace, rows[at], held)]


SLOWED = "recording stacks slows Python down: confirm this without stacks"


def _of_the_loop(waited: Waited, case: Case) -> bool:
    """Return whether it is Python of a framework's own loop and too little of the time from step to step."""
    sampled = waited.sampled
    if waited.has_device or sampled is None or case.line is None or not sampled.is_around(case.line):
        return False
    return case.worth.gain_ns < PYTHON * waited.period_ns * waited.count


def _least_alone(waited: Waited, case: Case | None) -> float:
    """Return the least share of Python on a host alone: less if nothing slowed it and one line leads."""
    slowed = len(waited.frames) > 0 and not made_of_samples(waited.trace)
    if case is None or case.line is None or slowed:
        return PYTHON
    whole = case.evidence.get("seen_ns", 0) * waited.count
    return SAMPLED if case.line.time_ns >= MAIN_SHARE * whole else PYTHON


def _parts(waited: Waited) -> dict[str, Spans]:
    """Divide the host's time into parts that exclude each other: launches on any launching thread first."""
    trace, lanes = waited.trace, waited.host_lanes or [waited.lane]
    mine = np.flatnonzero(np.isin(trace.lane, lanes) & (trace.device < 0))
    kind = trace.kind[mine]
    rest = waited.spans.minus(_not_its_own(waited, lanes))
    calls = mine[kind == Kind.RUNTIME_CALL]
    launches = np.intersect1d(calls, trace.launch[waited.device_rows])
    copies = named(trace, _COPIES)
    launching = rows_spans(trace, launches[~copies[trace.name[launches]]]).intersect(rest)
    rest = rest.minus(launching)
    operators = rows_spans(trace, mine[_CALLS[kind]])
    operators = operators.minus(_in_python(waited, mine).union(_in_functions(waited, mine))).intersect(rest)
    rest = rest.minus(operators)
    python = rows_spans(trace, mine[kind == Kind.PYTHON_FRAME]).intersect(rest)
    return {
        "launching_ns": launching, "python_ns": python, "operators_ns": operators,
        "untraced_ns": rest.minus(python),
    }  # fmt: skip


def _in_python(waited: Waited, mine: Ints) -> Spans:
    """Return the time within operators in which a frame is the innermost, as in the step's tree."""
    trace = waited.trace
    operators = _CALLS[trace.kind]
    if not (trace.kind[mine] == Kind.PYTHON_FRAME).any():
        return Spans.empty()
    start, end, place = innermost(trace, mine, trace.lane[mine])
    row = mine[place]
    ran = (trace.kind[row] == Kind.PYTHON_FRAME) & (trace.nearest(operators)[row] >= 0)
    return Spans.of(start[ran], end[ran])


def _in_functions(waited: Waited, mine: Ints) -> Spans:
    """Return the own time of Python code under autograd: Kineto has it as an operator of its class's name.

    Only if stacks were sampled: without them nothing says that Python ran there.
    """
    trace = waited.trace
    if waited.sampled is None or trace.format != "kineto":
        return Spans.empty()
    own = named(trace, _FUNCTIONS)
    rows = mine[(trace.kind[mine] == Kind.HOST_OP) & own[trace.name[mine]]]
    children = np.flatnonzero(np.isin(trace.parent, rows))
    return rows_spans(trace, rows).minus(rows_spans(trace, children)) if len(rows) else Spans.empty()


def _not_its_own(waited: Waited, lanes: list[int]) -> Spans:
    """Return the time that another rule is about, or in which all launching threads waited."""
    busy = waited.activities.spans(waited.lane).union(of_thread(waited))
    waits = waited.activities.waiting(waited.lane)
    trace = waited.trace
    others = np.flatnonzero(np.isin(trace.lane, lanes[1:]) & _CALLS[trace.kind] & (trace.device < 0))
    # While the main thread waits for the thread of the backward pass, that one is the host.
    return busy.union(waits.minus(rows_spans(trace, others)))


def _dry_launches(waited: Waited) -> Ints:
    """Return the host's operators and calls that ran while no device worked."""
    trace = waited.trace
    mine = np.flatnonzero((trace.lane == waited.lane) & _CALLS[trace.kind] & (trace.device < 0))
    dry = waited.dry.within(trace.start_ns[mine], trace.end_ns[mine])
    return mine[dry >= np.maximum(trace.duration_ns[mine] // 2, 1)]


def _chain(waited: Waited, own: Spans) -> tuple[str, ...]:
    trace = waited.trace
    dry = waited.dry.measure_ns / waited.wall_ns
    inside = waited.work_in_steps(Kind.KERNEL)
    chain = [f"no device works for {most(dry)} of {'the steps' if waited.marked else 'the recording'}"]
    waiting = _host_waiting(waited, own).measure_ns
    if waiting >= WORTH * waited.wall_ns:
        per = "a step" if waited.marked else "of the recording"
        chain.append(
            f"the training thread also waits for {time(waiting / waited.count)} {per} of that time; what it "
            "waits for was not recorded"
        )
    if len(inside) >= MANY * waited.count:
        small = float((trace.duration_ns[inside] < SMALL_NS).mean())
        per = "a step" if waited.marked else "in all"
        short = f", {small:.0%} of them shorter than 10 µs" if small else ""
        chain.append(f"{len(inside) / waited.count:,.0f} kernels {per}{short}")
    if len(waited.frames) and not made_of_samples(trace):
        chain.append(SLOWED)
    return tuple(chain)


def _action(facts: Facts, case: Case) -> str:
    trace, framework = facts.timeline, framework_of(facts.timeline)
    graphs = bool(named(trace, _GRAPHS).any())
    compiled = bool(named(trace, _COMPILED).any())
    if "one_call" in case.evidence:
        return (
            f"find out what {case.evidence['one_call']} waits for: the first use of a device, of a library "
            "or of memory can take this long; if these are the first steps, record later ones before "
            "anything else"
        )
    if "outside_ns" in case.evidence:
        where = next((one["name"] for one in case.evidence.get("ranges", [])), "there")
        runs = f"{where} does" if where != "there" else "runs there"
        return (
            f"find out what {runs}, and do less of it in the steps, or ahead of time in a thread or process"
        )
    if _untraced(case):
        return "look in the timeline at what surrounds the time for which nothing was recorded"
    if case.rule == "python-overhead" and case.line is not None:
        return (
            f"make {case.line.line} cheaper, or move it out of the steps; compile or vectorise the hot path"
        )
    if framework == "torch":
        return _torch(graphs=graphs, compiled=compiled, optimizer=_optimizer_remedy(trace, case.waited))
    if framework == "keras":
        return (
            "model.compile(run_eagerly=False, jit_compile=True), model.compile(steps_per_execution=…), and "
            "do less in your own layers and callbacks"
        )
    if framework == "jax":
        return "put more of the step under one jax.jit, donate buffers, use jax.lax.scan over several steps"
    return "put the whole step into one compiled function (jit_compile=True), several steps per call"


def _optimizer_remedy(trace: Trace, waited: Waited) -> list[str]:
    """Return which optimizer would launch less, if its operators take enough of the steps."""
    if Purpose.OPTIMIZER not in attribution(trace).seen:
        return []
    rows = optimizer_rows(trace, waited)
    if rows_spans(trace, rows).intersect(waited.spans).measure_ns < WORTH * waited.wall_ns:
        return []
    names = " ".join(trace.strings[int(name)] for name in distinct(trace.name[rows]))
    if "_fused_" in names or "fused_adam" in names.lower():
        return []
    return ["a fused optimizer" if "_foreach_" in names else "a fused or foreach optimizer"]


def _torch(*, graphs: bool, compiled: bool, optimizer: list[str]) -> str:
    means = [
        *([] if compiled else ["torch.compile"]),
        *([] if graphs else ["CUDA graphs (torch.compile(mode='reduce-overhead'))"]),
        "larger batches",
        *optimizer,
        "fewer and larger operators",
    ]
    already = [name for name, used in (("CUDA graphs", graphs), ("compiled code", compiled)) if used]
    tail = f"; already in use: {', '.join(already)}; look at what runs outside them" if already else ""
    return "launch less work, and launch it earlier: " + ", ".join(means) + tail


def optimizer_calls(trace: Trace, waited: Waited) -> Ints:
    """Return the outermost events of the optimizer in the steps: its own mark, with the Python within it."""
    purpose = attribution(trace).purpose
    called = among(Kind.HOST_OP, Kind.ANNOTATION)[trace.kind]
    mine = np.flatnonzero((purpose == Purpose.OPTIMIZER) & called & (trace.lane == waited.lane))
    mine = mine[waited.spans.holds(trace.start_ns[mine])]
    return outermost(trace, mine)


def optimizer_rows(trace: Trace, waited: Waited) -> Ints:
    """Return the operators of the optimizer on the main thread, in the steps."""
    rows = waited.operators_in_steps
    mine: Ints = rows[attribution(trace).purpose[rows] == Purpose.OPTIMIZER]
    return mine


HOST = Cause(
    rule="host-bound",
    width=WIDTH,
    idles=True,
    cases=_cases,
    say=_say,
    remedies=_action,
    limits={"cost_ratio": WORTH},
    withdrawn=f"the steps without it would not be {WORTH:.0%} shorter, or no device ran dry for that",
    sure=_is_own,
    bound=True,  # less of the host's work is left, or the same work in less time
)
