import os
import time
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse

from stepscope.errors import UsageError
from stepscope.serve.access import Access, Grant, access_for, fetch_is_ours, host_name
from stepscope.serve.guard import GRANT, Guard
from stepscope.serve.login import ends_at, new_place, view_token
from stepscope.serve.routes import all_routes
from stepscope.serve.user_token import check_token, kept_token, replace_token, user_token

LOOPBACK = Access(host="127.0.0.1")
OPEN = Access(host="0.0.0.0", token="0123456789", names=frozenset({"node7"}))


@pytest.mark.parametrize(
    "header",
    [
        "localhost",
        "localhost:6006",
        "LOCALHOST:16006",
        "localhost.:6006",
        "127.0.0.1:6006",
        "127.8.8.8",
        "[::1]:6006",
        "[::1]",
    ],
)
def test_a_loopback_server_answers_under_loopback_names(header):
    assert LOOPBACK.host_is_ours(header)
    assert OPEN.host_is_ours(header)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "evil.example.com",
        "evil.example.com:6006",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com",
        "127.0.0.1@evil.example.com",
        "evil.example.com#localhost",
        "evil.example.com/localhost",
        "localhost:6006:6006x",
        "localhost:port",
        "localhost localhost",
        "192.168.1.5:6006",
        "[::2]:6006",
        "[::1",
        "[::1]evil.example.com",
        "node7",
    ],
)
def test_a_loopback_server_answers_under_no_other_name(header):
    assert not LOOPBACK.host_is_ours(header)


def test_a_network_server_answers_under_its_names_and_any_address():
    assert OPEN.host_is_ours("node7:6006")
    assert OPEN.host_is_ours("192.168.1.5:6006")
    assert OPEN.host_is_ours("[fe80::1]:6006")
    assert not OPEN.host_is_ours("evil.example.com")


def test_a_name_that_the_user_allowed_is_ours_with_any_port_unless_one_is_given():
    access = access_for("127.0.0.1", allow_host=["Lab.example.org", "other.example.org:8443"])
    assert access.host_is_ours("lab.example.org")
    assert access.host_is_ours("LAB.example.org:9999")
    assert access.host_is_ours("other.example.org:8443")
    assert not access.host_is_ours("other.example.org")
    assert not access.host_is_ours("notlab.example.org")


@pytest.mark.parametrize("name", ["http://lab.example.org", "lab.example.org/x", "", "a b", "[::1"])
def test_an_allowed_host_must_be_a_host(name):
    with pytest.raises(UsageError, match="not a host name"):
        access_for("127.0.0.1", allow_host=[name])


@pytest.mark.parametrize(
    ("origin", "host", "ours"),
    [
        ("http://localhost:6006", "localhost:6006", True),
        ("http://LOCALHOST:6006", "localhost:6006", True),
        ("https://lab.example.org", "lab.example.org", True),
        ("https://lab.example.org", "lab.example.org:443", True),
        ("http://localhost", "localhost:80", True),
        ("http://localhost:3000", "localhost:6006", False),
        ("http://127.0.0.1:6006", "localhost:6006", False),
        ("http://evil.example.com", "localhost:6006", False),
        ("http://evil.example.com:6006", "localhost:6006", False),
        ("http://localhost:6006.evil.example.com", "localhost:6006", False),
        ("null", "localhost:6006", False),
        ("file://", "localhost:6006", False),
        ("", "localhost:6006", False),
        ("http://[", "localhost:6006", False),
        ("chrome-extension://localhost:6006", "localhost:6006", False),
    ],
)
def test_only_pages_of_the_same_host_and_port_are_ours(origin, host, ours):
    assert LOOPBACK.origin_is_ours(origin, host) is ours


def test_behind_a_proxy_that_rewrites_host_the_allowed_name_is_an_origin_too():
    access = access_for("127.0.0.1", allow_host=["lab.example.org"])
    assert access.origin_is_ours("https://lab.example.org", "127.0.0.1:6006")
    assert not access.origin_is_ours("https://evil.example.org", "127.0.0.1:6006")


def test_everybody_needs_a_token(state, monkeypatch):
    assert access_for("127.0.0.1").token == access_for("::1").token == user_token()
    assert access_for("127.0.0.1", no_token=True).token is None
    first, second = access_for("0.0.0.0").token, access_for("::").token
    assert len(first) >= 32
    assert first != second
    assert len(access_for("127.0.0.1", token="auto").token) >= 32
    assert access_for("0.0.0.0", token="my-own-token").token == "my-own-token"
    assert len(access_for("0.0.0.0", no_token=True).token) >= 32, "the network is not let in"
    monkeypatch.setenv("STEPSCOPE_TOKEN", "from-the-environment")
    assert {access_for(host).token for host in ("127.0.0.1", "0.0.0.0")} == {"from-the-environment"}
    with pytest.raises(UsageError, match="exclude each other"):
        access_for("127.0.0.1", token="auto", no_token=True)


