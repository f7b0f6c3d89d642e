"""The training thread by its sampled stacks: activities, waiting, and the user's lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepscope.analyze.source_lines import Share, is_own, line_of
from stepscope.analyze.spans import Ints, Spans
from stepscope.trace.sampled import Samples

FEWEST = 3
"""Samples from which something is believed to have gone on at all."""
ON_CPU = 0.5
"""Least share of a sample's time that a thread which works has a processor for."""


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

    @property
    def spans(self) -> Spans:
        """All sampled time."""
        return Spans.of(self.samples.start_ns, self.samples.end_ns)

    @cached_property
    def _own(self) -> npt.NDArray[np.bool_]:
        return np.array([self._is_own(text) for text in self.samples.frames], bool)

    def _is_own(self, name: str) -> bool:
        line, directory = line_of(name), self.samples.directory
        inside = line is not None and directory and line.file.startswith(directory + os.sep)
        if line is not None and inside and "-packages" + os.sep not in line.file:
            # What lies where the program was started is the user's, whatever its folders are called.
            return not any(part.startswith((".venv", "venv")) for part in Path(line.file).parts)
        return is_own(name)

    @cached_property
    def _innermost(self) -> Ints:
        return self._innermost_of(self.samples.stacks)

    def _innermost_of(self, stacks: Iterable[Sequence[int]]) -> Ints:
        """Return the innermost frame of the user's own code of each stack, -1 = none."""
        own = self._own
        return np.array(
            [next((frame for frame in reversed(stack) if own[frame]), -1) for stack in stacks], np.int64
        )

    def _outside(self, of: Callable[[str], bool]) -> Ints:
        """Return the innermost frame of the user's own code that lies around some frames."""
        chosen = [of(text) for text in self.samples.frames]
        ends = [
            next((at for at, frame in enumerate(stack) if chosen[frame]), len(stack))
            for stack in self.samples.stacks
        ]
        return self._innermost_of(stack[:end] for stack, end in zip(self.samples.stacks, ends, strict=True))

    @cached_property
    def working(self) -> Spans:
        """Time in which the thread had a processor."""
        return self._where(self._on_cpu)

    @cached_property
    def waiting(self) -> Spans:
        """Time in which the thread had no processor: it slept, or waited for a file or another."""
        return self._where((self.samples.cpu_ns >= 0) & ~self._on_cpu)

    @cached_property
    def _on_cpu(self) -> npt.NDArray[np.bool_]:
        samples = self.samples
        return np.asarray(samples.cpu_ns >= ON_CPU * (samples.end_ns - samples.start_ns))

    def of_frames(self, chosen: Callable[[str], int]) -> Ints:
        """Return for each stack the first number, outermost frame first, that is not -1.

        Args:
            chosen: Gives a number for the text of a frame.
        """
        of_frame = [chosen(text) for text in self.samples.frames]
        return np.array(
            [next((of_frame[frame] for frame in stack if of_frame[frame] >= 0), -1)
             for stack in self.samples.stacks],
            np.int64,
        )  # fmt: skip

    def where_stack(self, chosen: npt.NDArray[np.bool_]) -> Spans:
        """Return the time of some stacks, nothing where they were seen too seldom to be believed."""
        found = chosen[self.samples.stack]
        return self._where(found) if int(found.sum()) >= FEWEST else Spans.empty()

    def lines(self, spans: Spans, *, around: Callable[[str], bool] | None = None) -> list[Share]:
        """Return the innermost lines of the user's own code in some time, most time first.

        Args:
            spans: The time.
            around: Which frames the lines must lie around, by text; by default no matter which.
        """
        samples = self.samples
        covered = spans.within(samples.start_ns, samples.end_ns)
        inner = (self._innermost if around is None else self._outside(around))[samples.stack]
        chosen = np.flatnonzero((covered > 0) & (inner >= 0))
        if len(chosen) < FEWEST:
            return []
        total = np.bincount(inner[chosen], weights=covered[chosen], minlength=len(samples.frames))
        count = np.bincount(inner[chosen], minlength=len(samples.frames))
        found = []
        for frame in np.argsort(-total, kind="stable")[:8].tolist():
            line = line_of(self._shown(samples.frames[frame]))
            if total[frame] > 0 and line is not None:
                found.append(Share(line, int(total[frame]), int(count[frame]), ""))
        return found

    def has(self, spans: Spans, wanted: str) -> bool:
        """Return whether most samples of some time have a frame whose name holds a text."""
        samples = self.samples
        covered = spans.within(samples.start_ns, samples.end_ns)
        holding = {at for at, text in enumerate(samples.frames) if wanted in text}
        stacks = np.array([not holding.isdisjoint(stack) for stack in samples.stacks], bool)
        return bool(covered[stacks[samples.stack]].sum() > covered.sum() / 2)

    def _shown(self, name: str) -> str:
        directory = self.samples.directory
        return name.removeprefix(directory + os.sep) if directory else name

    def _where(self, chosen: npt.NDArray[np.bool_]) -> Spans:
        return Spans.of(self.samples.start_ns[chosen], self.samples.end_ns[chosen])
