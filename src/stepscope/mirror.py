"""Copies of log directories and profiles at URLs: they lie and are read in the user's cache directory.

This works for everything that fsspec has a driver for: ``s3://``, ``gs://``, ``hf://``. An event file only
grows, so each look copies the bytes behind the end of the copy, and checks that the copy ends as the file
does there. Event files in pieces (``events/pieces.py``) become one file again. A store may answer late,
wrongly or not at all: a request is tried again, a listing that lacks a file is not believed before the file
itself was asked for, and a failure leaves the copy as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from stepscope.errors import LogDirectoryError
from stepscope.events.pieces import Piece, covering, parse_piece
from stepscope.events.telemetry import FOLDER, parse_name
from stepscope.events.writer import EVENTS, INDEX, is_compacted, is_own_name
from stepscope.files import cache_home, inside, json_object, prune_files, replacing, write_whole
from stepscope.remote import AT_ONCE, Remote
from stepscope.urls import is_url, local_path, scheme, shown, without_secrets

T = TypeVar("T")
PIECE_BYTES = 8 << 20
OVERLAP_BYTES = 64
"""Bytes that are read again when a file has grown, to check that it is still the same file."""
PATIENCE_SECS = 2.5
"""After this long, a listing without checkpoints races the one of everything."""
FACTS, FACTS_BYTES = ".copied.json", 64 << 20
EMBEDDING_FILES = ("projector_config.pbtxt", "tensors.tsv", "metadata.tsv", "sprite.png")
"""Files of TensorBoard's projector, by the names that Stepscope and torch give them."""
TAGS = (
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "blob_id",
    "LastModified",
    "Last-Modified",
    "updated",
    "last_modified",
    "mtime",
    "created",
)
"""Names that drivers give to the fact that changes with an object's content, the surest first."""
CAPTURE_FILES = (".profile.json", ".summary.json")
"""Endings of the files beside a profile that describe it."""
_CAPTURED = re.compile(r".+_rank\d+_step\d{8,}(?:_\d+)?\..+")
"""Names of files and folders that a capture leaves, as ``capture_record.stem`` makes them."""
_PROFILED = re.compile(r".*\.(?:xplane\.pb|pt\.trace\.json(?:\.gz)?)")
"""Names that the profilers of frameworks give their files."""
_CHECKPOINTS = re.compile(
    r"(?:checkpoints?|ckpts?|(?:checkpoint|ckpt|step|epoch|global_step|iter)[-_=]?\d+.*|.*\.(?:zarr|ckpt|orbax.*))",
    re.IGNORECASE,
)
"""Names of folders in which others keep weights, often in very many files."""
_WEIGHTS = re.compile(
    r".*\.(?:pt|pth|ckpt|bin|safetensors|h5|keras|npz|npy|distcp|onnx|gguf|orbax.*|data-\d+-of-\d+|index|tar|zip)",
    re.IGNORECASE,
)
"""Files that hold weights or data, never a recording."""
MARKER = ".profile-empty"
"""TensorFlow's profiler leaves empty files with this ending."""


def copies_home(url: str) -> Path:
    """Return the directory for caches that holds the copy of a URL.

    Raises:
        LogDirectoryError: There is none.
    """
    home = cache_home()
    if home is None:
        raise LogDirectoryError(
            "nowhere to copy a remote directory to", hint="set XDG_CACHE_HOME", path=shown(url)
        )
    return home


def fetched(path: str | os.PathLike[str]) -> Path:
    """Return the path of a recording: a path as it is; for a URL, a copy with everything below it.

    Other files than recordings (see ``recordings``) are left out. Present files are not fetched again.

    Args:
        path: File or directory, or the URL of one.

    Raises:
        LogDirectoryError: The URL cannot be read.
    """
    if not is_url(path):
        return Path(path)
    url = os.fspath(path)
    if scheme(url) == "file":
        return Path(local_path(url))
    mirror = Mirror(url, everything=True)
    if mirror.unread:
        name, why = next(iter(mirror.unread.items()))
        raise LogDirectoryError(
            f"cannot fetch {Path(name).name}: {why}",
            hint="try again; what was fetched is kept",
            path=mirror.url,
        )
    return mirror.folder / mirror.file


