"""hang: the ranks that a stopped job waits for, from flight-recorder dumps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, events_of, place_of_rank
from stepscope.analyze.advise.remedy import quoted
from stepscope.analyze.ranks.hangs import Hang, find_hang, sentence
from stepscope.errors import EmptyTraceError

RULE = "hang"
_DO = {
    "left no dump": "check whether the process and the machine are still alive: look at the end of the "
    "rank's log, the scheduler, the kernel's log",
    "did not join": "find out what the process is doing instead: py-spy dump --pid PID, the end of the "
    "rank's log; a lock, the loading of data or an exception before the collective",
    "device stopped": "on the rank's machine, see the kernel log for errors of the device (Xid) and "
    "nvidia-smi -q for those of its memory; start again without that device",
    "called another collective": "make all ranks call the same collectives in the same order, with the same "
    "types and sizes: look for branches that depend on the rank or on the data",
    "deadlock": "call the collectives of several groups in the same order on all ranks",
}
"""By the reason of a :class:`~stepscope.analyze.ranks.hangs.Suspect`."""


def check(facts: Facts) -> Iterator[Finding]:
    """Name the ranks at which all waits of the job end."""
    trace = facts.trace
    try:
        if trace is None:
            raise Abstain("no flight-recorder dumps")
        hang = find_hang(trace)
    except EmptyTraceError:
        raise Abstain("no flight-recorder dumps") from None
    if len(hang.ranks) < 2:
        raise Abstain(
            "one rank's dump alone does not tell which rank the others wait for: pass the folder with the "
            "dumps of all ranks"
        )
    if not hang.suspects:
        raise Abstain(hang.notes[0])
    accused = [suspect.rank for suspect in hang.suspects]
    first = hang.suspects[0]
    reasons = dict.fromkeys(suspect.reason for suspect in hang.suspects)
    yield Finding(
        RULE,
        "high",
        sentence(hang),
        {
            "ranks": len(hang.ranks),
            "missing": len(hang.missing),
            "suspects": [
                {
                    "name": f"rank {suspect.rank}: {suspect.reason}; {suspect.evidence[0]}",
                    "confidence_ratio": suspect.confidence,
                }
                for suspect in hang.suspects
            ],
        },
        {},
        "; ".join(_DO[reason] for reason in reasons),
        command=f"stepscope ranks {quoted(facts)}",
        place=place_of_rank(trace, first.rank),
        events=events_of(trace, np.flatnonzero(np.isin(trace.rank, _concerned(hang, accused)))),
        withdrawn="no rank waits for another in the dumps of all ranks",
    )


def _concerned(hang: Hang, accused: list[int]) -> list[int]:
    """Return the accused and the ranks that wait for one of them."""
    return [*accused, *(wait.rank for wait in hang.waits if set(wait.blockers) & set(accused))]
