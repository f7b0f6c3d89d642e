"""A Chrome JSON file: read once, then handed to whoever knows its writer."""

from __future__ import annotations

from pathlib import Path

from stepscope.errors import TraceError
from stepscope.trace.blocks import Blocks
from stepscope.trace.chrome import draft_chrome
from stepscope.trace.document import Document, read_document
from stepscope.trace.draft import Draft
from stepscope.trace.kineto import draft_kineto, is_kineto
from stepscope.trace.onnxruntime import draft_onnxruntime, is_onnxruntime
from stepscope.trace.processes import tell_by_processes
from stepscope.trace.timeline import draft_timeline, is_timeline


def read(path: Path) -> list[Draft]:
    """Read a Kineto, TensorFlow, ONNX Runtime or other Chrome trace.

    Raises:
        TraceError: Not such a document, or one that ends before its first event.
    """
    document = read_file(path)
    if is_timeline(document):
        draft = draft_timeline(document, str(path))
    elif is_onnxruntime(document):
        draft = draft_onnxruntime(document, str(path))
    elif is_kineto(document):
        draft = draft_kineto(document, str(path))
    else:
        draft = draft_chrome(document, str(path))
        tell_by_processes(draft, document)
    draft.file_bytes = path.stat().st_size
    return [draft]


def read_file(path: Path) -> Document:
    """Read the columns of a Chrome JSON file, plain or gzipped.

    Raises:
        TraceError: Not such a document, or one that ends before its first event.
    """
    with Blocks(path) as blocks:
        try:
            document = read_document(blocks)
        except TraceError as error:
            damage = f"{error.message}; {blocks.damage}" if blocks.damage else error.message
            raise type(error)(damage, hint=error.hint, path=path) from error
        if blocks.damage:
            if not len(document):
                raise TraceError(
                    f"no event could be read: {blocks.damage}",
                    hint="copy the file again, or record again",
                    path=path,
                )
            document.notes.append(f"{blocks.damage}: events after that are lost")
            document.dropped["cut_short"] = 1
    return document
