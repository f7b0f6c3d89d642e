"""Processes that work for this one: tasks spread over a pool of them or over a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from stepscope.child import Child
from stepscope.errors import UsageError, WorkerError

T = TypeVar("T")
R = TypeVar("R")


def spread(
    call: Callable[[T], R],
    tasks: Sequence[T],
    *,
    processes: int | None = None,
    ray: bool | str = False,
    failed: Callable[[T, str], R] | None = None,
) -> Generator[R, None, None]:
    """Yield a function's result for each task as it is done: in processes here, or on a Ray cluster.

    A few more tasks than there are processes are under way at once, so that results do not pile up. The bound
    of this process's memory is shared between them.

    Args:
        call: A module-level function; tasks and results are sent between processes.
        tasks: Its arguments.
        processes: How many here; by default one per processor. With 1 it is called in this process.
        ray: Use a cluster: an address, ``local`` for one that is started here and ended afterwards, True for
            the one that ``ray.init`` finds, or else one here. A connected session takes precedence.
        failed: Returns the result of a task at which a process died, given the task and a sentence; without
            it, that is an error.

    Raises:
        UsageError: Ray is not installed, or does not start.
        WorkerError: A process died, and there is no ``failed``.
    """
    if ray:
        yield from _on_ray(call, tasks, ray, failed)
        return
    count = min(processes or os.cpu_count() or 1, len(tasks))
    if count <= 1:
        yield from map(call, tasks)
        return
    yield from _in_processes(call, tasks, count, failed)


DIED = "the process that worked on it died"


def _in_processes(
    call: Callable[[T], R], tasks: Sequence[T], count: int, failed: Callable[[T, str], R] | None
) -> Iterator[R]:
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
    from queue import SimpleQueue

    idle: SimpleQueue[_Worker] = SimpleQueue()
    part = data_bound() // count
    workers = [_Worker(call, part) for _ in range(count)]
    for worker in workers:
        idle.put(worker)

    def ask(task: T) -> R:
        worker = idle.get()
        try:
            return cast("R", worker.ask(task))
        except WorkerError as error:
            if failed is None:
                raise
            return failed(task, error.message)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(count, thread_name_prefix="stepscope-spread")
    waiting: set[Future[R]] = set()
    left = iter(tasks)
    try:
        while True:
            waiting |= {pool.submit(ask, task) for task in islice(left, count + _AHEAD - len(waiting))}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        for worker in workers:
            worker.child.cancel()
        pool.shutdown(cancel_futures=True)
        for worker in workers:  # nobody asks any more; one may have been starting
            worker.child.end()


_AHEAD = 2
"""Tasks in flight beyond one for each process."""


class _Worker:
    """One process, started when it is first asked."""

    def __init__(self, call: Callable[..., Any], most_bytes: int) -> None:
        paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *sys.path]))
        self.child = Child(
            "stepscope.workers", str(most_bytes), greeting=pickle.dumps(call, _PROTOCOL), PYTHONPATH=paths
        )

    def ask(self, task: Any) -> Any:
        """Return the function's result.

        Raises:
            WorkerError: The process cannot be started, or died.
            Exception: Whatever the function raises.
        """
        try:
            stdin, stdout = self.child.pipes()
        except OSError as error:
            raise WorkerError(
                f"no process can be started: {error.strerror or error}",
                hint="end other programs, or see the limits of this user",
            ) from None
        try:
            pickle.dump(task, stdin, _PROTOCOL)
            stdin.flush()
            right, answer = pickle.load(stdout)  # noqa: S301  what our own process wrote
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            self.child.end()
            raise WorkerError(DIED, hint="if memory ran out, run fewer at once: --workers") from None
        if not right:
            raise cast("Exception", answer)
        return answer


_PROTOCOL = 5
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Options of ``mallopt``, as glibc's ``malloc.h`` numbers them."""


def keep_freed_memory() -> None:
    """Have this process keep up to 512 MiB that it frees, for its next task; other C libraries do as before.

    By default glibc gives every array beyond a size back to the system, and asking for it anew makes a page
    fault for each 4 KiB: 5,000 for a profile of 100,000 events, a sixth of the time in which it is read.
    Only for processes of our own: the memory is not seen to be free by others.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # no glibc
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in (_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 512 << 20), (_TOP_PAD, 16 << 20):
            mallopt(option, value)


def data_bound() -> int:
    """Return how much memory this process may take, which those that work for it share; 0 without a bound."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    bound = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return 0 if bound == resource.RLIM_INFINITY else bound


