"""The table of causes that only select time: the engine replays the steps without it.

A row never computes a gain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.advise import gradients
from stepscope.analyze.advise.busy import is_busy
from stepscope.analyze.advise.cause import MADE, Cause, Selection, on_each
from stepscope.analyze.advise.expensive import question_of
from stepscope.analyze.advise.finding import WORTH, Abstain, Case, Facts
from stepscope.analyze.advise.waited import Waited, outermost
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.origin import line_of
from stepscope.attribute.sampled import Sampled
from stepscope.attribute.source_lines import EVERY, Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.table import HANDS_OVER, MESSAGES, RECOMPUTES
from stepscope.attribute.windows import NO_STEP
from stepscope.text import time

Floats = npt.NDArray[np.float64]


# --- what was left on ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftOn:
    """A setting for debugging, and its time in a profile.

    Attributes:
        setting: Its name in ``capture.settings``.
        say: What it is.
        off: How it is switched off.
        frames: Frames of its own, searched for in sampled stacks.
        operators: Operators that it adds.
    """

    setting: str
    say: str
    off: str
    frames: re.Pattern[str] | None = None
    operators: re.Pattern[str] | None = None


LEFT_ON = (
    LeftOn(
        "torch.detect_anomaly",
        "anomaly detection is on",
        "switch it off: torch.autograd.set_detect_anomaly(False); it is for finding where a NaN comes from",
        re.compile(r"(?:^|/)traceback\.py\(\d+\): (?:format|extract)_stack$"),
        re.compile(r"^aten::(?:isnan|_is_any_true|is_nonzero|any)$"),
    ),
    LeftOn(
        "jax_disable_jit",
        "jax.jit is switched off",
        "switch it on: jax.config.update('jax_disable_jit', False)",
        re.compile(r"(?:^|/)jax/_src/(?:core|dispatch|api|pjit|interpreters/\w+)\.py\(\d+\): "),
    ),
    LeftOn(
        "jax_debug_nans",
        "the check for NaN is on",
        "switch it off: jax.config.update('jax_debug_nans', False)",
        re.compile(r"(?:^|/)jax/_src/\S+\.py\(\d+\): _?check_\w*special$"),
    ),
    LeftOn(
        "tensorflow.run_functions_eagerly",
        "tf.function is switched off",
        "switch it on: tf.config.run_functions_eagerly(False)",
        re.compile(r"(?:^|/)tensorflow/python/(?:eager|framework|ops)/\S+\.py\(\d+\): "),
    ),
    LeftOn(
        "jax_debug_infs",
        "the check for infinities is on",
        "switch it off: jax.config.update('jax_debug_infs', False)",
        re.compile(r"(?:^|/)jax/_src/\S+\.py\(\d+\): _?check_\w*special$"),
    ),
    LeftOn(
        "jax_check_tracer_leaks",
        "the check for leaked tracers is on",
        "switch it off: jax.config.update('jax_check_tracer_leaks', False)",
    ),
    LeftOn(
        "python.trace",
        "a debugger or coverage tool traces each line",
        "train without it: sys.settrace(None)",
        re.compile(r"(?:^|/)bdb\.py\(\d+\): |(?:^|/)(?:coverage|debugpy|_?pydevd\w*)/\S+\.py\(\d+\): "),
    ),
    LeftOn(
        "python.profile",
        "a Python profiler traces each call",
        "train without it: sys.setprofile(None), or no python -m cProfile",
        re.compile(r"(?:^|/)profile\.py\(\d+\): trace_dispatch\w*$"),
    ),
    LeftOn(
        "python.dev_mode",
        "Python's development mode is on",
        "train without python -X dev and PYTHONDEVMODE",
    ),
    LeftOn(
        "python.tracemalloc",
        "tracemalloc is on",
        "switch it off: tracemalloc.stop(), or unset PYTHONTRACEMALLOC",
    ),
)  # fmt: skip


def set_at(waited: Waited, setting: str) -> Share | None:
    """Return the line that changed a setting, None if it is not known."""
    if waited.sampled is None:
        return None
    line = line_of(waited.sampled.shown(waited.sampled.samples.setters.get(setting, "")))
    return None if line is None else Share(line, 0, 0, "")


def with_settings(waited: Waited, *names: str) -> Sampled:
    """Return what was sampled of a program whose settings were recorded, these among them."""
    sampled = waited.sampled
    if sampled is None or not sampled.samples.settings or not {*names} <= sampled.samples.settings.keys():
        raise Abstain("the program's settings were not recorded")
    return sampled


OFF = (False, "", "builtins")
"""Values of a setting that is off. The recorder's own object, which older captures hold, has no module."""


