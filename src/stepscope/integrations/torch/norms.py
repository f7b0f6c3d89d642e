"""The norm of all gradients in every step, with as little Python as possible.

Training has just gone through more memory than any cache holds, so that each object touched here costs far
more than in a separate loop. Facts that do not change from step to step are prepared once; each step only
asks each gradient for its address. Large ones are read by separate threads while the optimizer works: it must
not change them, which is established in the first steps and checked in every further one.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from stepscope.child import processors
from stepscope.integrations.torch import measure
from stepscope.integrations.torch.parameters import ParameterShare, is_distributed
from stepscope.record.edges import BUCKET_OF_KEY
from stepscope.record.statistics.table import Counts, StatisticsTable

LEARNT = 3
"""Steps in which the optimizer must leave the gradients unchanged before any is read in parallel with it."""
LOOK_AGAIN = 128
"""Steps after which that is checked again: writing through ``.data`` does not change a tensor's version."""
WORTH_WAKING = 1 << 18
"""Number of elements whose reading takes longer than waking a thread."""


class Norms:
    """Sums the squares of gradients that are on the CPU, whole and dense.

    Between ``begin`` and ``finish`` an optimizer takes its step.

    Args:
        shares: The parameters, each measured whole.

    Attributes:
        able: Whether the parameters are of such a kind.
        watches: Whether ``finish`` has to wait for the optimizer's step.
        reading_seconds: Time to read the gradients, if threads read them in parallel with the
            optimizer, which then gets less of the memory; 0 if ``begin`` reads them itself.
    """

    def __init__(self, shares: Sequence[ParameterShare]) -> None:
        parameters = [share.entry.parameter for share in shares]
        self.able = bool(shares) and all(map(is_plain, parameters))
        self._parts = [(parameter, parameter.dtype, parameter.numel()) for parameter in parameters]
        self._columns = np.zeros((4, len(parameters)), np.int64)
        if self.able:
            self._columns[1] = [size for _, _, size in self._parts]
            self._columns[2] = [measure.TYPES[dtype] for _, dtype, _ in self._parts]
        size = int(self._columns[1].sum())
        self.watches = self.able and size >= WORTH_WAKING and processors() > 1
        self._small = size < measure.WORTH_A_THREAD
        self._table = StatisticsTable(1)
        self._nothing = self._table.moments.copy()
        self._steps = 0
        self.reading_seconds = 0.0
        self._readers: Readers | None = None
        self._seen: list[tuple[Tensor, int]] = []
        self._read: Counts | None = None
        self._found: StatisticsTable | None = None

    def begin(self) -> bool:
        """Read the gradients of a step or begin to; return False if one of them needs a closer look."""
        columns, kept_parameters = self._columns, []
        addresses: list[int] = []
        try:
            for parameter, dtype, size in self._parts:
                gradient = parameter.grad
                if gradient is None:
                    addresses.append(0)
                    continue
                alike = type(gradient) is Tensor and gradient.dtype is dtype and gradient.numel() == size
                if not (alike and gradient.is_cpu):
                    return False
                if not gradient.is_contiguous():
                    if gradient.layout is not torch.strided:
                        return False
                    gradient = measure.flat(gradient)
                kept_parameters.append(gradient)
                addresses.append(gradient.data_ptr())
        except RuntimeError:  # a layout that has no memory to point to
            return False
        columns[0] = addresses
        some = columns[:, columns[0] != 0].copy() if 0 in addresses else columns
        self._found = table = self._table
        table.moments[:] = self._nothing
        if self.watches:
            self._seen = [(parameter, parameter._version) for parameter in kept_parameters]
        if self.watches and self._steps >= LEARNT and self._steps % LOOK_AGAIN:
            self._ask(some)
        else:
            begun = time.perf_counter()
            if self._small:
                table.add_parts(*some, squares_only=True)
            else:
                measure.add(table, some, squares_only=True)
            if self.watches:
                self._read, self.reading_seconds = some, time.perf_counter() - begun
        return True

    def finish(self) -> StatisticsTable | None:
        """Return one row for all gradients together; None if the optimizer changed them meanwhile.

        The table is used again at the next step.
        """
        table, self._found = self._found, None
        seen, self._seen = self._seen, []
        read, self._read = self._read, None
        if table is None or not self.watches:
            return table
        beside = self._readers is not None and self._readers.wait()
        if any(parameter._version != version for parameter, version in seen) or _differs(read, table):
            self.close()
            self.watches = False
            return None if beside else table
        self._steps += 1
        return table

    def close(self) -> None:
        """End the threads."""
        readers, self._readers = self._readers, None
        if readers is not None:
            readers.close()

    def _ask(self, columns: Counts) -> None:
        """Read gradients in parallel with the optimizer."""
        if self._readers is None or not self._readers.here:
            self._readers = Readers(max(torch.get_num_threads() // 2, 1))
            weakref.finalize(self, self._readers.close)
        assert self._found is not None
        self._readers.ask(columns, self._found)


def _differs(columns: Counts | None, table: StatisticsTable) -> bool:
    """Return whether memory, if it was read before, now holds other sums than were found in it."""
    if columns is None:
        return False
    again = StatisticsTable(1)
    measure.add(again, columns, squares_only=True)
    return not np.array_equal(again.moments, table.moments, equal_nan=True)


class Readers:
    """Threads that read memory without the interpreter's lock.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        from stepscope.kernels.reader import Reader

        self._process = os.getpid()
        self._readers = [Reader(BUCKET_OF_KEY) for _ in range(count)]
        self._asked: list[tuple[Reader, StatisticsTable]] = []
        self._into = StatisticsTable(1)
        for reader in self._readers:
            threading.Thread(target=reader.serve, name="stepscope-norms", daemon=True).start()

    @property
    def here(self) -> bool:
        """Whether the threads run in this process: a forked child has none of its parent's."""
        return self._process == os.getpid()

    def ask(self, columns: Counts, into: StatisticsTable) -> None:
        """Add parts to the first row of a table: int64 [4, parts], see ``measure.add``."""
        count = min(len(self._readers), int(columns[1].sum()) // WORTH_WAKING + 1)
        shares = [columns] if count == 1 else measure.divide(columns, count)
        self._into = into
        for number, (reader, share) in enumerate(zip(self._readers, shares, strict=False)):
            table = StatisticsTable(1) if number else into
            self._asked.append((reader, table))
            reader.ask(share[0], share[1], share[2], table.moments)

    def wait(self) -> bool:
        """Wait for the requested readings; return whether there were any."""
        asked, self._asked = self._asked, []
        for reader, table in asked:
            reader.wait()
            if table is not self._into:
                self._into.merge(table)
        return bool(asked)

    def close(self) -> None:
        """End the threads."""
        if self.here:
            self.wait()
            readers, self._readers = self._readers, []
            for reader in readers:
                reader.close()


def is_plain(parameter: Tensor) -> bool:
    """Return whether gradients of a parameter are usually on the CPU, dense, of a type that is measured."""
    usual = parameter.is_cpu and parameter.layout is torch.strided and parameter.dtype in measure.TYPES
    return usual and not is_distributed(parameter)
