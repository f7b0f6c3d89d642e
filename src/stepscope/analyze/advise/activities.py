"""Rules for activities of the thread that runs the steps, other than running them.

``input-bound``, ``preprocessing``, ``compilation``, ``checkpoint``, ``logging``: time in which the step
waited
for that activity, and the gain of a replay of the step without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stepscope.analyze.advise.callbacks import of_the_loader
from stepscope.analyze.advise.cause import ANEW, Cause
from stepscope.analyze.advise.finding import WORTH, Abstain, Case, Facts, lines_told, longest
from stepscope.analyze.advise.loaders import (
    HAS_WORKERS,
    MORE_WORKERS,
    Loader,
    Workers,
    has_workers,
    loader_of,
    to_load_ahead,
    workers_of,
)
from stepscope.analyze.advise.remedy import framework_of
from stepscope.analyze.advise.waited import Waited
from stepscope.analyze.flops import decoded
from stepscope.attribute.device import rows_spans
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.source_lines import Share, callers
from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among


@dataclass(frozen=True, kw_only=True)
class ActivityRule:
    """One activity's rule: its report and its remedy."""

    rule: str
    activity: Purpose
    say: str
    remedies: Mapping[str, str] | Callable[[Facts, Case], str]
    least: float = WORTH

    @property
    def cause(self) -> Cause:
        """Its row: the steps replayed without the time of the activity."""
        return Cause(
            rule=self.rule,
            idles=True,
            cases=partial(_cases, self.activity),
            say=lambda case: f"{self.say}{_what(case)} for {case.cost}",
            remedies=self.remedies,
            least=self.least,
            made=lambda case: ANEW if _anew(case) else "",
            sure=lambda case: self.activity != Purpose.LOADING or _hands_over(case),
            withdrawn=f"the steps without it would not be {self.least:.0%} shorter",
        )


_WHERE_TO_PREPARE = {
    Loader.TORCH: "move it into the Dataset or collate_fn, so that DataLoader(num_workers=…) does it in "
    "parallel with the steps, or do it on the device in batches",
    Loader.TF_DATA: "move it into dataset.map(…, num_parallel_calls=tf.data.AUTOTUNE)",
    Loader.PYDATASET: "move it into the PyDataset's __getitem__ with workers=…, or into layers of the model",
    Loader.GRAIN: "do it in the pipeline of grain, in parallel with the steps",
}
"""The place in which a known loader prepares data beside the steps."""
_BESIDE = {
    "torch": "or on the device in batches",
    "jax": "or inside the jitted step",
    "keras": "or in layers of the model",
}


def _cases(activity: Purpose, facts: Facts) -> list[Case | None]:
    looked = [waited for waited in facts.waited if waited.lane >= 0 or len(waited.loading)]
    missing = _missing(activity, looked)
    if missing:
        raise Abstain(missing)
    return [_case(activity, waited) for waited in looked]


def _hands_over(case: Case) -> bool:
    """Return whether a batch takes longer than handing one over, and making it elsewhere saves that time.

    On one processor only making it cheaper does, which is a cause where it takes half of the step.
    """
    waited = case.waited
    if _alone(waited):
        return case.ratio >= HALF and not _has_workers(case)
    return waited.has_device or case.worth.cost_ns >= HANDING_NS * waited.count


def _alone(waited: Waited) -> bool:
    """Return whether the program may use one processor: then nothing is done beside the steps."""
    sampled = waited.sampled
    return not waited.has_device and sampled is not None and sampled.samples.settings.get("processors") == 1


def _has_workers(case: Case) -> bool:
    return "workers" in case.evidence or HAS_WORKERS in case.chain


def _load_ahead(facts: Facts, case: Case) -> str:
    """Return the remedy for a step that waits for data, in terms of the program's loader."""
    waited = case.waited
    if "workers" in case.evidence and not _workers(case.evidence).pays:
        return _of_workers(case)
    if _alone(waited):
        return _ONE_PROCESSOR + ("; keep the workers (persistent_workers=True)" if _has_workers(case) else "")
    if of_workers := _of_workers(case):
        return of_workers
    spans = _spans(waited, Purpose.LOADING)
    # In the line of the loop itself only the loader's own code runs.
    of_loop = case.line and waited.sampled is not None and waited.sampled.is_around(case.line)
    line = str(case.line.line) if case.line and not of_loop else ""
    return to_load_ahead(facts.timeline, loader_of(waited, spans if len(spans) else None), line)


