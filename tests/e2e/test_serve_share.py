"""Sharing: a second person with a link looks, changes nothing, and is out when it ends."""

import json
import socket
import time

import httpx
import pytest
from support.records import write_series
from support.waiting import until

from stepscope.cli import main
from stepscope.serve import Server
from stepscope.serve.login import view_token

SECRET = "a-secret-of-the-owner"


@pytest.fixture
def runs(tmp_path):
    write_series(tmp_path / "runs" / "a", {"loss": [1.0]})
    return tmp_path / "runs"


@pytest.fixture
def server(runs):
    with Server(runs, port=0, cache=False, token=SECRET) as server:
        yield server


def share(capsys, *words):
    return main(["share", *words]), capsys.readouterr()


def test_a_link_looks_and_changes_nothing(server, capsys):
    code, said = share(capsys, server.url, "--for", "2h", "--json")
    assert code == 0
    url = json.loads(said.out)["url"]
    with httpx.Client(follow_redirects=True) as guest:
        base = str(guest.get(url).url) + "api/v1/"
        until(lambda: [run["name"] for run in guest.get(base + "changes").json()["runs"]] == ["a"])
        facts = guest.get(base + "access").json()
        assert (facts["changes"], facts["can_share"]) == (False, False)
        body = {"charts": [{"id": "x", "lines": [{"run": "a", "tag": "loss"}]}]}
        assert guest.post(base + "series", json=body).status_code == 200
        for path, sent in (
            ("run", {"run": "a", "title": "mine"}),
            ("run/delete", {"run": "a", "confirm": "a"}),
            ("share", {"seconds": 60}),
        ):
            answer = guest.post(base + path, json=sent)
            assert (answer.status_code, answer.json()["error"]) == (403, "this link is view-only")
    owner, base = {"Authorization": f"Bearer {SECRET}"}, f"http://127.0.0.1:{server.port}/api/v1/"
    assert httpx.get(base + "access", headers=owner).json()["changes"]
    assert httpx.post(base + "run", json={"run": "a", "title": "mine"}, headers=owner).status_code == 200


def test_a_link_that_has_ended_opens_nothing(runs, server):
    url = f"http://127.0.0.1:{server.port}/?token={view_token(SECRET, runs, int(time.time()) - 1)}"
    answer = httpx.get(url)
    assert answer.status_code == 401
    assert "has ended" in answer.text


def test_a_link_for_one_directory_opens_no_other(server, tmp_path, capsys):
    _, said = share(capsys, server.url, "--json")
    token = json.loads(said.out)["url"].partition("token=")[2]
    (tmp_path / "other").mkdir()
    with Server(tmp_path / "other", port=0, cache=False, token=SECRET) as other:
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"http://127.0.0.1:{other.port}/api/v1/changes", headers=headers).status_code == 401


def test_without_a_token_there_is_nothing_to_sign_with(runs, capsys):
    with Server(runs, port=0, cache=False, no_token=True) as server:
        code, said = share(capsys, server.url)
    assert code == 1
    assert "asks for no token" in said.err
    assert "hint:" in said.err


@pytest.mark.parametrize("words", [["ftp://x/"], ["http://127.0.0.1:1/", "--for", "soon"], ["--for", "0h"]])
def test_what_is_no_address_or_time_is_refused(words, capsys):
    code, said = share(capsys, *words)
    assert code == 1
    assert "hint:" in said.err


def test_nobody_at_the_address(capsys):
    with socket.socket() as taken:  # bound and not listening: nothing answers there
        taken.bind(("127.0.0.1", 0))
        code, said = share(capsys, f"http://127.0.0.1:{taken.getsockname()[1]}/?token=x")
    assert code == 1
    assert "no server answers" in said.err


def test_a_read_only_server_changes_nothing_for_anybody(runs):
    with Server(runs, port=0, cache=False, no_token=True, read_only=True) as server:
        answer = httpx.post(server.url + "api/v1/run", json={"run": "a", "title": "mine"})
        assert answer.status_code == 403
        assert not httpx.get(server.url + "api/v1/access").json()["changes"]
    assert not (runs / "a" / ".stepscope").exists()
