import base64
import hashlib

import pytest
from starlette.responses import PlainTextResponse
from support.clock import Time

from stepscope.serve import login
from stepscope.serve.access import Access
from stepscope.serve.guard import MAX_BODY_BYTES, REOPEN, SECURITY_HEADERS, Guard

TOKEN = "0123456789abcdef"
JSON = {"content-type": "application/json"}


async def app_(scope, receive, send):
    await PlainTextResponse(f"inside {scope['path']}")(scope, receive, send)


def guard(*, token=None, prefix="", host="127.0.0.1", allowed=()):
    access = Access(host=host, allowed=frozenset(allowed), token=token)
    return Guard(app_, access=access, cookie="stepscope_6006", prefix=prefix)


def test_a_plain_request_passes(ask):
    assert ask(guard(), "/x").body == b"inside /x"


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"host": "evil.example.com"}, 403, "evil.example.com"),
        ({"host": None}, 403, "host ''"),
        ({"origin": "http://evil.example.com"}, 403, "evil.example.com"),
        ({"origin": "null"}, 403, "null"),
        ({"origin": "http://localhost:3000"}, 403, "localhost:3000"),
        ({"sec-fetch-site": "cross-site"}, 403, "another site"),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403, "another site"),
    ],
)
def test_refused_senders(ask, headers, status, words):
    answer = ask(guard(), "/api/v1/changes", headers=headers)
    assert answer.status == status
    assert words in answer.json["error"]
    assert answer.json["hint"]
    assert b"inside" not in answer.body


def test_two_host_headers_are_refused(ask):
    inner = guard()

    async def doubled(scope, receive, send):
        scope["headers"].append((b"host", b"localhost:6006"))
        await inner(scope, receive, send)

    assert ask(doubled).status == 403


def test_the_hint_for_an_unknown_host_is_the_option_that_allows_it(ask):
    answer = ask(guard(), headers={"host": "lab.example.org:8080"})
    assert "--allow-host lab.example.org" in answer.json["hint"]
    assert ask(guard(allowed=["lab.example.org"]), headers={"host": "lab.example.org:8080"}).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused(ask, method):
    answer = ask(guard(), method=method)
    assert answer.status == 405
    assert answer.header("allow") == "GET, HEAD, POST"


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"],
)
def test_a_body_that_a_form_could_send_is_refused(ask, content_type):
    assert ask(guard(), "/api/v1/series", method="POST", headers={"content-type": content_type}).status == 415


@pytest.mark.parametrize("length", [str(MAX_BODY_BYTES + 1), "x", "-1", "9" * 50])
def test_a_body_that_says_it_is_too_large_is_refused(ask, length):
    answer = ask(guard(), "/api/v1/series", method="POST", headers={**JSON, "content-length": length})
    assert answer.status == 413


def test_json_passes(ask):
    headers = {"content-type": "application/json; charset=utf-8", "content-length": "2"}
    assert ask(guard(), "/api/v1/series", method="POST", headers=headers, body=b"{}").status == 200


@pytest.mark.parametrize(
    "target", ["/", "/api/v1/changes", "/assets/x.js", "/api/v1/points?run=a&token=wrong"]
)
def test_without_the_token_nothing_is_answered(ask, target):
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"cookie": "stepscope_6006=wrong"},
        {"cookie": "other=" + TOKEN},
        {"cookie": "stepscope_6006=" + TOKEN},
    ):
        answer = ask(guard(token=TOKEN), target, headers=headers)
        assert answer.status == 401
        assert b"inside" not in answer.body
        assert b"token" in answer.body
        assert TOKEN.encode() not in answer.body


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer  {TOKEN}"},
    ],
)
def test_the_token_opens_everything(ask, headers):
    assert ask(guard(token=TOKEN), "/api/v1/changes", headers=headers).status == 200


def enter(ask, app, query="", *, token=TOKEN, headers=None, **options):
    """Return the answer that brings the cookie, and the place where that is valid."""
    first = ask(app, f"/?token={token}{query}", headers=headers, **options)
    assert first.status == 303
    assert first.header("set-cookie") is None
    place = first.header("location").partition("?")[0].strip("./")
    return ask(app, f"/{first.header('location').removeprefix('./')}", headers=headers, **options), place


