"""``stepscope serve``: show a log directory in the browser, live."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from stepscope.cli.arguments import add_cache
from stepscope.urls import shown

if TYPE_CHECKING:
    from stepscope.serve import Server

OF_SERVER = (
    "host", "port", "path_prefix", "token", "no_token", "allow_host", "embed", "read_only", "cache", "otlp",
)  # fmt: skip
"""Options that are the server's arguments."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log_dir",
        metavar="LOGDIR",
        help="directory that holds the runs; if it does not exist yet, the server waits for it",
    )
    parser.add_argument(
        "--port", type=int, default=6006, help="port to listen on, 0 for any free one (default: 6006)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; any but loopback needs a token (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--path-prefix", default="", metavar="PATH", help="path under which a proxy shows the server"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help="token that a browser must send; 'auto' generates one (default: $STEPSCOPE_TOKEN, else on "
        "loopback the one that stepscope token prints)",
    )
    parser.add_argument(
        "--no-token",
        action="store_true",
        help="no token on loopback: every user of this machine can look, and change and delete runs",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="nobody can change, delete or restore runs, or ask them for profiles, through this server",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name under which browsers reach the server, such as a proxy's; may be repeated",
    )
    parser.add_argument(
        "--embed",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="site that may show the page in a frame, such as https://lab.example.org; 'notebook' for those "
        "on this machine; may be repeated",
    )
    parser.add_argument(
        "--attached",
        action="store_true",
        help="end with the program that started this one, however that ends, or when standard input ends; "
        "for programs that start a server",
    )
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="ENDPOINT",
        help="also send the metrics of the running runs to an OpenTelemetry collector, such as "
        "http://localhost:4318/v1/metrics (default: what OTEL_EXPORTER_OTLP_ENDPOINT says)",
    )
    add_cache(parser, "keep a cache that makes the next start near-instant (default: yes)")
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON with url and pid once listening"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from stepscope.serve import Server

    server: Server | None = None
    if arguments.attached:
        from stepscope.serve.attached import end_with_starter

        end_with_starter(lambda: server.end() if server is not None else None)
    server = Server(arguments.log_dir, **{name: getattr(arguments, name) for name in OF_SERVER})
    announce(server, arguments)
    if arguments.open:
        open_browser(server.url)
    server.run()
    if server.follower.stuck:
        # Python waits for threads that read; a file system that hangs must not keep the command alive.
        sys.stderr.flush()
        os._exit(0)
    return 0


def announce(server: Server, arguments: argparse.Namespace) -> None:
    """Print the address of the page; the socket listens already."""
    from stepscope.hosts import is_loopback

    if arguments.json:
        import json

        facts = {"url": server.url, "pid": os.getpid()}
        if server.frame_url is not None:
            facts["frame_url"] = server.frame_url
        print(json.dumps(facts), flush=True)
    lines = [f"serving {shown(arguments.log_dir)} on {server.url} (Ctrl-C stops)"]
    if not server.follower.log_dir.exists():
        lines.append(f"{shown(arguments.log_dir)} does not exist yet: waiting for it")
    if server.access.token is None:
        may = "see" if arguments.read_only else "see, change and delete"
        lines.append(f"without a token every user of this machine can {may} these runs")
    elif not is_loopback(server.access.host):
        lines.append("anyone with this address can see these runs; the connection is not encrypted")
    print("\n".join(lines), file=sys.stderr, flush=True)


def open_browser(url: str) -> None:
    """Open the page without waiting for the browser, some of which block until they are closed."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), name="stepscope-browser", daemon=True).start()
