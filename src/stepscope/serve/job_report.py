"""The report on the ranks of a job: the verdict in a sentence, in four lines, or with all tables."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from stepscope.text import byte_rate, counted, duration, quantity, share, size, time

if TYPE_CHECKING:
    from stepscope.analyze.parameter_server import TaskTraffic
    from stepscope.analyze.ranks.frontier import Frontier, StageLoss
    from stepscope.analyze.ranks.hangs import Hang
    from stepscope.analyze.ranks.job import Job
    from stepscope.analyze.ranks.stuck import StuckRank
    from stepscope.analyze.ranks.waits import Waits

MOST_ROWS = 12
LABELS = {
    "alike": "ranks are alike",
    "unclear": "within noise",
    "wandering": "single steps of changing ranks",
    "recurring": "single steps of rank {leader}",
}


def brief(job: Job, path: str) -> list[str]:
    """Return the answer in at most four lines: verdict, ranks without files, remedy, a command to see it."""
    from stepscope.analyze.health.slow_rank import slow_ranks
    from stepscope.analyze.ranks.hangs import listed

    lines = [verdict(job)]
    lines += [f"       not recorded: {listed(job.missing)}"] if job.missing else []
    if job.accounts and job.hang is None and not job.stuck:
        findings, _ = slow_ranks(job.accounts, hosts=job.hosts, walls={})
        if findings:
            worst = max(findings, key=lambda finding: finding.values.get("gpu_seconds_lost", 0.0))
            lines.append(f"       do: {worst.action}")
    return [*lines, f"       see: stepscope ranks {shlex.quote(str(path))} -v"]


def text_of(job: Job) -> list[str]:
    """Return the answer for people with all tables, the most important first."""
    from stepscope.analyze.ranks.hangs import listed

    lines = [verdict(job), ""]
    if job.missing:
        lines += [f"not recorded: {listed(job.missing)}", ""]
    if job.hang is not None:
        lines += _hang(job.hang)
    if job.stuck:
        lines += _stuck(job.stuck)
    for account in job.accounts:
        lines += [account.group] * bool(account.group) + _frontier(account.frontier)
    if job.waits is not None:
        lines += _waits(job, job.waits)
    if job.tasks:
        lines += _tasks(job.tasks)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def verdict(job: Job) -> str:
    """Return the answer in one sentence."""
    if job.hang is not None:
        from stepscope.analyze.ranks.hangs import sentence

        return sentence(job.hang) + _lost(job)
    if job.stuck:
        return _stuck_verdict(job)
    if job.accounts:
        return _account_verdict(job)
    if job.waits is not None:
        return _wait_verdict(job, job.waits)
    if job.tasks:
        return _task_verdict(job.tasks)
    return "who waits for whom is not known"


def _account_verdict(job: Job) -> str:
    """Return the verdict of a run's health on its ranks, for the most costly of several groups."""
    from stepscope.analyze.health.slow_rank import SLOW, slow_ranks

    findings, lacking = slow_ranks(job.accounts, hosts=job.hosts, walls={})
    if findings:
        return max(findings, key=lambda finding: finding.values.get("gpu_seconds_lost", 0.0)).summary
    if missing := [unjudged.missing for unjudged in lacking if unjudged.rule == SLOW]:
        return missing[0]
    if own := [account.own for account in job.accounts if account.own is not None]:
        took = [times for some in own for times in some.median_s.values()]
        return (
            "no rank is slower than the others by itself: each takes "
            f"{duration(min(took))} to {duration(max(took))} for a step of its own"
        )
    stages = [stage for account in job.accounts for stage in account.frontier.stages]
    if all(stage.label == "alike" for stage in stages):
        return "no rank makes the others wait: every stage takes the same time on all ranks"
    return "time is lost between ranks, but no rank stands out from the noise"