def test_an_address_does_not_contain_a_token_that_outlives_the_server(state, monkeypatch):
    one, other = access_for("127.0.0.1"), access_for("127.0.0.1")
    assert user_token() not in (one.address_token, other.address_token)
    assert one.grant(one.address_token, 0) == Grant(changes=True)
    assert one.grant(user_token(), 0) == Grant(changes=True)
    assert other.grant(one.address_token, 0) is None
    assert access_for("127.0.0.1", token="my-own-token").address_token == "my-own-token"


@pytest.mark.parametrize("token", ["short", "", "with space in it", "semicolon;cookie", "ümläut-token"])
def test_a_token_must_be_hard_to_guess_and_fit_into_a_url(token):
    with pytest.raises(UsageError, match="token"):
        access_for("127.0.0.1", token=token)


def test_tokens_are_compared_whole():
    assert OPEN.token_is_right("0123456789")
    for wrong in (None, "", "0123456788", "012345678", "01234567890", "ü"):
        assert not OPEN.token_is_right(wrong)
    assert LOOPBACK.token_is_right(None)


@pytest.mark.parametrize(
    ("headers", "document", "ours"),
    [
        ({}, False, True),
        ({"sec-fetch-site": "same-origin"}, False, True),
        ({"sec-fetch-site": "none"}, False, True),
        ({"sec-fetch-site": "cross-site"}, False, False),
        ({"sec-fetch-site": "same-site"}, False, False),
        ({"sec-fetch-site": "cross-site"}, True, False),
        (
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
            True,
            True,
        ),
        (
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
            False,
            False,
        ),
        (
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
            True,
            False,
        ),
        (
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
            True,
            False,
        ),
    ],
)
def test_another_site_may_link_to_the_page_and_nothing_else(headers, document, ours):
    assert fetch_is_ours(headers, document=document) is ours


@pytest.mark.parametrize(
    ("text", "name"),
    [("a", "a"), ("A:1", "a"), ("[::1]:5", "::1"), ("::1", "::1"), (":5", None), ("a:", "a"), ("a\n", "a")],
)
def test_host_name(text, name):
    assert host_name(text) == name


def test_any_host_needs_a_token():
    with pytest.raises(UsageError, match="any web page"):
        access_for("127.0.0.1", allow_host=["*"], no_token=True)
    access = access_for("127.0.0.1", allow_host=["*"], token="auto")
    assert access.host_is_ours("hub.example.org:8443")
    assert access.origin_is_ours("https://hub.example.org", "127.0.0.1:6006")
    assert not access.host_is_ours("evil/../x")
    assert not access.origin_is_ours("null", "127.0.0.1:6006")


def test_pages_that_may_embed():
    assert access_for("127.0.0.1", embed=["https://Lab.example.org:8443"]).embed == (
        "https://lab.example.org:8443",
    )
    assert "http://localhost:*" in access_for("127.0.0.1", embed=["notebook"]).embed


@pytest.mark.parametrize("word", ["*", "lab.example.org", "https://a/b", "https://a; script-src *", "x:", ""])
def test_what_is_no_origin_is_refused(word):
    with pytest.raises(UsageError, match="not an origin"):
        access_for("127.0.0.1", embed=[word])


def test_a_frame_is_answered_only_where_pages_may_embed():
    frame = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert not fetch_is_ours(frame, document=True)
    assert fetch_is_ours(frame, document=True, embedded=True)
    assert not fetch_is_ours(frame, document=False, embedded=True)
    assert not fetch_is_ours({**frame, "sec-fetch-dest": "object"}, document=True, embedded=True)


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_TOKEN", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "stepscope" / "token"


def test_a_user_has_one_token_that_others_cannot_read(state):
    token = user_token()
    check_token(token)
    assert len(token) >= 32
    assert user_token() == token
    assert state.read_text() == token
    assert state.stat().st_mode & 0o777 == 0o600
    assert state.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("spoil", ["readable", "link", "folder", "short", "binary"])
def test_a_token_that_others_may_know_is_not_used(state, tmp_path, spoil):
    token = user_token()
    if spoil == "readable":
        state.chmod(0o644)
    elif spoil == "link":
        state.rename(tmp_path / "planted")
        state.symlink_to(tmp_path / "planted")
    elif spoil == "folder":
        state.unlink()
        state.mkdir()
    else:
        state.write_bytes(b"short" if spoil == "short" else bytes(range(128, 160)))
    if spoil == "folder":
        assert user_token() not in (token, user_token())
        return
    with pytest.raises((OSError, UnicodeDecodeError, UsageError)):
        kept_token()
    assert user_token() not in (token, "short", user_token())
    assert replace_token() == user_token() == state.read_text()


