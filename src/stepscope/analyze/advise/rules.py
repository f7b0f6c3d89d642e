"""Every rule of advice on a profile: its check, its formula, and the source of its limits."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.analyze.advise import (
    activities,
    between,
    blocking,
    busy,
    callbacks,
    communication,
    copies,
    dtypes,
    eager,
    expensive,
    hang,
    host,
    kernels,
    memory,
    operation,
    steps,
    syncs,
    utilization,
)
from stepscope.analyze.advise.causes import CAUSES, check_rows
from stepscope.analyze.advise.finding import Check


class Rule(NamedTuple):
    """One rule, as the reference of rules shows it.

    Attributes:
        check: None for a rule whose findings come from another rule's check.
        formula: The measured quantity, in Markdown.
        fires: From which value on, beyond a gain of 3 % of the step.
        source: Source of the formula and its limits.
    """

    check: Check | None
    formula: str
    fires: str = ""
    source: str = "ours"


RULES: dict[str, Rule] = {
    "accelerator-utilization": Rule(
        utilization.check,
        formula=(
            "U(work of one device) inside the steps / step; on tfprof's own data, Σ accelerator time of the "
            "last step / its span. A symptom: if other findings explain half of the idle time, it becomes "
            "the start of their chain"
        ),
        fires="< 0.5 medium, ≤ 0.2 high",
        source="tfprof",
    ),
    "operation": Rule(
        operation.check,
        formula=(
            "gain without layout conversions; on tfprof's own data, a node named BatchNorm without any of "
            "type FusedBatchNorm, or NHWC on a GPU"
        ),
        source="tfprof; ours",
    ),
    "expensive-operation": Rule(
        expensive.check,
        formula=(
            "the three operations that take most time: by operator, out of all device time, with "
            "collectives listed separately; without a device, by their share of the steps as `glance` and "
            "the views show it, on whichever thread. Wrappers and waits do not count. On tfprof's own data, "
            "its own report"
        ),
        fires="always, info",
        source="tfprof",
    ),
    "input-bound": Rule(
        activities.input_bound,
        formula=(
            "gain without the time in which T loads data (`DataLoader.__next__`, `IteratorGetNext`, "
            "`data_loading`); cost: U(loading) in dry. If T loads nothing, a bound from loading on other "
            "threads"
        ),
        fires="≥ 0.05",
        source="XProf's 5 %",
    ),
    "preprocessing": Rule(
        activities.preprocessing,
        formula=(
            "as `input-bound`, for frames on T that prepare data, outside loading: `preprocess`, `augment`, "
            "`collate`, `tokenize`, image libraries, transforms"
        ),
    ),
    "compilation": Rule(
        activities.compilation,
        formula=(
            "as `input-bound`, for XLA, inductor, dynamo, Triton, `tf.function` tracing; evidence: how "
            "often, which function, and which of its arguments changed type or shape (JAX: in captures; "
            "PyTorch: with recorded shapes, those of the first operator whose first call differs from step "
            "to step)"
        ),
    ),
    "checkpoint": Rule(
        activities.checkpoint,
        formula=(
            "as `input-bound`, for writing checkpoints: `torch.save`, `state` and `model` savers, orbax, "
            "`SaveV2`, and for lines of the program that serialise: `pickle.dump`, `joblib.dump`, "
            "`.tofile`, `flax.serialization`"
        ),
    ),
    "logging": Rule(
        activities.logging,
        formula=(
            "as `input-bound`, for `logging`, `print`, `writerows`, writing to files, TensorBoard, W&B, "
            "MLflow, plots, what libraries write tables, JSON, pictures and sounds by, and functions with "
            "such names"
        ),
    ),
    "evaluation": Rule(
        activities.evaluation,
        formula=(
            "the time in `evaluate`, `validate`, `predict`, `estimate_loss`, `check_accuracy` and "
            "validation steps of trainers on T, including the loading within them. Also, whatever the "
            "function is called, forward passes without gradients after a step's backward pass: calls of "
            "PyTorch modules with no operators numbered by autograd, together with functions that do "
            "nothing else; and XLA programs that spend most of their time on source lines that also occur "
            "in another program's `jvp`. A bound, because the work on devices would be saved, too"
        ),
    ),
    "blocking-call": Rule(
        blocking.check,
        formula=(
            "gain without the time in which T sleeps, or waits for a file, a lock or another process, while "
            "no device works; outside operators, exchanges and the activities above; known from sampled "
            "stacks, otherwise from recorded calls of Python that only wait (`time.sleep`, locks, queues, "
            "sockets)"
        ),
        fires="≥ 0.05, and one line accounts for half of it",
    ),
    "busy-machine": Rule(
        busy.check,
        formula=(
            "how long T waited for a processor while no device worked, over the steps; known from sampled "
            "stacks on Linux (`/proc/…/schedstat`). Worth knowing, and no gain: the times of the host hold "
            "these waits"
        ),
        fires="≥ 0.2, info",
    ),
    "host-callback": Rule(
        callbacks.check,
        formula=(
            "the time of XLA or TensorFlow operations that call Python: `pure_callback`, `io_callback`, "
            "`debug_callback`, `PyFunc`, also on T itself; a bound"
        ),
    ),
    "between-steps": Rule(
        between.check,
        formula=(
            "gain without the time between the end of one step and the beginning of the next, in at least "
            "two gaps; gaps of more than four times the usual length are pauses. If one activity accounts "
            "for 0.6 of it, the finding carries that activity's rule"
        ),
        fires="0.2 if only the framework that runs the loop, or the profiler, is known to be at work there",
    ),
    "communication-bound": Rule(
        communication.check,
        formula="gain if communication took no time; cost: U(communication) while nothing else runs",
        fires="cost too ≥ 0.03",
        source="XProf's collectives",
    ),
    "slow-rank": Rule(
        communication.slow_rank,
        formula=(
            "with several ranks: Σ waiting in joint collectives, attributed to the rank that came last. The "
            "gain is a bound: the median of the other ranks' waits, with waits for several exchanges at "
            "once counted once. The line is the one in which the late rank spends most of that time"
        ),
        fires=(
            "0.5 + 0.6 / ranks of all waiting, and last more often than one of equal ranks may be by chance "
            "(binomial, 15 %)"
        ),
        source="HTA, [ranks](../guides/ranks.md)",
    ),
    "hang": Rule(
        hang.check,
        formula=(
            "with the flight-recorder dumps of two or more ranks: the ranks at which all chains of waits "
            "end, with the reason and how certain it is; see [ranks](../guides/ranks.md)"
        ),
        fires="always, high",
    ),
    "host-bound": Rule(
        host.check,
        formula=(
            "gain without the host's own time while the device is dry: on T and on threads that launch a "
            "tenth of the work or more, not counting the five activities above, waiting and the profiler. "
            "Evidence: launch calls, Python, operators and untraced time, which add up to it, and how long "
            "no device worked while the host was waiting as well. If one call accounts for half of it, such "
            "as the first use of a device, that call is named. Without an accelerator and without stacks: "
            "the time in which T runs no operator and no other thread or rank works that it may wait for, "
            "with the range in which most of it lies; whether that is Python or a wait was not recorded"
        ),
        fires="cost too ≥ 0.03; 0.2 without an accelerator",
        source="HTA's host wait",
    ),
    "sync-points": Rule(
        syncs.check,
        formula=(
            "gain if calls that wait for the device did not wait; without an accelerator, gain without "
            "reads of single values (`.item()`, `float()`), at least 20 per step"
        ),
    ),
    "small-kernels": Rule(
        kernels.small,
        formula=(
            "gain without kernels below 10 µs; without an accelerator, without operators below 10 µs (in "
            "the backward pass, those within autograd's own events) and the gaps between them if shorter "
            "than 20 µs; where the same operators run three times in a row or more, without all that lies "
            "in between, if most of that is such operators and gaps. Operators of the backward pass are "
            "reported at the lines of the forward operators that created them"
        ),
        fires="half of them, 100 per step",
    ),
    "eager-operations": Rule(
        eager.check,
        formula=(
            "gain without dispatching operations one by one: calls on T of compiled JAX functions and "
            "TensorFlow operations, and the gaps between them if shorter than 1 ms, not counting what they "
            "execute on the host, nor reads of single values; one call of each function is left"
        ),
        fires="≥ 0.1, 50 per step",
    ),
    "unfused-optimizer": Rule(
        kernels.optimizer,
        formula=(
            "gain without the optimizer's operators, the Python between them if the optimizer's call is "
            "marked, and its kernels, none of which is fused or foreach"
        ),
        fires="40 operators per step",
    ),
    "dtype-hints": Rule(
        dtypes.check,
        formula=(
            "gain if 32-bit matrix products and convolutions took half as long. What is 32-bit is known "
            "from the operator's recorded input types, otherwise from kernel names. Devices from compute "
            "capability 7.0"
        ),
        fires="0.3 of their time",
    ),
    "memory-near-limit": Rule(
        memory.check,
        formula=(
            "peak of the memory reserved by the allocator (or in use, if the reserved amount is unknown) / "
            "device memory; or a recorded out-of-memory error"
        ),
        fires="≥ 0.9 medium, ≥ 0.97 high",
    ),
    "pageable-copies": Rule(
        copies.check,
        formula="gain without copies from or to pageable memory and the waits for them",
    ),
    "step-variation": Rule(
        steps.check,
        formula=(
            "longest step / median step - 1, and mean - median; over at least 3 steps after the first, in "
            "which the profiler starts; not counting the profiler's own time and what follows a step's last "
            "event. Names the activity, and the line, that account for 0.6 of the difference, and how many "
            "more steps are that much longer. If another finding is about this line, the two are one"
        ),
        fires="≥ 0.25 and ≥ 0.03",
    ),
    **{row.rule: Rule(check_rows(row.rule), row.formula, row.fires) for row in CAUSES},
    "launch-bound": Rule(
        None,
        formula=(
            "a `host-bound` finding if launch calls are at least half of it. Copies do not count as "
            "launches, and a call that blocks because 64 or more pieces of work are queued is waiting for "
            "the device"
        ),
        source="XProf's kernel launch",
    ),
    "python-overhead": Rule(
        None,
        formula=(
            "a `host-bound` finding if Python is at least half of it. Without an accelerator: the self time "
            "of frames on T, from 0.2 of the step, because recording stacks slows Python down; with sampled "
            "stacks, the time in which T runs outside operators, or within an operator that is a "
            "`torch.autograd.Function` in Python, from 0.1 if one line accounts for half of its samples. "
            "Both are relative to the part of the steps in which T does not wait for a processor. Info if "
            "less than half of what was sampled of it is in lines that run hardly any operator"
        ),
    ),
}
"""Every rule by its id, in the order in which they are asked. The check of ``host-bound`` also finds
``launch-bound`` and ``python-overhead``."""
