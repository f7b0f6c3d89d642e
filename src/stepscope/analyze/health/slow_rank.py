"""One rank, or changing ranks, that make the others wait, as a finding of a run's health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.account import APART, Account, OwnSteps, named_loss, onset
from stepscope.analyze.ranks.frontier import CHANCE, FEWEST_STEPS, Frontier, StageLoss
from stepscope.analyze.ranks.hangs import listed
from stepscope.analyze.ranks.pauses import CHANCE as PAUSES_CHANCE
from stepscope.analyze.ranks.pauses import WORTH as PAUSES_WORTH
from stepscope.health import Abstention, Finding
from stepscope.health.ring import median
from stepscope.health.worth import WORTH, severity_of
from stepscope.text import counted, number

SLOW, WANDERING, TOGETHER = "slow-rank", "wandering-ranks", "slower-together"
TITLES = {
    SLOW: "A rank makes the others wait",
    WANDERING: "Changing ranks make the others wait",
    TOGETHER: "All ranks are slower together",
}
TAG = "ranks/stages"
SLOWER_BY = 0.1
"""Share of a step by which all ranks must be slower."""
NEARLY_ALL = 0.9
"""Share of the loss that a few ranks must lead to be named together."""
ANOTHER = 0.2
"""Share of the loss that the second of them must lead."""
LEVELS = 5.0
"""Deviations of single steps by which two levels must differ."""
Floats = npt.NDArray[np.float64]
MOST_VALUES = 2_000_000
"""Steps times ranks that are looked at, the newest: a thousand ranks' two thousand steps."""
REMEDIES = {
    "data": "look at that rank's loader: its shard, its disk, the processor's load on its host",
    "copy": "look at the link from host to device of that rank, and at other processes on its host",
    "optimizer": "does that rank do more after its step: saving, logging, shards of another size?",
}
REMEDY = (
    "compare clocks, temperature and errors of its device and the load of its host with another's; "
    "profile all ranks (`stepscope capture`), and `stepscope ranks` on the profiles names the line"
)
ALL = (
    "no rank is at fault: what they share is slower, such as the network or a file system, or the work has "
    "grown; compare what changed at that step, and `stepscope ranks` on profiles of all ranks has bandwidths"
)
SPREAD = (
    "in single steps changing ranks are late: something that the ranks share is a likelier cause than a "
    "device, such as a file system or the network, or garbage collection, which each rank does at its own "
    "time"
)

OWN = (
    "compare the load and the clocks of its host, and its link to the parameter servers, with another "
    "worker's; `stepscope ranks` on the timelines of `ProfilerHook` of all workers and servers tells its own "
    "work from its waiting for a server"
)
SLOWER = "A worker is slower than the others by itself"

RECURRING = (
    "what does that rank do at those steps: saving, evaluating, logging? Let it do so in parallel with the "
    "training, or less often; if all must wait, let all take part"
)


def slow_ranks(
    accounts: Sequence[Account], *, hosts: Mapping[int, str | None], walls: Mapping[int, float]
) -> tuple[list[Finding], list[Abstention]]:
    """Return what holds up groups of ranks, and what is unknown about them.

    Args:
        accounts: The account of each group of ranks whose work is alike.
        hosts: Host of each rank.
        walls: When steps ended, seconds since the epoch, by number; of any rank.
    """
    findings: list[Finding] = []
    lacking: list[Abstention] = []
    for account in accounts:
        if account.own is not None and len(account.steps) >= FEWEST_STEPS:
            findings += _alone(account, account.own, hosts, walls)
            lacking += [one for one in _both(_without_waiting(account)) if one.rule != SLOW]
        elif account.own is None and account.apart > APART:
            lacking += _both(_without_waiting(account))
        elif len(account.steps) < FEWEST_STEPS:
            lacking += _both(
                f"too few points: {counted(len(account.steps), 'step')} of all ranks{_of(account)}, "
                f"it needs {FEWEST_STEPS}"
            )
        elif named_loss(account.frontier) > 0:
            slow = _several(account, walls) or [_slow(account, hosts, walls)]
            pausing = _pausing(account, hosts, walls)
            findings += slow + [one for one in pausing if one.rank not in [other.rank for other in slow]]
        else:
            findings += (
                _pausing(account, hosts, walls)
                or _several(account, walls)
                or _wandering(account, walls)
                or _together(account, walls)
            )
    return findings, list(dict.fromkeys(lacking))


