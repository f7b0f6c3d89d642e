"""Pickles that profilers write, read without running anything in them.

Flight-recorder dumps and CUDA memory snapshots are plain dicts, lists, texts and numbers; a pickle that
refers to anything else is refused before that is loaded.
"""

from __future__ import annotations

import io
import pickle
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from stepscope.errors import TraceError
from stepscope.kernels import opcodes, warn_if_uncompiled
from stepscope.trace.blocks import Blocks
from stepscope.trace.draft import Draft
from stepscope.trace.flight_recorder import draft_flight_recorder
from stepscope.trace.memory_snapshot import draft_memory_snapshot

warn_if_uncompiled(opcodes)


class _PlainUnpickler(pickle.Unpickler):
    """Builds containers, texts and numbers; every global is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, identity: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to an object outside of it")


def load_plain(path: Path) -> Any:
    """Read a pickle of plain data, of any protocol up to 5.

    Raises:
        TraceError: It is cut short or damaged, or holds anything but plain data.
    """
    try:
        with Blocks(path) as blocks:
            data = b"".join(blocks)
        at = opcodes.first_wrong(memoryview(data), _arguments())
        if at >= 0:
            raise ValueError(f"byte {at:,} asks for more than the {len(data):,} bytes of the file can hold")
        return _PlainUnpickler(io.BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        raise TraceError(
            f"refused to read the pickle: {error}; expected dicts, lists, texts and numbers only",
            hint="a profile holds nothing else; do not unpickle this file with anything that runs code",
            path=path,
        ) from error
    except MemoryError as error:
        raise TraceError(
            "the pickle takes more memory than there is",
            hint="read it on a machine with more; if it is small, it is damaged",
            path=path,
        ) from error
    except (
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        AttributeError,
        TypeError,
        OverflowError,
    ) as error:
        raise TraceError(
            f"the pickle is damaged or cut short: {error}",
            hint="copy the file again, or record again",
            path=path,
        ) from error


@cache
def _arguments() -> memoryview:
    """Return the size of each opcode's argument as the kernel wants it."""
    import pickletools

    lengths = {
        pickletools.UP_TO_NEWLINE: opcodes.LINE,
        pickletools.TAKEN_FROM_ARGUMENT1: opcodes.LENGTH_1,
        pickletools.TAKEN_FROM_ARGUMENT4: opcodes.LENGTH_4,
        pickletools.TAKEN_FROM_ARGUMENT4U: opcodes.LENGTH_4,
        pickletools.TAKEN_FROM_ARGUMENT8U: opcodes.LENGTH_8,
    }
    kinds = np.full(256, opcodes.UNKNOWN, np.int16)
    for opcode in pickletools.opcodes:
        size = 0 if opcode.arg is None else opcode.arg.n
        pair = opcode.arg is not None and opcode.arg.name == "stringnl_noescape_pair"
        kinds[ord(opcode.code)] = opcodes.TWO_LINES if pair else lengths.get(size, size)
    kinds[ord(pickle.FRAME)] = opcodes.LENGTH_8
    return kinds.data


def read(path: Path) -> list[Draft]:
    """Read a flight-recorder dump or a CUDA memory snapshot.

    Raises:
        TraceError: A pickle of something else, or one that is damaged or hostile.
    """
    content = load_plain(path)
    if isinstance(content, dict) and "entries" in content:
        draft = draft_flight_recorder(content, str(path))
    elif isinstance(content, dict) and ("device_traces" in content or "segments" in content):
        draft = draft_memory_snapshot(content, str(path))
    else:
        shown = (
            ", ".join(map(str, list(content)[:6])) if isinstance(content, dict) else type(content).__name__
        )
        raise TraceError(
            "a pickle, but not a profile: expected a flight-recorder dump or a memory snapshot, found "
            f"{shown}",
            hint="pass what torch.cuda.memory._dump_snapshot() or TORCH_FR_DUMP_TEMP_FILE wrote",
            path=path,
        )
    draft.file_bytes = path.stat().st_size
    return [draft]