def left_on(one: LeftOn) -> Callable[[Waited], Selection | None]:
    """Return the selection of a setting: its frames in sampled stacks, and the operators that it adds."""

    def select(waited: Waited) -> Selection | None:
        sampled, trace = with_settings(waited), waited.trace
        if sampled.samples.settings.get(one.setting, "") in OFF:
            return None
        spans = Spans.empty() if one.frames is None else sampled.holding(one.frames)
        if one.operators is not None:
            added = waited.operators[named(trace, one.operators)[trace.name[waited.operators]]]
            spans = spans.union(rows_spans(trace, outermost(trace, added)))
        line = set_at(waited, one.setting)
        return Selection(spans.intersect(waited.spans), {"setting": one.setting}, line=line)

    return select


def in_frames(frames: re.Pattern[str]) -> Callable[[Waited], Selection | None]:
    """Return the selection of sampled stacks that hold some frames."""

    def select(waited: Waited) -> Selection | None:
        sampled = waited.sampled
        if sampled is None or sampled.lane != waited.lane:
            raise Abstain("no sampled stacks of the training thread")
        spans = sampled.holding(frames).intersect(waited.spans).minus(waited.activities.spans(waited.lane))
        return Selection(spans) if len(spans) else None

    return select


# --- precision -----------------------------------------------------------------------------------------


SHORTER = 0.6
"""Share of its time that 64-bit work loses in 32 bit. Half of the memory and of the vector instructions are
gone, and more where 64-bit functions have no vector code. Of PyTorch on one processor, products, convolutions
and functions of large arrays lost 47 to 79 %, half of them less than 58 %; of 4,096 numbers 6 to 54 %."""


_IN_WORDS = {"torch.model_dtype": "most parameters of the model"}


def double_precision(waited: Waited) -> Selection | None:
    """Select what operators would lose in 32 bit, if a setting of the program makes them 64 bit."""
    trace, settings = waited.trace, with_settings(waited).samples.settings
    setting = next(
        (
            name
            for name in ("jax_enable_x64", "torch.default_dtype", "torch.model_dtype")
            if settings.get(name) in (True, "float64")
        ),
        "",
    )
    if not setting:
        return None
    if len(waited.executing):
        ran = waited.executing.intersect(waited.spans)
    else:
        ran = rows_spans(trace, outermost(trace, waited.operators)).intersect(waited.spans)
    saved = Spans.of(ran.start, ran.start + (SHORTER * (ran.end - ran.start)).astype(np.int64))
    return Selection(saved, {"setting": setting}, whole=True, line=set_at(waited, setting))


# --- threads -------------------------------------------------------------------------------------------


def too_many_threads(waited: Waited) -> Selection | None:
    """Select the operators, if PyTorch divides them among more threads than there are processors."""
    trace, settings = waited.trace, with_settings(waited, "torch.num_threads").samples.settings
    threads, processors = int(settings["torch.num_threads"]), int(settings["processors"])
    if threads <= processors or waited.has_device:
        return None
    rows = outermost(trace, waited.operators)
    return Selection(
        rows_spans(trace, rows).intersect(waited.spans),
        {"threads": threads, "processors": processors},
        rows,
        line=set_at(waited, "torch.num_threads"),
    )


def interpreter_held(waited: Waited) -> Selection | None:
    """Select the waits of the training thread for the interpreter, which another thread had."""
    sampled = waited.sampled
    if sampled is None or sampled.lane != waited.lane:
        raise Abstain("no sampled stacks of the training thread")
    if not waited.holders:
        return None
    name, line, _ = waited.holders[0]
    return Selection(waited.held_up, {"thread": name, "threads": len(waited.holders)}, line=line, waits=True)


# --- arrays of the host --------------------------------------------------------------------------------


