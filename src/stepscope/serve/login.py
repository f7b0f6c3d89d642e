"""Keys, cookies and links that let a browser in, each signed with the server's token: none has to be kept.

A key and a cookie work for one start of one server. A view-only link carries when it ends: it lives through a
restart, opens no other directory, and ends for good if the token is replaced.

Cookies ignore ports: a browser sends those of ``127.0.0.1`` to whatever program listens there, on any port.
So a cookie is signed with a secret that this start of the server made up and that ends with it. And it is
bound to a *place*, an address below the server's that nobody can guess (``/~kA3…/``): a browser sends the
cookie only there, so a program on another port does not even see it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from pathlib import Path

PLACE = re.compile(r"~[A-Za-z0-9_-]{22}")
LIFETIME_S = 30 * 86_400
"""Age at which a cookie ends, if its server does not end before: longer than most trainings."""
MARK = "view"
MAX_SECS = 366 * 86_400
"""Longest life of a link."""
PROOF = "Stepscope"
"""Scheme of an ``Authorization`` that proves to know a token and does not contain it."""


def new_place() -> str:
    """Return a place for one browser."""
    return f"~{secrets.token_urlsafe(16)}"


def split_place(path: str) -> tuple[str | None, str]:
    """Return the place in a path, None without one, and the rest of the path."""
    first, slash, rest = path.removeprefix("/").partition("/")
    return (first, slash + rest) if PLACE.fullmatch(first) else (None, path)


def frame_place(token: str, start: bytes) -> str:
    """Return the place of frames, which needs no cookie: browsers withhold those of a frame."""
    return f"~{signature(token, start, 'frame')[:22]}"


def start_key(token: str, start: bytes) -> str:
    """Return the key in the address that a server prints."""
    return signature(token, start, "address")


def cookie_value(token: str, start: bytes, *, place: str, changes: bool, until: int) -> str:
    """Return a cookie.

    Args:
        token: The server's token.
        start: The secret of this start of the server.
        place: The path for which it is valid.
        changes: Whether it allows changes.
        until: When it ends, in seconds since the epoch.
    """
    head = f"{'owner' if changes else 'view'}.{until}"
    return f"{head}.{signature(token, start, 'cookie', place, head)}"


def cookie_rights(value: str, token: str, start: bytes, *, place: str) -> tuple[bool, int] | None:
    """Return whether a cookie allows changes, and when it ends; None if it was not made for this place."""
    head, _, signed = value.rpartition(".")
    rights, _, until = head.partition(".")
    if rights not in ("owner", "view") or not is_time(until):
        return None
    if not same(signed, signature(token, start, "cookie", place, head)):
        return None
    return rights == "owner", int(until)


def challenge(start: bytes) -> str:
    """Return the challenge that a proof for this start of the server answers; anybody may know it."""
    return hashlib.sha256(b"stepscope challenge\0" + start).hexdigest()


def proof(token: str, challenge: str, host: str) -> str:
    """Return a proof to know a token, for the server that asked and the host and port that it is sent to."""
    return hmac.new(
        token.encode(), f"stepscope proof\0{challenge}\0{host}".encode(), hashlib.sha256
    ).hexdigest()


def view_token(secret: str, directory: Path, until: int) -> str:
    """Return the token of a view-only link.

    Args:
        secret: The server's own token.
        directory: The log directory.
        until: When it ends, in seconds since the epoch.
    """
    return (
        f"{MARK}.{until}.{signed(secret.encode(), 'stepscope view', str(until), str(directory.absolute()))}"
    )


def ends_at(offered: str, secret: str, directory: Path) -> int | None:
    """Return when a view-only token expires; None if it was not signed for this directory."""
    mark, _, rest = offered.partition(".")
    until = rest.partition(".")[0]
    if mark != MARK or not is_time(until):
        return None
    return int(until) if same(offered, view_token(secret, directory, int(until))) else None


def is_time(text: str) -> bool:
    """Return whether a text is a number of seconds since the epoch."""
    return text.isascii() and text.isdecimal() and len(text) <= 12


def signature(token: str, start: bytes, *parts: str) -> str:
    """Return a signature that only a server with this token and this start can make."""
    return signed(start + token.encode(), "stepscope login", *parts)


def signed(key: bytes, *parts: str) -> str:
    """Return a signature of some texts."""
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return base64.urlsafe_b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode().rstrip("=")


def same(one: str, other: str) -> bool:
    """Compare in a time that does not depend on the equal part."""
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())
