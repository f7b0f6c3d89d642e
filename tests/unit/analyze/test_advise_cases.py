"""Each rule of advice on made traces: advise_cases.txt holds these, an approved file all that is advised."""

import itertools
import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import VARIABLE, Case, read_table
from support.made_traces import GPU, events_of_line, kind_named

from stepscope.analyze.advise import RULES, Facts, Finding, advise
from stepscope.attribute.sampled import Sampled
from stepscope.trace.model import Device, Kind, Source
from stepscope.trace.sampled import Holder, Looked, Made, Samples
from stepscope.trace.tables import MemoryAction

STEP = 1_000_000
MAIN, FETCH, LIBRARY = (
    "/u/train.py(3): main", "/u/train.py(9): fetch", "/v/site-packages/keras/trainer.py(7): fit",
)  # fmt: skip
VALIDATE, PAIRS = "/u/train.py(20): validate", "/u/model.py(30): pairs"


def ns(us: float) -> int:
    return round(us * 1000)


@dataclass
class Maker:
    """Makes events; times are in µs from ``at``."""

    make: SimpleNamespace
    at: float = 0

    def ev(self, name, kind, start, duration, **more):
        return self.make.event(name, kind_named(kind), ns(self.at + start), ns(duration), **more)

    def gpu(self, start, duration, number, *, call_at=None, call=0.01, name="k", kind="kernel"):
        """Device work and the call that launches it."""
        launched = start - 0.05 if call_at is None else call_at
        return [
            self.ev("cudaLaunchKernel", "rt", launched, call, correlation=number),
            self.ev(name, kind, start, duration, correlation=number, **GPU),
        ]

    def bound(self, step, name="k"):
        """One kernel for most of the step, and the host waits for it."""
        work = self.gpu(10, 970, 100 + step, call_at=5, name=name)
        return [*work, self.ev("cudaDeviceSynchronize", "rt", 6, 980)]

    def crowded(self, step, duration, call):
        """Launches one after the other; a kernel begins when the one before it has ended."""
        begin, events = 0, []
        for n in range(20):
            begin = max(begin, n * call + 0.5)
            events += self.gpu(begin, duration, step * 20 + n, call_at=n * call, call=call - 0.1)
            begin += duration
        return events

    def fetched(self, fetch, collate):
        """A step that waits 0.6 ms for a worker that fetches and collates for so long."""
        worker = {"lane": "DataLoader worker 0"}
        return [
            self.ev("data_loading", "load", 0, 600),
            self.ev("fetch (loader worker)", "ann", 0, fetch, **worker),
            self.ev("collate (loader worker)", "ann", fetch - collate, collate, **worker),
            self.ev("aten::mm", "op", 600, 390),
        ]

    def one_long_call(self, step):
        """A step whose kernel comes late; in the first one call makes that."""
        long = 700 if step == 0 else 1
        return [
            self.ev("aten::empty", "op", 1, long + 1), self.ev("cudaMalloc", "rt", 1.5, long),
            self.ev("aten::add", "op", long + 4, 980 - long), *self.gpu(990, 5, step + 1),
        ]  # fmt: skip

    def exchanging(self, step, share, hidden=False):
        """A step that computes, and then or meanwhile exchanges for a share of its time."""
        split = (1 - share) * 1000 - 20
        lane = {**GPU, "stream": 9, "lane": "comm"} if hidden else GPU
        calls = [self.ev("cudaLaunchKernel", "rt", 0.01 + 0.02 * n, 0.01, correlation=2 * step + n)
                 for n in (0, 1)]  # fmt: skip
        return [
            *calls, self.ev("k", "kernel", 5, 940 if hidden else split, correlation=2 * step, **GPU),
            self.ev("ncclKernel_AllReduce", "coll", 6 if hidden else 5 + split, share * 1000,
                    correlation=2 * step + 1, **lane),
            self.ev("cudaDeviceSynchronize", "rt", 0.1, 985),
        ]  # fmt: skip

    def loading_ranks(self, waits, count=1):
        """Ranks whose steps wait for data for so long."""
        events = []
        for rank, wait in waits.items():
            for step in range(count):
                self.at = 1000 * step
                end = 1000 if count == 1 else 990
                events.append(self.ev(f"ProfilerStep#{step}", "step", 0, 1000, rank=rank, step=step))
                if wait:
                    events.append(self.ev("next", "load", 0, wait, rank=rank))
                events.append(self.ev("aten::mm", "op", wait, end - wait, rank=rank))
        return self.make.build(events)

    def exchanges(self, events, sequence):
        """Return a trace in which collectives are known by their sequence."""
        rows = [int(row) for row in self.make.build(events).of_kind(Kind.COLLECTIVE)]
        count = len(rows)
        table = {"row": rows, "operation": ["all_reduce"] * count, "group": ["world"] * count,
                 "sequence": sequence, "state": [3] * count}  # fmt: skip
        return self.make.build(events, tables={"collectives": table})

    def job(self, late, *, buckets=1):
        """Ranks that meet in an exchange, or several at once; each comes to it so late."""
        events = []
        for rank, arrive in late.items():
            for step in range(3):
                self.at = 1000 * step
                more, length = {"rank": rank}, max(late.values()) + 20 - arrive
                events += [
                    self.ev(f"ProfilerStep#{step}", "step", 0, 1000, step=step, **more),
                    self.ev("aten::mm", "op", 0.1, arrive - 0.2, **more),
                    self.ev("cudaLaunchKernel", "rt", arrive - 0.09, 0.01, correlation=step, **more),
                    self.ev("cudaDeviceSynchronize", "rt", arrive + 0.1, length, **more),
                ]
                for n in range(buckets):
                    lane = {"lane": f"gpu{n}", "device": 0, "stream": 7 + n, "correlation": step}
                    name = "ncclDevKernel_AllReduce"
                    events.append(self.ev(name, "coll", arrive + n / 1000, length, **lane, **more))
        return self.exchanges(
            events, [3 * n + step for _ in late for n in range(buckets) for step in range(3)]
        )

    def meetings(self, arrivals, *, host="", ring=0):
        """Two ranks that meet in one exchange a step; a rank's ends come so much after the other's."""
        events = []
        for step, arrived in enumerate(arrivals):
            self.at = 2000 * step
            for rank, late in enumerate(arrived):
                length = max(arrived) + 50 + rank * ring - late
                events += [
                    self.ev(f"ProfilerStep#{step}", "step", 0, 2000, rank=rank, step=step),
                    self.ev("aten::mm", "op", 0.1, late - 0.2, rank=rank),
                    self.ev("gloo:all_reduce", "coll", late, length, rank=rank, lane="gloo"),
                ]
        trace = self.exchanges(events, [*range(len(arrivals))] * 2)
        sources = (Source(path=f"rank{n}.json", format="kineto", rank=n, events=9, host=host) for n in (0, 1))
        return replace(trace, sources=tuple(sources), clock="unix")

    def trained_and_scored(self, *, first, numbered=False, within="", between=False):
        """Steps of forward, backward and a call of the model without gradients, which begins at ``first``."""
        events, sequence = [], {}
        for step in range(3):
            self.at = 1000 * step
            events.append(self.ev(f"ProfilerStep#{step}", "step", 0, 500 if between else 1000, step=step))
            if within:
                events.append(self.ev(within, "op", first - 1, 303))
            for start, grad in ((100, True), (first, numbered)):
                events.append(self.ev("nn.Module: Net", "module", start, 300))
                events.append(self.ev("nn.Module: 0", "module", start + 1, 298))
                events.append(self.ev("aten::mm", "op", start + 5, 290))
                sequence[ns(self.at + start + 5)] = 7 if grad else -1
            events.append(self.ev("autograd::engine::evaluate_function: MmBackward0", "op", 410, 80))
        rows = {int(row): sequence[int(self.make.build(events).start_ns[row])]
                for row in self.make.build(events).named("aten::mm")}  # fmt: skip
        table = {"row": sorted(rows), "sequence": [rows[row] for row in sorted(rows)]}
        return self.make.build(events, tables={"operators": table})

    def captured(self, more, captures):
        """Three steps in each capture, with so many more operators than in the capture before."""
        events = []
        for step in (10 * capture + n for capture in range(captures) for n in range(3)):
            self.at = 1000 * step
            events.append(self.ev(f"ProfilerStep#{step}", "step", 0, 1000, step=step))
            events += [self.ev("aten::mul", "op", 20 * n, 19) for n in range(10 + more * (step // 10))]
        return self.make.build(events)

    def programs(self, *, first, line="net.py(7): apply", gradients=False):
        """Steps in which XLA's thread trains with one program and runs another one from ``first`` on."""
        events, facts = [], {}
        for step in range(3):
            self.at = 1000 * step
            events.append(self.ev("train", "step", 0, 1000, step=step))
            events.append(self.ev("PjitFunction(other)", "op", 0.05, 0.1))
            for start, module, scope, where in (
                (100, "jit_update", "jit(update)/jvp()/dot_general", "net.py(7): apply"),
                (250, "jit_update", "jit(update)/transpose(jvp())/dot_general", "net.py(7): apply"),
                (first, "jit_other", f"jit(other)/{'jvp()/' * gradients}dot_general", line),
            ):
                length = 100 if start < 400 else 300
                events.append(self.ev("dot", "op", start, length, lane="tf_XLAPjRtCpuClient/1"))
                facts[ns(self.at + start)] = module, scope, where
        built = self.make.build(events, format="xplane")
        rows = sorted(int(row) for row in built.named("dot"))
        columns = zip(*(facts[int(built.start_ns[row])] for row in rows), strict=True)
        table = dict(zip(("module", "framework", "line"), map(list, columns), strict=True))
        table |= {"row": rows, "calls": [1] * len(rows)}
        return self.make.build(events, format="xplane", tables={"instructions": table})


def beside(frame):
    """Samples of another thread or process that always stands in a frame."""
    at = np.arange(0, 3 * STEP, 50_000)
    unknown, zeros = np.full(len(at), -1), np.zeros(len(at), np.int64)
    return Samples(-1, at, at + 50_000, unknown, zeros, ((0,),), (frame,), "/u")


def waited(samples, share, where=True):
    """Waits for a processor for a share of the samples."""
    length = np.where(where, samples.end_ns - samples.start_ns, 0)
    return np.round(length * share).astype(np.int64)


def held(samples, slept, ran, stack=3, thread="Thread-1 (count)", once=False):
    """Samples from 300 to 800 µs of each step came late, while the thread slept and another one ran.

    The other one was seen at each, or only once, at the last of them.
    """
    within = (samples.end_ns % STEP > 300_000) & (samples.end_ns % STEP <= 800_000)
    length = samples.end_ns - samples.start_ns
    seen = within & ~np.append(within[1:], False) if once else within
    at = samples.end_ns[seen]
    since = 500_000 if once else length[seen]
    holder = Holder(thread, at, np.full(len(at), since * ran).astype(np.int64), np.full(len(at), stack))
    runnable = np.where(within, length * (1 - slept), length).astype(np.int64)
    return {"runnable_ns": runnable, "holders": (holder,)}


def late(samples):
    """Of the samples of a wait one, which was taken late."""
    kept = np.flatnonzero((samples.stack == 0) | (samples.end_ns == 2 * STEP))
    start = np.where(samples.stack == 1, samples.end_ns - 450_000, samples.start_ns)[kept]
    return {
        "start_ns": start,
        **{name: getattr(samples, name)[kept] for name in ("end_ns", "runnable_ns", "stack")},
    }


def allocated(row, device, held):
    more = {"row": row} if row else {}
    return {"time_ns": 5 + row, "address": 1 + row, "device": device, "action": MemoryAction.ALLOCATE,
            "bytes": held, "allocated_bytes": held, **more}  # fmt: skip


NAMES = {
    **{name: getattr(np, name) for name in ("arange", "full", "ones", "zeros", "where", "sort")},
    "STEP": STEP, "MAIN": MAIN, "LIBRARY": LIBRARY, "FETCH": FETCH, "VALIDATE": VALIDATE,
    "PAIRS": PAIRS, "GPU": GPU,
    "STACKS": {"timeline", "steps", "stacks"},
    "MEMORY": {"timeline", "steps", "device", "launches", "memory"},
    "XLA": "tf_XLAPjRtCpuClient/1", "DYNAMO": "/v/lib/python3.11/site-packages/torch/_dynamo",
    "Device": Device, "beside": beside, "waited": waited, "late": late, "held": held, "allocated": allocated,
    "Looked": Looked, "Made": Made,
    "lane_of": lambda trace: int(trace.lane[trace.steps.row[0]]), "product": itertools.product,
}  # fmt: skip


def made(case: Case, known: dict[str, Any], make: SimpleNamespace) -> tuple[Facts, dict[str, Any]]:
    """Return the facts that a case describes, and its options."""
    maker = Maker(make)
    for name in (each for each in dir(maker) if not each.startswith("_") and callable(getattr(maker, each))):
        known[name] = getattr(maker, name)
    known["make"] = make
    options: dict[str, Any] = {}
    lines: dict[str, str] = {}
    content = []
    for line in case.lines:
        word, _, rest = line.partition(": ")
        if line.startswith("! "):
            options |= eval(f"dict({line[2:]})", known)
        elif line.startswith(("| ", "+ ")):
            content.append(line)
        elif word in ("trace", "tables", "sampled", "samples", "facts"):
            lines[word] = rest
        elif VARIABLE.match(line):
            exec(line, known)
    taken = {name: options.pop(name) for name in (
        "count", "lengths", "gap", "cpu", "around", "last", "period", "step_name", "of_rank", "only", "alone",
    ) if name in options}  # fmt: skip
    if "trace" in lines:
        trace = eval(lines["trace"], known)
    else:
        events = events_of(content, known, maker, taken)
        if "tables" in lines:
            known["plain"] = make.build(events, **options)
            options["tables"] = eval(lines["tables"], known)
        trace = make.build(events, **options)
    given = eval(f"dict({lines.get('facts', '')})", known)
    facts = Facts(trace, **{name: value for name, value in given.items() if value is not None})
    if "sampled" in lines:
        samples = samples_of(lines["sampled"], known, taken)
        known |= {"samples": samples, "trace": trace}
        samples = replace(samples, **eval(f"dict({lines.get('samples', '')})", known))
        facts.__dict__["sampled"] = {taken.get("of_rank", 0): Sampled(samples)}
    return facts, taken


def events_of(content, known, maker: Maker, options):
    """Return the events of all steps."""
    lengths = options.get("lengths", [1000] * options.get("count", 3))
    events, at = [], 0.0
    for step, length in enumerate(lengths):
        maker.at = at
        known |= {"step": step, "length": length}
        name = options.get("step_name", "ProfilerStep#{}").format(step)
        events.append(maker.ev(name, "step", 0, length, step=step))
        for line in content:
            if line.startswith("+ "):
                events += eval(line[2:], known)
                continue
            events += events_of_line(line, known)
        at += length + options.get("gap", 0)
    return events


def samples_of(stack: str, known, options) -> Samples:
    """Return samples every 50 µs; an expression gives the stack of a time ``t`` of step ``at``."""
    period, every = options.get("period", 1000), STEP // 20
    times = np.arange(0, ns(options.get("last", 3000)), every)
    stands = compile(stack, "table", "eval")
    stood = np.array([
        eval(stands, known, {"t": (int(time) % ns(period)) / 1000, "at": int(time) // ns(period)})
        for time in times
    ])  # fmt: skip
    ran = np.full(len(times), round(options.get("cpu", 1.0) * every))
    stacks, frames = (
        ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2, 1), (0, 1, 4)),
        (MAIN, LIBRARY, FETCH, VALIDATE, PAIRS),
    )
    around = options.get("around", (0,))
    return Samples(0, times, times + every, ran, stood, stacks, frames, "/u", around, every)


def lines_of(case: Case, facts: Facts, options: dict[str, Any], shown: set[str]) -> list[str]:
    """Return all that is advised as lines; actions and conditions that were shown before are left out."""
    rule = options.get("only", case.rule)
    if options.get("alone"):
        return [line for one in RULES[rule].check(facts) for line in lines_of_finding(one, shown)]
    advice = advise(facts)
    lines = [
        line for one in advice.findings if rule in (None, one.rule) for line in lines_of_finding(one, shown)
    ]
    for one in advice.findings:
        assert shlex.split(one.command)[0] == "stepscope"
    if rule is None:
        return [advice.verdict, *advice.as_dict()["caveats"], *lines]
    missing = [one.missing for one in advice.abstained if one.rule == rule]
    return lines or [f"- ({missing[0]})" if missing else "-"]


def lines_of_finding(one: Finding, shown: set[str]) -> list[str]:
    lines = [f"{one.severity} {one.rule}: {one.summary}"]
    if one.cost_ns is not None:
        gain = f"{one.gain_ns} ns, {one.gain_ratio:.4g} ({one.gain_from})"
        lines.append(f"   costs {one.cost_ns} ns, {one.cost_ratio:.4g}; gains {gain}")
    for text in (one.action, f"withdrawn: {one.withdrawn}", f"at: {one.place}", f"run: {one.command}"):
        if text not in shown:
            lines.append(f"   {text}")
            shown.add(text)
    lines += [f"   because: {each}" for each in one.chain]
    names = dict.fromkeys(event["name"] for event in one.events)
    lines.append(f"   events: {len(one.events)} of {', '.join(names)}")
    lines.append(f"   {json.dumps(rounded(one.evidence), sort_keys=True)}")
    return lines


def rounded(value: Any) -> Any:
    """Return JSON with four digits of each fraction."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


SHARED, CASES = read_table(Path(__file__).with_name("advise_cases.txt"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_what_is_advised_about_made_traces(case: Case, make, approved) -> None:
    names = dict(NAMES)
    for line in SHARED:
        exec(line, names)
    lines, shown = [], set()
    for label, known in case.choices(names):
        facts, options = made(case, known, make)
        rows = lines_of(case, facts, options, shown)
        lines += [f"{label}:"] * bool(label) + [f"   {row}" for row in rows]
    approved.check("advise_cases", case.title, "\n".join(lines))


def test_each_case_is_approved(approved) -> None:
    approved.check_names("advise_cases", [case.title for case in CASES])