def _finding(
    rule: str,
    account: Account,
    step: int,
    walls: Mapping[int, float],
    *,
    rank: int | None = None,
    title: str = "",
    **more: Any,
) -> Finding:
    """Return a finding of a group of ranks, noticed at a step; that of a rank has its line."""
    line = account.lines.get(-1 if rank is None else rank)
    if line is not None:
        place, text = line
        more |= {"stack": (place,), "action": f"look there: {text}"}
    return Finding(
        rule=rule,
        title=title or TITLES[rule],
        tag=TAG,
        run="",
        layer=None,
        rank=rank,
        first_step=int(account.steps[0]),
        step=step,
        wall=walls.get(step, 0.0),
        **more,
    )


def _both(missing: str) -> list[Abstention]:
    return [Abstention(rule, title, missing) for rule, title in TITLES.items()]


def _without_waiting(account: Account) -> str:
    return f"not judged: the ranks{_of(account)} do not wait for each other in each step"


def _of(account: Account) -> str:
    return f" of {account.group}" if account.group else ""


def _slow(account: Account, hosts: Mapping[int, str | None], walls: Mapping[int, float]) -> Finding:
    seen = onset(account)
    assert seen is not None
    frontier = account.frontier
    stage = next(one for one in frontier.stages if (one.stage, one.leader) == (seen.stage, seen.rank))
    host = hosts.get(seen.rank)
    share = seen.delay_s / seen.after_s if seen.after_s > 0 else 0.0
    place = f"rank {seen.rank}" + (f" on {host}" if host else "")
    over = _over(account, seen.since, stage)
    when = f"since step {seen.since:,}" if over is None else f"from step {seen.since:,} to {over:,}"
    summary = (
        f"{place} makes the {counted(len(frontier.ranks) - 1, 'other rank')}"
        f"{_of(account)} wait in {seen.stage} {when}: {number(1e3 * seen.delay_s)} ms of each step of "
        f"{number(1e3 * seen.after_s)} ms ({100 * share:.0f} %), {number(seen.lost_gpu_s)} s over all ranks"
    )
    leads = frontier.led[
        [one.stage for one in frontier.stages].index(seen.stage), frontier.ranks.index(seen.rank)
    ]
    return _finding(
        SLOW,
        account,
        _noticed(account, seen.since),
        walls,
        severity=severity_of(share),
        summary=summary,
        rank=seen.rank,
        stage=seen.stage,
        values={
            "delay_ms": 1e3 * seen.delay_s,
            "step_ms": 1e3 * seen.after_s,
            "gpu_seconds_lost": seen.lost_gpu_s,
            "led_ratio": float(leads),
            "margin_ms": 1e3 * stage.margin_s,
        },
        threshold={"share_of_time": WORTH, "chance": CHANCE},
        action=REMEDIES.get(seen.stage, REMEDY),
        closed_step=over,
        closed_wall=None if over is None else walls.get(over),
        since_step=seen.since,
        causes=_causes(account, seen.stage),
    )


def _costliest(frontier: Frontier, *labels: str) -> int | None:
    """Return the row of the stage that takes most beyond the median rank, of those with one of the labels."""
    rows = [row for row, stage in enumerate(frontier.stages) if stage.label in labels]
    return max(rows, key=lambda row: frontier.stages[row].beyond_median_s, default=None)


