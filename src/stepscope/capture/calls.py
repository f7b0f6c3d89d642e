"""The names of the functions that a line of the program calls: those written in C have no frame.

Read from the source when a capture is written, off the training thread.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import itertools
import linecache
import os
import sysconfig
from pathlib import Path
from types import CodeType

_FOLDERS = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_INSTALLED = ("<", *(f"{folder}{os.sep}" for folder in (*_FOLDERS, Path(__file__).resolve().parents[1])))
"""Beginnings of paths whose lines are not the program's own."""
_CALLS = frozenset(number for name, number in dis.opmap.items() if name.startswith(("CALL", "PRECALL")))


def called_text(code: CodeType, instruction: int) -> str:
    """Return ``<call of pickle.dump>`` where a line of the program calls something at an instruction.

    Empty for code of installed packages, where nothing is called, and where Python does not tell columns
    (before 3.11) or the source is not there.

    Args:
        code: Of the frame.
        instruction: Offset in bytes of the instruction that the frame is at.
    """
    if code.co_filename.startswith(_INSTALLED) or not hasattr(code, "co_positions"):
        return ""
    if not 0 <= instruction < len(code.co_code) or code.co_code[instruction] not in _CALLS:
        return ""
    line, last, begin, end = next(itertools.islice(code.co_positions(), instruction // 2, None))
    if line is None or last is None or begin is None or end is None:
        return ""
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[line - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):  # the file is another one by now
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
        name = _dotted(call.func) if isinstance(call, ast.Call) else ""
        return f"<call of {name}>" if name else ""
    return ""


def _dotted(node: ast.expr) -> str:
    """Return ``pickle.dump`` for a name and its attributes, ``.write`` for an attribute of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""
