"""The page in a cell of a notebook: ``%load_ext stepscope`` and ``%stepscope runs``, or ``ss.show("runs")``.

The server is a process of its own, so that training in the kernel does not hold up the page, nor the page the
training. It ends with the kernel, and showing the same directory again uses the one that is there.
"""

from __future__ import annotations

import atexit
import html
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from stepscope import child
from stepscope.errors import ServeError, UsageError

HEIGHT = 800
START_S = 60.0
END_S = 5.0
USAGE = "%stepscope LOGDIR [--height PIXELS] [--port PORT] [--prefix PATH]"


class Shell(Protocol):
    """The part of IPython that is used."""

    def register_magic_function(self, func: Any, magic_kind: str = ..., magic_name: str | None = ...) -> None:
        """Register a function as a magic."""


@dataclass(frozen=True)
class NotebookPage:
    """A page in a notebook; IPython shows it if it is the value of a cell.

    Attributes:
        url: The address in the frame; relative to the notebook's host behind a proxy.
        height: Of the frame, in pixels.
    """

    url: str
    height: int

    def _repr_html_(self) -> str:
        url = html.escape(self.url, quote=True)
        return (
            f'<iframe src="{url}" title="Stepscope" width="100%" height="{self.height}" '
            f'style="border:0" allow="fullscreen; clipboard-write"></iframe>'
        )


@dataclass(frozen=True)
class Started:
    """A running server: its process, its port, and the address of its page.

    Attributes:
        token: For the address behind a proxy.
        place: For frames on this machine: an address below the server's.
    """

    process: subprocess.Popen[bytes]
    port: int
    token: str | None
    place: str


_started: dict[tuple[str, str, int, int], Started] = {}


def show(
    log_dir: str | os.PathLike[str] = ".", *, height: int = HEIGHT, port: int = 0, prefix: str | None = None
) -> NotebookPage:
    """Show a log directory in the notebook.

    In JupyterHub, and wherever ``prefix`` says so, the frame goes through jupyter-server-proxy, because a
    browser elsewhere cannot reach the kernel's machine. In Colab it goes through Colab's own proxy.

    Args:
        log_dir: The directory that holds the runs.
        height: The height of the frame in pixels.
        port: The loopback port for the server to listen on; 0 takes any free one.
        prefix: Path under which the notebook server is reached, as ``/user/ada/``; None takes that of
            JupyterHub if there is one, "" says that the browser is on this machine.

    Returns:
        An object that IPython shows as the value of a cell.

    Raises:
        UsageError: An invalid height or port.
        LogDirectoryError: There is no such directory, nor one in which it could be created.
        ServeError: The server could not be started.
    """
    if height < 1 or not 0 <= port < 1 << 16:
        raise UsageError(
            f"height {height}, port {port}: expected at least 1 pixel and a port from 0 to 65535", hint=USAGE
        )
    prefix = hub_prefix(os.environ) if prefix is None else prefix
    started = server(str(Path(log_dir).expanduser().absolute()), port, proxied=bool(prefix))
    if "google.colab" in sys.modules:
        return NotebookPage(colab_url(started.port).rstrip("/") + started.place, height)
    return NotebookPage(address(started, prefix), height)


def hub_prefix(environ: Mapping[str, str]) -> str:
    """Return the path of this user's notebook server under JupyterHub; "" if there is no hub."""
    return environ.get("JUPYTERHUB_SERVICE_PREFIX", "")


def address(started: Started, prefix: str) -> str:
    """Return the address for the frame: a path of the notebook's own host behind a proxy, else loopback."""
    if prefix:
        token = f"?token={started.token}" if started.token else ""
        return f"/{prefix.strip('/')}/proxy/{started.port}/{token}".replace("//", "/")
    return f"http://localhost:{started.port}{started.place}"


def colab_url(port: int) -> str:
    """Return the address under which Colab's page reaches a port of the kernel's machine."""
    output = import_module("google.colab.output")
    return str(output.eval_js(f"google.colab.kernel.proxyPort({port}, {{cache: true}})"))


def server(log_dir: str, port: int, *, proxied: bool) -> Started:
    """Return the server of a directory, started if it does not run yet."""
    key = (log_dir, "proxied" if proxied else "", port, os.getpid())
    started = _started.get(key)
    if started is None or started.process.poll() is not None:
        started = _started[key] = start(log_dir, port, proxied=proxied)
    return started


def start(log_dir: str, port: int, *, proxied: bool) -> Started:
    """Start a server and wait until it listens.

    It ends with this program, however this ends. The token is a new one: the address lies in the saved
    notebook.

    Raises:
        ServeError: It ended instead; its output is in the message.
    """
    command = [
        sys.executable,
        "-m",
        "stepscope",
        "serve",
        log_dir,
        "--port",
        str(port),
        "--json",
        "--attached",
    ]
    # A hub's name is not known here, and its proxy may or may not pass it on: the token guards instead.
    command += ["--token", "auto", *(["--allow-host", "*"] if proxied else ["--embed", "notebook"])]
    process = child.start(command, stderr=subprocess.PIPE)
    _leave_to_parent(process)
    atexit.register(stop, process, os.getpid())
    line = process.stdout.readline() if process.stdout else b""
    if not line:
        output = process.communicate(timeout=START_S)[1].decode("utf-8", "replace").strip()
        raise ServeError(
            f"the server of {log_dir} did not start: {output}", hint=f"stepscope serve {log_dir}"
        )
    drain(process.stderr)
    facts = json.loads(line)
    address = urlsplit(facts["url"])
    token = address.query.removeprefix("token=") or None
    return Started(process, address.port or port, token, urlsplit(facts.get("frame_url", "/")).path)


def _leave_to_parent(process: subprocess.Popen[bytes]) -> None:
    """Close a fork's copy of the pipe that ends when this program does."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(child.close_pipes, process))


def drain(stream: IO[bytes] | None) -> None:
    """Read a server's output from now on, so that it never waits for a reader."""
    import threading

    if stream is not None:
        threading.Thread(target=stream.read, name="stepscope-notebook", daemon=True).start()


def stop(process: subprocess.Popen[bytes], owner: int) -> None:
    """End a server with the kernel that started it; a fork of the kernel leaves it alone."""
    if os.getpid() != owner or process.poll() is not None:
        return
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    if process.poll() is None:
        process.kill()


def load_ipython_extension(shell: Shell) -> None:
    """Make ``%stepscope`` known, for ``%load_ext stepscope``."""
    shell.register_magic_function(magic, "line", "stepscope")


def magic(line: str) -> NotebookPage | None:
    """Show a log directory: ``%stepscope LOGDIR [--height PIXELS] [--port PORT] [--prefix PATH]``.

    ``%stepscope --help`` prints this usage and shows nothing.

    Raises:
        UsageError: Words that are none of these.
    """
    words, options = shlex.split(line), {"--height": str(HEIGHT), "--port": "0", "--prefix": None}
    places = []
    if "--help" in words or "-h" in words:
        print(USAGE)
        return None
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name not in options:
            places.append(word)
        elif equals or words:
            options[name] = value if equals else words.pop(0)
        else:
            raise UsageError(f"{name} without a value", hint=USAGE)
    numbers = [options["--height"] or "", options["--port"] or ""]
    strange = [place for place in places if place.startswith("-")]
    if len(places) > 1 or strange or not all(number.isdecimal() for number in numbers):
        raise UsageError(f"%stepscope {line}: not understood", hint=USAGE)
    height, port = map(int, numbers)
    return show(*places, height=height, port=port, prefix=options["--prefix"])
