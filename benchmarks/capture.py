"""What captures cost: beside the same loop without Stepscope, and beside torch.profiler as its manual has it.

``python benchmarks/capture.py [PART] [--step NAME] [--seconds S]``. Parts:

- ``between``: speed of steps with a run and its hook, none captured, over that without; they take turns
- ``boundary``: time that the two ends of a step take with a run and its hook, by a clock around them, right
  after the step's own work
- ``total``: share of the time that captures steal at a limit of 1 %, as often as it allows: by the run's own
  account, and from outside, beside blocks without Stepscope that take turns with the run's
- ``account``: the same with so high a limit that captures follow each other, of ten steps with stacks, and
  no analysis: what they steal stands out from what a shared machine's speed does by itself
- ``stall``: how long stop and export keep the training thread from running Python, beside torch.profiler's
  tensorboard_trace_handler with the same capture
- ``scopes``: duration of captured steps with module scopes over that without
- ``samples``: duration of captured steps with sampled stacks over that without, and with every call recorded

Where the system allows, this process is served before others, and time in which its training thread waited
for a core that others had is taken off; ``total`` and ``account`` count it, as our own processes use cores.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steps import STEPS, Step, Watch, go_first, interval, turns, warm

import stepscope as ss

BLOCK_SECS = 0.4


def between(name: str, step: Step, seconds: float) -> None:
    """Compare steps of a run with a hook that captures nothing with steps without; they take turns.

    Neighbours run at the same speed, whatever the machine does to both. What the run's threads take besides
    is told as processor time, where the step has no threads of its own.
    """
    watch, usual = Watch(), warm(step)
    plain, hooked = [], []
    with tempfile.TemporaryDirectory() as folder:
        hook = idle_hook()
        with ss.Run(folder, hooks=[hook]) as run:
            begun = time.perf_counter()
            cpu = time.process_time() - time.thread_time()
            for with_run in turns(10**9):
                first = watch.now()
                if with_run:
                    with run.step():
                        step()
                else:
                    step()
                (hooked if with_run else plain).append(watch.now() - first)
                if len(plain) == len(hooked) and time.perf_counter() - begun > seconds:
                    break
            elapsed = time.perf_counter() - begun
            cpu = time.process_time() - time.thread_time() - cpu
            empty = [empty_step(run, watch) for _ in range(200)]
    ratios = [one / other for one, other in zip(plain[5:], hooked[5:], strict=True)]
    threads = f"; its threads take {100 * cpu / elapsed:.2f} % of a core" if name.startswith("torch") else ""
    print(
        f"{name}: between captures {statistics.median(ratios):.4f} x the speed without "
        f"({interval(ratios)}, {len(ratios)} pairs of steps of {1e3 * usual:.1f} ms; aim 0.995){threads}; "
        f"a step in which nothing is done takes {1e6 * statistics.median(empty):.0f} us"
    )


def idle_hook() -> ss.ProfilerHook:
    """Return a hook that captures nothing."""
    return ss.ProfilerHook(save_steps=10**9, skip_first=10**9, analyse=False)


def empty_step(run: ss.Run, watch: Watch) -> float:
    """Return the time of a step in which nothing is done, after a millisecond of something else."""
    time.sleep(0.001)
    begun = watch.now()
    with run.step():
        pass
    return watch.now() - begun


def boundary(name: str, step: Step, seconds: float) -> None:
    """Measure what the two ends of a step take where the step's own work has just emptied the caches."""
    usual, now = warm(step), time.perf_counter
    nothing, found = [], []
    with tempfile.TemporaryDirectory() as folder:
        hook = idle_hook()
        with ss.Run(folder, hooks=[hook]) as run:
            end = now() + seconds
            for with_run in turns(10**9):
                if with_run:
                    begun = now()
                    context = run.step()
                    context.__enter__()
                    first = now() - begun
                    step()
                    begun = now()
                    context.__exit__(None, None, None)
                else:
                    begun = now()
                    first = now() - begun
                    step()
                    begun = now()
                last = now() - begun
                (found if with_run else nothing).append(first + last)
                if now() > end and len(found) == len(nothing):
                    break
    mean, clock = (statistics.fmean(sorted(each)[: int(0.99 * len(each))]) for each in (found, nothing))
    print(
        f"{name}: the two ends of a step take {1e6 * (mean - clock):.1f} us, mean of {len(found)} without "
        f"the dearest hundredth (median {1e6 * (statistics.median(found) - clock):.1f}), reading the clock "
        f"{1e6 * clock:.1f} us: {1 - (mean - clock) / usual:.4f} x the speed of steps of {1e3 * usual:.1f} ms"
    )