def _prepare_beside(facts: Facts, case: Case) -> str:
    """Return the remedy for data that is prepared in the step, in terms of the program's loader."""
    beside = _BESIDE.get(framework_of(facts.timeline), "")
    otherwise = "do it in a thread or process in parallel with the steps"
    known = _WHERE_TO_PREPARE.get(loader_of(case.waited))
    return known or (f"{otherwise}, {beside}" if beside else otherwise)


def _what(case: Case) -> str:
    """Return the known compiled functions and their number; for an evaluation, how it was recognized."""
    evidence = case.evidence
    if evidence.get("without_gradients_ns"):
        return ", forward passes without gradients after the backward pass,"
    if "compilations" not in evidence:
        return ""
    names = " and ".join(one["name"] for one in evidence.get("functions", [])[:2])
    names += " and others" if len(evidence.get("functions", [])) > 2 else ""
    often = evidence["compilations"] / case.waited.count
    unit = "a step" if case.waited.marked else "in all"
    return f" {names + ' ' if names else ''}{'once' if often == 1 else f'{often:.2g} times'} {unit}"


def _workers(evidence: Mapping[str, Any]) -> Workers:
    ratios = (evidence[f"{name}_ratio"] for name in ("fetch", "collate", "work"))
    return Workers(evidence["workers"], *ratios)


def _of_workers(case: Case) -> str:
    """Return the remedy if worker processes load the data; empty if none is known."""
    if "workers" not in case.evidence:
        return MORE_WORKERS if HAS_WORKERS in case.chain else ""
    evidence = case.evidence
    return _workers(evidence).remedy


def _missing(activity: Purpose, looked: list[Waited]) -> str:
    if not looked:
        return "no operators of the host were recorded, so what the training thread did is not known"
    named = any(len(_spans(waited, activity)) for waited in looked)
    if activity == Purpose.LOADING and not any(len(waited.loading) for waited in looked):
        without = ", ".join(str(waited.rank) for waited in looked[:8])
        if not named:
            return f"no event of data loading was recorded on rank {without}"
    if activity == Purpose.COMPILING and not any(_told(waited) for waited in looked):
        return "no operators, calls or Python stacks of the training thread"
    telling = activity not in (Purpose.LOADING, Purpose.COMPILING)
    if telling and not named and not any(waited.has_stacks for waited in looked):
        return "no Python stacks, and no event has such a name"
    return ""


def _told(waited: Waited) -> bool:
    """Return whether anything that the training thread did was recorded, besides ranges of the program's."""
    kinds = among(Kind.HOST_OP, Kind.RUNTIME_CALL, Kind.PYTHON_FRAME, Kind.DATA_LOADING, Kind.OTHER)
    trace = waited.trace
    return waited.has_stacks or bool((kinds[trace.kind] & (trace.lane == waited.lane)).any())


def _spans(waited: Waited, activity: Purpose) -> Spans:
    if waited.lane < 0:
        return Spans.empty()
    return spans_of(waited, activity).intersect(waited.spans)


