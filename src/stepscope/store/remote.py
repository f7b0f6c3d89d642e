"""Log directories at a URL: new bytes are copied into the user's cache directory and read there.

Whatever fsspec has a driver for: ``s3://``, ``gs://``, ``hf://``. An event file only grows, so each look
copies what lies behind the end of the copy; a file that became shorter is copied anew. One that was replaced
by a longer one is not told from growth; its records then do not fit together and are counted as damage.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from stepscope.errors import LogDirectoryError
from stepscope.events.telemetry import FOLDER, parse_name
from stepscope.store.cache import cache_home
from stepscope.store.discover import carries_data, is_event_file
from stepscope.store.inside import inside

PIECE_BYTES = 8 << 20
EMBEDDING_FILES = ("projector_config.pbtxt", "tensors.tsv", "metadata.tsv", "sprite.png")
"""Of TensorBoard's projector, by the names that Stepscope and torch give them."""


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether a log directory is given as a URL."""
    return isinstance(path, str) and "://" in path


def is_wanted(path: str) -> bool:
    """Return whether a file is to be copied: an event file, the file of a rank, or one of an embedding."""
    folder, _, name = path.rpartition("/")
    return (
        is_event_file(name)
        or name in EMBEDDING_FILES
        or (folder.endswith(f"/{FOLDER}") and parse_name(name) is not None)
    )


class Mirror:
    """The local copy of a remote log directory.

    Args:
        url: The log directory.

    Raises:
        LogDirectoryError: No driver, no such directory, or nowhere to copy to.
    """

    def __init__(self, url: str) -> None:
        import fsspec

        home = cache_home()
        if home is None:
            raise LogDirectoryError(
                "nowhere to copy a remote directory to", hint="set XDG_CACHE_HOME", path=url
            )
        try:
            self._system, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            hint = "install the driver that fsspec names"
            raise LogDirectoryError(
                f"cannot read a directory like this: {error}", hint=hint, path=url
            ) from error
        self.url = url
        self.refused: set[str] = set()
        """Files that are not copied, since their names lead out of the directory."""
        self.folder = home.parent / "remote" / hashlib.sha256(url.encode()).hexdigest()[:32]
        self.update()

    def update(self) -> None:
        """Copy what is new, and drop what is gone.

        Raises:
            LogDirectoryError: The directory cannot be listed, or a copy cannot be written.
        """
        try:
            self._system.invalidate_cache()
            found: dict[str, dict[str, Any]] = self._system.find(self._root, detail=True)
            if not found and not self._system.exists(self._root):
                raise LogDirectoryError("no such log directory", hint="check the address", path=self.url)
            files = {path: facts for path, facts in found.items() if is_wanted(path)}
            self.folder.mkdir(parents=True, exist_ok=True)
            kept = set()
            for path, facts in files.items():
                try:
                    copy = inside(self.folder, path.removeprefix(self._root).lstrip("/"))
                except LogDirectoryError:
                    self.refused.add(path)  # a store's keys may hold "..", which leads out of the copy
                    continue
                kept.add(self._copy(path, copy, facts["size"] or 0))
        except LogDirectoryError:
            raise
        except Exception as error:  # each driver has errors of its own
            raise LogDirectoryError(
                f"cannot read: {error}",
                hint="check the address, the network and your credentials",
                path=self.url,
            ) from error
        for local in self.folder.resolve().rglob("*"):
            if local.is_file() and local not in kept:
                local.unlink()

    def _copy(self, path: str, copy: Path, size: int) -> Path:
        copy.parent.mkdir(parents=True, exist_ok=True)
        have = copy.stat().st_size if copy.exists() else -1
        # Files of embeddings are not appended to, but written anew.
        if have > size or (have >= 0 and have != size and copy.name in EMBEDDING_FILES):
            copy.unlink()
            have = -1
        if have < 0 or (have < size and carries_data(path)):
            with copy.open("ab") as out:
                for start in range(max(have, 0), size, PIECE_BYTES):
                    out.write(self._system.cat_file(path, start=start, end=min(size, start + PIECE_BYTES)))
        return copy
