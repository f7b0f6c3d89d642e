"""``stepscope share``: a view-only link to a running server that expires."""

from __future__ import annotations

import argparse
import re
import time
from urllib.parse import urlsplit, urlunsplit

from stepscope.cli.output import Output, put
from stepscope.errors import UsageError
from stepscope.serve.client import post

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print a link to a running server with which somebody can look at its runs for a while, and change "
        "nothing."
    )
    parser.add_argument(
        "address",
        nargs="?",
        default="http://127.0.0.1:6006/",
        metavar="ADDRESS",
        help="what stepscope serve printed (default: http://127.0.0.1:6006/)",
    )
    parser.add_argument(
        "--for",
        dest="period",
        default="24h",
        metavar="TIME",
        help="how long the link works, such as 90m, 24h or 7d; at most a year (default: 24h)",
    )
    parser.add_argument("--json", action="store_true", help="print url and end (when it expires) as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the link.

    Raises:
        UsageError: No such time or address.
        ServeError: No server answers there, or it refuses.
    """
    made = post(arguments.address, "share", {"seconds": seconds_of(arguments.period)})
    parts = urlsplit(arguments.address)
    url = urlunsplit((parts.scheme, parts.netloc, parts.path or "/", f"token={made['token']}", ""))
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(made["until"]))
    text = f"{url}\nanyone with this link can look at the runs until {end}, but change nothing\n"
    put(Output(text, {"url": url, "until": made["until"]}), as_json=arguments.json)
    return 0


def seconds_of(text: str) -> int:
    """Return a time such as ``24h`` in seconds.

    Raises:
        UsageError: It is not one.
    """
    match = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if match is None or not int(match[1]):
        raise UsageError(f"--for {text!r:.40}: expected a time such as 90m, 24h or 7d", hint="--for 24h")
    return int(match[1]) * UNITS[match[2]]