def handed_over(waited: Waited) -> Selection | None:
    """Select the time in which JAX's arrays are made of the host's, on any thread: the step needs them."""
    trace = waited.trace
    if trace.format != "xplane":
        raise Abstain("no calls of JAX that say which arrays come from the host")
    rows = np.flatnonzero((trace.rank == waited.rank) & named(trace, HANDS_OVER)[trace.name])
    rows = rows[waited.spans.holds(trace.start_ns[rows])]
    mine = outermost(trace, rows[trace.lane[rows] == waited.lane])
    spans = rows_spans(trace, rows).intersect(waited.spans)
    evidence = {"calls_per_step": len(mine) / waited.count}
    return Selection(spans, evidence, mine, whole=True, of_rows=True) if len(mine) else None


# --- growth --------------------------------------------------------------------------------------------


SIGMAS = 3
"""How many times its error a growth has to be: chance alone makes one line in 700 grow as much."""


def growing(waited: Waited) -> Selection | None:
    """Select what each later capture has more of: its operators, or the time in a line of the program."""
    selection = _more_operators(waited)
    return _longer_line(waited) if selection is None else selection


def _longer_line(waited: Waited) -> Selection | None:
    """Select the line whose time in a step grows from capture to capture, by more than chance.

    The growth is that of a line through the captures, with the error of their numbers of samples. Where the
    rest of the step grows as well, the machine became slower.
    """
    sampled, steps = waited.sampled, waited.steps
    if sampled is None:
        return None
    first = _captures(steps.number)
    bounds = [*first.tolist(), len(steps)]
    count = np.diff(bounds)
    spans = [Spans.of(steps.start_ns[at:end], steps.end_ns[at:end]) for at, end in pairwise(bounds)]
    lines = [{one.line: one for one in sampled.lines(span, most=EVERY, own=True)} for span in spans]
    whole = np.array([sum(one.time_ns for one in known.values()) for known in lines]) / count
    grown = []
    for line in {line for known in lines for line in known}:
        seen = [known.get(line) for known in lines]
        times = np.array([one.time_ns if one else 0 for one in seen]) / count
        rows = np.array([one.rows if one else 0.0 for one in seen])
        more = _rise(steps.number[first], times, rows)
        rest = _rise(steps.number[first], whole - times, np.full(len(rows), np.inf))
        if more > 0 and more / times.mean() > 2 * rest / max((whole - times).mean(), 1.0):
            grown.append((more, line, times))
    if not grown:
        return None
    more, line, times = max(grown, key=lambda one: one[0])
    return Selection(
        sampled.of_line(line).intersect(waited.spans),
        {
            "captures": [
                {"name": f"step {int(steps.number[at])}", "time_ns": round(time_ns)}
                for at, time_ns in zip(first, times, strict=True)
            ]
        },
        line=next(known[line] for known in reversed(lines) if line in known),
    )


def _rise(at: Ints, times: Floats, rows: Floats) -> float:
    """Return by how much times rise from the first to the last capture, 0 if that may be chance.

    Args:
        at: The captures' steps.
        times: The mean time of a step.
        rows: Of how many samples that is; a count has the square root of itself as its error. Times that
            scatter more around the line have that as their error, which the machine may add.
    """
    weight = (at - at.mean()) / ((at - at.mean()) ** 2).sum()
    slope = float((weight * times).sum())
    error = float(((weight * times) ** 2 / np.maximum(rows, 1)).sum()) ** 0.5
    apart = times - times.mean() - slope * (at - at.mean())
    scatter = float((apart**2).sum() / max(len(at) - 2, 1) * (weight**2).sum()) ** 0.5
    error = max(error, scatter)
    return slope * float(at[-1] - at[0]) if slope > SIGMAS * error else 0.0


def _captures(number: Ints) -> Ints:
    """Return where each capture begins among the numbers of steps."""
    first: Ints = np.flatnonzero(np.concatenate(([True], np.diff(number) > 1)))
    if len(first) < 3:
        raise Abstain("fewer than three captures of one run")
    return first


