import pytest
from starlette.responses import PlainTextResponse

from stepscope.serve.access import Access
from stepscope.serve.guard import MAX_BODY_BYTES, SECURITY_HEADERS, Guard

TOKEN = "0123456789abcdef"
JSON = {"content-type": "application/json"}


async def app(scope, receive, send):
    await PlainTextResponse(f"inside {scope['path']}")(scope, receive, send)


def guard(*, token=None, prefix="", host="127.0.0.1", allowed=()):
    access = Access(host=host, allowed=frozenset(allowed), token=token)
    return Guard(app, access=access, cookie="stepscope_6006", prefix=prefix)


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
        {"cookie": f"stepscope_6006={TOKEN}"},
        {"cookie": f'odd name={{"a": 1}}; stepscope_6006={TOKEN}; x'},
    ],
)
def test_the_token_opens_everything(ask, headers):
    assert ask(guard(token=TOKEN), "/api/v1/changes", headers=headers).status == 200


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(ask):
    answer = ask(guard(token=TOKEN), f"/?token={TOKEN}&q=a%26b")
    assert answer.status == 303
    assert answer.header("location") == "./?q=a%26b"
    cookie = answer.header("set-cookie")
    assert cookie.startswith(f"stepscope_6006={TOKEN};")
    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert ask(guard(token=TOKEN), "/?q=a%26b", headers={"cookie": cookie.partition(";")[0]}).status == 200


def test_a_link_from_another_site_gets_a_page_of_ours_that_leads_on(ask):
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    answer = ask(guard(token=TOKEN), f"/?token={TOKEN}&a=%22%3E%3Cscript%3E&b=1", headers=headers)
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


def test_the_cookie_is_bound_to_the_prefix(ask):
    answer = ask(guard(prefix="/lab/x", token=TOKEN), f"/lab/x/?token={TOKEN}")
    assert "path=/lab/x" in answer.header("set-cookie").lower()


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
