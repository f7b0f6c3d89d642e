"""Access to the server: pure rules over a request's headers.

A page of another site can make the user's browser send requests to a server on loopback. Two checks stop
that. The host a browser was told to talk to must be one of ours: a name that an attacker points at 127.0.0.1
(DNS rebinding) is not. And the page that sends the request, if the browser names it, must be our own.
A token is needed as well, on loopback too, because other users share the machine: :func:`access_for` decides
that for every way to start a server. A token made for sharing is view-only and expires.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from stepscope.errors import UsageError
from stepscope.hosts import LOOPBACK_NAMES, is_address, is_loopback
from stepscope.serve import login
from stepscope.serve.user_token import check_token, new_token, user_token

AUTO = "auto"
TOKEN_VARIABLE = "STEPSCOPE_TOKEN"  # noqa: S105  a name, not a secret
ANY = "*"
"""Allows every host name. A page that points its own name here has no token and learns nothing."""
NOTEBOOK = "notebook"
"""Lets notebooks on this machine embed the page, in a browser or in VS Code."""
NOTEBOOK_ORIGINS = ("http://localhost:*", "http://127.0.0.1:*", "https://localhost:*", "vscode-webview:")
ORIGIN = re.compile(r"https?://[a-z0-9.*-]+(:(\d+|\*))?|vscode-webview:", re.IGNORECASE)


@dataclass(frozen=True)
class Grant:
    """The rights of a request.

    Attributes:
        changes: Whether it may also change, delete and share.
        until: When that ends, in seconds since the epoch; None for never.
    """

    changes: bool
    until: float | None = None


@dataclass
class Access:
    """The rules of one start of a server.

    Attributes:
        host: The address it is bound to.
        allowed: Further host names, each as ``name`` (any port) or ``name:port``.
        token: The secret that a request must carry; None if everybody on this machine may look.
        names: Names under which a machine is known on its network.
        embed: Origins of pages that may show this one in a frame, as CSP writes them.
        read_only: Nobody may change anything through this server.
        directory: The log directory, for which links are signed.
        lasting: The token outlives this server, so no address contains it.
        follows_user: The token is the one of the user, who may replace it.
        start: A secret of this start alone.
    """

    host: str
    allowed: frozenset[str] = frozenset()
    token: str | None = None
    names: frozenset[str] = field(default_factory=frozenset)
    embed: tuple[str, ...] = ()
    read_only: bool = False
    directory: Path = Path()
    lasting: bool = False
    follows_user: bool = False
    start: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def host_is_ours(self, header: str) -> bool:
        """Return whether a ``Host`` header names this server; any port is allowed, because tunnels map it."""
        name = host_name(header)
        if name is None:
            return False
        if name in LOOPBACK_NAMES or is_loopback(name) or self.is_allowed(header) or ANY in self.allowed:
            return True
        if is_loopback(self.host):
            return False
        # A rebinding attack needs a name to point elsewhere, so a numeric address is always honest.
        return is_address(name) or name == self.host.lower() or name in self.names

    def origin_is_ours(self, origin: str, host: str) -> bool:
        """Return whether the page that sent a request is ours: same host and port, or one the user allowed.

        If any host is allowed, a proxy may have replaced ``Host``, so the two cannot be compared; then only
        the token, and the browser's word on a request's origin, decide.
        """
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        known = ANY in self.allowed or self.is_allowed(parts.netloc)
        return known or same_place(parts.netloc, host, scheme=parts.scheme)

    def is_allowed(self, place: str) -> bool:
        """Return whether the user named this host on the command line."""
        name = host_name(place)
        return name is not None and (name in self.allowed or place.lower() in self.allowed)

    @property
    def address_token(self) -> str | None:
        """The part of the address that opens the page; None if it needs no token."""
        if self.token is None or not self.lasting:
            return self.token
        return login.start_key(self.token, self.start)

    @property
    def frame_place(self) -> str | None:
        """The place of this page for frames of other pages, None if there may be none."""
        return login.frame_place(self.token, self.start) if self.token is not None and self.embed else None

    def token_is_right(self, offered: str | None) -> bool:
        """Compare in constant time; without a token of our own, everything is accepted."""
        if self.token is None:
            return True
        return offered is not None and any(login.same(offered, token) for token in self.owner_tokens())

    def owner_tokens(self) -> tuple[str, ...]:
        """Return the tokens that open everything."""
        return tuple(dict.fromkeys(token for token in (self.token, self.address_token) if token is not None))

    def cookie(self, place: str, grant: Grant, now: float) -> tuple[str, int]:
        """Return a cookie for a place, and the seconds until it ends."""
        until = int(now) + login.LIFETIME_S
        if grant.until is not None:
            until = min(until, int(grant.until))
        value = login.cookie_value(
            self.token or "", self.start, place=place, changes=grant.changes, until=until
        )
        return value, max(until - int(now), 1)

    def grant_of_place(self, place: str, cookie: str | None, now: float) -> Grant | None:
        """Return the rights of a browser at a place, with the cookie that it sent; None for nothing."""
        if self.token is None:
            return None
        frames = self.frame_place
        if frames is not None and login.same(place, frames):
            return Grant(changes=not self.read_only)
        rights = None if cookie is None else login.cookie_rights(cookie, self.token, self.start, place=place)
        if rights is None or now >= rights[1]:
            return None
        return Grant(changes=rights[0] and not self.read_only, until=None if rights[0] else rights[1])

    def cookie_ended(self, place: str, cookie: str | None) -> bool:
        """Return whether a cookie was one of a link, whatever its time."""
        if self.token is None or cookie is None:
            return False
        return login.cookie_rights(cookie, self.token, self.start, place=place) is not None

    def proof_is_right(self, offered: str, host: str, port: int | None) -> bool:
        """Return whether somebody proved to know a token, to this server and not to one in between.

        A program on a port that another server has left could pass a proof on. So on this machine the port
        that the proof was sent to must be the one that this server listens on.

        Args:
            offered: The proof.
            host: The ``Host`` that it was sent to.
            port: The port on which the request arrived.
        """
        name = host_name(host)
        if name is None or self.token is None:
            return False
        here = name in LOOPBACK_NAMES or is_loopback(name)
        reached = same_place(host, f"{host.rpartition(':')[0]}:{port}", scheme="http")
        if here and not reached and host.lower() not in self.allowed:
            return False
        asked = login.challenge(self.start)
        return any(login.same(offered, login.proof(token, asked, host)) for token in self.owner_tokens())

    def grant(self, offered: str | None, now: float) -> Grant | None:
        """Return the rights that a token gives; None for nothing. One that has ended allows nothing.

        Args:
            offered: The token; None for none.
            now: Seconds since the epoch.
        """
        if self.token_is_right(offered):
            return Grant(changes=not self.read_only)
        if offered is None or self.token is None:
            return None
        until = login.ends_at(offered, self.token, self.directory)
        return None if until is None else Grant(changes=False, until=until) if now < until else None

    def ended(self, offered: str) -> bool:
        """Return whether a token was a link of ours, whatever its time."""
        return self.token is not None and login.ends_at(offered, self.token, self.directory) is not None


def access_for(
    host: str,
    *,
    allow_host: Iterable[str] = (),
    token: str | None = None,
    no_token: bool = False,
    embed: Iterable[str] = (),
    read_only: bool = False,
    directory: Path = Path(),
) -> Access:
    """Return the rules for a server bound to ``host``, whoever starts it.

    Args:
        host: Address or name to bind to.
        allow_host: Further names that a browser may use for the server, as behind a proxy; ``*`` for any,
            which needs a token.
        token: None for the one in ``$STEPSCOPE_TOKEN``, else on loopback that of the user and a new one
            elsewhere. ``auto`` for a new one.
        no_token: Everybody on this machine may do everything. Elsewhere than on loopback it does nothing.
        embed: Origins of pages that may show this one in a frame; ``notebook`` for those of this machine.
        read_only: Nobody may change anything.
        directory: The log directory.

    Raises:
        UsageError: A token that is easily guessed or that a URL cannot carry, or both one and none; a
            malformed host or origin; any host without a token.
    """
    allowed = frozenset(checked_host(name) for name in allow_host)
    if no_token and token is not None:
        raise UsageError("--token and --no-token exclude each other", hint="leave one of them out")
    lasting = follows_user = False
    if no_token and is_loopback(host):
        token = None
    elif token == AUTO or (no_token and token is None):
        token = new_token()
    elif token is None and (token := os.environ.get(TOKEN_VARIABLE) or None):
        lasting = True
    elif token is None and is_loopback(host):
        token, lasting, follows_user = user_token(), True, True
    elif token is None:
        token = new_token()
    if token is not None:
        check_token(token)
    if ANY in allowed and token is None:
        raise UsageError(
            "--allow-host '*' without a token would let any web page read these runs",
            hint="leave --no-token out, or name the host",
        )
    name = socket.gethostname().lower()  # a name server could take seconds to give another
    return Access(
        host=host,
        allowed=allowed,
        token=token,
        names=frozenset() if is_loopback(host) else frozenset({name, name.split(".")[0]}) - {""},
        embed=origins(embed),
        read_only=read_only,
        directory=directory,
        lasting=lasting,
        follows_user=follows_user,
    )


def checked_host(name: str) -> str:
    """Return an allowed host in lower case."""
    if name != ANY and (host_name(name) is None or "/" in name):
        raise UsageError(
            f"not a host name: {name!r}; expected a name such as lab.example.org or lab.example.org:8443",
            hint="give the host alone, without http:// and path",
        )
    return name.lower()


def origins(words: Iterable[str]) -> tuple[str, ...]:
    """Return the origins that may embed the page, each as a source of a Content-Security-Policy."""
    names: list[str] = []
    for word in words:
        if word != NOTEBOOK and not ORIGIN.fullmatch(word):
            raise UsageError(
                f"not an origin: {word!r}; expected one such as https://lab.example.org or "
                "http://localhost:8888",
                hint="give scheme, host and port alone, without a path; or notebook",
            )
        names += NOTEBOOK_ORIGINS if word == NOTEBOOK else (word.lower(),)
    return tuple(dict.fromkeys(names))


def host_name(place: str) -> str | None:
    """Return the name in ``name``, ``name:port`` or ``[v6]:port`` in lower case; None in anything else."""
    text = place.strip().lower()
    if text.startswith("["):
        name, closing, port = text[1:].partition("]")
        port = port.removeprefix(":") if closing else "?"
    elif text.count(":") > 1:
        name, port = text, ""
    else:
        name, _, port = text.partition(":")
    legal = all(letter.isascii() and (letter.isalnum() or letter in "-._:") for letter in name)
    if not name or not legal or (port and not port.isdecimal()):
        return None
    return name.rstrip(".") or None


def same_place(one: str, other: str, *, scheme: str) -> bool:
    """Return whether two ``name:port`` mean the same, a port left out being the scheme's own."""
    usual = ":443" if scheme == "https" else ":80"
    return one.strip().lower().removesuffix(usual) == other.strip().lower().removesuffix(usual)


def fetch_is_ours(headers: Mapping[str, str], *, document: bool, embedded: bool = False) -> bool:
    """Judge by the browser's fetch metadata; older browsers say nothing.

    Args:
        headers: Of the request, names in lower case.
        document: Whether the request is for the page itself, to which any site may link.
        embedded: Whether pages of others may show it in a frame; the browser holds them to those named.
    """
    site = headers.get("sec-fetch-site")
    if site in (None, "same-origin", "none"):
        return True
    return (
        document
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") in (("document", "iframe") if embedded else ("document",))
    )
