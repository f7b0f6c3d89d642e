"""The state of the program that a profile cannot show: debugging that was left on, precision, threads.

It is read in the training thread when a capture starts, from modules that the program has imported;
nothing is imported for it. The line that changed a setting is looked for in the program's own files, when the
capture is written.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
import tracemalloc
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stepscope.child import processors

Setting = bool | int | str

_JAX = (
    "jax_enable_x64", "jax_disable_jit", "jax_debug_nans", "jax_debug_infs", "jax_check_tracer_leaks",
)  # fmt: skip

_SETTERS = {
    "torch.detect_anomaly": ("detect_anomaly",),
    "torch.default_dtype": ("set_default_dtype", "set_default_tensor_type"),
    "torch.model_dtype": ("double(", "float64"),
    "torch.num_threads": ("set_num_threads", "omp_num_threads", "mkl_num_threads"),
    "tensorflow.run_functions_eagerly": ("run_functions_eagerly",),
    "python.tracemalloc": ("tracemalloc.start",),
    "python.trace": ("settrace",),
    "python.profile": ("setprofile", "cprofile."),
    "python.denormals": ("set_flush_denormal",),
    **{name: (name.removeprefix("jax_"),) for name in _JAX},
}
"""The words with which a program's source, in small letters, names each setting that it can change."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_USUAL: tuple[Setting, ...] = (False, "", "float32")
"""Values that no line needs to explain."""
_DEFINITION = re.compile(r"(\s*)(?:async )?def (\w+)")


def setters(settings: Mapping[str, Setting], files: Iterable[str]) -> dict[str, str]:
    """Return the first line that names each unusual setting, as ``file.py(29): function``.

    Args:
        settings: As :func:`settings` returns them.
        files: The program's own.
    """
    wanted = [name for name in _SETTERS if name in settings and settings[name] not in _USUAL]
    values: dict[str, str] = {}
    for file in files if wanted else ():
        for name, place in _named_in(file).items():
            if name in wanted:
                values.setdefault(name, place)
    return values


@functools.lru_cache(maxsize=4096)
def _named_in(file: str) -> dict[str, str]:
    """Return the first line of a file that names each setting; a file is read once, as it was loaded once."""
    try:
        text = Path(file).read_text(errors="replace")
    except OSError:  # deleted or moved since it was loaded
        return {}
    small = text.lower()
    here = {name: words for name, words in _SETTERS.items() if any(word in small for word in words)}
    if not here:
        return {}
    values: dict[str, str] = {}
    lines = text.splitlines()
    for at, line in enumerate(lines):
        code = line.partition("#")[0].lower()
        for name, words in here.items():
            if name not in values and any(word in code for word in words):
                values[name] = f"{file}({at + 1}): {_function_at(lines, at)}"
    return values


def _function_at(lines: list[str], at: int) -> str:
    """Return the function around a line, by the indentation of the lines before it."""
    depth = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        match = _DEFINITION.match(line)
        if match and len(match[1]) < depth:
            return match[2]
    return "<module>"


def settings() -> dict[str, Setting]:
    """Return the settings of the program by name; without those of modules that it has not imported."""
    values: dict[str, Setting] = {
        "python.trace": _name(sys.gettrace() or threading.gettrace()),
        "python.profile": _name(sys.getprofile() or threading.getprofile()),
        "python.tracemalloc": tracemalloc.is_tracing(),
        "python.dev_mode": bool(sys.flags.dev_mode),
        "python.denormals": sys.float_info.min / 2 > 0,
        "processors": _processors(),
    }
    for read in (_torch, _jax, _tensorflow):
        # Each is a private detail of a version; one that has gone is unknown.
        with contextlib.suppress(Exception):
            values |= read()
    return values


def _name(function: Any) -> str:
    """Return who set a function, ``""`` if there is none."""
    if function is None:
        return ""
    return str(getattr(function, "__module__", None) or type(function).__module__)


def _processors() -> int:
    """Return how many processors this process may use: a container's quota counts, rounded up."""
    count = processors()
    with contextlib.suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        count = min(count, max(-(-int(quota) // int(period)), 1))  # "max" is no number: no limit
    return count


def _torch() -> dict[str, Setting]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "torch.detect_anomaly": bool(torch.is_anomaly_enabled()),
        "torch.default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "torch.num_threads": int(torch.get_num_threads()),
    }


def _jax() -> dict[str, Setting]:
    jax = sys.modules.get("jax")
    return {} if jax is None else {name: bool(getattr(jax.config, name)) for name in _JAX}


def _tensorflow() -> dict[str, Setting]:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return {}
    return {"tensorflow.run_functions_eagerly": bool(tensorflow.config.functions_run_eagerly())}
