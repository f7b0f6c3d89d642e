import time
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse

from stepscope.serve.access import Access, Grant, access_for
from stepscope.serve.guard import GRANT, Guard
from stepscope.serve.login import ends_at, new_place, view_token
from stepscope.serve.routes import all_routes

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
        assert questions == ["ask", "series", "sweep"]
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
