"""Steps that all ranks recorded, in runs without a missing one.

Ranks that end a step apart begin the next one apart, so events of one step show in the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.clocks import Clocks
from stepscope.analyze.ranks.waits import Waits
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepRun:
    """Steps that follow each other; times are on the common clock, of shape ``(R,)``.

    Attributes:
        numbers: Of the steps.
        begin_ns: Each rank's beginning of the first.
        end_ns: Its end of the last.
    """

    numbers: tuple[int, ...]
    begin_ns: Ints
    end_ns: Ints


def runs_of_steps(trace: Trace, waits: Waits, clocks: Clocks) -> tuple[list[StepRun], str | None]:
    """Return the steps that all ranks recorded once, in order, in runs without a gap; or why there are none.

    Args:
        trace: The profiles of all ranks.
        waits: Their collectives.
        clocks: Their clocks.
    """
    if clocks.refused is not None:
        return [], f"the clocks cannot be aligned: {clocks.refused}"
    if not waits.joint.whole.all():
        return [], "not all ranks of the process groups were recorded"
    ranks, table = waits.joint.ranks, trace.steps
    begin = clocks.aligned(table.start_ns, table.rank)
    end = clocks.aligned(table.end_ns, table.rank)
    runs: list[StepRun] = []
    for number in distinct(table.number).tolist():
        mine = np.flatnonzero((table.number == number) & np.isin(table.rank, ranks))
        if len(mine) != len(ranks) or len(distinct(table.rank[mine])) != len(ranks):
            continue
        mine = mine[np.argsort(table.rank[mine])]
        if runs and runs[-1].numbers[-1] == number - 1:
            before = runs.pop()
            runs.append(StepRun((*before.numbers, number), before.begin_ns, end[mine]))
        else:
            runs.append(StepRun((number,), begin[mine], end[mine]))
    return runs, None if runs else "no step was recorded on all ranks"