def _case(activity: Purpose, waited: Waited) -> Case | None:
    trace, spans, lane = waited.trace, _spans(waited, activity), waited.lane
    beside = activity == Purpose.LOADING and not len(spans)
    if beside:
        spans = waited.loading
    if not len(spans):
        return None
    host = {lane: spans}
    if activity == Purpose.COMPILING:
        host |= {other: waited.activities.spans(other, activity) for other in _backward_lanes(waited)}
    worth = waited.whole(spans) if activity == Purpose.EVALUATING else waited.worth(host=host)
    if beside:
        worth = replace(worth, gain_ns=worth.cost_ns, how="bound")
    rows = _rows(waited, activity, spans)
    lines = _lines(waited, activity, spans, rows) if not beside else []
    workers = workers_of(waited, spans) if activity == Purpose.LOADING else None
    if workers is not None and workers.slow:
        # The training thread stands in its loop meanwhile; the line to change is the workers'.
        lines = waited.worker_lines(spans) or lines
    if activity == Purpose.LOADING and waited.sampled is not None:
        # Python that a pipeline calls on its own threads is what it spends its time in.
        within = rows_spans(trace, of_the_loader(waited))
        if within.intersect(spans).measure_ns >= _CALLED * spans.measure_ns:
            lines = waited.sampled.called_lines(within.intersect(waited.spans)) or lines
    evidence: dict[str, Any] = {
        "time_ns": round(spans.measure_ns / waited.count),
        "waited_ns": round(worth.cost_ns / waited.count),
    }
    if len(rows):
        evidence["calls_per_step"] = len(rows) / waited.count
    if activity == Purpose.LOADING:
        evidence["input_ratio"] = worth.cost_ns / waited.wall_ns
    if activity == Purpose.COMPILING:
        evidence |= _compiled(trace, waited, rows)
    if activity == Purpose.EVALUATING:
        evidence |= without_gradients(waited, spans)
    evidence["events"] = longest(trace, rows)
    evidence["lines"] = lines_told(lines, spans.measure_ns)
    chain = _chain(waited)
    if workers is None and activity == Purpose.LOADING and has_workers(waited, spans):
        chain = (*chain, HAS_WORKERS)
    if workers is not None:
        chain = (*chain, workers.said)
        evidence |= {
            "workers": workers.count, "fetch_ratio": workers.fetch_ratio,
            "collate_ratio": workers.collate_ratio, "work_ratio": workers.work_ratio,
        }  # fmt: skip
    case = Case(waited, worth, evidence, lines[0] if lines else None, rows, chain, spans=spans)
    return case.bounded(activity == Purpose.LOADING and _alone(waited))


def without_gradients(waited: Waited, spans: Spans) -> dict[str, int]:
    """Return how long models ran without gradients in an evaluation, nothing if its name shows it."""
    ran = _forward_passes(waited).intersect(spans)
    return {"without_gradients_ns": round(ran.measure_ns / waited.count)} if len(ran) else {}


def _forward_passes(waited: Waited) -> Spans:
    trace, rows = waited.trace, waited.activities.without_gradients
    called = rows_spans(trace, rows[trace.lane[rows] == waited.lane])
    programs = waited.activities.evaluating_programs
    programs = programs[trace.rank[programs] == waited.rank]
    return called.union(rows_spans(trace, programs).closed(_NEXT_NS)) if len(programs) else called


HALF = 0.5
"""Share of a step from which on something is a cause whatever makes it cheaper."""
_ONE_PROCESSOR = (
    "make what loads a batch cheaper, do it once before the training, or use more processors: on one, "
    "workers take turns with the training and save nothing"
)
HANDING_NS = 500_000
"""Time that a batch from another process costs the thread that takes it: loading ahead saves the rest.

Half of what 16 small images from a worker of PyTorch's cost on a busy machine: 1.1 ms of a processor.
"""
_CALLED = 0.25
"""Share of the wait for a pipeline from which on its calls of Python take the time; calls that had
begun before the recording are not included.
"""
_NEXT_NS = 100_000
"""Operations of a program that are at most this far apart belong to one run of it."""


def spans_of(waited: Waited, activity: Purpose) -> Spans:
    """Return the time of an activity of the training thread, or of programs that it waits for."""
    spans = waited.activities.spans(waited.lane, activity)
    return spans.union(_forward_passes(waited)) if activity == Purpose.EVALUATING else spans


def _lines(waited: Waited, activity: Purpose, spans: Spans, rows: Ints) -> list[Share]:
    if activity == Purpose.COMPILING:
        # Within it runs the code that is traced, which is not what to change.
        lines = waited.lines(spans, around=activity) or callers(waited.trace, rows)
        if lines:
            return lines
    if activity == Purpose.EVALUATING:
        # Within it runs the model, which is not what to change.
        return waited.lines(spans, outside=_MODEL) or waited.lines(spans)
    return waited.lines(spans)


_MODEL = re.compile(r"(?:^|/)torch/nn/modules/module\.py\(\d+\): _(?:wrapped_)?call_impl$")
"""Calls of a module of PyTorch."""


def _backward_lanes(waited: Waited) -> list[int]:
    """Return other threads on which compiling was recorded and that the graph joins with the main thread."""
    if waited.graph is None or waited.replay is None:
        return []
    lanes = distinct(waited.graph.lane)
    return [
        int(lane)
        for lane in lanes
        if lane != waited.lane
        and waited.trace.lanes[int(lane)].device < 0
        and len(waited.activities.rows(int(lane), Purpose.COMPILING))
    ]