def _wait_verdict(job: Job, waits: Waits) -> str:
    from stepscope.analyze.ranks.hangs import listed
    from stepscope.analyze.ranks.stragglers import needed

    share = f"{100 * waits.share_of_communication:.1f} % of the time in collectives is waiting"
    if not job.stragglers:
        count = len(waits.joint)
        if enough := needed(count, len(waits.joint.ranks)):
            return (
                f"{share}; {counted(count, 'collective')} are too few to tell a slow rank from chance, "
                f"{enough} are enough: capture more steps"
            )
        if job.slow_groups:
            slow = job.slow_groups[0]
            times = quantity(slow.transfer_ns / slow.usual_ns)
            return (
                f"{share}; {slow.operation} takes {times} times as long to transfer in group {slow.group} "
                f"({listed(slow.ranks)}) as in the {slow.others} others of its kind"
            )
        if job.shared is not None:
            part, shared = 100 * job.shared.share, job.shared
            return (
                f"{share}; no rank comes last more often than by chance, but {part:.0f} % of it is for "
                f"{shared.cause}, on {shared.ranks} ranks in turn"
            )
        return f"{share}; no rank comes last more often than by chance"
    slowest = job.stragglers[0]
    causes = [row for row in job.blame if row.rank == slowest.rank]
    doing = (
        f", {causes[0].cause}" + (f" in {_short(causes[0].name)}" if causes[0].name else "") if causes else ""
    )
    return f"{share}; rank {slowest.rank} causes {100 * slowest.score:.0f} % of it{doing}"


def _task_verdict(tasks: tuple[TaskTraffic, ...]) -> str:
    from stepscope.analyze.parameter_server import bottleneck, holds_of, parts_of

    parts = {task.task: own for task in tasks if (own := parts_of(task))}
    servers = [task for task in tasks if task.server]
    if parts:
        worst = min(parts, key=lambda name: parts[name].compute)
        part = parts[worst]
        text = (
            f"{worst} computes for {100 * part.compute:.0f} % of its steps, {100 * part.waiting:.0f} % is "
            f"waiting and {100 * part.transfer:.0f} % transfer"
        )
    else:
        text = "no worker's step was recorded"
    if not servers:
        return text
    shares = {task.task: 100 * (holds_of(task) or 0.0) for task in servers}
    if (slow := bottleneck(tasks)) is not None:
        return f"{text}; {slow} makes the workers wait for {shares[slow]:.0f} % of their steps"
    low, high = min(shares.values()), max(shares.values())
    return f"{text}; no parameter server stands out ({low:.0f} to {high:.0f} % of the steps)"


def _stuck_verdict(job: Job) -> str:
    from stepscope.analyze.ranks.hangs import listed

    stuck = job.stuck
    silent = sorted(set(job.ranks) - {rank.rank for rank in stuck} - set(job.ends))
    longest = max(rank.stalled_s for rank in stuck)
    text = f"no step ended for {longest:.0f} s{_lost(job)}"
    if silent:
        return f"{text}; {listed(silent)} left no stacks, {listed([rank.rank for rank in stuck])} did"
    elsewhere = [rank.rank for rank in stuck if rank.elsewhere]
    if not elsewhere:
        return f"{text}; no rank is at a different place from most"
    return f"{text}; {listed(elsewhere)}: not at the same place as the others"


def _lost(job: Job) -> str:
    """Return how the first rank that is lost ended, and how many more are."""
    if not job.ends:
        return ""
    rank, end = next(iter(job.ends.items()))
    more = len(job.ends) - 1
    return f"; rank {rank} {end}" + (f" ({more} more {'is' if more == 1 else 'are'} lost)" if more else "")


def _stuck(stuck: tuple[StuckRank, ...]) -> list[str]:
    lines = [f"{'RANK':>4}{'STEP':>9}  {'STAGE':<12}WHERE"]
    for row in sorted(stuck, key=lambda rank: not rank.elsewhere)[:MOST_ROWS]:
        step = "-" if row.step is None else f"{row.step:,}"
        own = f", from {row.line}" if row.line and row.line not in row.place else ""
        lines.append(f"{row.rank:>4}{step:>9}  {row.stage or '-':<12}{row.place}{own}")
    if len(stuck) > MOST_ROWS:
        lines.append(f"    and {len(stuck) - MOST_ROWS} more; --json has all")
    return [*lines, ""]


