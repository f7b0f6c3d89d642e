"""A directory of profiles as one trace, with the rank of each file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from stepscope.errors import TraceError
from stepscope.events.telemetry import MAX_RANKS
from stepscope.trace import formats
from stepscope.trace.merge import merge, with_rank
from stepscope.trace.model import Trace
from stepscope.trace.set import distinct_files, profile_files, rank_in_name, ranks_of_roles, role_in_path

_PREFERRED = (
    "chrome",
    "xplane",
    "step_stats",
    "nsys",
    "pickle",
    "flight_recorder",
    "execution_trace",
    "tfprof",
)


OVERLAP = "overlap in time"
"""The note about files that cannot be one recording of one rank."""


def load_directory(directory: Path, load: Callable[[Sequence[Path]], Iterable[Trace | TraceError]]) -> Trace:
    """Read all profiles of a directory, with the ranks side by side.

    If several formats lie together, the richest one is read and the note names the others.

    Raises:
        TraceError: No profile in it, or none that can be read.
    """
    by_format: dict[str, list[Path]] = defaultdict(list)
    unread: list[str] = []
    for path in distinct_files(list(profile_files(directory))):
        try:
            form = formats.find_format(path)
        except TraceError as error:
            unread.append(_unreadable(directory, path, error))
            continue
        if form is not None:
            by_format["event_file" if form is formats.EVENT_FILE else form.name].append(path)
    if not by_format:
        raise _nothing_in(directory, unread)
    chosen = next((name for name in _PREFERRED if name in by_format), "event_file")
    notes = [
        f"{len(paths)} {name} files were left out"
        for name, paths in sorted(by_format.items())
        if name != chosen
    ]
    traces, problems = _readable(directory, by_format[chosen], load)
    if problems and not traces and all("holds no profile" in problem for problem in problems):
        files = f"{len(problems)} event file{'s' * (len(problems) != 1)}"
        raise TraceError(
            f"no profile in the directory: {files}, and none of them holds one",
            path=directory,
            hint="record one: ss.ProfilerHook() does so during the training, and stepscope capture asks a "
            "running training for one",
        )
    return _whole(directory, traces, notes, [*unread, *problems])


def _nothing_in(directory: Path, unread: list[str]) -> TraceError:
    if not unread:
        return TraceError(
            "no profile in the directory",
            hint="pass the folder that the profiler wrote its traces to",
            path=directory,
        )
    reason = (
        unread[0] if len(unread) == 1 else f"no profile in the directory can be read: {'; '.join(unread[:3])}"
    )
    return TraceError(reason, hint="check whether this user may read the files", path=directory)


def load_rank_set(
    files: Sequence[Path], load: Callable[[Sequence[Path]], Iterable[Trace | TraceError]]
) -> Trace:
    """Read the profiles that several ranks took of one step.

    Raises:
        TraceError: None of them can be read.
    """
    traces, problems = _readable(files[0].parent, files, load)
    return _whole(
        files[0].parent, [with_rank_of(trace, Path(trace.sources[0].path)) for trace in traces], [], problems
    )


def with_rank_of(trace: Trace, place: Path) -> Trace:
    """Return a trace of one file with the rank that the file's name tells, if its content tells none."""
    rank = rank_in_name(place)
    if rank is not None and not any(source.rank_known for source in trace.sources):
        return with_rank(trace, rank)
    return trace


def _readable(
    directory: Path, files: Sequence[Path], load: Callable[[Sequence[Path]], Iterable[Trace | TraceError]]
) -> tuple[list[Trace], list[str]]:
    """Return the readable ones of some files, and the errors of the others.

    One bad rank must not hide the rest.
    """
    traces, problems = [], []
    for path, trace in zip(files, load(files), strict=True):
        if isinstance(trace, TraceError):
            problems.append(_unreadable(directory, path, trace))
        else:
            traces.append(trace)
    return traces, problems


def _unreadable(directory: Path, path: Path, error: TraceError) -> str:
    return f"{path.relative_to(directory)} could not be read: {error.message}"


def _whole(directory: Path, traces: list[Trace], notes: list[str], problems: list[str]) -> Trace:
    """Return the traces of all ranks as one."""
    if not traces:
        raise TraceError(
            problems[0] if problems else "no profile could be read",
            path=directory,
            hint="pass a folder of profiles of one job, one file a rank or step",
        )
    ranked, doubts = give_ranks(directory, traces)
    whole = merge(ranked)
    return replace(whole, notes=(*whole.notes, *notes, *problems, *doubts, *missing_ranks(whole)))


def give_ranks(directory: Path, traces: list[Trace]) -> tuple[list[Trace], list[str]]:
    """Give each trace its rank: by the file itself, else by its name or folder, else by order of folders."""
    unknown = [trace for trace in traces if not trace.sources[0].rank_known]
    if not unknown:
        return traces, _conflicts(traces)
    roles = ranks_of_roles(_role(directory, trace) for trace in unknown)
    notes = []
    if len(roles) > 1:
        notes.append(
            "the files do not say their ranks; taken from names: "
            + ", ".join(f"{role or '.'} = {rank}" for role, rank in list(roles.items())[:_NAMED])
            + (f" and {len(roles) - _NAMED} more" if len(roles) > _NAMED else "")
        )
    ranked = [t if t.sources[0].rank_known else with_rank(t, roles[_role(directory, t)]) for t in traces]
    return ranked, [*notes, *_conflicts(ranked)]


_NAMED = 8
"""Ranks that a note names."""


def _role(directory: Path, trace: Trace) -> str:
    path = Path(trace.sources[0].path).relative_to(directory)
    if (role := role_in_path(path)) is not None:
        return role
    if trace.format == "xplane":
        return path.name.removesuffix(".xplane.pb")
    return "/".join(path.parts[:-1])


def _conflicts(traces: list[Trace]) -> list[str]:
    sizes = sorted({source.world_size for trace in traces for source in trace.sources if source.world_size})
    notes = (
        [f"the files are of runs of different sizes: {', '.join(map(str, sizes))} ranks"]
        if len(sizes) > 1
        else []
    )
    windows: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for trace in traces:
        if len(trace) and trace.clock == "unix":
            end = trace.origin_ns + int(trace.end_ns.max())
            windows[trace.ranks[0]].append((trace.origin_ns, end))
    for rank, spans in sorted(windows.items()):
        spans.sort()
        if any(second[0] < first[1] for first, second in pairwise(spans)):
            notes.append(f"{len(spans)} files of rank {rank} {OVERLAP}: they may be of different runs")
    return notes


def absent_ranks(size: int, present: Iterable[int]) -> list[int]:
    """Return the ranks of a job that are not there; none if the size is not that of a job."""
    return sorted(set(range(size)).difference(present)) if size <= MAX_RANKS else []


def missing_ranks(trace: Trace) -> list[str]:
    """Return which ranks of the run are missing."""
    world = Counter(source.world_size for source in trace.sources).most_common(1)
    size = world[0][0] if world else 0
    missing = absent_ranks(size, trace.ranks)
    if not missing:
        return []
    listed = ", ".join(map(str, missing[:16])) + (", …" if len(missing) > 16 else "")
    return [f"{len(missing)} of {size} ranks are missing: {listed}"]


def overlapping(trace: Trace) -> str:
    """Return why several files are not one recording, ``""`` if they are."""
    telling = [note for note in trace.notes if OVERLAP in note]
    return telling[0] if telling else ""
