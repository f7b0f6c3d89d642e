"""Remedies in the user's framework, and commands that run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from stepscope.analyze.advise.finding import Case, Facts
from stepscope.trace.model import Kind, Trace, among

_OF_KINETO = among(
    Kind.HOST_OP, Kind.RUNTIME_CALL, Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.COLLECTIVE, Kind.SEND_RECV
)
"""Kinds of events that PyTorch's profiler alone writes in its format."""


def framework_of(trace: Trace) -> str:
    """Return ``torch``, ``jax``, ``keras``, ``tensorflow`` or ``python``, judging by the profile."""
    if trace.format in ("execution_trace", "memory_snapshot", "flight_recorder"):
        return "torch"
    if trace.format == "kineto" and not made_of_samples(trace):
        return "torch"
    texts = trace.strings.texts()
    # Keras runs on any of them; what it says of itself comes first.
    if any("keras" in text and ".py" in text for text in texts):
        return "keras"
    if any(text.startswith("PjitFunction(") or "pjit" in text or "jit(" in text for text in texts):
        return "jax"
    if trace.format in ("timeline", "step_stats", "xplane"):
        return "tensorflow"
    if any(text.startswith("aten::") or "/torch/" in text for text in texts):
        return "torch"
    return "python"


def made_of_samples(trace: Trace) -> bool:
    """Return whether a profile has nothing but sampled frames and marks, as captures of plain Python have.

    They are in Kineto's format, and took no time of the program.
    """
    return trace.format == "kineto" and not (_OF_KINETO[trace.kind] & (trace.name >= 0)).any()


def quoted(facts: Facts) -> str:
    """Return the profile's path quoted for a shell."""
    path = facts.path
    if not path and facts.trace is not None and facts.trace.sources:
        path = facts.trace.sources[0].path
    return shlex.quote(path or "PROFILE")


def show(facts: Facts, view: str, name: str = "", *, order: str = "") -> str:
    """Return a command that shows a view of the profile; only events of one name, if one is given."""
    parts = ["stepscope profile", view, quoted(facts)]
    if order:
        parts += ["-order_by", order]
    if name:
        parts += ["-show_name_regexes", shlex.quote(exactly(name))]
    return " ".join(parts)


def exactly(name: str) -> str:
    """Return a regular expression for one name, as a list of options takes it: without commas."""
    return re.escape(name).replace(r"\,", ".").replace(",", ".").replace(r"\ ", " ")


def open_line(facts: Facts, case: Case) -> str:
    """Return a command that shows the line of a cause, or the largest parts if no line is known."""
    if case.line is not None or case.waited.has_stacks:
        return f"stepscope advise {quoted(facts)} --lines --profile"
    return show(facts, "op", order="micros")


def with_line(facts: Facts, case: Case, action: str) -> str:
    """Return the remedy, and how to record the line if none was recorded."""
    if case.line is not None or case.waited.has_stacks:
        return action
    return f"{action}; the line was not recorded: {_to_record(facts)}"


def _to_record(facts: Facts) -> str:
    trace = facts.timeline
    path = PurePath(facts.path or (trace.sources[0].path if trace.sources else ""))
    if "profiles" in path.parts:
        run = PurePath(*path.parts[: path.parts.index("profiles")])
        return f"while it trains, stepscope capture {shlex.quote(str(run))} --stacks records it"
    return {
        "torch": "ss.ProfilerHook() or torch.profiler.profile(with_stack=True) records it",
        "jax": "ss.ProfilerHook() or jax.profiler.ProfileOptions().python_tracer_level = 1 records it",
        "tensorflow": "ss.ProfilerHook() or tf.profiler.experimental.ProfilerOptions("
        "python_tracer_level=1) records it",
    }.get(framework_of(trace), "ss.ProfilerHook() records it")
