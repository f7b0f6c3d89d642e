"""Processes that work for another: asked by pipes, or many tasks spread over a pool or a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from stepscope.errors import UsageError

T = TypeVar("T")
R = TypeVar("R")


def start(module: str, *words: str, stderr: int | None = None, **variables: str) -> subprocess.Popen[bytes]:
    """Start a module of this package, which is asked and answers through pipes; Ctrl-C does not reach it.

    Args:
        module: Its name, as ``stepscope.trace.worker``.
        words: Its arguments.
        stderr: Where what it complains of goes; by default where this process' own does.
        variables: For its environment.

    Raises:
        OSError: No process can be had.
    """
    paths = [str(Path(__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(  # noqa: S603  this package, by this interpreter
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
        start_new_session=True,
    )


def end(process: subprocess.Popen[Any]) -> None:
    """End a process at once, and let go of what belongs to it."""
    process.kill()
    close_pipes(process)
    process.wait()


def close_pipes(process: subprocess.Popen[Any]) -> None:
    """Close this side of the pipes."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def spread(
    call: Callable[[T], R], tasks: Sequence[T], *, processes: int | None = None, ray: bool = False
) -> Iterator[R]:
    """Yield what a function gives for each task, as they are done: in processes here, or on a Ray cluster.

    Args:
        call: A function of a module; tasks and results are sent from process to process.
        tasks: What it is called with.
        processes: How many here; by default one per processor. With 1 it is called in this process.
        ray: Have the cluster do it that ``ray.init`` finds, or one on this machine.

    Raises:
        UsageError: Ray is not installed, or does not start.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    if ray:
        yield from _on_ray(call, tasks)
        return
    count = min(processes or os.cpu_count() or 1, len(tasks))
    if count <= 1:
        yield from map(call, tasks)
        return
    # A forked child would have the locks of threads that it does not have.
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(call, task) for task in tasks]):
            yield future.result()


def _on_ray(call: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
    try:
        cluster: Any = import_module("ray")
    except ImportError as error:
        raise UsageError(
            f"Ray cannot be imported: {error}", hint="pip install ray, or leave --ray out"
        ) from error
    if not cluster.is_initialized():
        try:
            cluster.init(log_to_driver=False, configure_logging=False, include_dashboard=False)
        except Exception as error:
            raise UsageError(
                f"Ray does not start: {error}",
                hint="name a cluster in RAY_ADDRESS, or leave --ray out to use processes of this machine",
            ) from error
    remote = cluster.remote(call)
    waiting = [remote.remote(task) for task in tasks]
    while waiting:
        done, waiting = cluster.wait(waiting)
        for each in done:
            yield cluster.get(each)