def _pausing(account: Account, hosts: Mapping[int, str | None], walls: Mapping[int, float]) -> list[Finding]:
    """Return the rank that holds the others up in single steps: how often, how long, and what it costs."""
    frontier, pauses = account.frontier, account.frontier.pauses
    if pauses is None:
        return []
    count, host = len(pauses.steps), hosts.get(pauses.rank)
    often = (
        f"in {count:,} of {frontier.steps:,} steps"
        if pauses.every is None
        else f"every {pauses.every:,} steps"
    )
    cost, each_step = pauses.cost_s * len(frontier.ranks), pauses.cost_s / frontier.steps
    return [
        _finding(
            SLOW,
            account,
            _noticed(account, pauses.steps[0]),
            walls,
            severity=severity_of(pauses.share),
            summary=(
                f"rank {pauses.rank}{f' on {host}' if host else ''} makes the {len(frontier.ranks) - 1} "
                f"other rank{'s' * (len(frontier.ranks) > 2)}{_of(account)} wait in {pauses.stage} {often}, "
                f"for {number(1e3 * pauses.pause_s)} ms each time: {number(1e3 * each_step)} ms a step, "
                f"{100 * pauses.share:.0f} % of the time, {number(cost)} s over all ranks"
            ),
            rank=pauses.rank,
            stage=pauses.stage,
            values={
                "share": pauses.share,
                "gpu_seconds_lost": cost,
                "held_up_steps": float(count),
                "pause_ms": 1e3 * pauses.pause_s,
                "delay_ms": 1e3 * each_step,
                **({} if pauses.every is None else {"every_n_steps": float(pauses.every)}),
            },
            threshold={"share_of_time": PAUSES_WORTH, "chance": PAUSES_CHANCE},
            action=RECURRING,
            since_step=pauses.steps[0],
        )
    ]


def _few(frontier: Frontier) -> tuple[StageLoss, list[int]] | None:
    """Return the stage in which a few ranks hold the rest up, and these, most first.

    They are the fewest that lead :data:`NEARLY_ALL` of what is lost, and no more than half of the ranks:
    among ranks that differ by noise alone the loss is spread over nearly all.
    """
    row = _costliest(frontier, "unclear", "persistent")
    if row is None:
        return None
    stage, lost = frontier.stages[row], frontier.led_s[row]
    if not lost.sum() or stage.beyond_median_s < WORTH * frontier.group_s:
        return None  # nothing is lost of steps that took no time
    order = np.argsort(-lost, kind="stable")
    count = int(np.searchsorted(np.cumsum(lost[order]), NEARLY_ALL * lost.sum())) + 1
    second = float(lost[order[1]] / lost.sum())
    if not 2 <= count <= len(frontier.ranks) // 2 or second < ANOTHER:
        return None
    return stage, [frontier.ranks[at] for at in order[:count].tolist()]


def _several(account: Account, walls: Mapping[int, float]) -> list[Finding]:
    """Return the stage in which a few ranks hold the rest up: if one were fixed, another would."""
    frontier = account.frontier
    few = _few(frontier)
    if few is None:
        return []
    stage, some = few
    named, count = sorted(some), len(some)
    at = split(account.shares_s.sum(axis=1))
    since = int(account.steps[at or 0])
    share, cost = stage.beyond_median_s / frontier.group_s, stage.beyond_median_s * len(frontier.ranks)
    return [
        _finding(
            SLOW,
            account,
            _noticed(account, since),
            walls,
            severity=severity_of(share),
            summary=(
                f"{listed(named)} make the {len(frontier.ranks) - count} "
                f"other rank{'s' * (len(frontier.ranks) - count > 1)}{_of(account)} wait in {stage.stage} "
                f"by turns{f' since step {since:,}' if at is not None else ''}: {100 * share:.0f} % "
                f"of the time, {number(cost)} s over all ranks"
            ),
            rank=some[0],
            stage=stage.stage,
            values={"share": share, "gpu_seconds_lost": cost, "slow_ranks": float(count)},
            threshold={"share_of_time": WORTH, "share_of_loss": NEARLY_ALL},
            action=REMEDIES.get(stage.stage, REMEDY),
            since_step=since,
        )
    ]


