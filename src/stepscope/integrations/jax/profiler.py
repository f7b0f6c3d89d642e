"""Captures steps with JAX's profiler into XPlane, as TensorBoard's profile plugin and XProf read it too.

``jax.profiler.stop_trace`` gathers, renders and writes while training waits, which takes minutes on large
machines. Here the session is ended by the exporting thread, with the interpreter's lock released, and only
the XPlane is written. ``jax.named_scope`` needs nothing: scopes are in the names of XLA's compiled
operations.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
from jax._src import profiler as _profiler_module  # whether the user's own trace is running is nowhere public
from jax._src.lib import _profiler

from stepscope.capture.backend import CaptureOptions, Export, Exported, resident_facts
from stepscope.errors import CaptureError

_state: Any = _profiler_module
_lib: Any = _profiler
_jax: Any = jax


def make_backend() -> JaxProfiler:
    """Return the backend."""
    return JaxProfiler()


class JaxProfiler:
    """One session after the other."""

    name, format, ending = "jax", "xplane", ".xplane.pb"

    def folder_of(self, step: int) -> str:
        """Return the folder that TensorBoard and XProf read as the session of a step."""
        return f"plugins/profile/step{step:08d}"

    def __init__(self) -> None:
        self._session: Any = None
        self._after: Any = _jax.jit(lambda number: number + 1)
        self._token: Any = None

    def prepare(self) -> None:
        """Compile the mark for the end of a capture, off the training thread, if there is time for it."""
        if self._token is None:
            self._token = self._after(_jax.numpy.zeros(()))

    def start(self, wanted: CaptureOptions) -> None:
        """Begin to record; warm-up steps are recorded too, outside of any step.

        Raises:
            CaptureError: Another recording is under way in this process.
        """
        if _state._profile_state.profile_session is not None:
            raise CaptureError(
                "another profiler is already active in this process: jax.profiler.start_trace was called",
                hint="JAX supports one profiler at a time; remove one of the two",
            )
        self.prepare()
        options = _lib.ProfileOptions()
        options.python_tracer_level = int(wanted.with_stack)
        options.host_tracer_level = 2
        self._session = _lib.ProfilerSession(options)

    def mark(self, step: int) -> AbstractContextManager[Any]:
        """Return a context that records a step."""
        mark: AbstractContextManager[Any] = _jax.profiler.StepTraceAnnotation("train", step_num=step)
        return mark

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that is recorded under a name."""
        span: AbstractContextManager[Any] = _jax.profiler.TraceAnnotation(name)
        return span

    def memory(self) -> dict[str, int]:
        """Return the memory in use, in bytes, as far as the device tells."""
        facts = resident_facts()
        stats = _jax.local_devices()[0].memory_stats() or {}
        names = {"bytes_in_use": "allocated_bytes", "peak_bytes_in_use": "peak_allocated_bytes"}
        names["bytes_reserved"] = "reserved_bytes"
        return facts | {names[key]: int(value) for key, value in stats.items() if key in names}

    def stop(self) -> Export:
        """End recording once the device has done its queued work; nothing waits for that here."""
        session, self._session = self._session, None
        last = self._after(self._token)  # behind the work of the captured steps

        def export(path: Path) -> Exported:
            last.block_until_ready()
            data = session.stop()
            path.write_bytes(data)
            return Exported(path)

        return export
