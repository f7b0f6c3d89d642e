import http.client
import re
import socket
import time

import pytest
from support.errors import raises

from stepscope.errors import ServeError, UsageError
from stepscope.serve import Server
from stepscope.serve.address import address_of, checked_prefix, listen, url_of


def test_listening_begins_at_once():
    with listen("127.0.0.1", 0) as listener, socket.create_connection(address_of(listener), timeout=5):
        pass


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head(tmp_path):
    """Where it waits, every request takes 40 ms once the kernel no longer acknowledges at once."""
    with Server(tmp_path, port=0, cache=False, no_token=True) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        took_s = []
        for _ in range(40):
            begin = time.perf_counter()
            client.request("GET", "/api/v1/health")
            client.getresponse().read()
            took_s.append(time.perf_counter() - begin)
        client.close()
    assert min(took_s[20:]) < 0.03


def test_a_port_in_use_names_a_free_one():
    with listen("127.0.0.1", 0) as listener:
        port = address_of(listener)[1]
        with pytest.raises(ServeError, match=f"port {port} on 127.0.0.1 is in use") as caught:
            listen("127.0.0.1", port)
        with listen("127.0.0.1", int(re.search(r"--port (\d+) is free", caught.value.hint)[1])):
            pass


@pytest.mark.parametrize("port", [-1, 65536])
def test_no_port(port):
    with pytest.raises(UsageError, match=f"port {port}"):
        listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid", "a" * 70 + ".example"])
def test_a_host_that_is_not_ours(host):
    with raises(ServeError, match="cannot listen on host", hint_has="--host 127.0.0.1"):
        listen(host, 0)


def test_url():
    with listen("127.0.0.1", 0) as listener:
        port = address_of(listener)[1]
        assert url_of(listener, host="localhost") == f"http://localhost:{port}/"
        assert (
            url_of(listener, host="127.0.0.1", prefix="/a/b", token="x")
            == f"http://127.0.0.1:{port}/a/b/?token=x"
        )
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener, host="0.0.0.0").startswith(f"http://{socket.gethostname()}:")


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        ("", ""),
        ("/", ""),
        ("a", "/a"),
        ("/a/b/", "/a/b"),
        ("//a", "/a"),
        ("/user/x@y.org/proxy/6006", "/user/x@y.org/proxy/6006"),
    ],
)
def test_prefix(given, prefix):
    assert checked_prefix(given) == prefix


@pytest.mark.parametrize("prefix", ["/a/../b", "/a b", "/a?b", "/a%2f", "/ä", "/a\\b", "http://x/"])
def test_a_prefix_must_be_a_path(prefix):
    with pytest.raises(UsageError, match="not a path prefix"):
        checked_prefix(prefix)
