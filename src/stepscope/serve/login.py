"""Keys and cookies that let a browser in: each works for one start of one server.

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

PLACE = re.compile(r"~[A-Za-z0-9_-]{22}")
LIFETIME_S = 30 * 86_400
"""Age at which a cookie ends, if its server does not end before: longer than most trainings."""
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
    if rights not in ("owner", "view") or not (until.isascii() and until.isdecimal() and len(until) <= 12):
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


def signature(token: str, start: bytes, *parts: str) -> str:
    """Return a signature that only a server with this token and this start can make."""
    text = "\0".join(("stepscope login", *parts)).encode("utf-8", "surrogateescape")
    digest = hmac.new(start + token.encode(), text, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def same(one: str, other: str) -> bool:
    """Compare in a time that does not depend on the equal part."""
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())
