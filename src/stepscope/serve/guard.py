"""The gate in front of every request: refuses forbidden requests, and protects answers by headers.

Pure ASGI, outermost, so that no route can be reached around it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepscope.serve import login
from stepscope.serve.access import Access, Grant, fetch_is_ours
from stepscope.serve.budget import AnswerBudget
from stepscope.serve.perfetto import PERFETTO, policy
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import ROUTES, route_of
from stepscope.serve.types import API

METHODS = ("GET", "HEAD", "POST")
GRANT, ACCESS = "stepscope.grant", "stepscope.access"
"""Keys of a request's scope for its rights and the server's rules."""
PROVEN = (f"/{API}share", f"/{API}ask")
"""Addresses for other programs, which prove that they know the token and do not send it."""
MAX_BODY_BYTES = 2 * 1024 * 1024
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "media-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "SAMEORIGIN",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
REOPEN = (
    "(()=>{const base=location.pathname.replace(/~[\\w-]{22}\\/?$/,''),name='stepscope-place:'+base;"
    "const place=localStorage.getItem(name);if(!place)return;"
    "if(location.pathname.includes(place))localStorage.removeItem(name);"
    "else location.replace(base+place+'/'+location.search+location.hash)})()"
)
"""Leads a browser that was let in to its place again. Its storage belongs to this host *and* port."""
REOPEN_POLICY = (
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; script-src "
    f"'sha256-{base64.b64encode(hashlib.sha256(REOPEN.encode()).digest()).decode()}'"
)


class Guard:
    """Middleware that lets only proper requests through.

    Args:
        app: The application behind it.
        access: Who may ask.
        cookie: Name of the cookie of a browser that was let in.
        prefix: Path under which a proxy shows the server, as ``/lab/stepscope``; empty for none.
        wall: Seconds since the epoch.
        most_bytes: Memory of all answers in flight; by default a limit that suits the machine.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        cookie: str,
        prefix: str = "",
        wall: Callable[[], float] = time.time,
        most_bytes: int | None = None,
    ) -> None:
        self.access, self.cookie, self.prefix, self.wall = access, cookie, prefix, wall
        self.budget = AnswerBudget(app, most_bytes)
        self.protection = security_headers(access.embed)

    def protection_of(self, path: str) -> dict[str, str]:
        """Return the headers of an answer: Perfetto's page, which compiles code, has a policy of its own."""
        if not path.startswith(f"/{PERFETTO}/"):
            return self.protection
        return {**self.protection, "Content-Security-Policy": " ".join([policy(), *self.access.embed])}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or pass on one request."""
        if scope["type"] != "http":
            return  # Neither web sockets nor lifespan events are served.
        send = with_headers(send, self.protection_of(self.stripped(scope["path"])))
        headers = Headers(scope=scope)
        try:
            self.check_sender(scope, headers)
            place, path = self.split(scope["path"])
            answer = self.slash(scope, place, path) or self.token_answer(scope, headers, place)
            if answer is None:
                await self.check_change(scope)
                check_body(scope["method"], headers)
        except Refusal as refusal:
            answer = refusal.response()
        if answer is not None:
            await answer(scope, receive, send)
            return
        await self.budget.answer(scope, receive, send, guest=not scope[GRANT].changes)

    def check_sender(self, scope: Scope, headers: Headers) -> None:
        """Refuse other methods, other hosts and pages that are not ours."""
        if scope["method"] not in METHODS:
            raise Refusal(
                405,
                f"method {scope['method']} is not served",
                "use GET or POST",
                headers={"Allow": ", ".join(METHODS)},
            )
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.access.host_is_ours(hosts[0]):
            name = hosts[0][:200] if hosts else ""
            raise Refusal(
                403,
                f"host {name!r} is not a name of this server",
                f"if it is yours, start the server with --allow-host {name.rpartition(':')[0] or name}",
            )
        for origin in headers.getlist("origin"):
            if not self.access.origin_is_ours(origin, hosts[0]):
                raise Refusal(
                    403,
                    f"origin {origin[:200]!r} may not read this server",
                    "open the page from the server itself; behind a proxy add its host with --allow-host",
                )
        if not fetch_is_ours(headers, document=self.is_document(scope), embedded=bool(self.access.embed)):
            raise Refusal(403, "request from another site", "open the page from the server itself")

    def is_document(self, scope: Scope) -> bool:
        """Return whether the request is for the page itself, as from a link or the address bar."""
        return scope["method"] in ("GET", "HEAD") and not self.stripped(scope["path"]).startswith("/" + API)

    def split(self, path: str) -> tuple[str | None, str]:
        """Return the place in a path, None without one, and the path without place and prefix.

        Proxies that cut the prefix off themselves are served as well.
        """
        if self.prefix and (path == self.prefix or path.startswith(self.prefix + "/")):
            path = path[len(self.prefix) :]
        return login.split_place(path)

    def stripped(self, path: str) -> str:
        """Return the path without prefix and place."""
        return self.split(path)[1]

    def slash(self, scope: Scope, place: str | None, path: str) -> Response | None:
        """Cut prefix and place off; relative addresses of the page need the slash at the end of both."""
        if path == "":
            query = scope["query_string"].decode("latin-1")
            last = place or self.prefix.rpartition("/")[2]
            return RedirectResponse(last + "/" + (f"?{query}" if query else ""), 307)
        scope["path"] = path
        return None

    def token_answer(self, scope: Scope, headers: Headers, place: str | None) -> Response | None:
        """Note the rights of a request, or return a redirect, or raise the refusal."""
        now = self.wall()
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        in_query = [value for name, value in query if name == "token"] if self.access.token else []
        if in_query and self.is_document(scope) and (offered := self.access.grant(in_query[-1], now)):
            return self.welcome(query, headers, place, offered)
        held = self.held(scope, headers, place, now)
        if held is not None:
            scope[GRANT], scope[ACCESS] = held, self.access
            return None
        cookie = cookies(headers).get(self.cookie)
        ended = any(map(self.access.ended, [*in_query, *bearers(headers)]))
        ended = ended or (place is not None and self.access.cookie_ended(place, cookie))
        return self.refuse_token(scope, headers, ended)

    def held(self, scope: Scope, headers: Headers, place: str | None, now: float) -> Grant | None:
        """Return the rights of a request by its headers and its place."""
        grants = [self.access.grant(offer, now) for offer in [*bearers(headers), None]]
        if place is not None:
            grants.append(self.access.grant_of_place(place, cookies(headers).get(self.cookie), now))
        if scope["path"] in PROVEN:
            port = (scope.get("server") or ("", None))[1]
            proofs = bearers(headers, login.PROOF)
            if any(self.access.proof_is_right(offer, headers["host"], port) for offer in proofs):
                changes = scope["path"] == f"/{API}share" and not self.access.read_only
                grants.append(Grant(changes=changes))
        return max(filter(None, grants), key=lambda grant: grant.changes, default=None)

    def refuse_token(self, scope: Scope, headers: Headers, ended: bool) -> Response:
        """Return the refusal of a request without a token, or raise it."""
        what = "This link has ended." if ended else "This server needs its token."
        hint = (
            "open the address that the server printed when it started last, which ends in ?token=…, or add "
            "?token= and what stepscope token prints"
        )
        if ended:
            hint = "ask whoever sent it for a new one: stepscope share"
        if self.is_document(scope):
            if not ended and headers.get("sec-fetch-dest") == "document":
                return Response(
                    f"<!doctype html><pre>{what}\n{hint}</pre><script>{REOPEN}</script>",
                    401,
                    {"Content-Security-Policy": REOPEN_POLICY},
                    "text/html",
                )
            return PlainTextResponse(f"{what}\n{hint}\n", 401)
        error = "the link has ended" if ended else "token missing or wrong"
        asked = f'Bearer, {login.PROOF} challenge="{login.challenge(self.access.start)}"'
        raise Refusal(401, error, hint, headers={"WWW-Authenticate": asked})

    async def check_change(self, scope: Scope) -> None:
        """Refuse a change if the request may only look."""
        if scope["method"] != "POST" or scope[GRANT].changes:
            return
        name = scope["path"].removeprefix(f"/{API}")
        # What a POST does is known once its module is imported, which must not hold up the event loop.
        route = ROUTES.get(name) or await asyncio.to_thread(route_of, name)
        if route is not None and route.method == "POST" and route.reads:
            return
        if self.access.read_only:
            raise Refusal(403, "this server is read-only", "start it without --read-only")
        raise Refusal(403, "this link is view-only", "ask whoever shared it to make the change")

    def welcome(
        self, query: list[tuple[str, str]], headers: Headers, place: str | None, grant: Grant
    ) -> Response:
        """Lead a browser with a token to a place of its own, and there to the address without the token.

        Histories keep addresses. The cookie has no path of ours: the browser takes the place, below whatever
        prefix a proxy may have.
        """
        if place is None:
            target = f"./{login.new_place()}/?{urlencode(query)}"
        else:
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            target = "./" + (f"?{rest}" if rest else "")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # A redirect would still count as the other site's and not carry a strict cookie; a page of ours
            # does.
            refresh = f'<meta http-equiv="refresh" content="0;url={html.escape(target)}">'
            document = f"<!doctype html><title>Stepscope</title>{refresh}"
            response: Response = Response(document, media_type="text/html")
        else:
            response = RedirectResponse(target, 303)
        if place is not None:
            value, left_s = self.access.cookie(place, grant, self.wall())
            response.set_cookie(
                self.cookie, value, max_age=left_s, path=None, httponly=True, samesite="strict"
            )
        return response


def bearers(headers: Headers, scheme: str = "bearer") -> Iterator[str]:
    """Yield the tokens in a request's ``Authorization``."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == scheme.lower() and value:
        yield value.strip()


def cookies(headers: Headers) -> dict[str, str]:
    """Return the cookies of a request."""
    # Not http.cookies, which gives up at the first odd cookie of another server on this host.
    return cookie_parser(headers.get("cookie", ""))


def check_body(method: str, headers: Headers) -> None:
    """Refuse bodies that are not JSON, which forms of other sites could send, or too large."""
    if method != "POST":
        return
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "body is not JSON", "send it with Content-Type: application/json")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        raise Refusal(
            413, f"body of {length[:20]} bytes: at most {MAX_BODY_BYTES}", "ask for fewer lines at once"
        )


def security_headers(embed: Iterable[str]) -> dict[str, str]:
    """Return the headers of every answer; ``X-Frame-Options``, which knows no list, only without one."""
    headers = dict(SECURITY_HEADERS)
    pages = " ".join(embed)
    if pages:
        headers["Content-Security-Policy"] += " " + pages
        del headers["X-Frame-Options"]
    return headers


def with_headers(send: Send, protection: Mapping[str, str]) -> Send:
    """Add the headers to whatever answer is sent; an API answer is not stored unless it says so itself."""

    async def send_protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in protection.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_protected