def _hang(hang: Hang) -> list[str]:
    lines = []
    for suspect in hang.suspects:
        lines.append(f"rank {suspect.rank}: {suspect.reason}, confidence {100 * suspect.confidence:.0f} %")
        shown = suspect.evidence[:MOST_ROWS]
        lines += [f"  {sentence}" for sentence in shown]
        if len(suspect.evidence) > len(shown):
            lines.append(f"  and {len(suspect.evidence) - len(shown)} more; --json has all")
    return [*lines, ""]


def _frontier(frontier: Frontier) -> list[str]:
    head = f"{'STAGE':<12}{'EXPOSED':>12}{'SHARE':>9}{'LEADER':>9}{'LEADS':>8}{'MARGIN':>12}{'SINCE':>9}"
    steps = f"{counted(frontier.steps, 'step')} of {len(frontier.ranks)} ranks"
    lines = [f"{steps}, {duration(frontier.group_s)} by the slowest", head]
    lines += [_stage_line(stage, frontier.group_s) for stage in frontier.stages]
    return [*lines, ""]


def _stage_line(stage: StageLoss, group_s: float) -> str:
    text = f"{stage.stage:<12}{duration(stage.exposed_s):>12}{100 * stage.exposed_s / group_s:>7.1f} %"
    if stage.label != "persistent":
        return f"{text}   {LABELS[stage.label].format(leader=stage.leader)}"
    return f"{text}{stage.leader:>9}{100 * stage.led:>6.0f} %{duration(stage.margin_s):>12}{stage.since:>9,}"


def _waits(job: Job, waits: Waits) -> list[str]:
    lines = [
        f"{counted(len(waits.joint), 'collective')} of {len(waits.joint.ranks)} ranks; "
        f"waiting {time(waits.total_ns)}, "
        f"transfer {time(int(waits.transfer_ns.sum()))} over all ranks",
        _clock_line(job),
        "",
        f"{'RANK':>4}{'CAUSED':>12}{'SHARE':>9}  WHILE IT WAS",
    ]
    for row in job.blame[:MOST_ROWS]:
        where = f" at {row.line}" if row.line and row.line != row.name else ""
        what = row.cause + (f": {_short(row.name)}" if row.name else "") + where
        lines.append(f"{row.rank:>4}{time(row.wait_caused_ns):>12}{100 * row.share:>7.1f} %  {what}")
    if len(job.blame) > MOST_ROWS:
        rest = sum(row.share for row in job.blame[MOST_ROWS:])
        lines.append(
            f"    and {len(job.blame) - MOST_ROWS} more, {100 * rest:.1f} % together; --json has all"
        )
    return [*lines, "", *_costs(job), *_path(job), *_bandwidths(job), *_what_if(job)]


SUMMED = {"host": "HOST", "scope": "MODULE", "line": "SOURCE LINE"}
MOST_COSTS = 5


def _costs(job: Job) -> list[str]:
    """Return the waiting by host, module and source line, if that says more than the ranks do."""
    lines: list[str] = []
    for by, head in SUMMED.items():
        rows = [row for row in job.costs.get(by, ()) if row.what]
        if not rows or (by == "host" and len(rows) < 2):
            continue
        lines.append(f"{'CAUSED':>16}{'SHARE':>9}  {head}")
        lines += [
            f"{time(row.wait_caused_ns):>16}{100 * row.share:>7.1f} %  {_short(row.what)}"
            for row in rows[:MOST_COSTS]
        ]
        if len(rows) > MOST_COSTS:
            lines.append(f"    and {len(rows) - MOST_COSTS} more; --json has all")
        lines.append("")
    return lines


