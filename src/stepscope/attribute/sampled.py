"""The training thread by its sampled stacks: activities, waiting, and the user's lines."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stepscope.attribute.origin import Origin, Origins, SourceLine, folder_of, line_of, package_of, scripts_of
from stepscope.attribute.source_lines import MOST_LINES, Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.distinct import distinct
from stepscope.trace.sampled import Made, Samples

_WITHIN_A_LINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Functions that are part of a line of another one."""
MIN_SAMPLES = 3
"""Number of samples from which on something is taken to have happened at all."""
RAN, ONE_CALL_NS = 0.9, 10_000_000
"""Share of its time that a thread ran, and how late a sample comes then, from which it was in one call: a
thread that runs Python lets others in every 5 ms at the latest."""
_PYTHON_WAITS = re.compile(
    r"(?:^|/)(?:threading|queue|selectors|socket|ssl|subprocess|multiprocessing/\w+|concurrent/futures/\w+"
    r"|asyncio/\w+)\.py\(\d+\): |^<call of (?:\w+\.)*sleep>$"
)
READS = re.compile(
    r"^<call of (?:(?:np|numpy|jax|jnp)\.(?:as)?array|float|int|bool|(?:jax\.)?device_get"
    r"|(?:\w+\.|\.)*(?:item|tolist|numpy|block_until_ready))>$"
)
"""Calls of the program that take values from an array, and so wait until they are computed."""
RUNS = 0.5
"""Least share of its time in which a thread that works runs or waits for a processor."""


def function_of(text: str) -> str:
    """Return file and function of a frame's text, without the line that runs."""
    file, bracket, rest = text.rpartition("(")
    return file + rest.partition(")")[2] if bracket else text


