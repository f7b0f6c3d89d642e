"""Ends a Kineto recording and writes it without the interpreter's lock, where that is safe to do.

PyTorch's ``_disable_profiler`` and ``_ProfilerResult.save`` take tens of milliseconds per captured step with
the lock held, so that training stands still whichever thread calls them. The C++ functions behind them need
no interpreter. They are called here through their symbols, by a thread that has let go of the lock:

* ``disableProfiler()`` returns a smart pointer, for which the caller passes an address (x86-64 System V ABI)
* ``ProfilerResult::save`` takes a ``std::string``, whose layout libstdc++'s ABI fixes; its name is part of
  the symbol
* what was returned is used only if it begins with a plausible time of start, its first member

It is done on Linux, x86-64, CPython with a lock, and the versions of PyTorch that this was tested with,
builds without a device so far. An exception in C++ would end the process here, so nothing untested is tried.
Everywhere else the ordinary way is taken: right, but training waits. Where Python stacks or allocations are
recorded, the recording belongs to one thread and must be ended there; only the writing is then done here.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

TESTED = ((2, 13),)
"""Versions of PyTorch."""
_RESULT = "_ZN5torch8autograd8profiler14ProfilerResult"
_DISABLE = "_ZN5torch8autograd8profiler15disableProfilerEv"
_SAVE = _RESULT + "4saveERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_DESTROY, _DELETE = _RESULT + "D1Ev", "_ZdlPv"
_WORDS = 8
"""Room for whatever smart pointer is returned."""
_VALUE_AT = 16
_LONGEST_NS = 24 * 3600 * 10**9


class _String(ctypes.Structure):
    """libstdc++'s std::string: the text, its length, a buffer for short ones."""

    _fields_ = (("text", ctypes.c_char_p), ("length", ctypes.c_size_t), ("buffer", ctypes.c_char * 16))


@dataclass(frozen=True)
class Native:
    """The functions; each call releases the interpreter's lock."""

    disable: Any
    save: Any
    destroy: Any
    delete: Any

    def write(self, path: Path) -> bool:
        """End the recording and write it as Chrome JSON; False where what was returned is not understood.

        Args:
            path: Exists and can be written.
        """
        returned = (ctypes.c_uint64 * _WORDS)()
        self.disable(ctypes.addressof(returned))
        address = returned[0]
        if not address or not plausible(ctypes.c_uint64.from_address(address).value, time.time_ns()):
            return False
        self._save(address, path)
        self.destroy(address)
        self.delete(address)
        return True

    def write_result(self, result: Any, path: Path) -> bool:
        """Write what ``_disable_profiler`` returned; False, and nothing written, where it is not understood.

        Args:
            result: Its C++ object is pointed to right after the header that every Python object has.
            path: Exists and can be written.
        """
        if type(result).__name__ != "_ProfilerResult" or type(result).__basicsize__ < _VALUE_AT + 8:
            return False
        address = ctypes.c_uint64.from_address(id(result) + _VALUE_AT).value
        if not address or ctypes.c_uint64.from_address(address).value != result.trace_start_ns():
            return False
        self._save(address, path)
        return True

    def _save(self, address: int, path: Path) -> None:
        text = os.fsencode(path)
        self.save(address, ctypes.byref(_String(text, len(text), b"")))


def plausible(start_ns: int, now_ns: int) -> bool:
    """Whether a number can be when a recording began: at most a day ago."""
    return now_ns - _LONGEST_NS < start_ns <= now_ns


def is_tested(version: str, *, system: str, machine: str, device: str | None = None) -> bool:
    """Whether the calls were tested with this version on this kind of machine.

    Args:
        version: Of PyTorch.
        system: As ``sys.platform``.
        machine: As ``platform.machine()``.
        device: Version of CUDA or ROCm that PyTorch was built for.
    """
    if device is not None:
        return False
    parts = version.split("+")[0].split(".")
    number = tuple(int(part) for part in parts[:2] if part.isdecimal())
    return number in TESTED and system == "linux" and machine in ("x86_64", "AMD64")


@lru_cache(maxsize=1)
def find() -> Native | None:
    """Return the functions, None where they cannot be used."""
    import torch

    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    plain = sys.implementation.name == "cpython" and not free_threaded
    switched_off = os.environ.get("STEPSCOPE_NATIVE_EXPORT", "1") == "0"
    if (
        switched_off
        or not plain
        or not is_tested(
            torch.__version__,
            system=sys.platform,
            machine=platform.machine(),
            device=torch.version.cuda or torch.version.hip,
        )
    ):
        return None
    try:
        torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        standard_library = ctypes.CDLL("libstdc++.so.6")
        found = Native(
            torch_library[_DISABLE], torch_library[_SAVE], torch_library[_DESTROY], standard_library[_DELETE]
        )
    except (OSError, AttributeError):
        return None
    for function in (found.disable, found.destroy, found.delete):
        function.argtypes, function.restype = [ctypes.c_void_p], None
    found.save.argtypes, found.save.restype = [ctypes.c_void_p, ctypes.POINTER(_String)], None
    return found
