"""``stepscope mcp``: the questions as tools for agents, over the Model Context Protocol."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from stepscope import lazy
from stepscope.cli.arguments import add_cache

if TYPE_CHECKING:
    from stepscope.serve.questions.protocol import Tools


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="*",
        default=["."],
        metavar="DIR",
        help="log directories, URLs of them, or addresses of running servers (default: .)",
    )
    parser.add_argument(
        "--http", action="store_true", help="serve over HTTP, by the rules of stepscope serve, at /mcp"
    )
    parser.add_argument("--host", default="127.0.0.1", help="with --http: address to listen on")
    parser.add_argument("--port", type=int, default=6008, help="with --http: port, 0 for any (default: 6008)")
    parser.add_argument(
        "--token", metavar="TOKEN", help="with --http: token that a client sends, as for stepscope serve"
    )
    parser.add_argument(
        "--allow-capture", action="store_true", help="agents may ask running jobs for a profile"
    )
    parser.add_argument("--allow-notes", action="store_true", help="agents may write notes on runs")
    parser.add_argument(
        "--json", action="store_true", help="print the tools with their schemas as JSON, and serve nothing"
    )
    add_cache(parser)


def run(arguments: argparse.Namespace) -> None:
    """Serve until the client ends or Ctrl-C.

    Raises:
        MissingPackageError: The SDK is not installed.
    """
    from stepscope.serve.questions.asked import is_server

    with lazy.needs("stepscope[mcp]"):
        from stepscope.serve.questions.protocol import Tools, desks_of, serve_stdio

    desks = desks_of(arguments.places, cache=arguments.cache)
    tools = Tools(desks, allow_capture=arguments.allow_capture, allow_notes=arguments.allow_notes)
    if arguments.json:
        print(json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools.listing()]))
        return
    try:
        for desk in desks.values():
            if not is_server(desk.place):
                desk.refresh()
        if arguments.http:
            serve_http(tools, arguments)
        else:
            serve_stdio(tools)
    finally:
        for desk in desks.values():
            desk.close()


def serve_http(tools: Tools, arguments: argparse.Namespace) -> None:
    """Serve over HTTP behind the guard of ``stepscope serve``."""
    from stepscope.serve.access import access_for
    from stepscope.serve.address import address_of, listen
    from stepscope.serve.guard import Guard
    from stepscope.serve.loop import Loop
    from stepscope.serve.questions.protocol import HttpApp

    listener = listen(arguments.host, arguments.port)
    address, port = address_of(listener)
    directory = next(iter(tools.desks.values())).backend.directory
    access = access_for(address, allow_host=[arguments.host], token=arguments.token, directory=directory)
    guard = Guard(HttpApp(tools), access=access, cookie=f"stepscope_{port}")
    print(
        f"serving agents at http://{arguments.host}:{port}/mcp (Ctrl-C stops); send Authorization: Bearer "
        "TOKEN, the one that stepscope token prints",
        file=sys.stderr,
        flush=True,
    )
    Loop(guard, listener, close=lambda: None).run()