def _more_operators(waited: Waited) -> Selection | None:
    trace, steps = waited.trace, waited.every_step
    if waited.lane < 0 or (steps.number == NO_STEP).any():
        raise Abstain("no marked steps")
    first = _captures(steps.number)
    rows = waited.operators
    at = np.searchsorted(steps.start_ns, trace.start_ns[rows], side="right") - 1
    inside = (at >= 0) & (trace.start_ns[rows] < steps.end_ns[np.maximum(at, 0)])
    rows, at = rows[inside], at[inside]
    count = np.bincount(at, minlength=len(steps))
    low, high = np.minimum.reduceat(count, first), np.maximum.reduceat(count, first)
    # Every step of a capture has more than every step of the one before: not a mix of two kinds of steps.
    if not (low[1:] > high[:-1]).all() or not low[0]:
        return None
    spans = []
    for begin, end in zip(steps.start_ns, steps.end_ns, strict=True):
        mine = rows[(trace.start_ns[rows] >= begin) & (trace.start_ns[rows] < end)]
        spans.append(rows_spans(trace, mine[high[0] :]))
    return Selection(
        Spans.empty().union(*spans).intersect(waited.spans),
        {
            "captures": [
                {"name": f"step {int(number)}", "operators": int(many)}
                for number, many in zip(steps.number[first], count[first], strict=True)
            ]
        },
    )


def _grown(evidence: Mapping[str, Any]) -> str:
    captures = evidence["captures"]
    if "time_ns" in captures[0]:
        times = ", ".join(f"{time(one['time_ns'])} at {one['name']}" for one in captures)
        return f"one line takes longer and longer, as over a list that grows ({times}); it takes"
    numbers = ", ".join(f"{one['operators']:,} at {one['name']}" for one in captures)
    return f"each capture has more operators a step than the one before ({numbers}); the added ones take"


def _computed_once(facts: Facts, case: Case) -> str:
    once = (
        "if what they compute from is the same again, such as constants, a frozen model or a data set "
        "that is read many times, compute it once and keep it"
    )
    return "; ".join(filter(None, (once, question_of(case.evidence["mostly"]))))


# --- the table -----------------------------------------------------------------------------------------


def _row(
    rule: str,
    select: Callable[[Waited], Selection | None],
    say: Callable[[Mapping[str, Any]], str],
    remedies: Mapping[str, str] | Callable[[Facts, Case], str],
    withdrawn: str,
    **more: Any,
) -> Cause:
    """Return the row of a selection; its sentence begins with what ``say`` makes of the evidence."""
    return Cause(
        rule=rule,
        cases=on_each(select),
        say=lambda case: f"{say(case.evidence)} {case.cost}",
        remedies=remedies,
        withdrawn=withdrawn,
        **more,
    )


