"""Access to the server: pure rules over a request's headers.

A page of another site can make the user's browser send requests to a server on loopback. Two checks stop
that. The host a browser was told to talk to must be one of ours: a name that an attacker points at 127.0.0.1
(DNS rebinding) is not. And the page that sends the request, where the browser names it, must be our own.
Beyond loopback a token is needed as well; on loopback the command asks for one that only this user can read,
because other users share the machine. A token made for sharing is view-only and expires.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from stepscope.errors import UsageError
from stepscope.serve.share import ends_at

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
SHORTEST_TOKEN = 8
AUTO = "auto"
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
        changes: Whether it may change, delete and share what it sees.
        until: When that ends, in seconds since the epoch; None for never.
    """

    changes: bool
    until: float | None = None


@dataclass(frozen=True)
class Access:
    """The rules of one server.

    Attributes:
        host: The address it is bound to.
        allowed: Further host names, each as ``name`` (any port) or ``name:port``.
        token: What a request must carry; None if everybody on this machine may look.
        names: Names under which a machine is known on its network.
        embed: Origins of pages that may show this one in a frame, as CSP writes them.
        read_only: Nobody may change anything through this server.
        directory: The log directory, for which links are signed.
    """

    host: str
    allowed: frozenset[str] = frozenset()
    token: str | None = None
    names: frozenset[str] = field(default_factory=frozenset)
    embed: tuple[str, ...] = ()
    read_only: bool = False
    directory: Path = Path()

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
        the token, and the browser's word on where a request comes from, decide.
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

    def token_is_right(self, offered: str | None) -> bool:
        """Compare in constant time; without a token of our own, everything is accepted."""
        if self.token is None:
            return True
        return offered is not None and hmac.compare_digest(offered.encode(), self.token.encode())

    def grant(self, offered: str | None, now: float) -> Grant | None:
        """Return what a token allows; None for nothing. One that has ended allows nothing.

        Args:
            offered: The token; None for none.
            now: Seconds since the epoch.
        """
        if self.token_is_right(offered):
            return Grant(changes=not self.read_only)
        if offered is None or self.token is None:
            return None
        until = ends_at(offered, self.token, self.directory)
        return None if until is None else Grant(changes=False, until=until) if now < until else None

    def ended(self, offered: str) -> bool:
        """Return whether a token was a link of ours, whatever its time."""
        return self.token is not None and ends_at(offered, self.token, self.directory) is not None


def access_for(
    host: str,
    *,
    allow_host: Iterable[str] = (),
    token: str | None = None,
    embed: Iterable[str] = (),
    read_only: bool = False,
    directory: Path = Path(),
) -> Access:
    """Return the rules for a server bound to ``host``.

    Args:
        host: Address or name to bind to.
        allow_host: Further names that a browser may use for the server, as behind a proxy; ``*`` for any,
            which needs a token.
        token: None for the default: none on loopback, a new one elsewhere. ``auto`` for a new one.
        embed: Origins of pages that may show this one in a frame; ``notebook`` for those of this machine.
        read_only: Nobody may change anything.
        directory: The log directory.

    Raises:
        UsageError: A token that is easily guessed or that a URL cannot carry; a malformed host or origin;
            any host without a token.
    """
    allowed = frozenset(checked_host(name) for name in allow_host)
    if token == AUTO or (token is None and not is_loopback(host)):
        token = secrets.token_urlsafe(24)
    if token is not None:
        check_token(token)
    if ANY in allowed and token is None:
        raise UsageError(
            "--allow-host '*' without a token would let any web page read these runs",
            hint="add --token auto, or name the host",
        )
    names = frozenset() if is_loopback(host) else machine_names()
    return Access(
        host=host,
        allowed=allowed,
        token=token,
        names=names,
        embed=origins(embed),
        read_only=read_only,
        directory=directory,
    )


def user_token() -> str:
    """Return the token of this user's servers on loopback, which other users of the machine cannot read.

    It is kept in ``$XDG_STATE_HOME/stepscope/token``, so that an open page finds a server that was started
    again. If it cannot be kept, or another user could have written or read it, a new one is generated.
    """
    made = secrets.token_urlsafe(24)
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        place = Path(base).expanduser() / "stepscope" / "token"
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(place, flags, 0o600), "r+") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
                return made
            kept = file.read(200)
            if not kept:
                file.write(made)
                return made
        check_token(kept)
    except (OSError, RuntimeError, UnicodeDecodeError, UsageError):
        return made
    return kept


def check_token(token: str) -> None:
    """Refuse a token that is too short or needs escaping in a URL or cookie."""
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"token of {len(token)} characters: expected at least {SHORTEST_TOKEN}",
            hint="use --token auto to generate a good one",
        )
    if not all(letter.isascii() and (letter.isalnum() or letter in "-._~") for letter in token):
        raise UsageError(
            "token with a character that a URL cannot carry: expected letters, digits and - . _ ~",
            hint="use --token auto to generate a good one",
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
    found: list[str] = []
    for word in words:
        if word != NOTEBOOK and not ORIGIN.fullmatch(word):
            raise UsageError(
                f"not an origin: {word!r}; expected one such as https://lab.example.org or "
                "http://localhost:8888",
                hint="give scheme, host and port alone, without a path; or notebook",
            )
        found += NOTEBOOK_ORIGINS if word == NOTEBOOK else (word.lower(),)
    return tuple(dict.fromkeys(found))


def machine_names() -> frozenset[str]:
    """Return what this machine calls itself; asks no name server, which could take seconds."""
    name = socket.gethostname().lower()
    return frozenset({name, name.split(".")[0]}) - {""}


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


def is_address(name: str) -> bool:
    """Return whether a host is written as a number."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    """Return whether only this machine can reach a server bound to ``name``."""
    if name.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def fetch_is_ours(headers: Mapping[str, str], *, document: bool, embedded: bool = False) -> bool:
    """Judge by what the browser says about a request (fetch metadata); older browsers say nothing.

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
