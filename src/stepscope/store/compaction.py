"""The compaction of a log directory: the files to compact, the others, and the files to delete afterwards."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from stepscope.errors import LogDirectoryError, UsageError
from stepscope.events.writer import is_compacted, is_own_name
from stepscope.files import inside
from stepscope.mirror import Mirror, recordings
from stepscope.patterns import compile_pattern
from stepscope.store.compact import CompactFolder, Done, Task, compact_file
from stepscope.store.discover import EventFileTree, Files, carries_data, is_event_file, is_index
from stepscope.store.info import QUIET_SECONDS, age, process_alive
from stepscope.store.log import directory_error
from stepscope.store.pieces import Assembler
from stepscope.store.source import FollowedFile
from stepscope.urls import is_url, join
from stepscope.workers import spread


@dataclass
class Compaction:
    """The outcome of a compaction.

    Attributes:
        done: The outcome per event file.
        skipped: Runs that were left as they are, and why.
        copied: Other files that went with the runs.
        removed: Event files that were deleted.
        not_deleted: Event files that should have been deleted, and why they were not.
    """

    done: list[Done] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    copied: int = 0
    removed: int = 0
    not_deleted: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> list[Done]:
        """Runs that could not be compacted."""
        return [result for result in self.done if result.error]


def compact(
    log_dir: str,
    to: str,
    *,
    runs: str = "",
    processes: int | None = None,
    ray: bool = False,
    remove: bool = False,
) -> Compaction:
    """Compact the event files of a log directory.

    Args:
        log_dir: A directory or a URL.
        to: Directory or URL for the compacted runs; it may be the same.
        runs: Regular expression, searched for in the names of runs.
        processes: Number of processes at a time; by default one per processor.
        ray: Have a Ray cluster do it. Its machines must see the log directory under the same path.
        remove: Delete each event file that was compacted, if it has not changed since.

    Raises:
        LogDirectoryError: A log directory that cannot be listed.
        UsageError: ``remove`` for files at a URL, or an invalid regular expression.
    """
    if remove and is_url(log_dir):
        raise UsageError(
            "event files at a URL are not deleted", hint="delete them with the tools of the store"
        )
    wanted = compile_pattern(runs, "runs")
    stays = same_place(log_dir, to)
    # Other files go with the runs, unless these stay where they are.
    root = Mirror(log_dir, everything=not stays).folder if is_url(log_dir) else Path(log_dir).expanduser()
    try:
        by_run = Assembler(str(root)).whole(EventFileTree(str(root)).scan())
    except OSError as error:
        raise directory_error(root, error) from error
    result, tasks = Compaction(), []
    for name, files in by_run.items():
        if not wanted.search(name):
            continue
        if why := still_written(files):
            result.skipped[name] = why
            continue
        folder = to if name == "." else join(to, name) if is_url(to) else os.path.join(to, name)  # noqa: PTH118
        tasks += [
            Task(path, folder, stat.st_size)
            for path, stat in files.items()
            if carries_data(path) and not is_index(path.rpartition("/")[2])
        ]
        if not stays:
            result.copied += copy_others(root, name, by_run, folder)
    tasks.sort(key=lambda task: -task.size)  # the longest first, or it would end alone
    result.done = list(spread(compact_file, tasks, processes=processes, ray=ray))
    if remove:
        remove_originals(root, result)
    return result


def still_written(files: Files) -> str:
    """Return why a run must not be compacted yet; nothing if it may."""
    texts = []
    for path in files:
        if is_own_name(path.rpartition("/")[2]):
            source = FollowedFile(path)
            source.read()
            texts.append(source.info)
    running = [info for info in texts if info is not None and info.status == "running"]
    if any(process_alive(info) for info in running):
        return "it is running"
    quiet = time.time() - max(stat.st_mtime for stat in files.values())
    if quiet < QUIET_SECONDS and (running or not any(texts)):
        return f"it was written to {age(max(quiet, 0.0))} ago, and its end is not recorded"
    return ""


def same_place(log_dir: str, to: str) -> bool:
    """Return whether runs are compacted in place."""
    if is_url(log_dir) or is_url(to):
        return log_dir.rstrip("/") == to.rstrip("/")
    return os.path.realpath(log_dir) == os.path.realpath(to)


def copy_others(root: Path, run: str, runs: dict[str, Files], folder: str) -> int:
    """Copy the files of a run that are not event files: profiles, files of ranks, annotations.

    Weights and folders of checkpoints are left out, as whenever a log is copied.
    """
    top = root if run == "." else root / run
    below = {str(root / name) for name in runs if name not in (run, ".")}
    paths: list[str] = []
    for parent, folders, names in os.walk(top):
        inner = [
            name for name in folders if str(Path(parent, name)) not in below and not name.startswith(".")
        ]
        folders[:] = inner
        paths += [Path(parent, name).relative_to(top).as_posix() for name in names]
    chosen = sorted(path for path in recordings(paths) if is_other(path.rpartition("/")[2]))
    for parent, those in groupby(chosen, key=lambda path: path.rpartition("/")[0]):
        place = CompactFolder(f"{folder}/{parent}" if parent else folder)
        for path in those:
            place.put(top / path)
    return len(chosen)


def is_other(name: str) -> bool:
    """Return whether a recording of this name is copied unchanged."""
    return not (is_event_file(name) or is_compacted(name) or name.startswith("."))


def remove_originals(root: Path, result: Compaction) -> None:
    """Delete the event files that were compacted, unless any of the same run was not, or has changed."""
    broken = {task_result.task.folder for task_result in result.failed}
    for task_result in result.done:
        if task_result.error:
            continue
        path = Path(task_result.task.path)
        if task_result.task.folder in broken:
            result.not_deleted[str(path)] = "another file of the run could not be compacted"
            continue
        try:
            now = path.stat()
            if (now.st_size, now.st_mtime_ns) != task_result.stamp:
                result.not_deleted[str(path)] = "it was written to meanwhile"
                continue
            inside(root, path).unlink()
            result.removed += 1
        except OSError as error:
            result.not_deleted[str(path)] = error.strerror or str(error)
        except LogDirectoryError:
            result.not_deleted[str(path)] = "a link leads to it out of the log directory"