def _alone(
    account: Account, own: OwnSteps, hosts: Mapping[int, str | None], walls: Mapping[int, float]
) -> list[Finding]:
    """Return the ranks that are slower than the others in their own steps, if none waits for another.

    The rule is that of a stage, applied to whole steps. As these are not of the same time, the faster quarter
    of a slow rank's must also end above the slower quarter of those of each other rank.
    """
    stage = own.frontier.stages[0]
    since = int(account.steps[0]) if stage.since is None else stage.since
    if (few := _few(own.frontier)) is not None:
        named = sorted(few[1])
    elif stage.label == "persistent":
        named = [stage.leader]
    else:
        return []
    rest = [rank for rank in own.median_s if rank not in named]
    if min(own.quartiles_s[rank][0] for rank in named) <= max(own.quartiles_s[rank][2] for rank in rest):
        return []
    others = [own.median_s[rank] for rank in rest]
    usual, slow = median(others), median([own.median_s[rank] for rank in named])
    lost = sum(1 - usual / own.median_s[rank] for rank in named) / len(own.median_s)
    host = hosts.get(named[0]) if len(named) == 1 else None
    worst = int(account.frontier.led_s[:, account.frontier.ranks.index(named[0])].argmax())
    begin = f" since step {since:,} of its own" if since > account.steps[0] else ""
    return [
        _finding(
            SLOW,
            account,
            _noticed(account, since),
            walls,
            title=SLOWER,
            severity=severity_of(lost),
            summary=(
                f"{listed(named)}{f' on {host}' if host else ''} {'is' if len(named) == 1 else 'are'} slower "
                f"than the other{f' {len(others)}' if len(others) > 1 else ''}{_of(account)}{begin}: "
                f"{number(1e3 * slow)} ms for a step of {'its' if len(named) == 1 else 'their'} own, where "
                f"{'the others take' if len(others) > 1 else 'the other takes'} {number(1e3 * usual)} ms, so "
                f"the job makes {100 * lost:.0f} % fewer steps"
            ),
            rank=named[0],
            values={"step_ms": 1e3 * slow, "others_ms": 1e3 * usual, "steps_lost_ratio": lost},
            threshold={"share_of_time": WORTH, "chance": CHANCE},
            action=REMEDIES.get(account.frontier.stages[worst].stage, OWN),
            since_step=since,
            causes=("steps are numbered by each rank's own order: none waits for another in each step",),
        )
    ]


def _wandering(account: Account, walls: Mapping[int, float]) -> list[Finding]:
    frontier = account.frontier
    row = _costliest(frontier, "wandering")
    if row is None:
        return []
    stage = frontier.stages[row]
    share = stage.beyond_median_s / frontier.group_s
    lost = stage.beyond_median_s * len(frontier.ranks)
    return [
        _finding(
            WANDERING,
            account,
            int(account.steps[0]),
            walls,
            severity=severity_of(share),
            summary=(
                f"single steps of changing ranks{_of(account)} make the others wait in {stage.stage}: "
                f"{100 * share:.0f} % of the time, {number(lost)} s over all ranks"
            ),
            stage=stage.stage,
            values={"share": share, "gpu_seconds_lost": lost, "most_led_ratio": stage.led},
            threshold={"share_of_time": WORTH},
            action=SPREAD,
        )
    ]