def _rows(waited: Waited, activity: Purpose, spans: Spans) -> Ints:
    trace = waited.trace
    rows = waited.activities.rows(waited.lane, activity) if waited.lane >= 0 else np.zeros(0, np.int64)
    if not len(rows) and activity == Purpose.LOADING:
        rows = np.flatnonzero((trace.rank == waited.rank) & (trace.kind == Kind.DATA_LOADING))
    return rows[spans.within(trace.start_ns[rows], trace.end_ns[rows]) > 0]


def _chain(waited: Waited) -> tuple[str, ...]:
    if not waited.has_device:
        return ()
    dry = waited.dry.measure_ns / waited.wall_ns
    return (f"no device works for {dry:.0%} of {'the steps' if waited.marked else 'the recording'}",)


_FUNCTION = re.compile(r"^PjitFunction\((.+)\)$|^(?:jit_|Compiling )(\w+)")
_MOST_SHAPES = 6


def _compiled(trace: Trace, waited: Waited, rows: Ints) -> dict[str, Any]:
    """Return the number of compilations, the functions, and the shapes that changed, as far as recorded."""
    if not len(rows):
        return {}
    # What compiles most; lowering before it and lookups of what is compiled are not compilations.
    total = np.bincount(trace.name[rows], weights=trace.duration_ns[rows])
    compiling = rows[trace.name[rows] == int(np.argmax(total))]
    evidence: dict[str, Any] = {
        "compilations": len(compiling), "steps_with": len(distinct(trace.step[compiling])),
    }  # fmt: skip
    functions: dict[str, list[int]] = {}
    for row in compiling.tolist():
        if name := _function_around(trace, row):
            functions.setdefault(name, []).append(int(trace.duration_ns[row]))
    if functions:
        ordered = sorted(functions.items(), key=lambda item: -sum(item[1]))
        evidence["functions"] = [{"name": name, "calls": len(durations)} for name, durations in ordered[:3]]
    compiled = () if waited.sampled is None else waited.sampled.samples.compiled
    begin, end = int(waited.steps.start_ns.min()), int(waited.steps.end_ns.max())
    shapes = changed([(name, shapes) for when, name, shapes in compiled if begin <= when <= end])
    shapes = shapes or _shapes(trace, waited)
    if shapes:
        evidence["shapes"] = shapes[:_MOST_SHAPES]
    return evidence