def test_the_token_in_the_address_becomes_a_cookie_of_a_place_and_leaves_the_address(ask):
    app = guard(token=TOKEN)
    answer, place = enter(ask, app, "&q=a%26b")
    assert answer.status == 303
    assert answer.header("location") == "./?q=a%26b"
    cookie = answer.header("set-cookie")
    assert cookie.startswith("stepscope_6006=")
    assert TOKEN not in cookie
    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=strict"} <= parts
    assert not [part for part in parts if part.startswith("path=")], "the browser takes the place"
    given = {"cookie": f'odd name={{"a": 1}}; {cookie.partition(";")[0]}; x'}
    assert ask(app, f"/{place}/?q=a%26b", headers=given).body == b"inside /"
    assert ask(app, f"/{place}/api/v1/changes", headers=given).body == b"inside /api/v1/changes"
    assert ask(app, f"/{place}").header("location") == f"{place}/"


def test_a_cookie_is_worthless_elsewhere(ask):
    app = guard(token=TOKEN)
    answer, place = enter(ask, app)
    cookie = {"cookie": answer.header("set-cookie").partition(";")[0]}
    assert ask(app, f"/{place}/api/v1/changes", headers=cookie).status == 200
    _, other = enter(ask, app)
    assert ask(app, f"/{other}/api/v1/changes", headers=cookie).status == 401, "another browser's place"
    assert ask(app, "/api/v1/changes", headers=cookie).status == 401
    again = guard(token=TOKEN)
    assert ask(again, f"/{place}/api/v1/changes", headers=cookie).status == 401, "another start"
    value = cookie["cookie"].partition("=")[2]
    assert ask(app, "/api/v1/changes", headers={"authorization": f"Bearer {value}"}).status == 401
    app.access.token = "another-token-of-the-user"
    assert ask(app, f"/{place}/api/v1/changes", headers=cookie).status == 401, "the token was replaced"


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.replace("owner", "view"),
        lambda value: "owner.99999999999" + value[value.rindex(".") :],
        lambda value: value[:-1],
        lambda value: "",
        lambda value: "owner.1e9.x",
        lambda value: "owner.1.\u00fc",
    ],
)
def test_a_changed_cookie_opens_nothing(ask, change):
    app = guard(token=TOKEN)
    answer, place = enter(ask, app)
    name, _, value = answer.header("set-cookie").partition(";")[0].partition("=")
    headers = {"cookie": f"{name}={change(value)}"}
    assert ask(app, f"/{place}/api/v1/changes", headers=headers).status == 401


def test_a_cookie_ends(ask):
    now = Time(1_000_000.0)
    app = Guard(app_, access=Access(host="127.0.0.1", token=TOKEN), cookie="c", wall=now)
    answer, place = enter(ask, app)
    cookie = answer.header("set-cookie")
    assert f"max-age={login.LIFETIME_S}" in cookie.lower()
    headers = {"cookie": cookie.partition(";")[0]}
    now.now += login.LIFETIME_S - 1
    assert ask(app, f"/{place}/", headers=headers).status == 200
    now.now += 1
    assert ask(app, f"/{place}/", headers=headers).status == 401


def test_a_frame_needs_no_cookie_and_only_where_pages_may_embed(ask):
    access = Access(host="127.0.0.1", token=TOKEN, embed=("http://localhost:*",))
    inner = Guard(app_, access=access, cookie="c")
    place = access.frame_place
    assert ask(inner, f"/{place}/api/v1/changes").status == 200
    assert ask(inner, f"/{login.new_place()}/api/v1/changes").status == 401
    other = Access(host="127.0.0.1", token=TOKEN, embed=("http://localhost:*",))
    assert ask(Guard(app_, access=other, cookie="c"), f"/{place}/api/v1/changes").status == 401
    closed = Access(host="127.0.0.1", token=TOKEN, start=access.start)
    assert ask(Guard(app_, access=closed, cookie="c"), f"/{place}/api/v1/changes").status == 401


