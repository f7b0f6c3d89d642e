"""Captures steps of TensorFlow 2, and Keras on it, into XPlane, as TensorBoard and XProf read it too.

``tf.profiler.experimental.stop`` gathers and writes while training waits. Here the exporting thread does it.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.profiler import profiler_v2 as _profiler_v2
from tensorflow.python.profiler.internal import _pywrap_profiler

from stepscope.capture.backend import CaptureOptions, Export, Exported, resident_facts
from stepscope.errors import CaptureError

_tf: Any = tf
_theirs: Any = _profiler_v2
_library: Any = _pywrap_profiler


def make_backend() -> TensorFlowProfiler:
    """Return the backend."""
    return TensorFlowProfiler()


class TensorFlowProfiler:
    """One session after the other."""

    name, format, ending = "tensorflow", "xplane", ".xplane.pb"

    def folder_of(self, step: int) -> str:
        """Return the folder that TensorBoard and XProf read as the session of a step."""
        return f"plugins/profile/step{step:08d}"

    def __init__(self) -> None:
        self._session: Any = None
        self._scratch = Path()

    def start(self, wanted: CaptureOptions) -> None:
        """Begin to record; warm-up steps are recorded too, outside of any step.

        Raises:
            CaptureError: Another recording is under way in this process.
        """
        if _theirs._profiler is not None:
            raise _busy()
        session = _library.ProfilerSession()
        options = {"host_tracer_level": 2, "python_tracer_level": int(wanted.with_stack)}
        scratch = Path(tempfile.mkdtemp(prefix="stepscope-"))
        try:
            session.start(str(scratch), {**options, "device_tracer_level": 1})
        except _tf.errors.AlreadyExistsError:
            scratch.rmdir()
            raise _busy() from None
        self._session, self._scratch = session, scratch

    def mark(self, step: int) -> AbstractContextManager[Any]:
        """Return a context that records a step."""
        mark: AbstractContextManager[Any] = _tf.profiler.experimental.Trace("train", step_num=step, _r=1)
        return mark

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that is recorded under a name."""
        span: AbstractContextManager[Any] = _tf.profiler.experimental.Trace(name)
        return span

    def memory(self) -> dict[str, int]:
        """Return the memory in use, in bytes, as far as the device tells."""
        facts = resident_facts()
        if _tf.config.list_logical_devices("GPU"):
            usage = _tf.config.experimental.get_memory_info("GPU:0")
            facts |= {"allocated_bytes": int(usage["current"]), "peak_allocated_bytes": int(usage["peak"])}
        return facts

    def stop(self) -> Export:
        """Return the function that ends the recording, on the exporting thread."""
        session, scratch, self._session = self._session, self._scratch, None

        def export(path: Path) -> Exported:
            try:
                session.export_to_tb()
                (made,) = scratch.rglob("*.xplane.pb")
                shutil.move(made, path)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            return Exported(path)

        return export


def _busy() -> CaptureError:
    return CaptureError(
        "another profiler is already active in this process: tf.profiler.experimental, or profile_batch of "
        "Keras's TensorBoard callback",
        hint="TensorFlow records one thing at a time; leave out one of the two",
    )