CAUSES: tuple[Cause, ...] = (
    *(
        _row(
            "debug-setting",
            left_on(one),
            lambda evidence, one=one: f"{one.say} ({one.setting}), for",  # type: ignore[misc]
            {"": one.off},
            "it is switched off",
            always=f"{one.say} ({one.setting})",
        )
        for one in LEFT_ON
    ),
    _row(
        "double-precision",
        double_precision,
        lambda evidence: (
            "the program computes in float64 "
            f"({_IN_WORDS.get(evidence['setting'], evidence['setting'])}); in float32 it would save"
        ),
        {
            "jax": "leave jax_enable_x64 off, or give arrays dtype=jnp.float32 where 64 bit are not needed",
            "torch": "leave torch.set_default_dtype at float32, or convert model and data with .float()",
            "": "compute in float32",
        },
        f"it computes in 32 bit, or the steps in 32 bit would not be {WORTH:.0%} shorter",
    ),
    _row(
        "too-many-threads",
        too_many_threads,
        lambda evidence: (
            f"PyTorch divides operators among {evidence['threads']} threads, which take turns on "
            f"{evidence['processors']} processor{'s' * (evidence['processors'] > 1)}; operators take"
        ),
        {"": "use no more threads than processors: torch.set_num_threads(…), OMP_NUM_THREADS"},
        "there are as many processors as threads",
        bound=True,
    ),
    _row(
        "interpreter-held",
        interpreter_held,
        lambda evidence: (
            f"the training thread waits while {evidence['thread'] or 'another thread'} holds the Python "
            "interpreter, for"
        ),
        {
            "": "give this work to a process of its own (multiprocessing), or do it less often; a call that "
            "runs long outside of Python, as of NumPy on large arrays, holds nobody up"
        },
        "no other thread holds the interpreter for long, or the steps without these waits would not be "
        f"{WORTH:.0%} shorter",
    ),
    _row(
        "host-arrays",
        handed_over,
        lambda evidence: (
            f"arrays of the host are copied for the device, {evidence['calls_per_step']:.3g} a step, for"
        ),
        {
            "": "what is the same in each step, such as a data set, make an array of the device once: "
            "jnp.asarray or jax.device_put before the loop; give new values in few arrays, of the type in "
            "which the step computes"
        },
        f"the steps without them would not be {WORTH:.0%} shorter",
        sure=lambda case: False,
    ),
    _row(
        "dense-gradient",
        gradients.dense,
        lambda evidence: (
            "the gradient of an embedding is dense and mostly zeros; filling and applying it takes"
        ),
        {
            "torch": "ask for sparse gradients: nn.Embedding(…, sparse=True) with SGD, SparseAdam or Adagrad",
            "": "use sparse gradients",
        },
        f"most of the gradient is computed, not filled with zeros, or the steps without it would not be "
        f"{WORTH:.0%} shorter",
        made=MADE,
        limits={"filled_ratio": gradients.HALF},
        sure=lambda case: case.ratio >= gradients.HALF,
    ),
    _row(
        "unused-gradients",
        gradients.unused,
        lambda evidence: (
            f"a backward pass computes {evidence['gradients']} gradients, of which the optimizer uses "
            f"{evidence['updated']}; the others, which are never used, take"
        ),
        {
            "torch": "stop the backward pass there: .detach() what goes into the part that is trained, or "
            ".requires_grad_(False) for parameters that no optimizer has",
            "": "stop the gradient in front of the parameters that no optimizer has",
        },
        f"an optimizer updates as many parameters as have got a gradient, or the steps without the others "
        f"would not be {WORTH:.0%} shorter",
    ),
    _row(
        "called-again",
        gradients.repeated,
        lambda evidence: (
            f"{evidence['model']} is called again with the same inputs "
            f"({evidence['calls_per_step']:.3g} a step), for"
        ),
        {
            "torch": "keep the result of the first call, and use .detach() of it where no gradient is needed",
            "": "keep the result of the first call",
        },
        f"no call is the same again, or the steps without them would not be {WORTH:.0%} shorter",
        width=-1,
    ),
    _row(
        "passed-again",
        gradients.passed_again,
        lambda evidence: (
            f"backward passes go {evidence['passes']} times through the same operators and add up their "
            "gradients; all but the first time take"
        ),
        {
            "torch": "add the losses, and call .backward() once on their sum",
            "": "add the losses, and compute the gradient of their sum",
        },
        f"no operator is passed twice for the same gradients, or the steps without that would not be "
        f"{WORTH:.0%} shorter",
        width=-1,
    ),
    _row(
        "computed-again",
        gradients.without,
        lambda evidence: (
            f"operators that no gradient flows through, {evidence['operators_per_step']:,} a step"
            f"{', mostly ' * bool(evidence['mostly'])}{evidence['mostly']}, are the same in each step and "
            "take"
        ),
        _computed_once,
        f"the steps run different ones, or the steps without them would not be {WORTH:.0%} shorter",
        sure=lambda case: False,
    ),
    _row(
        "process-messages",
        in_frames(MESSAGES),
        lambda evidence: "messages to and from other processes take",
        {
            "": "send fewer and larger ones: several tasks or environments in each process, or in this one "
            "if they are short; large arrays in shared memory"
        },
        f"the steps without them would not be {WORTH:.0%} shorter",
    ),
    _row(
        "recomputed",
        in_frames(RECOMPUTES),
        lambda evidence: "activations are computed again in the backward pass, for",
        {"": "if there is enough memory, do without gradient checkpointing, or use it in fewer layers"},
        f"the steps without it would not be {WORTH:.0%} shorter",
        sure=lambda case: False,
    ),
    _row(
        "growing-steps",
        growing,
        _grown,
        {
            "torch": "look for a graph, list or hook that each step adds to: .detach() losses and states "
            "that are kept, clear lists, remove hooks",
            "": "look for a list, hook or graph that each step adds to, and process only what is new",
        },
        "a later capture has no more operators a step than an earlier one, and that line takes no longer",
        # Other programs make some lines longer than others; they add no operators.
        sure=lambda case: "operators" in case.evidence["captures"][0] or not is_busy(case.waited),
        width=-2,  # what is there more often in each step computes the same again
    ),
)
"""Every cause that is a row, by its id."""