def test_a_browser_without_a_token_is_led_to_its_place_again(ask):
    answer = ask(guard(token=TOKEN), "/", headers={"sec-fetch-dest": "document"})
    assert answer.status == 401
    digest = base64.b64encode(hashlib.sha256(REOPEN.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in answer.header("content-security-policy")
    assert f"<script>{REOPEN}</script>".encode() in answer.body


def proven(app, host, *, secret=TOKEN, challenge=None):
    asked = challenge or login.challenge(app.access.start)
    return {
        "host": host,
        "content-type": "application/json",
        "authorization": f"{login.PROOF} {login.proof(secret, asked, host)}",
    }


def test_a_proof_makes_links_and_opens_nothing_else(ask):
    app = guard(token=TOKEN)
    answer = ask(app, "/api/v1/share", method="POST", headers={"content-type": "application/json"})
    assert f'challenge="{login.challenge(app.access.start)}"' in answer.header("www-authenticate")
    headers = proven(app, "localhost:6006")
    assert ask(app, "/api/v1/share", method="POST", headers=headers).status == 200
    assert ask(app, "/api/v1/run/delete", method="POST", headers=headers).status == 401
    assert ask(app, "/api/v1/changes", headers=headers).status == 401


def test_a_proof_that_another_program_passes_on_is_worthless(ask):
    app = guard(token=TOKEN)
    for headers in (
        proven(app, "localhost:7000"),  # it was sent to another port of this machine
        proven(app, "localhost"),
        proven(app, "localhost:6006", secret="another-secret"),
        proven(app, "localhost:6006", challenge=login.challenge(b"another start")),
        {**proven(app, "localhost:7000"), "host": "localhost:6006"},
    ):
        assert ask(app, "/api/v1/share", method="POST", headers=headers).status == 401
    tunnel = guard(token=TOKEN, allowed=["localhost:7000"])
    headers = proven(tunnel, "localhost:7000")
    assert ask(tunnel, "/api/v1/share", method="POST", headers=headers).status == 200


def test_a_link_from_another_site_gets_a_page_of_ours_that_leads_on(ask):
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    app, place = guard(token=TOKEN), login.new_place()
    first = ask(app, f"/?token={TOKEN}&a=1", headers=headers)
    assert first.status == 200
    assert b'http-equiv="refresh" content="0;url=./~' in first.body
    answer = ask(app, f"/{place}/?token={TOKEN}&a=%22%3E%3Cscript%3E&b=1", headers=headers)
    assert answer.status == 200
    assert answer.header("set-cookie")
    assert b'content="0;url=./?a=%22%3E%3Cscript%3E&amp;b=1"' in answer.body


def test_the_token_in_the_address_opens_the_page_only(ask):
    answer = ask(guard(token=TOKEN), f"/api/v1/changes?token={TOKEN}")
    assert answer.status == 401
    assert answer.header("set-cookie") is None


@pytest.mark.parametrize(
    ("target", "path"),
    [("/lab/x/", "/"), ("/lab/x/api/v1/health", "/api/v1/health"), ("/", "/"), ("/lab/xy", "/lab/xy")],
)
def test_the_prefix_is_cut_off_and_a_proxy_may_have_done_so(ask, target, path):
    assert ask(guard(prefix="/lab/x"), target).body == f"inside {path}".encode()


def test_the_slash_after_the_prefix_is_added(ask):
    answer = ask(guard(prefix="/lab/x"), "/lab/x?q=1")
    assert answer.status == 307
    assert answer.header("location") == "x/?q=1"


def test_the_place_lies_below_the_prefix(ask):
    app = guard(prefix="/lab/x", token=TOKEN)
    target = ask(app, f"/lab/x/?token={TOKEN}").header("location").removeprefix("./")
    for prefix in ("/lab/x/", "/"):  # the proxy may have cut it off
        cookie = ask(app, prefix + target).header("set-cookie").partition(";")[0]
        place = prefix + target.partition("?")[0]
        assert ask(app, place + "api/v1/changes", headers={"cookie": cookie}).status == 200


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/", {}),
        ("/", {"host": "evil.example.com"}),
        ("/?token=" + TOKEN, {}),
        ("/api/v1/x", {"cookie": "a=b"}),
    ],
)
def test_every_answer_carries_the_protective_headers(ask, target, headers):
    answer = ask(guard(token=TOKEN), target, headers=headers)
    for name, value in SECURITY_HEADERS.items():
        assert answer.header(name) == value
    assert answer.header("cache-control") == "no-store"
    policy = answer.header("content-security-policy")
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy


def test_web_sockets_are_not_served():
    import asyncio

    def never(*_):
        raise AssertionError("nothing may be sent or received")

    assert asyncio.run(guard()({"type": "websocket", "path": "/"}, never, never)) is None
