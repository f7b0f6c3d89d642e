"""Asks a running server from another program, without sending it the token.

Another program may listen on the port of a server that has ended. The server asks for a proof, and gets one
that holds for this address and this start of it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from stepscope.errors import ServeError, UsageError

TIMEOUT_SECS = 10.0
MAX_ANSWER_BYTES = 16 << 20
CHALLENGE = re.compile(r'challenge="([0-9a-f]{64})"')


def post(address: str, path: str, message: Any, *, timeout_s: float = TIMEOUT_SECS) -> dict[str, Any]:
    """Return what a server answers to a POST.

    Args:
        address: As the server printed it, or a link of ``stepscope share``.
        path: Of the interface, such as ``share``.
        message: JSON types.
        timeout_s: How long to wait for the answer.

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
    place = urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/api/v1/{path}", "", ""))
    headers = {"Content-Type": "application/json", "Host": parts.netloc.rpartition("@")[2]}
    body = json.dumps(message).encode()
    try:
        try:
            return _sent(place, body, headers, timeout_s)
        except urllib.error.HTTPError as error:
            asked = CHALLENGE.search(error.headers.get("WWW-Authenticate", ""))
            if error.code != 401 or asked is None:
                raise
            given = parse_qs(parts.query).get("token", [""])[-1]
            proven = proof(given or os.environ.get(TOKEN_VARIABLE) or user_token(), asked[1], headers["Host"])
            try:
                return _sent(place, body, {**headers, "Authorization": f"{PROOF} {proven}"}, timeout_s)
            except urllib.error.HTTPError as refused:
                if refused.code != 401 or not given:
                    raise
                # The token of a link, which is good for nothing else.
                return _sent(place, body, {**headers, "Authorization": f"Bearer {given}"}, timeout_s)
    except urllib.error.HTTPError as error:
        raise _refusal(error) from None
    except CutOffError:
        raise ServeError(
            f"the server at {parts.netloc} went away before its answer was complete",
            hint="start it again, or ask the log directory itself",
        ) from None
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


def _sent(address: str, body: bytes, headers: dict[str, str], timeout_s: float) -> dict[str, Any]:
    request = urllib.request.Request(address, data=body, headers=headers)  # noqa: S310  its scheme is checked
    # No proxy of the environment: the request is for this server alone.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            body = answer.read(MAX_ANSWER_BYTES)
            if answer.length and len(body) < MAX_ANSWER_BYTES:
                raise CutOffError
    except (http.client.IncompleteRead, ConnectionResetError, BrokenPipeError) as error:
        raise CutOffError from error
    made: dict[str, Any] = json.loads(body)
    return made


class CutOffError(Exception):
    """The connection ended before the answer did."""


def _refusal(error: urllib.error.HTTPError) -> ServeError:
    """Return the error that the server answered with."""
    try:
        refusal = json.loads(error.read(MAX_ANSWER_BYTES))
        return ServeError(
            f"the server refused: {refusal['error']}", hint=refusal["hint"] or "see its messages"
        )
    except (ValueError, KeyError, TypeError):
        return ServeError(
            f"not a Stepscope server: it answered with status {error.code}",
            hint="pass the address that stepscope serve printed",
        )
