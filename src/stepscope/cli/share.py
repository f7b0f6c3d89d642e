"""``stepscope share``: a view-only link to a running server that expires."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from stepscope.cli.output import say
from stepscope.errors import ServeError, UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
TIMEOUT_SECS = 10.0
MAX_ANSWER_BYTES = 1 << 20
CHALLENGE = re.compile(r'challenge="([0-9a-f]{64})"')


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
    made = ask(arguments.address, seconds_of(arguments.period))
    parts = urlsplit(arguments.address)
    url = urlunsplit((parts.scheme, parts.netloc, parts.path or "/", f"token={made['token']}", ""))
    if arguments.json:
        print(json.dumps({"url": url, "until": made["until"]}))
        return 0
    print(url)
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(made["until"]))
    say(f"anyone with this link can look at the runs until {end}, but change nothing")
    return 0


def seconds_of(text: str) -> int:
    """Return a time such as ``24h`` in seconds.

    Raises:
        UsageError: It is not one.
    """
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None or not int(found[1]):
        raise UsageError(f"--for {text!r:.40}: expected a time such as 90m, 24h or 7d", hint="--for 24h")
    return int(found[1]) * UNITS[found[2]]


def ask(address: str, seconds: int) -> dict[str, Any]:
    """Have a server make a link.

    The token is not sent: another program may listen on the port of a server that has ended. The server asks,
    and gets a proof that holds for this address and this start of it.

    Raises:
        UsageError: No address.
        ServeError: No answer, or a refusal.
    """
    from stepscope.serve.access import TOKEN_VARIABLE
    from stepscope.serve.login import PROOF, proof
    from stepscope.serve.user_token import user_token

    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(
            f"not the address of a server: {address!r:.80}",
            hint="pass what stepscope serve printed, http://…",
        )
    place = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + "/api/v1/share", "", ""))
    headers = {"Content-Type": "application/json", "Host": parts.netloc.rpartition("@")[2]}
    body = json.dumps({"seconds": seconds}).encode()
    try:
        try:
            return sent(place, body, headers)
        except urllib.error.HTTPError as error:
            asked = CHALLENGE.search(error.headers.get("WWW-Authenticate", ""))
            if error.code != 401 or asked is None:
                raise
            token = parse_qs(parts.query).get("token", [""])[-1] or os.environ.get(TOKEN_VARIABLE)
            proven = proof(token or user_token(), asked[1], headers["Host"])
            return sent(place, body, {**headers, "Authorization": f"{PROOF} {proven}"})
    except urllib.error.HTTPError as error:
        raise refusal(error) from None
    except ValueError:
        raise ServeError(
            f"not a Stepscope server: what {parts.netloc} answered is not JSON",
            hint="pass the address that stepscope serve printed",
        ) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ServeError(
            f"no server answers at {parts.netloc}: {reason}",
            hint="start one with stepscope serve LOGDIR, and pass the address that it prints",
        ) from None


def sent(address: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """Return the answer of a server."""
    request = urllib.request.Request(address, data=body, headers=headers)  # noqa: S310  its scheme is checked
    # No proxy of the environment: the request is for this server alone.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_SECS) as answer:
        made: dict[str, Any] = json.loads(answer.read(MAX_ANSWER_BYTES))
        return made


def refusal(error: urllib.error.HTTPError) -> ServeError:
    """Return the error that the server answered with."""
    try:
        told = json.loads(error.read(MAX_ANSWER_BYTES))
        return ServeError(f"the server refused: {told['error']}", hint=told["hint"] or "see its messages")
    except (ValueError, KeyError, TypeError):
        return ServeError(
            f"not a Stepscope server: it answered with status {error.code}",
            hint="pass the address that stepscope serve printed",
        )