# --- what all captures of a run steal ---------------------------------------------------------------


@dataclass
class Course:
    """What happened in a run.

    Attributes:
        gains: By block, seconds that it took longer than its steps would have without Stepscope.
        elapsed: Seconds in all.
    """

    gains: list[float] = field(default_factory=list)
    elapsed: float = 0.0


def total(name: str, step: Step, seconds: float, *, limit: float = 0.01, **options: Any) -> None:
    """Measure what captures steal that come as often as the limit allows."""
    usual = warm(step)
    with tempfile.TemporaryDirectory() as folder:
        hook = ss.ProfilerHook(save_steps=5, max_profiles=10_000, max_overhead=limit, **options)
        course = follow(step, Path(folder), seconds, hook, max(round(BLOCK_SECS / usual), 5))
        pointers = [json.loads(path.read_text()) for path in Path(folder, "profiles").glob("*.profile.json")]
    pointers = [each for each in pointers if "stolen_seconds" in each["cost"]]
    pointers.sort(key=lambda each: each["steps"])
    cost = pointers[-1]["cost"]
    own, outside = cost["run_stolen_seconds"], sum(course.gains)
    ratios = [len(course.gains) * each / course.elapsed for each in course.gains]
    print(
        f"{name}: {len(pointers)} captures in {course.elapsed:.0f} s, steps of {1e3 * usual:.1f} ms: "
        f"{100 * own / course.elapsed:.2f} % stolen by its own account (limit {100 * limit:g} %)"
    )
    print(
        f"    from outside {outside / course.elapsed:.4f} ({interval(ratios, statistics.mean)}) of the time, "
        f"{1e3 * outside / len(pointers):.0f} ms a capture; own account {1e3 * own / len(pointers):.0f} ms, "
        f"{own / outside:.2f} of that"
    )


def follow(step: Step, folder: Path, seconds: float, hook: ss.ProfilerHook, steps: int) -> Course:
    """Train with a run, in turns with blocks without, and note the time."""
    course = Course()
    with ss.Run(folder, hooks=[hook]) as run:
        begun = time.perf_counter()
        before = plain_block(step, steps)
        while time.perf_counter() - begun < seconds:
            done, started = 0, time.perf_counter()
            for _ in run.steps(iter(int, 1)):
                step()
                done += 1
                if done > 2 * steps and idle(hook):
                    break
            last = time.perf_counter()
            after = plain_block(step, steps)
            course.gains.append(last - started - done * (before + after) / 2)
            before = after
        course.elapsed = time.perf_counter() - begun
    return course


def idle(hook: Any) -> bool:
    """Whether nothing is captured, written or analysed."""
    return hook._capture is None and not hook._writing.busy


def plain_block(step: Step, steps: int) -> float:
    """Return the mean time of a step without Stepscope."""
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - begun) / steps


# --- one capture ------------------------------------------------------------------------------------


def stall(name: str, step: Step, seconds: float) -> None:
    """Compare for how long stop and export keep the training thread from running Python.

    Of torch.profiler with its TensorBoard handler, that is its stop. Of ours it is the stop, and all time
    that a loop of Python, in place of the next steps, does not get until the file is written.
    """
    warm(step)
    theirs, ours = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        with tempfile.TemporaryDirectory() as folder:
            theirs.append(their_stall(step, folder))
        gc.collect()
        with tempfile.TemporaryDirectory() as folder:
            ours.append(own_stall(step, Path(folder, "a.pt.trace.json.gz")))
        gc.collect()
    one, other = statistics.median(theirs), statistics.median(ours)
    print(
        f"{name}: stop and export {1e3 * one:.1f} ms torch.profiler, {1e3 * other:.2f} ms here: "
        f"{one / max(other, 1e-6):.1f} x less, {len(ours)} captures each (aim 5)"
    )
    print("    ms each, theirs:", *(f"{1e3 * each:.0f}" for each in theirs))
    print("    ms each, ours:", *(f"{1e3 * each:.1f}" for each in ours))


def their_stall(step: Step, folder: str, num_steps: int = 3) -> float:
    """Return the seconds that torch.profiler's stop takes."""
    import torch

    watch = Watch()
    profiler = torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler(folder))
    profiler.start()
    for number in range(num_steps):
        with torch.profiler.record_function(f"ProfilerStep#{number}"):
            step()
    begun = watch.now()
    profiler.stop()
    return watch.now() - begun