def is_ours(path: str) -> bool:
    """Return whether a recorder gave a file its name, or the profile that the file is a part of."""
    name = path.rpartition("/")[2]
    return bool(is_wanted(f"/{path}") or is_compacted(name) or _PROFILED.fullmatch(name)) or any(
        _CAPTURED.fullmatch(part) for part in path.split("/")
    )


def recordings(paths: Iterable[str]) -> set[str]:
    """Return which files of a directory may be recordings, or belong to one.

    Files of weights are none, nor are files in a folder that is named like checkpoints. Such names prove
    little: runs and profiles have them too, ``step00000500`` or ``epoch-3``. So a recorder's file is a
        recording whatever its folders are called, and so is all that lies beside or below it.

    Args:
        paths: From the directory, with forward slashes.
    """
    own, others = set[str](), list[str]()
    for path in paths:
        if is_ours(path):
            own.add(path)
        elif not _WEIGHTS.fullmatch(path.rpartition("/")[2]):
            others.append(path)
    folders = {path.rpartition("/")[0] for path in own}
    return own | {path for path in others if not _of_checkpoint(path.split("/")[:-1], folders)}


def _of_checkpoint(parts: list[str], own: set[str]) -> bool:
    """Return whether a folder belongs to a checkpoint.

    It does if it, or one around it, is named so, and no recorder wrote into any from there inwards.
    """
    for at in reversed(range(len(parts))):
        if "/".join(parts[: at + 1]) in own:
            return False
        if _CHECKPOINTS.fullmatch(parts[at]):
            return True
    return False


def grows(name: str) -> bool:
    """Return whether a file is appended to; all others are rewritten."""
    return EVENTS in name or is_own_name(name) or parse_name(name) is not None


def is_wanted(path: str) -> bool:
    """Return whether a log directory is to have a copy of a file at once.

    Profiles, and the points of compacted logs, are fetched when somebody looks at them.
    """
    folder, _, name = path.rpartition("/")
    piece = parse_piece(name)
    name = piece.name if piece else name
    return (
        EVENTS in name
        or is_own_name(name)
        or (is_compacted(name) and name.endswith(INDEX))
        or name in EMBEDDING_FILES
        or name.endswith(CAPTURE_FILES)
        or (folder.endswith(f"/{FOLDER}") and parse_name(name) is not None)
    )


def folder_of(url: str, home: Path, *, everything: bool = False) -> Path:
    """Return the folder of a URL's copy, below a directory for caches; copies of everything lie apart."""
    key = hashlib.sha256(f"{url} {'everything' if everything else 'at once'}".encode()).hexdigest()[:32]
    name = re.sub(r"[^\w.-]", "_", shown(url).rstrip("/").rpartition("/")[2]).lstrip(".") or "root"
    return home / "remote" / key / name


@dataclass
class Copied:
    """A file of the store: the objects that hold it, by the range of it that each holds.

    Attributes:
        size: Its bytes, up to the first gap.
        tag: Changes when its one object was rewritten; empty for a file in pieces.
        modified_ns: When the newest object was written; 0 if the store does not say.
    """

    objects: dict[Piece, tuple[str, int]] = field(default_factory=dict)
    tag: str = ""
    modified_ns: int = 0

    @property
    def size(self) -> int:
        """Bytes of the file up to the first gap."""
        at = 0
        while (piece := covering(self.objects, at)) is not None:
            at = piece.end
        return at


class Elsewhere(NamedTuple):
    """A recording in the store of which there is no copy yet.

    Attributes:
        path: Of the object.
        size: Its bytes.
        tag: Changes if it was written again.
        modified_ns: When it was written, as far as the store says; the last digits tell contents apart.
    """

    path: str
    size: int
    tag: str
    modified_ns: int