def changed(compiled: list[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Return the arguments that changed, of the function that was compiled most often.

    Args:
        compiled: Name, and type and shape of each argument, in order of time.
    """
    names = [name for name, _ in compiled]
    most = max(names, key=names.count, default="")
    calls = [shapes for name, shapes in compiled if name == most]
    if len(calls) < 2:
        return []
    if len({len(shapes) for shapes in calls}) > 1:
        return [f"{most}: " + ", ".join(f"{len(shapes)} arguments" for shapes in calls[:_MOST_SHAPES])]
    arguments = []
    for at, values in enumerate(zip(*calls, strict=True)):
        different = list(dict.fromkeys(values))
        if len(different) > 1:
            arguments.append(f"{most}, argument {at}: " + ", ".join(different[:_MOST_SHAPES]))
    return arguments or [f"{most}{_SAME_SHAPES}"]


_SAME_SHAPES = (
    ": the same shapes each time, so a static argument differs or the function is created anew each time"
)


def _anew(case: Case) -> bool:
    """Return whether what is compiled again and again is not given other shapes."""
    return any(one.endswith(_SAME_SHAPES) for one in case.evidence.get("shapes", ()))


def _function_around(trace: Trace, row: int) -> str:
    """Return the outermost compiled function around a row, empty if none is known."""
    name, at = "", int(trace.parent[row])
    while at >= 0:
        if match := _FUNCTION.match(trace.name_of(at)):
            name = next(group for group in match.groups() if group is not None)
        at = int(trace.parent[at])
    return name


def _shapes(trace: Trace, waited: Waited) -> list[str]:
    """Return the input shapes of the first operator whose first call in a step has new shapes."""
    table = trace.operators
    if not len(table) or "shapes" not in trace.recorded:
        return []
    inside = waited.spans.holds(trace.start_ns[table.row])
    mine = np.flatnonzero(inside & (table.shapes >= 0) & (trace.lane[table.row] == waited.lane))
    first: dict[int, dict[int, str]] = {}
    for at in mine.tolist():
        row, text = int(table.row[at]), trace.strings[int(table.shapes[at])]
        if re.search(r"\d", text):
            first.setdefault(int(trace.name[row]), {}).setdefault(int(trace.step[row]), text)
    for name, by_step in first.items():
        texts = list(dict.fromkeys(by_step.values()))
        if 1 < len(texts) == len(by_step) and len(set(map(_inputs, texts)) - {0}) == 1:
            return [f"{trace.strings[name]}: {text}" for text in texts]
    return []


def _inputs(text: str) -> int:
    """Return how many inputs some shapes are of, 0 if that is not known."""
    return len(decoded(text))


# --- the rows ---

_INPUT = ActivityRule(
    rule="input-bound",
    activity=Purpose.LOADING,
    say="the step waits for data",
    remedies=_load_ahead,
    least=0.05,
)
_PREPROCESSING = ActivityRule(
    rule="preprocessing",
    activity=Purpose.PREPROCESSING,
    say="the training thread prepares data itself",
    remedies=_prepare_beside,
)
_NEW_SHAPES = {
    "torch": "keep shapes, types and Python values that are arguments the same: pad or bucket, leave "
    "out a smaller last batch, "
    "torch.compile(dynamic=True) or torch._dynamo.mark_dynamic; TORCH_LOGS=recompiles says which "
    "guard failed. "
    "If these are the first steps, record later ones",
    "jax": "keep shapes, types and static arguments the same: pad or bucket batches, keep jax.jit "
    "outside the loop; jax.config.update('jax_explain_cache_misses', True) says why. If these are "
    "the first steps, record later ones",
    "keras": "keep shapes the same: pad or bucket batches, leave out a smaller last one. If these are "
    "the first steps, record later ones",
    "tensorflow": "keep shapes and Python arguments of tf.function the same: pad or bucket batches, "
    "leave out a smaller last one, input_signature=…, tf.function(reduce_retracing=True)",
    "": "keep shapes the same, or compile before the loop",
}
_MADE_ANEW = {
    "jax": "make the compiled function once, outside the loop, and give it what changes as an argument that "
    "is not static; jax.config.update('jax_explain_cache_misses', True) says why",
    "keras": "compile the model once, before the loop, and change what its optimizer or layers hold instead",
    "": "make what is compiled once, before the loop, and give it what changes as an argument",
}


def _compile_once(facts: Facts, case: Case) -> str:
    """Return the remedy for what is compiled again: for other shapes, or because it is made anew."""
    remedies = _MADE_ANEW if _anew(case) else _NEW_SHAPES
    return remedies.get(framework_of(facts.timeline), remedies[""])


_COMPILATION = ActivityRule(
    rule="compilation",
    activity=Purpose.COMPILING,
    say="the step compiles",
    remedies=_compile_once,
)
_CHECKPOINT = ActivityRule(
    rule="checkpoint",
    activity=Purpose.SAVING,
    say="the step writes a checkpoint",
    remedies={
        "torch": "save less often, or in parallel with the steps: torch.distributed.checkpoint.async_save, "
        "or copy the state to "
        "the host and write it in a thread",
        "jax": "save less often, or in parallel with the steps: orbax.checkpoint.AsyncCheckpointer",
        "keras": "keras.callbacks.ModelCheckpoint(save_freq=…) less often, or write it in a thread",
        "tensorflow": "tf.train.CheckpointOptions(enable_async=True), or save less often",
        "python": "save less often, or in a thread",
    },
)
_LOGGING = ActivityRule(
    rule="logging",
    activity=Purpose.LOGGING,
    say="the step writes logs or results",
    remedies={
        "": "write less, or every n steps: no images, histograms, tables or whole tensors in each step; "
        "logging a value that is on a device also waits for it"
    },
)


_EVALUATION = ActivityRule(
    rule="evaluation",
    activity=Purpose.EVALUATING,
    say="the step evaluates the model",
    remedies={
        "torch": "evaluate every n steps or once an epoch, on fewer batches, under torch.inference_mode(), "
        "or in a separate process",
        "keras": "model.fit(validation_freq=…, validation_steps=…) instead of a callback that evaluates",
        "": "evaluate every n steps or once an epoch, on fewer batches, or in a separate process",
        "python": "evaluate less often, or in a separate process",
    },
)
WHOLE = (_INPUT, _PREPROCESSING, _COMPILATION, _CHECKPOINT, _LOGGING, _EVALUATION)
"""All of them."""