def _together(account: Account, walls: Mapping[int, float]) -> list[Finding]:
    """Return the stage that takes all ranks longer from some step on, without one rank leading it.

    The two sides of the step that parts them best must differ by :data:`LEVELS` of their deviations, and by
    :data:`SLOWER_BY` of the step.
    """
    whole = account.shares_s.sum(axis=1)
    at = split(whole)
    if at is None:
        return []
    rises = np.median(account.shares_s[at:], axis=0) - np.median(account.shares_s[:at], axis=0)
    row = int(rises.argmax())
    before, after = median(whole[:at]), median(whole[at:])
    stage, since = account.frontier.stages[row], int(account.steps[at])
    return [
        _finding(
            TOGETHER,
            account,
            _noticed(account, since),
            walls,
            severity=severity_of((after - before) * (len(whole) - at) / float(whole.sum())),
            summary=(
                f"since step {since:,} a step of all ranks{_of(account)} takes {number(1e3 * after)} ms "
                f"instead of {number(1e3 * before)} ms, most of the difference in {stage.stage}; no single "
                "rank causes it"
            ),
            values={"before_ms": 1e3 * before, "after_ms": 1e3 * after, "stage_ms": 1e3 * float(rises[row])},
            threshold={"share_of_time": SLOWER_BY, "deviations": LEVELS},
            action=ALL,
            since_step=since,
        )
    ]


def split(taken: Floats) -> int | None:
    """Return from where on times are higher for good; None if they are not, or have been more than once.

    The last tenth must be as high as the rest since then: what is over is not reported.
    """
    count = len(taken)
    if count < 2 * FEWEST_STEPS:
        return None
    taken = np.minimum(taken, np.quantile(taken, 0.98))  # single steps do not make a level
    total = np.concatenate(([0.0], np.cumsum(taken)))
    cut = np.arange(FEWEST_STEPS, count - FEWEST_STEPS + 1)
    gain = cut * (count - cut) * ((total[-1] - total[cut]) / (count - cut) - total[cut] / cut) ** 2
    at = int(cut[gain.argmax()])
    before, after = taken[:at], taken[at:]
    low, high = median(before), median(after)
    spread = 1.4826 * max(median(abs(side - np.median(side))) for side in (before, after))
    needed = max(LEVELS * spread, SLOWER_BY * low)
    last = median(after[-max(FEWEST_STEPS, len(after) // 10) :])
    return at if high - low > needed and last - low > needed else None


def _noticed(account: Account, since: int) -> int:
    """Return the step by which it could be noticed, which stays the same as more steps come."""
    step = since - since % FEWEST_STEPS + 2 * FEWEST_STEPS
    return int(account.steps[min(int(np.searchsorted(account.steps, step)), len(account.steps) - 1)])


def _over(account: Account, since: int, stage: StageLoss) -> int | None:
    """Return the last step that the rank held up, where the newest steps are as those before it began."""
    lost = account.shares_s[:, [one.stage for one in account.frontier.stages].index(stage.stage)]
    before = account.steps < since
    if not before.any():
        return None
    usual = median(lost[before])
    if median(lost[~before]) <= usual + stage.margin_s / 2:
        return None  # another rank held the others up before it: the loss does not tell them apart
    held = lost > usual + stage.margin_s / 2
    if held[-FEWEST_STEPS:].mean() > 0.25 or not held.any():
        return None
    return int(account.steps[np.flatnonzero(held)[-1]])


def _causes(account: Account, stage: str) -> tuple[str, ...]:
    """Return the limits of the account, as sentences."""
    frontier = account.frontier
    sentences = [_where(account)]
    others = [one for one in frontier.stages if one.label == "persistent" and one.stage != stage]
    sentences += [_also(one) for one in others]
    if stage not in ("data", "optimizer"):
        sentences.append(
            "stages are the host's time: work that a device does later shows up where the host waits for it"
        )
    return tuple(filter(None, sentences))


def _where(account: Account) -> str:
    return (
        ""
        if account.meets is None
        else f"steps are counted from the end of {account.meets}, where ranks meet"
    )


def _also(stage: StageLoss) -> str:
    beyond = number(stage.beyond_median_s)
    return f"rank {stage.leader} leads {stage.stage}, too: {beyond} s beyond the median rank"