def own_stall(step: Step, path: Path, num_steps: int = 3) -> float:
    """Return the seconds that our stop takes, and for which a loop of Python is kept from running after."""
    from concurrent.futures import ThreadPoolExecutor

    from stepscope.capture.backend import CaptureOptions
    from stepscope.integrations.torch.profiler import TorchProfiler

    backend, watch = TorchProfiler(), Watch()
    path.touch()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        backend.start(CaptureOptions(modules=False))
        for number in range(num_steps):
            with backend.mark(number):
                step()
        begun = watch.now()
        export = backend.stop()
        stopped = watch.now()
        busy = time.thread_time()
        written = pool.submit(export, path)
        while not written.done():
            pass
        kept = watch.now() - stopped - (time.thread_time() - busy)
        written.result()
    return stopped - begun + max(kept, 0.0)


def scopes(name: str, step: Step, seconds: float) -> None:
    """Compare captured steps with module scopes with captured steps without."""
    watch = Watch()
    warm(step)
    found: dict[bool, list[float]] = {False: [], True: []}
    end, order = time.perf_counter() + seconds, iter(turns(10_000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.pt.trace.json.gz")
        while time.perf_counter() < end or len(found[True]) != len(found[False]):
            modules = next(order)
            found[modules].append(captured(step, path, watch, modules=modules))
    ratios = [scoped / plain for plain, scoped in zip(found[False], found[True], strict=True)]
    print(
        f"{name}: module scopes {statistics.median(ratios):.3f} x a captured step without "
        f"({interval(ratios)}, {len(ratios)} pairs; limit 1.15)"
    )


def captured(
    step: Step, path: Path, watch: Watch, *, modules: bool, num_steps: int = 5, sampled: bool = False,
    with_stack: bool = False, expected: float | None = None,
) -> float:  # fmt: skip
    """Return the median time of a captured step."""
    from stepscope.capture.backend import CaptureOptions
    from stepscope.capture.sampler import StackSampler
    from stepscope.integrations.torch.profiler import TorchProfiler

    backend = TorchProfiler()
    backend.start(CaptureOptions(modules=modules, with_stack=with_stack))
    sampler = StackSampler(expected)
    if sampled:
        sampler.start()
    found = []
    for number in range(num_steps):
        begun = watch.now()
        with backend.mark(number):
            step()
        found.append(watch.now() - begun)
    sampler.stop()
    path.touch()
    backend.stop()(path)
    return statistics.median(found[1:])


def samples(name: str, step: Step, seconds: float) -> None:
    """Compare captured steps whose stacks are sampled, or recorded, with captured steps without."""
    watch = Watch()
    expected = 10 * warm(step)
    kinds: dict[str, dict[str, Any]] = {
        "plain": {}, "sampled": {"sampled": True, "expected": expected}, "recorded": {"with_stack": True},
    }  # fmt: skip
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    end = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.pt.trace.json.gz")
        while time.perf_counter() < end or len(found["plain"]) < 5:
            for kind, how in kinds.items():
                found[kind].append(captured(step, path, watch, modules=False, num_steps=10, **how))
    for kind in ("sampled", "recorded"):
        ratios = [one / plain for plain, one in zip(found["plain"], found[kind], strict=True)]
        print(
            f"{name}: stacks {kind}: {statistics.median(ratios):.3f} x a captured step without "
            f"({interval(ratios)}, {len(ratios)} pairs; limit of sampled ones 1.05)"
        )


def account(name: str, step: Step, seconds: float) -> None:
    """Compare the run's own account with a clock outside over many captures, expensive ones."""
    total(name, step, seconds, limit=0.9, num_steps=10, with_stack=True, analyse=False)


PARTS: dict[str, Callable[[str, Step, float], None]] = {
    "between": between, "boundary": boundary, "total": total, "account": account,
    "stall": stall, "scopes": scopes, "samples": samples,
}  # fmt: skip
ONLY_TORCH = ("stall", "scopes", "samples")


def main() -> None:
    """Measure the parts and steps asked for, by default all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", nargs="?", choices=PARTS, help="only this one")
    parser.add_argument("--step", choices=STEPS, help="only this kind of step")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each part and step")
    arguments = parser.parse_args()
    if not go_first():
        print("on a machine that others use, this process waits for them")
    for name in [arguments.step] if arguments.step else STEPS:
        step = STEPS[name]()
        for part in [arguments.part] if arguments.part else PARTS:
            if part not in ONLY_TORCH or name.startswith("torch"):
                PARTS[part](name, step, arguments.seconds)


if __name__ == "__main__":
    main()