def die_first() -> None:
    """Have the kernel end this process, and not the one that it works for, when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> int:
    """Work: read a function and then tasks from stdin, and write the results to stdout, until stdin ends.

    The argument says how much memory it may take, 0 for no bound.
    """
    if most := int(sys.argv[1]):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    keep_freed_memory()
    die_first()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    with contextlib.suppress(EOFError):
        call = pickle.load(sys.stdin.buffer)  # noqa: S301  what our own process wrote
        while True:
            task = pickle.load(sys.stdin.buffer)  # noqa: S301
            try:
                answer = (True, call(task))
            except Exception as error:  # noqa: BLE001  it is raised where it was asked
                answer = (False, error)
            try:
                data = pickle.dumps(answer, _PROTOCOL)
            except Exception as error:  # noqa: BLE001
                data = pickle.dumps((False, RuntimeError(f"cannot be sent: {error}")), _PROTOCOL)
            answers.write(data)
            answers.flush()
    return 0


# --- Ray ------------------------------------------------------------------------------------------------

REACHED_SECS = 5.0
"""How long to wait for a connection to a cluster's address; Ray itself tries for minutes."""
_RETRIES = 2


def _on_ray(
    call: Callable[[T], R], tasks: Sequence[T], address: bool | str, failed: Callable[[T, str], R] | None
) -> Iterator[R]:
    cluster, begun = _connected(address)
    try:

        def work(task: T) -> R:
            keep_freed_memory()
            return call(task)

        remote = cluster.remote(max_retries=_RETRIES)(work)
        most = 2 * max(1, int(cluster.cluster_resources().get("CPU", 1))) + _AHEAD
        waiting: dict[Any, T] = {}
        left = iter(tasks)
        while True:
            waiting |= {remote.remote(task): task for task in islice(left, most - len(waiting))}
            if not waiting:
                return
            done, _ = cluster.wait(list(waiting))
            for reference in done:
                task = waiting.pop(reference)
                try:
                    answer = cluster.get(reference)
                except cluster.exceptions.RayError as error:
                    answer = _of_error(cluster, error, task, failed)
                yield answer
    finally:
        if begun:
            cluster.shutdown()


def _of_error(cluster: Any, error: Exception, task: T, failed: Callable[[T, str], R] | None) -> R:
    """Return the result for a task that failed on a cluster; raise the function's own exception."""
    cause = getattr(error, "cause", None)
    if isinstance(error, cluster.exceptions.RayTaskError) and isinstance(cause, Exception):
        if isinstance(cause, ModuleNotFoundError):
            raise UsageError(
                f"the machines of the Ray cluster lack a package: {cause}",
                hint="install the same stepscope there, or give it in the runtime_env of ray.init",
            ) from error
        raise cause
    text = f"{DIED} on the Ray cluster: {type(error).__name__}"
    if failed is None:
        raise WorkerError(text, hint="see the logs of the cluster") from error
    return failed(task, text)


def _connected(address: bool | str) -> tuple[Any, bool]:
    """Return the module ``ray``, connected, and whether the session is to be ended afterwards.

    Raises:
        UsageError: Ray is not installed, cannot be reached, or does not start.
    """
    try:
        cluster: Any = import_module("ray")
    except ImportError as error:
        raise UsageError(
            f"Ray cannot be imported: {error}",
            hint='pip install "stepscope[ray]", or leave --ray out to use processes of this machine',
        ) from error
    if cluster.is_initialized():
        return cluster, False
    named = address if isinstance(address, str) else None
    if (running := _found(named)) is not None:
        _reach(running)
    begins = running is None and named in (None, "local")
    for left in reversed(range(STARTS if begins else 1)):
        try:
            cluster.init(
                address=named, log_to_driver=False, configure_logging=False,
                **({"include_dashboard": False} if named in (None, "local") else {}),
            )  # fmt: skip
            break
        except Exception as error:
            if left and SLOW_START in str(error):
                continue
            raise UsageError(
                f"Ray does not start: {error}",
                hint="name a cluster that runs (ray start --head prints its address), or leave --ray out to "
                "use processes of this machine",
            ) from error
    return cluster, True


STARTS, SLOW_START = 3, "timed out during startup"
"""How often to try to start Ray, and its message if its processes needed more than its 30 s."""
LAST_CLUSTER = "ray/ray_current_cluster"
"""File in the folder for temporary files in which Ray keeps the address of the cluster that began last."""


def _found(address: str | None) -> str | None:
    """Return the address of Ray's cluster; None if Ray starts one, or finds it in other ways."""
    if address is not None and address != "auto":
        other = "://" in address and not address.startswith(
            "ray://"
        )  # of a service that Ray has a plugin for
        return None if other or address == "local" else address
    named = os.environ.get("RAY_ADDRESS", "")
    if named and named != "auto":
        return None if named == "local" else named
    with contextlib.suppress(OSError, ValueError):
        return Path(tempfile.gettempdir(), LAST_CLUSTER).read_text().strip() or None
    return None


def _reach(address: str) -> None:
    """Make sure that something listens at an address.

    Raises:
        UsageError: Nothing does, or it is not an address.
    """
    import socket

    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_SECS):
            return
    except (OSError, ValueError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"no Ray cluster can be reached at {address}: {why}",
            hint="an address is HOST:PORT or ray://HOST:PORT, as ray start --head prints it; --ray local "
            "starts one here; without --ray processes of this machine do it",
        ) from error


if __name__ == "__main__":
    sys.exit(main())
