"""Event files in pieces in a directory, as a mounted bucket shows them: each is assembled in the cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from stepscope.events.pieces import Piece, covering, parse_piece
from stepscope.files import cache_home
from stepscope.store.discover import Files

COPY_BYTES = 8 << 20


class Assembler:
    """Assembles the files of a log directory that holds them in pieces.

    Args:
        root: The log directory.
    """

    def __init__(self, root: str) -> None:
        home = cache_home()
        key = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]
        self._folder = home / "pieces" / key if home else None

    def whole(self, runs: dict[str, Files]) -> dict[str, Files]:
        """Return the same event files, with one file in place of all its pieces.

        Raises:
            OSError: The cache cannot be written, or a piece cannot be read.
        """
        if self._folder is None:
            return runs
        return {run: self._of_run(files) for run, files in runs.items()}

    def _of_run(self, files: Files) -> Files:
        pieces: dict[str, dict[Piece, str]] = {}
        for path in files:
            folder, _, name = path.rpartition("/")
            if (piece := parse_piece(name)) is not None:
                pieces.setdefault(f"{folder}/{piece.name}", {})[piece] = path
        if not pieces:
            return files
        inside = {path for held in pieces.values() for path in held.values()}
        whole = {path: stat for path, stat in files.items() if path not in inside}
        for path, held in pieces.items():
            size = whole[path].st_size if path in whole else 0
            if size < max(piece.end for piece in held):
                name = path.rpartition("/")[2]
                if size:
                    held[Piece(name, 0, size)] = path
                    del whole[path]
                local = self._assembled(path, held, files)
                whole[local] = os.stat(local)  # noqa: PTH116  as all of a listing
        return whole

    def _assembled(self, path: str, held: dict[Piece, str], files: Files) -> str:
        """Append the new pieces to a file in the cache, and return its path."""
        assert self._folder is not None
        folder = self._folder / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        local = folder / path.rpartition("/")[2]
        with local.open("ab") as out:
            at = out.tell()
            while (piece := covering(held, at)) is not None:
                place = held[piece]
                head = files[place].st_size - (piece.end - piece.start)
                with Path(place).open("rb") as file:
                    file.seek(head + at - piece.start)
                    while data := file.read(COPY_BYTES):
                        out.write(data)
                if out.tell() <= at:
                    break
                at = out.tell()
        return str(local)