class Mirror:
    """The local copy of a remote log directory.

    Args:
        url: The log directory, or a file.
        everything: Copy all recordings, not only those that are wanted at once.
        options: For the driver.

    Attributes:
        folder: Directory of the copy.
        file: The name of the file in it, if the URL is that of one.
        error: Why the last look failed; None if it did not.
        unread: Failures to copy at the last look, by name.
        elsewhere: Recordings in the store that are not copied, by their path from the log directory.

    Raises:
        LogDirectoryError: No driver, no such directory, or nowhere to copy to.
    """

    def __init__(
        self,
        url: str,
        *,
        everything: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        home = copies_home(url)
        self._address, self._options, self.url = url, dict(options or {}), shown(url)
        self._system = Remote(url, self._options)
        self._root = self._system.root
        self._of_web = scheme(url) in ("http", "https")
        self.refused: set[str] = set()
        """Files that are not copied, since their names lead out of the directory."""
        self._everything, self.file = everything, ""
        self.folder = folder_of(url, home, everything=everything)
        self.error: str | None = None
        self.unread: dict[str, str] = {}
        self.elsewhere: dict[str, Elsewhere] = {}
        self._fetched: dict[str, str] = {}
        self._fetching = threading.Lock()
        self._walks = self._looked = False
        self._tags: dict[str, str] = json_object(self.folder.parent / FACTS, FACTS_BYTES) or {}
        self._update()

    def update(self) -> None:
        """Copy new files and drop deleted ones; if the store does not answer, nothing changes."""
        try:
            self._update()
            self.error = None
        except LogDirectoryError as error:
            self.error = error.message

    def _update(self) -> None:
        try:
            listed = self._list()
            self.folder.mkdir(parents=True, exist_ok=True)
            have = set(_files_below(self.folder.resolve()))
            files = self._files(listed, have)
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stepscope-fetch") as pool:
                copies = {pool.submit(self._copy, local, file): local for local, file in files.items()}
                gone = [pool.submit(self._confirm, local) for local in have if local not in files]
                wait([*copies, *gone])
            self.unread = {
                str(local): self._said(error) for run, local in copies.items() if (error := run.exception())
            }
            self._tags = {**self._fetched, **self._copied_tags(files, copies)}
            _write_tags(self.folder.parent / FACTS, self._tags)
            self._looked = True
        except LogDirectoryError:
            raise
        except Exception as error:  # noqa: BLE001  each driver has errors of its own
            raise LogDirectoryError(
                f"cannot read: {self._said(error)}",
                hint="check the address, the network and your credentials" + self._of_server(),
                path=self.url,
            ) from None

    def _of_server(self) -> str:
        """Return the way to ask a running server, whose address a user may have given as that of a log."""
        if not self.url.startswith(("http://", "https://")):
            return ""
        return f"; if a stepscope server runs there, put a question to it: stepscope ask runs {self.url}"

    def _copied_tags(self, files: dict[Path, Copied], copies: dict[Future[None], Path]) -> dict[str, str]:
        """Return the tag of each copy; the earlier one if it could not be brought up to date."""
        tags = {str(local): file.tag for local, file in files.items()}
        for run, local in copies.items():
            have = local.stat().st_size if local.exists() else -1
            if run.exception() is not None or have != files[local].size:
                tags[str(local)] = self._tags.get(str(local), "")
        return tags

    def _said(self, error: BaseException) -> str:
        return without_secrets(error, self._address, self._options) or type(error).__name__

    # --- listing ------------------------------------------------------------------------------------

    def _list(self) -> dict[str, dict[str, Any]]:
        """Return all objects that are wanted.

        One listing of everything below an address is quickest, unless there are checkpoints with a hundred
        thousand files below it: then the folders are listed in parallel. One that is named as checkpoints are
        is listed too, as its contents tell its type: if it holds files and none of a recorder, it is left
        out.
        """
        self._system.invalidate_cache()
        objects = self._walk() if self._walks else self._race()
        if list(objects) == [self._root]:  # it is a file
            self.file = self._root.rpartition("/")[2]
            self._root = self._root.rpartition("/")[0]
        if not objects and not self._system.exists(self._root):
            raise LogDirectoryError(
                "no such log directory", hint="check the address" + self._of_server(), path=self.url
            )
        self._system.invalidate_cache()  # what is asked of a single file is not to be answered from a listing
        return self._with_sizes(objects)

    def _with_sizes(self, objects: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the objects with the size of each that may be read: listings of web servers have none."""
        without = [path for path, facts in objects.items() if facts.get("size") is None]
        recorded = self._recordings(objects) if without else set()
        unknown = [path for path in without if path in recorded]
        if not unknown:
            return objects
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stepscope-list") as pool:
            sizes = dict(zip(unknown, pool.map(self._facts, unknown), strict=True))
        return {path: sizes.get(path, facts) for path, facts in objects.items() if sizes.get(path, facts)}

    def _recordings(self, listed: Iterable[str]) -> set[str]:
        """Return which objects may be recordings, judged by their place in the directory alone."""
        names = {path.removeprefix(self._root).lstrip("/"): path for path in listed}
        return {names[name] for name in recordings(names)} | {path for path in listed if is_wanted(path)}

    def _facts(self, path: str) -> dict[str, Any]:
        """Return the store's facts about a file; nothing if it is gone or its length is not told."""
        try:
            facts = self._system.info(path)
        except FileNotFoundError:
            return {}
        return facts if facts.get("size") is not None else {}

    def _race(self) -> dict[str, dict[str, Any]]:
        whole, walk = _in_thread(self._find), None
        done, _ = wait([whole], timeout=PATIENCE_SECS)
        if done:
            return whole.result()
        walk = _in_thread(self._walk)
        done, _ = wait([whole, walk], return_when=FIRST_COMPLETED)
        first = next((task for task in (whole, walk) if task in done and not task.exception()), None)
        if first is None:
            wait([whole, walk])
            first = whole if not whole.exception() else walk
        self._walks = first is walk and not walk.exception()
        return first.result()

    def _find(self) -> dict[str, dict[str, Any]]:
        return self._system.find(self._root)

    def _walk(self) -> dict[str, dict[str, Any]]:
        """List folder after folder, but nothing below those that hold a checkpoint."""
        objects: dict[str, dict[str, Any]] = {}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stepscope-list") as pool:
            waiting = {pool.submit(self._entries, self._root): False}
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for listing in done:
                    suspect, entries = waiting.pop(listing), listing.result()
                    paths = {str(entry["name"]).rstrip("/"): entry for entry in entries}
                    files = {path: entry for path, entry in paths.items() if entry["type"] != "directory"}
                    objects |= files
                    if suspect and files and not any(map(self._is_ours, paths)):
                        continue
                    for path in paths.keys() - files.keys() - {self._root}:
                        named = bool(_CHECKPOINTS.fullmatch(path.rpartition("/")[2]))
                        inherits = suspect and not any(map(self._is_ours, files))
                        waiting[pool.submit(self._entries, path)] = named or inherits
        return objects

    def _is_ours(self, path: str) -> bool:
        return is_ours(path.removeprefix(self._root).lstrip("/"))

    def _entries(self, folder: str) -> list[dict[str, Any]]:
        try:
            entries: list[dict[str, Any]] = self._system.ls(folder, detail=True)
        except FileNotFoundError:
            return []
        return entries

    def _files(self, listed: dict[str, dict[str, Any]], have: set[Path]) -> dict[Path, Copied]:
        """Return the files that the objects hold and of which there is to be a copy, by its place.

        Args:
            listed: All objects.
            have: Copies that there are: files fetched once are kept up to date.
        """
        files: dict[Path, Copied] = {}
        elsewhere: dict[str, Elsewhere] = {}
        recorded = self._recordings(listed)
        for path, facts in listed.items():
            if path not in recorded:
                continue
            wanted = self._everything or is_wanted(path)
            folder, _, last = path.rpartition("/")
            size = int(facts.get("size") or 0)
            piece = (parse_piece(last) if wanted else None) or Piece(last, 0, size)
            name = f"{folder}/{piece.name}".removeprefix(self._root).lstrip("/")
            if self._of_web:
                name = unquote(name)
            try:
                local = inside(self.folder, name)
            except LogDirectoryError:
                self.refused.add(path)  # a store's keys may hold "..", which leads out of the copy
                continue
            if not wanted and local not in have:
                elsewhere[name] = Elsewhere(path, size, _tag(facts), _modified_ns(facts))
                continue
            file = files.setdefault(local, Copied())
            file.objects[piece] = (path, size)
            file.modified_ns = max(file.modified_ns, _modified_ns(facts))
            if piece.name == last:
                file.tag = _tag(facts)
        self.elsewhere = elsewhere
        return files

    # --- what is fetched when it is asked for -------------------------------------------------------

    def fetch(self, names: Iterable[str]) -> None:
        """Copy recordings that are elsewhere; from then on they are kept up to date like the others.

        Args:
            names: Their paths from the log directory. Those that are not elsewhere are left out.

        Raises:
            LogDirectoryError: One cannot be copied.
        """
        wanted = {name: place for name in names if (place := self.elsewhere.get(name)) is not None}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stepscope-fetch") as pool:
            done = {name: pool.submit(self._fetch, name, place) for name, place in wanted.items()}
        if wanted:
            with self._fetching:
                _write_tags(self.folder.parent / FACTS, self._tags)
        for name, future in done.items():
            if (error := future.exception()) is not None:
                raise self._cannot_fetch(name, error)

    def _fetch(self, name: str, place: Elsewhere) -> None:
        local = inside(self.folder, name)
        local.parent.mkdir(parents=True, exist_ok=True)
        self._replace_whole(local, place)
        if place.modified_ns:
            os.utime(local, ns=(place.modified_ns, place.modified_ns))
        with self._fetching:
            self._fetched[str(local)] = place.tag
            self._tags = {**self._tags, str(local): place.tag}
            elsewhere = dict(self.elsewhere)
            elsewhere.pop(name, None)
            self.elsewhere = elsewhere

    def cached(self, name: str) -> Path:
        """Return a copy of a recording that is elsewhere, one for each version of it.

        It lies apart from the other copies, and is deleted as the files of a cache are.

        Raises:
            LogDirectoryError: It is not there, or cannot be copied.
        """
        place = self._elsewhere(name)
        version = hashlib.sha256(f"{name} {place.size} {place.tag}".encode()).hexdigest()[:32]
        local = self.folder.parent / "cached" / version
        if local.exists():
            os.utime(local)  # in use
            return local
        try:
            local.parent.mkdir(parents=True, exist_ok=True)
            self._replace_whole(local, place)
        except Exception as error:  # noqa: BLE001  each driver has errors of its own
            raise self._cannot_fetch(name, error) from None
        prune_files(local.parent, local)
        return local

    def head(self, name: str, size: int) -> bytes:
        """Return the first bytes of a recording that is elsewhere.

        Raises:
            LogDirectoryError: It is not there, or cannot be read.
        """
        place = self._elsewhere(name)
        try:
            return self._system.read(place.path, 0, min(size, place.size))
        except Exception as error:  # noqa: BLE001  each driver has errors of its own
            raise self._cannot_fetch(name, error) from None

    def _elsewhere(self, name: str) -> Elsewhere:
        place = self.elsewhere.get(name)
        if place is None:
            raise LogDirectoryError("no such file", hint="read the log again", path=f"{self.url}/{name}")
        return place

    def _cannot_fetch(self, name: str, error: BaseException) -> LogDirectoryError:
        return LogDirectoryError(
            f"cannot fetch {name}: {self._said(error)}",
            hint="try again; what was fetched is kept",
            path=self.url,
        )

    # --- copying ------------------------------------------------------------------------------------

    def _copy(self, local: Path, copied: Copied) -> None:
        """Bring a copy up to date; it is as old as the store says, or a run that ended would seem to run.

        A file that grows from one look to the next is written now, whatever the clock of the store says.
        """
        local.parent.mkdir(parents=True, exist_ok=True)
        is_seen = self._looked and local.exists()
        if self._brings(local, copied) and copied.modified_ns and not is_seen:
            os.utime(local, ns=(copied.modified_ns, copied.modified_ns))

    def _brings(self, local: Path, copied: Copied) -> bool:
        have, size = local.stat().st_size if local.exists() else -1, copied.size
        if not grows(local.name):
            old = have != size or self._tags.get(str(local)) != copied.tag
        elif have > size:
            old = self._has_shrunk(copied, have)
        elif local.name.endswith(MARKER):
            local.touch()
            return False
        elif have < size:
            self._append(local, copied, max(have, 0), size)
            return True
        else:  # some programs make room for all of a file before they copy it
            old = bool(copied.tag) and self._tags.get(str(local), "") not in ("", copied.tag)
        if old:
            self._replace(local, copied, size)
        return old

    def _append(self, local: Path, copied: Copied, have: int, size: int) -> None:
        back = min(have, OVERLAP_BYTES)
        if (piece := covering(copied.objects, have - back)) is None or piece.end <= have:
            back = 0  # the copy ends where an object does, and a piece is never written anew
        at = have - back
        # The first read comes before the file is made: one that the store refuses is missing, and not empty.
        data = self._read(copied, at, min(size, at + PIECE_BYTES)) if size else b""
        with local.open("a+b") as file:
            while at < size:
                if at < have:
                    file.seek(at)
                    if file.read(back) != data[:back]:
                        break
                    at, data = have, data[back:]
                file.write(data)
                at += len(data)
                if at < size:
                    data = self._read(copied, at, min(size, at + PIECE_BYTES))
        if at < size:
            self._replace(local, copied, size)

    def _replace_whole(self, local: Path, place: Elsewhere) -> None:
        whole = Piece(local.name, 0, place.size)
        self._replace(local, Copied({whole: (place.path, place.size)}, place.tag), place.size)

    def _replace(self, local: Path, copied: Copied, size: int) -> None:
        with replacing(local) as file:
            at = 0
            while at < size:
                data = self._read(copied, at, min(size, at + PIECE_BYTES))
                file.write(data)
                at += len(data)

    def _read(self, copied: Copied, start: int, end: int) -> bytes:
        """Return bytes of a file, up to the end of the object that holds the first of them."""
        piece = covering(copied.objects, start)
        if piece is None:
            raise OSError(f"byte {start} is in no object of the store")
        path, size = copied.objects[piece]
        head = size - (piece.end - piece.start)
        first, last = head + start - piece.start, head + min(end, piece.end) - piece.start
        return self._system.read(path, first, last)

    def _has_shrunk(self, copied: Copied, have: int) -> bool:
        """Ask for the objects themselves: a listing may be older than the copy."""
        now = Copied()
        for piece, (path, _) in copied.objects.items():
            with suppress(FileNotFoundError):
                size = int(self._system.info(path)["size"] or 0)
                whole = parse_piece(path.rpartition("/")[2]) is None
                now.objects[Piece(piece.name, 0, size) if whole else piece] = (path, size)
        return now.size < have

    def _confirm(self, local: Path) -> None:
        """Delete the copy of a file that the listing lacks, if the store confirms that it is gone."""
        name = local.relative_to(self.folder.resolve()).as_posix()
        try:
            self._system.info(f"{self._root}/{name}")
        except FileNotFoundError:
            local.unlink(missing_ok=True)
        except Exception:  # noqa: BLE001  it does not answer: the copy stays
            return


def _tag(facts: Mapping[str, Any]) -> str:
    """Return an object's tag in a listing, or its time of writing."""
    return next((str(facts[name]) for name in TAGS if facts.get(name)), "")


def _modified_ns(facts: Mapping[str, Any]) -> int:
    """Return when a listing says that an object was written, 0 if it does not.

    Stores know the second; the digits below a millisecond tell versions of the same second apart.
    """
    for name in ("LastModified", "Last-Modified", "last_modified", "updated", "mtime", "created"):
        moment = facts.get(name)
        if isinstance(moment, str):
            with suppress(ValueError):
                moment = (
                    _http_date(moment)
                    if "-" in name
                    else datetime.fromisoformat(moment.replace("Z", "+00:00"))
                )
        if isinstance(moment, datetime):
            moment = moment.timestamp()
        if isinstance(moment, int | float) and moment > 0:
            return int(moment * 1000) * 1_000_000 + zlib.crc32(_tag(facts).encode()) % 1_000_000
    return 0


def _http_date(text: str) -> datetime:
    from email.utils import parsedate_to_datetime  # 30 ms, for web servers alone

    return parsedate_to_datetime(text)


def _files_below(folder: Path) -> Iterable[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]


def _in_thread(call: Callable[[], T]) -> Future[T]:
    """Run a call on a thread that the end of the process does not wait for."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            future.set_exception(error)

    threading.Thread(target=work, name="stepscope-list", daemon=True).start()
    return future


def _write_tags(path: Path, tags: dict[str, str]) -> None:
    write_whole(path, json.dumps({name: tag for name, tag in tags.items() if tag}).encode())
