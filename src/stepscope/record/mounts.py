"""File systems shared with other machines, found in the mount table: how a run must be written there.

Flushed bytes are seen by the other processes of the machine. Whether and when another machine
sees it is decided by the file system:

- Buckets that are mounted make an object of a file when it is closed, some only then, and cannot append to it
  afterwards: nothing of an open file is ever seen. A run is sent there in pieces.
- NFS and its like keep written bytes in the cache of this machine, for half a minute and more, until the
  file is synchronized or closed (nfs(5): close-to-open cache consistency). A run is written in place, and
  what is flushed is synchronized.
- Lustre, GPFS and Ceph hold the caches of all machines together by locks: what was flushed is there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, NamedTuple

from stepscope.errors import UsageError
from stepscope.record.bounded import Call

Manner = Literal["in place", "synchronized", "pieces"]
"""How a run is written: as on a disk; as on a disk with each flush synced; or in closed pieces from a
spool."""
BUCKETS = frozenset(
    {"gcsfuse", "s3fs", "mountpoint-s3", "goofys", "geesefs", "blobfuse", "blobfuse2", "rclone", "ossfs",
     "ossfs2", "cosfs", "obsfs", "tosfs", "riofs", "yas3fs", "dbfs", "hf-mount"}
)  # fmt: skip
"""Object stores: a file there appears when it is closed, or is written again as a whole each time."""
UNTIL_SYNCHRONIZED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "kafs", "9p", "virtiofs", "beegfs", "sshfs", "glusterfs",
     "juicefs", "alluxio", "moosefs", "mfs", "lizardfs", "davfs", "objectivefs", "seaweedfs"}
)  # fmt: skip
"""File systems whose clients keep written bytes until they are synchronized or the file is closed."""
SEGMENTS = "STEPSCOPE_SEGMENTS"
"""Variable by which a user decides: ``always`` in pieces wherever the run lies, ``never``, or ``auto``."""
PATIENCE_SECS = 1.0
TABLE = Path("/proc/self/mountinfo")


class Mount(NamedTuple):
    """A mounted file system: its mount point, type (``nfs4``, ``fuse.gcsfuse``) and source.

    Attributes:
        root: Which of its directories is seen at the mount point.
        options: Of the file system.
    """

    place: str
    kind: str
    source: str
    root: str = "/"
    options: tuple[str, ...] = ()

    @property
    def manner(self) -> Manner:
        """How a run is written there."""
        names = self._names()
        if names & BUCKETS:
            return "pieces"
        return "synchronized" if names & UNTIL_SYNCHRONIZED else "in place"

    def _names(self) -> set[str]:
        """Return the file system's name by its type; plain FUSE is known by its source."""
        kind = self.kind.lower()
        if kind in ("fuse", "fuseblk"):
            return {re.split(r"[:#@/]", self.source.lower())[0], Path(self.source.lower()).name}
        return {kind.removeprefix("fuse.")}


def mounts(table: str) -> list[Mount]:
    """Return the file systems that a table of mounts names, see proc_pid_mountinfo(5), but odd lines."""
    entries = []
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields, what = before.split(" "), after.split(" ")
        if len(fields) >= 5 and what[0]:
            kind, source, options = [*what, "", ""][:3]
            place, root = _plain(fields[4]), _plain(fields[3])
            entries.append(Mount(place, kind, _plain(source), root, tuple(options.split(","))))
    return entries


def _plain(text: str) -> str:
    return re.sub(r"\\(\d{3})", lambda escape: chr(int(escape[1], 8)), text)


def mount_of(path: str) -> Mount | None:
    """Return the file system that a path lies in, which need not exist; None if that is not known."""
    try:
        table = TABLE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    best = None
    path = resolved(path)
    for mount in mounts(table):
        longer = best is None or len(mount.place) >= len(
            best.place
        )  # of two in one place the later one covers
        if longer and (path == mount.place or path.startswith(mount.place.rstrip("/") + "/")):
            best = mount
    return best


def resolved(path: str) -> str:
    """Return a path with its links followed, unless a file system on the way does not answer in a moment."""
    call = Call(lambda: os.path.realpath(path), "stepscope-path")
    return call.result if call.wait(PATIENCE_SECS) else os.path.abspath(path)  # noqa: PTH100  text, as in the table


def manner_at(path: str) -> Manner:
    """Return how a run in a directory is written.

    Raises:
        UsageError: ``STEPSCOPE_SEGMENTS`` is not one of its values.
    """
    wanted = os.environ.get(SEGMENTS, "").strip().lower() or "auto"
    if wanted not in ("auto", "always", "never"):
        raise UsageError(
            f"{SEGMENTS} is {wanted!r}: expected auto, always or never", hint="auto is the default"
        )
    if wanted == "always":
        return "pieces"
    mount = mount_of(path)
    manner: Manner = "in place" if mount is None else mount.manner
    return "synchronized" if manner == "pieces" and wanted == "never" else manner


def is_synchronized(path: str) -> bool:
    """Return whether flushed bytes in a directory must be synchronized for other machines."""
    mount = mount_of(path)
    return mount is not None and mount.manner != "in place"