@dataclass(frozen=True)
class Sampled:
    """Sampled stacks of one rank's training thread.

    Args:
        samples: They.
    """

    samples: Samples

    @property
    def lane(self) -> int:
        """The thread."""
        return self.samples.lane

    @cached_property
    def _same(self) -> npt.NDArray[np.bool_]:
        """Return whether each sample stood in the same function as the one before."""
        known = [-1 if frame < 0 else hash(self._function(int(frame))) for frame in self._innermost]
        where = np.array([*known, -1], np.int64)[self.samples.stack]
        return np.concatenate(([True], where[1:] == where[:-1]))[: len(where)]

    @cached_property
    def start_ns(self) -> Ints:
        """The beginning of the time that each sample represents.

        A sampler that has to wait for the interpreter's lock comes late, and the thread may have gone on
        meanwhile: all that lies further back counts only if the sample before stood in the same function, or
            if the thread ran all the time and so long that it was one call, which let nobody else run.
        """
        samples = self.samples
        if not samples.interval_ns:
            return samples.start_ns
        length = samples.end_ns - samples.start_ns
        same = self._same | (samples.runnable_ns >= RAN * length) & (
            length >= 2 * samples.interval_ns + ONE_CALL_NS
        )
        nearest = np.maximum(samples.start_ns, samples.end_ns - 2 * samples.interval_ns)
        return np.where(same, samples.start_ns, nearest)

    @cached_property
    def _weight(self) -> Ints:
        """How many samples each stands for: more than one if the sampler came late for a call's sake."""
        every = max(self.samples.interval_ns, 1)
        length = self.samples.end_ns - self.start_ns
        return np.where((self.samples.interval_ns > 0) & (length > 2 * every), length // every, 1)

    @cached_property
    def _innermost(self) -> Ints:
        """The innermost frame of the user's own code of each stack, -1 = none."""
        return self._innermost_of(self.samples.stacks)

    def _outside(self, of: Callable[[str], bool]) -> Ints:
        """Return the innermost frame of the user's own code that lies around some frames."""
        chosen = [of(text) for text in self.samples.frames]
        ends = [
            next((at for at, frame in enumerate(stack) if chosen[frame]), len(stack))
            for stack in self.samples.stacks
        ]
        return self._innermost_of(stack[:end] for stack, end in zip(self.samples.stacks, ends, strict=True))

    def shown(self, name: str) -> str:
        """Return the text of a frame, its file relative to the program's directory."""
        directory = self.samples.directory
        return name.removeprefix(directory + os.sep) if directory else name

    @cached_property
    def _own(self) -> npt.NDArray[np.bool_]:
        """True for each frame that is the user's own code."""
        return np.array([self._is_own(text) for text in self.samples.frames], bool)

    @cached_property
    def _origins(self) -> Origins:
        samples = self.samples
        outermost = {samples.frames[stack[0]] for stack in samples.stacks if stack}
        return Origins(samples.places, samples.directory, scripts_of(outermost))

    def _is_own(self, name: str) -> bool:
        line = line_of(name)
        return (line is None or line.function not in _WITHIN_A_LINE) and self._origins.is_own(name)

    def _innermost_of(self, stacks: Iterable[Sequence[int]]) -> Ints:
        """Return the innermost frame of the user's own code of some stacks, -1 = none."""
        own = self._own
        return np.array(
            [next((frame for frame in reversed(stack) if own[frame]), -1) for stack in stacks], np.int64
        )

    @property
    def known(self) -> Ints:
        """Samples for which it is known whether the thread could run."""
        return np.flatnonzero(self.samples.runnable_ns >= 0)

    @cached_property
    def working(self) -> Spans:
        """Time in which the thread ran, or would have had a processor been free."""
        return self._where(self._runs)

    @cached_property
    def waiting(self) -> Spans:
        """Time in which the thread slept, or waited for a file, a lock or another thread."""
        return self._where((self.samples.runnable_ns >= 0) & ~self._runs)

    @cached_property
    def held_up(self) -> tuple[Spans, int]:
        """The samples in which the thread waited for the interpreter, which another one had, and how long.

        While the sampler had to wait for the interpreter, so did the thread, unless it ran, or stood in a
        wait of its own.
        """
        samples = self.samples
        if not samples.holders:
            return Spans.empty(), 0
        ran = np.zeros(len(samples), np.int64)
        for holder in samples.holders:
            # It may have had the interpreter for longer than since the training thread's own last sample.
            had = Spans.of(holder.at_ns - holder.ran_ns, holder.at_ns)
            ran += had.within(samples.start_ns, samples.end_ns)
        length = samples.end_ns - samples.start_ns
        slept = np.where(samples.runnable_ns >= 0, np.maximum(length - samples.runnable_ns, 0), 0)
        own = self.waits_of_python(np.arange(len(samples.stacks)))
        # A holder that waits for a processor still has the interpreter.
        held_ns = np.where(ran >= RUNS * slept, slept, ran) * ~own[samples.stack]
        chosen = np.flatnonzero((ran > 0) & (held_ns > 0))
        return Spans.of(samples.start_ns[chosen], samples.end_ns[chosen]), int(held_ns[chosen].sum())

    def holders(self, spans: Spans) -> list[tuple[str, Share | None, int]]:
        """Return name, line and time of each thread that had the interpreter meanwhile, the longest first."""
        threads: dict[str, tuple[int, dict[SourceLine, int]]] = {}
        for holder in self.samples.holders:
            inside = spans.within(holder.at_ns - 1, holder.at_ns) > 0
            time_ns, lines = threads.setdefault(holder.thread, (0, {}))
            for stack, ran in zip(holder.stack[inside].tolist(), holder.ran_ns[inside].tolist(), strict=True):
                time_ns += ran
                frame = int(self._innermost[stack])
                line = self.line_of(self.samples.frames[frame]) if frame >= 0 else None
                if line is not None:
                    lines[line] = lines.get(line, 0) + ran
            threads[holder.thread] = time_ns, lines
        ordered = sorted(threads.items(), key=lambda one: -one[1][0])
        return [
            (name, None if line is None else Share(line, lines[line], 0, ""), time_ns)
            for name, (time_ns, lines) in ordered
            if time_ns
            for line in (max(lines, key=lambda one: lines[one], default=None),)
        ]

    def queued_ns(self, spans: Spans) -> int:
        """Return for how much of some time the thread waited for a processor, 0 if that is not known."""
        return int(self.queued_within(spans.start, spans.end).sum())

    def queued_within(self, start: Ints, end: Ints) -> Ints:
        """Return for how much of each stretch of time the thread waited for a processor, 0 if unknown.

        A wait that a sample tells of is spread evenly over the time of the sample.
        """
        samples = self.samples
        if samples.queued_ns is None or not len(samples):
            return np.zeros(len(start), np.int64)
        length = np.maximum(samples.end_ns - samples.start_ns, 1)
        waited = np.clip(samples.queued_ns, 0, length)
        at = np.stack((samples.start_ns, samples.end_ns), 1).ravel()
        before = np.cumsum(np.stack((np.zeros(len(waited)), waited), 1).ravel())
        return np.asarray(np.interp(end, at, before) - np.interp(start, at, before)).astype(np.int64)

    @cached_property
    def _runs(self) -> npt.NDArray[np.bool_]:
        """Return whether each sample's thread runs, judged by all samples in a row with its stack.

        A thread's wait for a processor is counted when it gets one, so a single sample says little.
        """
        samples = self.samples
        if not len(samples):
            return np.zeros(0, bool)
        row = np.concatenate(([0], np.cumsum(np.diff(samples.stack) != 0)))
        length = np.bincount(row, weights=samples.end_ns - samples.start_ns)
        runs = np.bincount(row, weights=samples.runnable_ns) >= RUNS * length
        # Too few to tell: taken to run.
        return np.asarray((runs | (np.bincount(row, weights=self._weight) < MIN_SAMPLES))[row])

    @cached_property
    def waits(self) -> tuple[Ints, Ints, Ints]:
        """Begin, end and stack of each wait in one place: samples in a row with one stack."""
        samples = self.samples
        chosen = (samples.runnable_ns >= 0) & ~self._runs
        first = chosen & np.concatenate(([True], (np.diff(samples.stack) != 0) | ~chosen[:-1]))
        last = chosen & np.concatenate(((np.diff(samples.stack) != 0) | ~chosen[1:], [True]))
        return self.start_ns[first], samples.end_ns[last], samples.stack[first]

    def waits_of_python(self, stack: Ints) -> npt.NDArray[np.bool_]:
        """Return whether some stacks stand in a wait of Python's own library: for a thread, a file, time."""
        frames, stacks = self.samples.frames, self.samples.stacks
        return np.array(
            [any(_PYTHON_WAITS.search(frames[one]) for one in stacks[at][-2:]) for at in stack], bool
        )

    def reads(self, stack: Ints) -> npt.NDArray[np.bool_]:
        """Return whether some stacks stand in a call that takes values from an array."""
        frames, stacks = self.samples.frames, self.samples.stacks
        return np.array([any(READS.search(frames[one]) for one in stacks[at][-1:]) for at in stack], bool)

    def of_frames(self, chosen: Callable[[str], int]) -> Ints:
        """Return for each stack the first number other than -1, outermost frame first.

        Args:
            chosen: Gives a number for the text of a frame.
        """
        of_frame = [chosen(text) for text in self.samples.frames]
        return np.array(
            [next((of_frame[frame] for frame in self._within(stack) if of_frame[frame] >= 0), -1)
             for stack in self.samples.stacks],
            np.int64,
        )  # fmt: skip

    def holding(self, frames: re.Pattern[str]) -> Spans:
        """Return the time in which stacks held one of some frames."""
        return self.where_stack(self.of_frames(lambda text: 0 if frames.search(text) else -1) == 0)

    def _within(self, stack: Sequence[int]) -> Sequence[int]:
        """Return the frames of a stack within the functions in which all steps began."""
        depth = 0
        while (
            depth < min(len(stack), len(self._around)) and self._function(stack[depth]) == self._around[depth]
        ):
            depth += 1
        return stack[depth:]

    @cached_property
    def _around(self) -> list[str]:
        """The functions in which all steps began, outermost first, without our own."""
        stacks = [[self._function(frame) for frame in self.samples.stacks[at]] for at in self.samples.around]
        places = []
        for functions in zip(*stacks, strict=False):
            if len(set(functions)) > 1 or functions[0].startswith("stepscope/"):
                break
            places.append(functions[0])
        return places

    def is_around(self, share: Share) -> bool:
        """Return whether a line is of a function in which all steps began: the loop, or its caller."""
        shown = [self.shown(function) for function in self._around]
        return f"{share.line.file}: {share.line.function}" in shown

    def functions_in(self, spans: Spans) -> Counter[str]:
        """Return how many samples of some time each function was seen in."""
        end = self.samples.end_ns
        known, counts = np.unique(self.samples.stack[spans.within(end - 1, end) > 0], return_counts=True)
        seen = Counter[str]()
        for at, count in zip(known.tolist(), counts.tolist(), strict=True):
            seen.update(dict.fromkeys(map(self._function, self.samples.stacks[at]), count))
        return seen

    def functions_of(self, spans: Spans, besides: Spans) -> frozenset[str]:
        """Return the outermost functions of the user's own that ran in some time and never in another.

        Args:
            spans: The time.
            besides: The other; nothing is returned if too little was sampled in it.
        """
        samples, stacks = self.samples, self.samples.stacks
        end = samples.end_ns
        there = self.functions_in(besides)
        if max(there.values(), default=0) < MIN_SAMPLES:
            return frozenset()
        functions = set()
        for at in distinct(samples.stack[spans.within(end - 1, end) > 0]).tolist():
            mine = (frame for frame in self._within(stacks[at]) if self._own[frame])
            alone = next((name for frame in mine if (name := self._function(frame)) not in there), "")
            functions |= {alone} if alone else set()
        return frozenset(functions)

    def _function(self, frame: int) -> str:
        """Return file and function of a frame, without the line that runs."""
        return function_of(self.samples.frames[frame])

    def innermost(self, frames: re.Pattern[str]) -> Spans:
        """Return the time in which the innermost frame is one of some frames, by its text."""
        return self._ending(lambda text: bool(frames.search(text)))

    @cached_property
    def in_libraries(self) -> Spans:
        """Time in which the innermost frame was Python that is not the user's own."""
        return self._ending(lambda text: self._origins.of(text) not in (Origin.UNKNOWN, Origin.USER))

    def _ending(self, chosen: Callable[[str], bool]) -> Spans:
        """Return the time in which the innermost frame is one of some frames."""
        of_frame = [chosen(text) for text in self.samples.frames]
        ends = [bool(stack) and of_frame[stack[-1]] for stack in self.samples.stacks]
        return self._where(np.array([*ends, False], bool)[self.samples.stack])

    def in_packages_of(self, spans: Spans) -> Spans:
        """Return the time in Python of the packages, and what they call, whose Python ran in some time."""
        packages = self._called_of(package_of)
        inside = spans.within(self.samples.end_ns - 1, self.samples.end_ns) > 0
        wanted = {packages[at] for at in distinct(self.samples.stack[inside]).tolist()} - {""}
        return self.where_stack(np.array([name in wanted for name in packages], bool))

    def package_in(self, spans: Spans) -> tuple[str, float]:
        """Return the part of a package that most of some time is in, as ``flax/nnx``, and its share."""
        parts = self._called_of(folder_of, outermost=True)
        ran = spans.within(self.start_ns, self.samples.end_ns)
        total = Counter[str]()
        for at, ns in zip(self.samples.stack.tolist(), ran.tolist(), strict=True):
            total[parts[at] if at >= 0 else ""] += ns
        whole, name = total.total(), max(total.keys() - {""}, key=total.__getitem__, default="")
        return name, total[name] / whole if name and whole else 0.0

    def _called_of(self, of: Callable[[str], str], *, outermost: bool = False) -> list[str]:
        """Return for each stack what its innermost or outermost known frame is that the user's code calls."""
        own, known = self._own, [of(text) for text in self.samples.frames]
        called = []
        for stack in self.samples.stacks:
            inner = next((at for at in range(len(stack), 0, -1) if own[stack[at - 1]]), 0)
            calls = stack[inner:] if outermost else reversed(stack[inner:])
            called.append(next((name for at in calls if (name := known[at])), ""))
        return called

    def where_stack(self, chosen: npt.NDArray[np.bool_]) -> Spans:
        """Return the time of some stacks, nothing if they were seen too rarely."""
        inside = chosen[self.samples.stack]
        return self._where(inside) if int(self._weight[inside].sum()) >= MIN_SAMPLES else Spans.empty()

    def lines(
        self,
        spans: Spans,
        *,
        around: Callable[[str], bool] | None = None,
        most: int = MOST_LINES,
        own: bool = False,
    ) -> list[Share]:
        """Return the innermost lines of the user's own code in some time, most time first.

        A stack shows the moment at which it was taken. One taken outside the time says nothing about it, even
        if the time that it represents reaches far into it, unless the one before was taken within it, in the
        same function.

        Args:
            spans: The time.
            around: The frames that the lines must lie around, by text; by default any.
            most: Number of lines returned, at most.
            own: Whether the thread's waits for a processor are left out.
        """
        samples = self.samples
        inside = spans.within(samples.end_ns - 1, samples.end_ns) > 0
        inside[1:] |= self._same[1:] & inside[:-1]
        covered = np.where(inside, spans.within(self.start_ns, samples.end_ns), 0)
        if own and samples.queued_ns is not None:
            length = np.maximum(samples.end_ns - samples.start_ns, 1)
            covered = (covered * (1 - np.clip(samples.queued_ns / length, 0.0, 1.0))).astype(np.int64)
        inner = (self._innermost if around is None else self._outside(around))[samples.stack]
        chosen = np.flatnonzero((covered > 0) & (inner >= 0))
        if self._weight[chosen].sum() < MIN_SAMPLES:
            return []
        total = np.bincount(inner[chosen], weights=covered[chosen], minlength=len(samples.frames))
        count = np.bincount(inner[chosen], minlength=len(samples.frames))
        ranked = []
        for frame in np.argsort(-total, kind="stable")[:most].tolist():
            line = self.line_of(samples.frames[frame])
            if total[frame] > 0 and line is not None:
                mine = chosen[inner[chosen] == frame]
                called = self._called(frame, samples.stack[mine], covered[mine])
                ranked.append(Share(line, int(total[frame]), int(count[frame]), "", called))
        return ranked

    def around_all(self, spans: Spans) -> list[Share]:
        """Return the innermost lines of the user's own code around all of each stretch, most time first.

        Args:
            spans: The stretches. One in which the thread was seen less than twice says nothing of it.
        """
        samples, time_ns = self.samples, dict[int, list[int]]()
        first, last = (np.searchsorted(samples.end_ns, at, side="left") for at in (spans.start, spans.end))
        for begin, end in zip(first.tolist(), last.tolist(), strict=True):
            stacks = [samples.stacks[at] for at in samples.stack[begin:end].tolist()]
            depth, several = 0, [[self._function(frame) for frame in stack] for stack in stacks]
            for functions in zip(*several, strict=False):
                if len(stacks) < 2 or len(set(functions)) > 1:
                    break
                depth += 1
            for at, frame in enumerate(self._innermost_of(stack[:depth] for stack in stacks).tolist()):
                if frame >= 0:
                    length = int(samples.end_ns[begin + at] - self.start_ns[begin + at])
                    time_ns.setdefault(frame, []).append(length)
        lines = [
            (self.line_of(samples.frames[frame]), sum(lengths), len(lengths))
            for frame, lengths in sorted(time_ns.items(), key=lambda one: -sum(one[1]))
        ]
        return [Share(line, total, rows, "") for line, total, rows in lines if line is not None]

    def of_line(self, line: SourceLine, calls: str = "") -> Spans:
        """Return the time in which a line was the innermost of the user's own code, and called a function."""
        frames = [number for number, text in enumerate(self.samples.frames) if self.line_of(text) == line]
        chosen = np.isin(self._innermost, frames)
        for at in np.flatnonzero(chosen & bool(calls)).tolist():
            chosen[at] = self._callee(int(self._innermost[at]), at) == calls
        return self.where_stack(chosen)

    def made(self, line: SourceLine, calls: str) -> list[Made]:
        """Return the objects that a line calls and whose making is known; of one call if it is among them.

        Args:
            line: The line.
            calls: The function that it called.
        """
        objects = [
            one
            for text in self.samples.frames
            if self.line_of(text) == line
            for one in self.samples.made.get(f"{text.partition('): ')[0]})", ())
        ]
        return [one for one in objects if one.name in (calls, calls.rpartition(".")[0])] or objects

    def share_looked(self, lines: Iterable[SourceLine]) -> float:
        """Return the share of the whole training that was seen in some lines."""
        chosen = set(lines)
        return sum(
            share for text, share in self.samples.looked.shares.items() if self.line_of(text) in chosen
        )

    def line_of(self, frame: str) -> SourceLine | None:
        """Return the place that a frame's text gives, its file relative to the program's directory."""
        return line_of(self.shown(frame))

    def callers(self, line: SourceLine) -> list[SourceLine]:
        """Return the user's lines from which a line was called most often, the nearest first."""
        samples, own = self.samples, self._own
        shown = [self.line_of(text) for text in samples.frames]
        innermost = self._innermost
        chains: dict[tuple[int, ...], int] = {}
        for stack in samples.stack.tolist():
            if innermost[stack] >= 0 and shown[innermost[stack]] == line:
                chain = tuple(frame for frame in self._within(samples.stacks[stack]) if own[frame])
                chains[chain[:-1]] = chains.get(chain[:-1], 0) + 1
        most = max(chains, key=lambda chain: chains[chain], default=())
        return [one for frame in reversed(most) if (one := shown[frame]) is not None]

    def _called(self, frame: int, stacks: Ints, covered: Ints) -> str:
        """Return the function that a line called for most of some time, "" if there is none.

        Args:
            frame: The line.
            stacks: The stacks of the samples.
            covered: Their times.
        """
        time_ns: dict[str, int] = {}
        for stack, length in zip(stacks.tolist(), covered.tolist(), strict=True):
            name = self._callee(frame, stack)
            time_ns[name] = time_ns.get(name, 0) + length
        first = max(time_ns, key=lambda name: time_ns[name])
        return first if 2 * time_ns[first] >= sum(time_ns.values()) else ""

    def _callee(self, frame: int, stack: int) -> str:
        """Return the function that a frame of a stack called, "" if it called none."""
        frames = self.samples.stacks[stack]
        at = len(frames) - 1 - frames[::-1].index(frame)
        return _callee(self.samples.frames[frames[at + 1]]) if at + 1 < len(frames) else ""

    def worker_lines(self, spans: Spans, *, most: int = MOST_LINES) -> list[Share]:
        """Return the user's lines that loader workers ran in some time, summed over them, most time first."""
        return _summed(self.samples.workers, spans, most)

    def called_lines(self, spans: Spans) -> list[Share]:
        """Return the user's lines that other runtimes had called in some time, most time first."""
        return _summed(self.samples.called, spans, MOST_LINES)

    def _where(self, chosen: npt.NDArray[np.bool_]) -> Spans:
        return Spans.of(self.start_ns[chosen], self.samples.end_ns[chosen])


def _callee(text: str) -> str:
    """Return the name of a called function, by its frame or by the line that calls it."""
    if text.startswith("<call of "):
        return text.removeprefix("<call of ").removesuffix(">")
    line = line_of(text)
    return "" if line is None or line.function.startswith("<") else line.function


def _summed(every: Iterable[Samples], spans: Spans, most: int) -> list[Share]:
    total: dict[SourceLine, tuple[int, int]] = {}
    for samples in every:
        for one in Sampled(samples).lines(spans, most=most):
            time_ns, rows = total.get(one.line, (0, 0))
            total[one.line] = (time_ns + one.time_ns, rows + one.rows)
    ordered = sorted(total.items(), key=lambda item: -item[1][0])[:most]
    return [Share(line, time_ns, rows, "") for line, (time_ns, rows) in ordered]
