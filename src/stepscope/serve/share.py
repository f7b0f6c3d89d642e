"""View-only links to a log directory that expire.

Such a link carries when it ends and a signature, which the server's token makes. So nothing has to be kept:
a link lives through a restart, opens no other directory, and ends for good if the token is replaced.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

MARK = "view"
MAX_SECS = 366 * 86_400


def view_token(secret: str, directory: Path, until: int) -> str:
    """Return a view-only token.

    Args:
        secret: The server's own token.
        directory: The log directory.
        until: When it ends, in seconds since the epoch.
    """
    return f"{MARK}.{until}.{_signature(secret, directory, until)}"


def ends_at(offered: str, secret: str, directory: Path) -> int | None:
    """Return when a view-only token expires; None if it was not signed for this directory."""
    mark, _, rest = offered.partition(".")
    until, _, signature = rest.partition(".")
    if mark != MARK or not (until.isascii() and until.isdecimal() and len(until) <= 12):
        return None
    expected = _signature(secret, directory, int(until))
    return int(until) if hmac.compare_digest(signature.encode(), expected.encode()) else None


def _signature(secret: str, directory: Path, until: int) -> str:
    place = str(directory.absolute()).encode("utf-8", "surrogateescape")
    digest = hmac.new(secret.encode(), b"stepscope view\0%d\0%s" % (until, place), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
