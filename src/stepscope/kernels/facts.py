# cython: boundscheck=False, wraparound=False, cdivision=True
# mypy: ignore-errors
# Annotations are Cython types here; the compiler checks them.
"""The pass over the points of one series: exact facts, and means of equally many points.

What it holds depends on the points and their order alone, and not on the portions in which they came.
"""

from __future__ import annotations

from array import array

import cython

BLOCKS = 1024
"""Means that are kept of a series: a date is right to a thousandth of the run, and 10,000 series of layers
fit into some 200 MB. In a series with fewer points each point is one.
"""
FIRST_ROOM = 64
"""Means for which there is room at first."""
MOST_COUNTERS = 64
"""Places at which steps start over that are kept, the first ones."""
HUGE = 1e100
"""Larger values count as this one in means, so that sums of their squares are finite."""


@cython.cclass
class FactPass:
    """The facts that one pass over the points of a series gives.

    Attributes:
        count: Number of points.
        finite: Number of those that are finite.
        first: The first finite value; NaN before it.
        last: The newest finite value.
        first_step: Step of the first point.
        last_step: Step of the newest point.
        first_wall: Time of the first point.
        last_wall: The latest time of a point.
        constant_since: The step since which the value is the same to the last bit.
        counters: Step before, step after and time of each place at which steps start over.
        gap_s: The longest time between two of its points.
        width: Points of a kept mean.
    """

    def __init__(self) -> None:
        nan: cython.double = float("nan")
        self._inf = float("inf")
        self.count = self.finite = self.first_step = self.last_step = self.constant_since = 0
        self.first = self.last = self.first_wall = nan
        self.last_wall = -self._inf
        self.gap_s = 0.0
        self.counters = []
        self._least, self._most = self._inf, -self._inf
        self._least_step = self._most_step = self._broken_step = self._whole_step = 0
        self._is_broken = self._is_whole = False
        self._broken_wall = self._whole_wall = nan
        self.width, self._kept, self._room, self._filled = 1, 0, 0, 0
        self._sum, self._most_kept = 0.0, BLOCKS
        self._block_step, self._block_wall = 0, nan
        self._grow(FIRST_ROOM)

    def take(
        self,
        steps: cython.const[cython.longlong][::1],
        values: cython.const[cython.double][::1],
        walls: cython.const[cython.double][::1],
    ) -> None:
        """Take further points, in recorded order."""
        i: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(steps)
        step: cython.longlong
        before: cython.longlong = self.last_step
        value: cython.double
        wall: cython.double
        inf: cython.double = self._inf
        huge: cython.double = HUGE
        clipped: cython.double
        if not count:
            return
        if not cython.compiled:  # numbers of Python, and not of numpy, whose facts would be such, too
            steps, values, walls = steps.tolist(), values.tolist(), walls.tolist()
        if not self.count:
            self.first_step = before = steps[0]
            self.first_wall = walls[0]
        # One more than the blocks that can become full, and no more than there may be.
        if self._room < BLOCKS and self._kept + count // self.width + 1 > self._room:
            self._grow(min(BLOCKS, max(2 * self._room, self._kept + count // self.width + 1)))
        for i in range(count):
            step = steps[i]
            value = values[i]
            wall = walls[i]
            if step < before and len(self.counters) < MOST_COUNTERS:
                self.counters.append((before, step, wall))
            before = step
            if self.last_wall < wall and wall < inf:
                if self.last_wall > -inf and wall - self.last_wall > self.gap_s:
                    self.gap_s = wall - self.last_wall
                self.last_wall = wall
            if not (-inf < value and value < inf):
                if not self._is_broken:
                    self._is_broken, self._broken_step, self._broken_wall = True, step, wall
                self._is_whole = False
                continue
            if self._is_broken and not self._is_whole:
                self._is_whole, self._whole_step, self._whole_wall = True, step, wall
            if not self.finite:
                self.first, self.constant_since = value, step
            elif value != self.last:
                self.constant_since = step
            if value < self._least:
                self._least, self._least_step = value, step
            if value > self._most:
                self._most, self._most_step = value, step
            self.finite += 1
            self.last = value
            if not self._filled:
                self._block_step, self._block_wall, self._sum = step, wall, 0.0
            clipped = huge if value > huge else max(value, -huge)
            self._sum += clipped
            self._filled += 1
            if self._filled == self.width:
                self._keep()
        self.count += count
        self.last_step = before

    def _keep(self):
        """Keep the mean of a full block; if there are too many means, each two become one."""
        at: cython.Py_ssize_t
        half: cython.Py_ssize_t = self._most_kept // 2
        self._steps[self._kept] = self._block_step
        self._walls[self._kept] = self._block_wall
        self._means[self._kept] = self._sum / self.width
        self._kept += 1
        self._filled = 0
        if self._kept < self._most_kept:
            return 0
        self._kept = half
        for at in range(half):
            self._steps[at] = self._steps[2 * at]
            self._walls[at] = self._walls[2 * at]
            self._means[at] = (self._means[2 * at] + self._means[2 * at + 1]) / 2
        self.width *= 2
        return 0

    def _grow(self, room):
        """Make room for so many means."""
        more: cython.Py_ssize_t = room - self._room
        steps, walls, means = (array(kind, bytes(8 * more)) for kind in "qdd")
        if self._room:
            steps, walls, means = self._step_data + steps, self._wall_data + walls, self._mean_data + means
        self._step_data, self._wall_data, self._mean_data = steps, walls, means
        self._steps, self._walls, self._means = self._step_data, self._wall_data, self._mean_data
        self._room = room
        return 0

    # --- questions ------------------------------------------------------------------------------------

    @property
    def least(self) -> tuple[float, int]:
        """The smallest finite value and its first step; infinity before it."""
        return self._least, self._least_step

    @property
    def most(self) -> tuple[float, int]:
        """The largest finite value and its first step; minus infinity before it."""
        return self._most, self._most_step

    @property
    def broken(self) -> tuple[int, float] | None:
        """Step and time of the first value that is not finite."""
        return (self._broken_step, self._broken_wall) if self._is_broken else None

    @property
    def whole(self) -> tuple[int, float] | None:
        """Step and time of the first finite value after the last that is not; None while there is none."""
        return (self._whole_step, self._whole_wall) if self._is_whole else None

    def kept(self) -> tuple[array, array, array]:
        """Return the step and the time of the first point of each full block, and its mean."""
        count = self._kept
        return self._step_data[:count], self._wall_data[:count], self._mean_data[:count]