def _path(job: Job) -> list[str]:
    """Return the critical path across ranks, longest pieces first."""
    path = job.path
    if path is None or not path.steps:
        return []
    ranks = len(path.ranks)
    lines = [
        f"critical path: {time(path.total_ns / path.steps)} a step, on {ranks} rank{'s' * (ranks != 1)}",
        f"{'RANK':>4}{'A STEP':>12}{'SHARE':>9}  DOING",
    ]
    for piece in path.pieces[:MOST_ROWS]:
        what = piece.cause + (f": {_short(piece.name)}" if piece.name else "")
        where = f" at {piece.line}" if piece.line and piece.line != piece.name else ""
        time_s = time(piece.time_ns / path.steps)
        lines.append(f"{piece.rank:>4}{time_s:>12}{100 * piece.share:>7.1f} %  {what}{where}")
    if len(path.pieces) > MOST_ROWS:
        rest = sum(piece.share for piece in path.pieces[MOST_ROWS:])
        lines.append(
            f"    and {len(path.pieces) - MOST_ROWS} more, {100 * rest:.1f} % together; --json has all"
        )
    return [*lines, ""]


def _clock_line(job: Job) -> str:
    clocks = job.clocks
    if clocks is None or clocks.one_host:
        return "clocks: as recorded, all ranks are on one host"
    widest = max(abs(clock.offset_ns) for clock in clocks.clocks.values())
    return (
        f"clocks: aligned to rank {clocks.reference}, offsets up to {time(widest)}, "
        f"error {time(clocks.error_ns)}"
    )


def _bandwidths(job: Job) -> list[str]:
    if not job.bandwidths:
        return []
    head = (
        f"{'OPERATION':<16}{'RANKS':>6}{'COUNT':>7}{'MESSAGE':>12}{'TRANSFER':>12}{'BUS':>14}{'OF LINK':>9}"
    )
    lines = [f"{head}  GROUP"]
    for row in job.bandwidths[:MOST_ROWS]:
        carried = size(row.bytes if row.bytes >= 0 else None)
        bus = "-" if row.bus_bytes_per_s is None else byte_rate(row.bus_bytes_per_s)
        transfer = time(row.transfer_ns)
        used = "-" if row.link_ratio is None else f"{100 * row.link_ratio:.1f} %"
        line = f"{row.operation:<16}{row.ranks:>6}{row.count:>7}{carried:>12}{transfer:>12}{bus:>14}{used:>9}"
        lines.append(f"{line}  {row.group}".rstrip())
    links = {row.link: row.link_bytes_per_s for row in job.bandwidths if row.link_bytes_per_s}
    lines += [
        f"{name} carries {rate / 1e9:,.0f} GB/s in one direction" for name, rate in links.items() if rate
    ]
    return [*lines, ""]


def _what_if(job: Job) -> list[str]:
    if job.replay is None or not job.replay.changes:
        return []
    worth = [change for change in job.replay.changes if change.gain_ns > 0.01 * change.recorded_ns]
    if not worth:
        return ["what if: making any one rank's work like the median's would not shorten the step by 1 %"]
    lines = ["what if"]
    for change in worth[:MOST_ROWS]:
        recorded, predicted = time(change.recorded_ns), time(change.predicted_ns)
        lines.append(f"  {change.change}: {recorded} \u2192 {predicted} a step")
    return [*lines, ""]


def _tasks(tasks: tuple[TaskTraffic, ...]) -> list[str]:
    from stepscope.analyze.parameter_server import holds_of, parts_of

    head = f"{'TASK':<14}{'STEPS':>6}{'COMPUTE':>10}{'WAITING':>10}{'TRANSFER':>10}{'RECEIVING':>11}"
    lines = [f"{head}{'ONLY RECEIVING':>16}{'WAITED ON':>10}"]
    for task in tasks:
        parts, holds = parts_of(task), holds_of(task)
        shares = (parts.compute, parts.waiting, parts.transfer) if parts else (None,) * 3
        cells = "".join(f"{share(part):>10}" for part in shares)
        receiving, only = share(task.receive_ratio), share(task.exposed_ratio)
        lines.append(f"{task.task:<14}{len(task.steps):>6}{cells}{receiving:>11}{only:>16}{share(holds):>10}")
    return [*lines, ""]


def _short(name: str) -> str:
    """Cut off the arguments and templates of a kernel's name, which could fill the screen."""
    if len(name) <= 70:
        return name
    bare = name.split("(", 1)[0].split("<", 1)[0]
    return bare if len(bare) <= 70 else f"{bare[:69]}\u2026"