def test_where_none_can_be_kept_a_new_one_is_made_up(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert user_token() != user_token()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may be another user")
def test_a_file_of_another_user_is_not_used(state):
    token = user_token()
    os.chown(state, 65534, 65534)
    assert user_token() != token


SECRET, HERE = "0123456789abcdef", Path("/runs")
NOW = 1_767_000_000
JSON = {"content-type": "application/json"}


async def app(scope, receive, send):
    await PlainTextResponse(f"changes {scope[GRANT].changes}")(scope, receive, send)


def guard(*, token=SECRET, read_only=False, now=NOW):
    access = Access(host="127.0.0.1", token=token, directory=HERE, read_only=read_only)
    return Guard(app, access=access, cookie="c", wall=lambda: float(now))


def bearer(token):
    return {"authorization": f"Bearer {token}"}


class TestSignature:
    def test_it_says_when_it_ends(self):
        assert ends_at(view_token(SECRET, HERE, NOW), SECRET, HERE) == NOW

    def test_another_secret_directory_or_time_does_not_fit(self):
        token = view_token(SECRET, HERE, NOW)
        assert ends_at(token, SECRET + "x", HERE) is None
        assert ends_at(token, SECRET, Path("/other")) is None
        assert ends_at(token.replace(str(NOW), str(NOW + 1)), SECRET, HERE) is None
        assert ends_at(token[:-1], SECRET, HERE) is None

    @pytest.mark.parametrize(
        "text", ["", "view", "view.", "view..", "view.-1.x", "view.²³.x", "view.1e5.x", "view.1.ü", SECRET]
    )
    def test_what_is_none_is_none(self, text):
        assert ends_at(text, SECRET, HERE) is None


class TestWhatALinkMayDo:
    def test_it_looks(self, ask):
        answer = ask(guard(), "/api/v1/changes", headers=bearer(view_token(SECRET, HERE, NOW + 60)))
        assert (answer.status, answer.body) == (200, b"changes False")

    def test_it_asks_questions_which_change_nothing(self, ask):
        headers = JSON | bearer(view_token(SECRET, HERE, NOW + 60))
        questions = [name for name, route in all_routes().items() if route.method == "POST" and route.reads]
        assert questions == ["ask", "compare", "series", "sweep"]
        for name in questions:
            assert ask(guard(), f"/api/v1/{name}", method="POST", headers=headers).status == 200

    @pytest.mark.parametrize("name", ["run", "run/delete", "trash/empty", "views/save", "capture", "share"])
    def test_it_changes_and_shares_nothing(self, ask, name):
        headers = JSON | bearer(view_token(SECRET, HERE, NOW + 60))
        answer = ask(guard(), f"/api/v1/{name}", method="POST", headers=headers)
        assert (answer.status, answer.json["error"]) == (403, "this link is view-only")
        assert ask(guard(), f"/api/v1/{name}", method="POST", headers=JSON | bearer(SECRET)).status == 200

    def test_it_ends(self, ask):
        token = view_token(SECRET, HERE, NOW)
        answer = ask(guard(), "/api/v1/changes", headers=bearer(token))
        assert (answer.status, answer.json["error"]) == (401, "the link has ended")
        page = ask(guard(), f"/?token={token}")
        assert page.status == 401
        assert b"link has ended" in page.body
        assert ask(guard(now=NOW - 1), "/api/v1/changes", headers=bearer(token)).status == 200

    def test_a_made_up_one_is_a_wrong_token(self, ask):
        answer = ask(guard(), "/api/v1/changes", headers=bearer(f"view.{NOW + 60}.{'A' * 43}"))
        assert (answer.status, answer.json["error"]) == (401, "token missing or wrong")

    def entered(self, ask, now=NOW):
        app, place = guard(now=now), new_place()
        answer = ask(app, f"/{place}/?token={view_token(SECRET, HERE, NOW + 60)}")
        return app, place, answer.header("set-cookie")

    def test_its_cookie_ends_with_it(self, ask):
        app, place, cookie = self.entered(ask)
        assert "max-age=60" in cookie.lower()
        headers = {"cookie": cookie.partition(";")[0]}
        assert ask(app, f"/{place}/api/v1/changes", headers=headers).body == b"changes False"
        app.wall = lambda: NOW + 60.0
        answer = ask(app, f"/{place}/api/v1/changes", headers=headers)
        assert (answer.status, answer.json["error"]) == (401, "the link has ended")

    def test_its_cookie_changes_nothing(self, ask):
        app, place, cookie = self.entered(ask)
        headers = JSON | {"cookie": cookie.partition(";")[0]}
        answer = ask(app, f"/{place}/api/v1/run/delete", method="POST", headers=headers)
        assert (answer.status, answer.json["error"]) == (403, "this link is view-only")
        forged = {"cookie": headers["cookie"].replace("view", "owner")}
        assert ask(app, f"/{place}/api/v1/changes", headers=forged).status == 401


class TestReadOnly:
    @pytest.mark.parametrize("token", [None, SECRET])
    def test_nobody_changes_anything(self, ask, token):
        headers = JSON | bearer(SECRET)
        answer = ask(guard(token=token, read_only=True), "/api/v1/run", method="POST", headers=headers)
        assert answer.status == 403
        assert "--read-only" in answer.json["hint"]
        assert ask(guard(token=token, read_only=True), "/api/v1/changes", headers=headers).status == 200

    def test_without_a_token_and_not_read_only_everybody_may(self):
        assert Access(host="127.0.0.1").grant(None, time.time()) == Grant(changes=True)

    def test_the_rules_of_a_server(self):
        assert access_for("127.0.0.1", read_only=True, directory=HERE).read_only
