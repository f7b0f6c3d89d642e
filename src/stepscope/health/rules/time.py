"""Rows on time: steps that take longer, waits for data, compilations, and processors that idle."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.looks import Known, Row, RunFacts, Seen, Tail, at_steps, means_between
from stepscope.health.ring import MAD_TO_SIGMA, Floats, median
from stepscope.health.rule import thresholds
from stepscope.health.worth import HIGH, MEDIUM, is_worth, severity_of
from stepscope.text import number, often, share

READINGS_S = 10.0
"""Seconds in which a run that records waits for a processor has recorded some: twice their interval."""
BLOCKS = 16
"""Stretches of a run that are compared."""
MIN_STEPS = 4 * BLOCKS
"""Points for a lower quartile in each."""
SKIPPED = 10
"""First steps, in which loaders start and kernels are compiled."""
CLOSES = 0.8
"""Part of the ratio below which it is over: a share about the ratio is one finding."""
SAMPLES = 60
"""Samples of the machine whose shares are known well enough; of a longer series its last quarter counts."""


class Slower(NamedTuple):
    """Times of steps before and after some place.

    Attributes:
        since: Index of the first slow one.
    """

    since: int
    before: float
    after: float


class SlowerSteps(Row):
    """Compares lower quartiles: single long steps, and other work that comes and goes, do not count.

    Other work on the machine lengthens steps in two ways. A thread waits for a processor, which the system
    counts; and while it runs, it shares a core with the other work and gets at least half of it.

    Formula: lower quartiles of step times in all later sixteenths exceed ratio * those in earlier ones,
        two on either side, and lost_s were lost; also without waits w: t * (1 - w) * (1 - w / 2), low if
        unknown
    Fires: once two sixteenths of the run were slower
    Chance: none from noise, nor from other work on the machine
    Source: ours; quartiles because other work lengthens some steps and not all; waits as Linux counts
        them; of a core that two threads share each gets at least half
    """

    id = "slower-steps"
    title = "Steps became slower"
    fewest = "64 step times"
    explains = ("step-outliers",)
    roles = leads = ("step_time",)
    beside = ("cpu_wait",)
    defaults = thresholds(ratio=1.5, lost_s=1)
    action = (
        "compare a step before this one with a later one: stepscope diff of two captures; usual causes are "
        "inputs that grew, lists that grow with each step, a graph that is recompiled, and a processor that "
        "throttles"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts = known.facts
        steps, times = facts.curve
        if len(times) < MIN_STEPS:
            return None
        self.judged()
        slower = self._compared(times, facts.count)
        if slower is None:
            return None
        waits = run.waits(known)
        measured = np.flatnonzero(np.isfinite(waits))
        waits = waits[measured]
        own = self._compared(times[measured] * (1 - waits) * (1 - waits / 2), facts.count)
        later = waits[measured >= slower.since]
        if own is None and len(later):
            waited = f"threads waited for a processor in {share(median(later))} of the time since"
            self._judged = False
            self.abstain(f"steps became slower at step {steps[slower.since]:,}, and {waited}")
            return None
        before_ms, after_ms = number(1e3 * slower.before), number(1e3 * slower.after)
        text = f"a step took about {before_ms} ms before, and about {after_ms} ms since"
        lost_s = (slower.after - slower.before) * facts.count * (1 - slower.since / len(times))
        values = {"before_ms": 1e3 * slower.before, "after_ms": 1e3 * slower.after, "lost_s": lost_s}
        if own is None:
            text += "; waits for a processor are not recorded, so other work on the machine may be the cause"
            return Seen(text, values, int(steps[slower.since]), severity="low")
        cost = lost_s / max(float(times.sum()) * facts.width, lost_s)
        return Seen(text, values, int(steps[slower.since]), cost=cost)

    def _compared(self, times: Floats, count: int) -> Slower | None:
        """Return where times become longer for good, None if they do not.

        Args:
            times: Of single steps, or means of equally many, in seconds.
            count: Of the steps.
        """
        if len(times) < MIN_STEPS:
            return None
        edges = np.linspace(0, len(times), BLOCKS + 1).astype(int)
        low = np.array([lower_quartile(times[a:b]) for a, b in pairwise(edges.tolist())])
        # The first block holds what only the first steps do: compilation, caches, loaders that start.
        fastest = np.minimum.accumulate(low[::-1])[::-1]
        slowest = np.maximum.accumulate(low[1:])
        ratios = fastest[3:-1] / np.maximum(slowest[1:-2], 1e-12)
        cut = int(ratios.argmax()) + 3
        before, after = median(low[1:cut]), median(low[cut:])
        lost_s = (after - before) * count * (BLOCKS - cut) / BLOCKS
        if ratios[cut - 3] <= self.limits["ratio"] or lost_s <= self.limits["lost_s"]:
            return None
        # The beginning is dated within the block before the first one that is slow as a whole.
        begin, end = int(edges[cut - 1]), int(edges[cut])
        fast = np.flatnonzero(times[begin:end] < (before + after) / 2)
        since = begin + int(fast[-1]) + 1 if len(fast) else begin
        return Slower(min(since, len(times) - 1), before, after)


def lower_quartile(values: Floats) -> float:
    """Return the lower quartile as ``np.quantile`` does, in a tenth of its time; NaN if any value is."""
    ordered = np.sort(values).tolist()  # NaN comes last
    place = 0.25 * (len(ordered) - 1)
    at = int(place)
    part = place - at
    low, high = ordered[at], ordered[min(at + 1, len(ordered) - 1)]
    if ordered[-1] != ordered[-1]:
        return float(ordered[-1])
    return float(high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part)


class StepOutliers(Row):
    """Adds up the cost of single long steps; short delays from other work on the machine do not count.

    Formula: the excess of steps above 2 * the median, 3 deviations and least_s beyond it, without waits
        for a processor, is more than cost of the run's time and more than lost_s, in 10 steps, while most
        are not
    Fires: from the 210th step on, once so much is lost, or a quarter of the steps later
    Chance: none from delays below least_s, nor from other work where waits for a processor are recorded;
        from longer ones, whenever they cost a tenth of a run
    Source: SageMaker Debugger StepOutlier (3 sigma, 10 outliers), trainpulse (3 * the median); by cost to
        the run: ours
    """

    id = "step-outliers"
    title = "Step-time outliers"
    severity = "low"
    fewest = "210 steps"
    roles = leads = ("step_time",)
    beside = ("cpu_wait",)
    defaults = thresholds(least_s=0.02, cost=MEDIUM, lost_s=1)
    action = (
        "compare a long step with a short one in a profile; usual causes are checkpoints, evaluation "
        "inside the step, garbage collection, recompilation (shapes that change), other work on the machine"
    )

    def tail(self) -> Tail:
        """Return the tail that it asks for."""
        return Tail(SKIPPED)

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        if not isinstance(known.tail, Tail):
            return None
        times, counts = known.tail.shape
        if counts.sum() < 200:
            return None
        self.judged()
        limits, facts = self.limits, known.facts
        middle = weighted_median(times, counts)
        noise = MAD_TO_SIGMA * weighted_median(np.abs(times - middle), counts)
        limit = max(2 * middle, middle + max(3 * noise, limits["least_s"]))
        if facts.level > limit:  # most steps are as long by now: it is their time that changed
            return None
        long = times > limit
        many, whole = int(counts[long].sum()), float(times @ counts)
        lost = float((times[long] - middle) @ counts[long])
        lost -= run.waited(known, self.context.begun + READINGS_S)
        if many < 10 or lost <= max(limits["lost_s"], limits["cost"] * whole):
            return None
        text = (
            f"{many:,} of {counts.sum():,} steps took more than {number(1e3 * limit)} ms, the median is "
            f"{number(1e3 * middle)} ms; they cost {lost / whole:.0%} of the time"
        )
        evidence = {"outliers": many, "median_ms": 1e3 * middle, "longest_ms": 1e3 * float(times[-1])}
        steps, means = facts.curve
        begin = SKIPPED // facts.width
        # The mean of a block in which one step was long.
        slow = means[begin:] > middle + (limit - middle) / facts.width
        since = int(steps[begin + int(slow.argmax())])
        values = {**evidence, "cost_ratio": lost / whole, "lost_s": lost}
        # Without recorded waits other work on the machine may be the cause: the run's own cost is unknown.
        measured = np.isfinite(run.waits(known)).any()
        return Seen(text, values, since, cost=lost / whole if measured else None)


def weighted_median(values: Floats, counts: NDArray[np.int64]) -> float:
    """Return the median of values of which there are so many each."""
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)])


IN_PARALLEL = (
    "make batches in parallel and ahead: with workers of the loader, if there is one (PyTorch: "
    "DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…); Keras and JAX: tf.data "
    "map(num_parallel_calls=…) and prefetch, keras.utils.PyDataset(workers=…), grain), or in a thread or "
    "process, if your own code makes them; if that is done already, "
)


class DataWait(Row):
    """Adds up waits and step times over the stretch that waits, and judges it by its share of the whole run.

    A share of 30 % of some fast steps at the end costs little if all other steps took longer.

    Formula: Σ data wait / Σ step time >= ratio over the last 100 steps (0.8 * ratio to go on), since Σ
        (wait - ratio * time) from there is largest; waits of 1 µs do not count; severity by the share of
        all time
    Fires: within 100 steps, or a quarter of the steps so far; the first 10 not counted
    Chance: none from noise: sums of 100 steps
    Source: XProf's input pipeline analyzer, torchtitan's data_loading(%); 10 % and 20 %: as in advice
    """

    id = "data-wait"
    title = "Waiting for data"
    severity = "medium"
    fewest = "110 steps"
    roles = ("step_time", "data_wait")
    leads = ("data_wait",)
    needs = ("step_time", "data_wait")
    defaults = thresholds(ratio=MEDIUM, high=HIGH, steps=100)
    action = (
        f"{IN_PARALLEL}make a batch cheaper: decode once, fewer transforms, larger files; a profile of one "
        "step names the line"
    )
    applied = MappingProxyType({"workers": IN_PARALLEL})

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        timed = next(run.of(known.stream.run, "step_time"), None)
        if timed is None:
            return None
        steps, times = timed.facts.curve
        width, least = timed.facts.width, self.limit("steps")
        begin, count = -(-SKIPPED // width), max(-(-least // width), 2)
        if (len(times) - begin) * width < least or len(times) - begin < count:
            return None
        self.judged()
        time = times * width
        wait = np.minimum(
            means_between(known.facts, np.append(steps, timed.facts.last_step + 1)) * width, time
        )
        steps, time, wait = steps[begin:], time[begin:], wait[begin:]
        recent_wait, recent_time = float(wait[-count:].sum()), float(time[-count:].sum())
        limit, high = self.limits["ratio"], self.limits["high"]
        holds = CLOSES * limit if (known.stream, "") in self._open else limit
        if not is_worth(recent_wait, recent_time, ratio=holds, steps=count * width):
            return None
        since = max(int(np.cumsum((wait - limit * time)[::-1]).argmax()) + 1, count)
        took, waited = float(time[-since:].sum()), float(wait[-since:].sum())
        ratio, whole = waited / took, waited / float(time.sum())
        wait_ms, step_ms = (1e3 * seconds / (since * width) for seconds in (waited, took))
        text = f"{ratio:.0%} of the step time is waiting for data: {number(wait_ms)} of {number(step_ms)} ms"
        severity = severity_of(whole, medium=limit, high=high)
        if severity != severity_of(ratio, medium=limit, high=high):
            text += f", and {whole:.1%} of the time of all steps"
        values = {"wait_ratio": ratio, "wait_ms": wait_ms, "step_ms": step_ms, "ratio_of_all": whole}
        return Seen(text, values, int(steps[-since]), severity)


class Recompilation(Row):
    """Adds up compilations since the first one that follows a step without one: those before are needed.

    Formula: Σ compilation / Σ step time >= ratio, since the first compilation after a step without one,
        and `fewest` steps or more of the later half compile; severity by that share
    Fires: the later half of the steps, 40 of them at least
    Chance: none from noise: compilations are told by the framework
    Source: ours; torch.compile and jax.jit compile once for each set of shapes, types and constants
    """

    id = "recompilation"
    title = "Compiled again and again"
    fewest = "40 step times"
    explains = ("step-outliers", "slower-steps")
    roles = ("step_time", "compile_time")
    leads = ("step_time",)
    needs = ("step_time", "compile_time")
    defaults = thresholds(ratio=MEDIUM, fewest=5, steps=40)
    action = (
        "keep shapes, types and Python arguments of the compiled function as they are: pad batches to a few "
        "sizes, drop the last incomplete one, pass numbers that change as arrays (PyTorch: "
        "torch.compile(dynamic=True), TORCH_LOGS=recompiles names the reason; JAX: no changing static "
        "arguments, no jit within the loop, JAX_LOG_COMPILES=1 names the shapes)"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        compiled = next(run.of(known.stream.run, "compile_time"), None)
        steps, times = known.facts.curve
        if compiled is None or known.facts.count < self.limit("steps"):
            return None
        self.judged()
        at, spent = compiled.facts.curve
        half = int(steps[len(steps) // 2])
        if len(np.unique(at[at >= half])) < self.limit("fewest"):
            return None
        # The first steps compile one after the other.
        apart = np.diff(np.searchsorted(steps, at, side="right"))
        first = int(np.argmax(apart > 1)) + 1 if (apart > 1).any() else 0
        onset, count = int(at[first]), (len(at) - first) * compiled.facts.width
        lost = float(spent[first:].sum()) * compiled.facts.width
        whole = float(times[steps >= onset].sum()) * known.facts.width
        ratio = min(lost / whole, 1.0) if whole > 0 else 0.0
        if ratio < self.limits["ratio"]:
            return None
        text = f"{share(ratio)} of the step time since step {onset:,} is compiling, {often(count)}"
        values = {"ratio": ratio, "compilations": float(count), "compile_s": lost}
        return Seen(text, values, onset, cost=ratio)


class GpuUnderused(Row):
    """Looks at the percentiles of a GPU's utilization over a window of samples.

    Formula: 95th percentile of the last 60 samples, or of a quarter of them all, < high: under-used; else
        5th percentile < low: fluctuating
    Fires: at the 72nd sample, at 5 s a sample after 6 minutes, or a quarter of the samples later
    Chance: none from noise: percentiles of 60 samples
    Source: SageMaker Debugger LowGPUUtilization (p95 < 70 %, p5 < 10 %)
    """

    id = "gpu-underused"
    title = "GPU under-used"
    severity = "low"
    fewest = "72 samples"
    roles = ("gpu",)
    keeps_onset = True
    defaults = thresholds(high=0.7, low=0.1)
    applied = dict.fromkeys(("mixed precision", "loss_scale"), "mixed precision, ")
    action = (
        "larger batches, mixed precision, more of the step in one launch (PyTorch: torch.compile, CUDA "
        "graphs; JAX: the whole step in jax.jit, several by lax.scan; Keras: steps_per_execution, "
        "jit_compile=True); if data-wait is found too, fix the loader first; a profile of one step shows the "
        "gaps"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        steps, means = known.facts.curve
        if len(means) < 1.2 * SAMPLES:
            return None
        self.judged()
        count = max(SAMPLES, len(means) // 4)
        low, high = np.percentile(means[-count:], [5, 95]).tolist()
        if high >= self.limits["high"] and low >= self.limits["low"]:
            return None
        layer = known.stream.layer or "the GPU"
        text = (
            f"{layer} is hardly used: 95 % of the samples lie below {high:.0%}"
            if high < self.limits["high"]
            else f"{layer} is used unevenly: between {low:.0%} and {high:.0%}"
        )
        return Seen(text, {"p5": low, "p95": high}, int(steps[-count]))


class Bottleneck(Row):
    """Counts the samples in which the GPUs idle while something else is at its limit.

    Formula: of the last 60 samples, or of a quarter of all, more than share had GPU < gpu and the host's
        series > busy; severity by their share of all samples
    Fires: at the 60th sample, at 5 s a sample after 5 minutes, or a quarter of the samples later
    Chance: none from noise: it takes half of 60 samples
    Source: SageMaker Debugger CPUBottleneck and IOBottleneck (50 % of the samples)
    """

    fewest = "60 samples of a GPU and of the host"
    keeps_onset = True
    words: ClassVar[str]

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        stream = known.stream
        first = min(
            (other.stream for other in run.of(stream.run, stream.role)), key=lambda stream: stream.tag
        )
        steps, busy = known.facts.curve
        gpus = [other.facts for other in run.beside(known, "gpu") if other.facts.finite >= SAMPLES]
        if stream is not first or not gpus or len(busy) < SAMPLES:
            return None
        self.judged()
        count = max(SAMPLES, len(busy) // 4)
        idlest = np.min([at_steps(gpu, steps, 1) for gpu in gpus], axis=0)
        idles = (idlest < self.limits["gpu"]) & (busy > self.limits["busy"])
        bad = idles[-count:]
        share_of = float(bad.mean())
        # A share about the limit is one finding.
        if share_of <= self.limits["share"] * (CLOSES if stream in self.holding else 1.0):
            return None
        text = f"in {share_of:.0%} of the last {count} samples a GPU idles while {self.words}"
        values = {"share": share_of, "gpu": float(idlest[-1]), "busy": float(busy[-1])}
        return Seen(text, values, int(steps[-count:][int(bad.argmax())]), cost=float(idles.mean()))


class CpuBottleneck(Bottleneck):
    """The processors are busy."""

    id = "cpu-bottleneck"
    title = "CPU bottleneck"
    roles = needs = ("gpu", "cpu")
    leads = ("cpu",)
    words = "the processors are busy"
    defaults = thresholds(gpu=0.1, busy=0.9, share=0.5)
    action = (
        "decode and augment on the GPU or ahead of time, give the job more cores, fewer threads per worker"
    )


class IoBottleneck(Bottleneck):
    """The processors wait for input and output."""

    id = "io-bottleneck"
    title = "I/O bottleneck"
    roles = needs = ("gpu", "io_wait")
    leads = ("io_wait",)
    words = "the processors wait for disks"
    defaults = thresholds(gpu=0.1, busy=0.5, share=0.5)
    action = (
        "read fewer, larger files in sequence, cache the data on a local disk or in memory, write "
        "checkpoints in the background"
    )


ROWS = (SlowerSteps, StepOutliers, DataWait, Recompilation, GpuUnderused, CpuBottleneck, IoBottleneck)
