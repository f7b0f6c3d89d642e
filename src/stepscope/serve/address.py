"""The address to listen on: bound first, so that a browser may connect while the rest is imported."""

from __future__ import annotations

import errno
import os
import re
import socket
from urllib.parse import quote

from stepscope.errors import ServeError, UsageError

BACKLOG = 1024
SEND_BYTES = 512 << 10
PREFIX_PART = re.compile(r"[A-Za-z0-9._~@+:-]+")


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen; connections queue until the server takes them.

    Args:
        host: Name or address.
        port: 0 for any free one.

    Raises:
        ServeError: The port is in use or not permitted, the host is not of this machine.
        UsageError: It is not a port number.
    """
    if not 0 <= port <= 65535:
        raise UsageError(
            f"port {port}: expected 0 to 65535", hint="leave --port out for 6006, or 0 for any free port"
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sets TCP_NODELAY on what this accepts only where the protocol is named; without it the body
        # of every answer waits 40 ms for the acknowledgement of its head.
        listener = socket.socket(family, kind, protocol)
    except (socket.gaierror, UnicodeError) as error:
        raise ServeError(
            f"cannot listen on host {host!r}: {getattr(error, 'strerror', error)}",
            hint="use --host 127.0.0.1 for this machine only, or --host 0.0.0.0 for the network",
        ) from None
    try:
        if os.name == "posix":  # Elsewhere the option would let two servers share the port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The kernel's own buffers grow to megabytes for each client that does not read.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise refused(host, port, error) from None
    return listener


def refused(host: str, port: int, error: OSError) -> ServeError:
    """Return why an address cannot be bound, with a hint."""
    if error.errno == errno.EADDRINUSE:
        other = free_port(host, port + 1)
        free = f"--port {other} is free; " if other else ""
        return ServeError(
            f"port {port} on {host} is in use by another program", hint=f"{free}--port 0 takes any free one"
        )
    if error.errno == errno.EACCES:
        return ServeError(f"no permission to listen on port {port}", hint="choose a port above 1023")
    if error.errno == errno.EADDRNOTAVAIL:
        return ServeError(
            f"cannot listen on host {host!r}: no address of this machine",
            hint="use --host 127.0.0.1 for this machine only, or --host 0.0.0.0 for the network",
        )
    return ServeError(
        f"cannot listen on {host} port {port}: {error.strerror}", hint="choose another --host or --port"
    )


def free_port(host: str, start: int) -> int:
    """Return the first free port from ``start`` on, 0 for none: only a hint, it may soon be taken."""
    for port in range(start, min(start + 50, 65536)):
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if os.name == "posix":
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                return port
        except OSError:  # noqa: PERF203  fifty tries at most
            continue
    return 0


def address_of(listener: socket.socket) -> tuple[str, int]:
    """Return the numeric address and the port that a socket is bound to."""
    host, port = listener.getsockname()[:2]
    return str(host), int(port)


def url_of(listener: socket.socket, *, host: str, prefix: str = "", token: str | None = None) -> str:
    """Return the address to open in a browser.

    A server on all addresses is shown under this machine's name, because nobody can open 0.0.0.0 from
    elsewhere.
    """
    address, port = address_of(listener)
    name = socket.gethostname() if address in ("0.0.0.0", "::") else host  # noqa: S104  compared, not bound
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}{prefix}/" + (f"?token={quote(token, safe='')}" if token else "")


def checked_prefix(prefix: str) -> str:
    """Return a path prefix with a slash before and none after it; empty for none.

    Raises:
        UsageError: It is not a path.
    """
    parts = [part for part in prefix.split("/") if part]
    if "://" in prefix or not all(PREFIX_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise UsageError(
            f"not a path prefix: {prefix!r}; expected a path such as /lab/stepscope",
            hint="use letters, digits and - _ . ~ @ + : between slashes",
        )
    return "".join(f"/{part}" for part in parts)
