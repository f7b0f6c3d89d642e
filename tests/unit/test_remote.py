"""Stores behind their drivers: tries, bounds of time, and connections."""

import asyncio
import threading
from functools import partial
from typing import ClassVar

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from support.servers import Handler, serving

from stepscope import remote
from stepscope.remote import Remote, insistent, is_lasting, status_of


class Answer:
    """An HTTP answer as drivers keep it."""

    def __init__(self, status):
        self.status_code = status


class Refused(Exception):
    """An error of a driver with whatever it carries."""

    def __init__(self, text="", **facts):
        super().__init__(text)
        self.__dict__.update(facts)


@pytest.mark.parametrize(
    ("error", "status", "lasting"),
    [
        (OSError("503"), None, False),
        (TimeoutError(), None, False),
        (FileNotFoundError("x"), None, True),
        (PermissionError("x"), None, True),
        (OSError("Forbidden: https://storage/b\nno access"), None, True),
        (OSError("not Forbidden: x"), None, False),
        (Refused(code=401), 401, True),
        (Refused(code="403"), 403, True),
        (Refused(code=429), 429, False),
        (Refused(code=408), 408, False),
        (Refused(code=503), 503, False),
        (Refused(code="SlowDown"), None, False),
        (Refused(status_code=404), 404, True),
        (Refused(response=Answer(403)), 403, True),
        (Refused(response=Answer(500)), 500, False),
        (Refused(response={"ResponseMetadata": {"HTTPStatusCode": 400}}), 400, True),
        (Refused(response={"ResponseMetadata": {"HTTPStatusCode": 503}}), 503, False),
        (Refused(response={}), None, False),
        (Refused(retryable=False), None, True),
        (Refused(retryable=True), None, False),
    ],
)
def test_which_errors_the_same_request_meets_again(error, status, lasting):
    assert status_of(error) == status
    assert is_lasting(error) == lasting


def test_what_is_refused_for_good_is_asked_once():
    asked = []

    def call():
        asked.append(1)
        raise Refused(code=403)

    with pytest.raises(Refused):
        insistent(call, pause=lambda seconds: None)
    assert len(asked) == 1


class Hangs(AsyncFileSystem):
    """A driver whose requests get no answer."""

    protocol = "hangsstore"
    cachable = False

    async def _info(self, path, **_):
        await asyncio.sleep(60)

    async def _cat_file(self, path, start=None, end=None, **_):
        await asyncio.sleep(60)


def test_a_request_without_an_answer_is_given_up(monkeypatch):
    fsspec.register_implementation("hangsstore", Hangs, clobber=True)
    monkeypatch.setattr(remote, "CALL_SECS", 0.1)
    monkeypatch.setattr(remote, "INSIST_SECS", 0.0)
    monkeypatch.setattr(Remote._call, "__kwdefaults__", {**Remote._call.__kwdefaults__, "seconds": 0.1})
    store = Remote("hangsstore://bucket/x")
    with pytest.raises(TimeoutError, match="no answer from the store within"):
        store.info("bucket/x")
    with pytest.raises(TimeoutError, match="no answer from the store within"):
        store.read("bucket/x", 0, 10)


class Single(MemoryFileSystem):
    """A driver with one connection, which no two threads may use and which is lost now and then."""

    protocol = "singlestore"
    store, pseudo_dirs = {}, [""]
    made: ClassVar = []
    lost: ClassVar = set()
    together: ClassVar = []

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.using = 0
        self.made.append(self)

    def cat_file(self, path, start=None, end=None, **more):
        self.using += 1
        self.together.append(self.using)
        threading.Event().wait(0.005)
        self.using -= 1
        if self in self.lost:
            raise EOFError("the connection is closed")
        return super().cat_file(path, start, end, **more)

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


@pytest.fixture
def single():
    fsspec.register_implementation("singlestore", Single, clobber=True)
    for each in (Single.store, Single.made, Single.lost, Single.together):
        each.clear()
    Single.pseudo_dirs[:] = [""]
    store = Remote("singlestore://bucket/x")
    store.pipe_file(store.root + "/a", b"0123456789")
    return store


def test_a_connection_is_used_by_one_thread_at_a_time_and_there_are_few(single):
    threads = [
        threading.Thread(target=lambda: single.read(single.root + "/a", 0, 10), daemon=True)
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert set(Single.together) == {1}
    assert len(Single.together) == 20
    assert 1 <= len(Single.made) <= remote.FEW_CONNECTIONS


def test_a_connection_that_is_lost_is_made_anew(single, monkeypatch):
    monkeypatch.setattr(remote, "FIRST_RETRY_SECS", 0.01)
    assert single.read(single.root + "/a", 2, 5) == b"234"
    Single.lost.update(Single.made)
    assert single.read(single.root + "/a", 2, 5) == b"234"
    assert len(Single.made) == 2
    assert single.retries == 1
    with pytest.raises(FileNotFoundError):
        single.read(single.root + "/none", 0, 1)
    assert len(Single.made) == 2  # a file that is not there says nothing of the connection


@pytest.mark.parametrize("odd", [lambda root: [f"{root}/a"], lambda root: {f"{root}/a": {}}])
def test_a_driver_that_tells_less_of_a_file_is_asked_for_the_file(single, monkeypatch, odd):
    """adlfs answers with a list where a file is listed, and fsspec's own way with no facts."""
    monkeypatch.setattr(Single, "find", lambda self, path, **_: odd(path))
    [(name, facts)] = single.find(single.root).items()
    assert (name, facts["size"]) == (f"{single.root}/a", 10)


def test_less_than_was_asked_for_is_asked_for_again(single, monkeypatch):
    real, left = Single.cat_file, [b"0", b"01"]
    monkeypatch.setattr(remote, "FIRST_RETRY_SECS", 0.01)
    monkeypatch.setattr(Single, "cat_file", lambda self, *a, **k: left.pop() if left else real(self, *a, **k))
    assert single.read(single.root + "/a", 0, 5) == b"01234"
    assert single.retries == 2


def test_gcsfs_does_not_try_again_by_itself_and_the_users_own_is_left_alone(monkeypatch):
    import gcsfs

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    own = fsspec.filesystem("gs")
    store = Remote("gs://bucket/x")
    assert "_request" not in own.__dict__
    asked = []

    async def request(self, *_, **__):
        asked.append(1)
        raise gcsfs.retry.HttpError({"code": 503, "message": "later"})

    monkeypatch.setattr(store._shared, "_request", request.__get__(store._shared))
    monkeypatch.setattr(remote, "FIRST_RETRY_SECS", 0.01)
    with pytest.raises(gcsfs.retry.HttpError):
        store.info("bucket/x")
    assert len(asked) % remote.TRIES == 0
    assert store._shared is not own


def test_s3fs_does_not_try_again_by_itself_and_the_users_own_is_left_alone(monkeypatch):
    """A store that throttles is asked as often as ``insistent`` says, not by each layer of the driver too."""
    asked = []

    class Throttled(Handler):
        def do_GET(self):
            asked.append(self.path)
            error = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
            self.answer(503, error)

        do_HEAD = do_GET

    monkeypatch.setattr(remote, "FIRST_RETRY_SECS", 0.01)
    with serving(Throttled) as server:
        options = {"key": "a", "secret": "b", "endpoint_url": f"http://127.0.0.1:{server.server_port}"}
        own = fsspec.filesystem("s3", **options, config_kwargs={"read_timeout": 5})
        store = Remote("s3://bucket/x", {**options, "config_kwargs": {"read_timeout": 5}})
        for call in (partial(store.ls, detail=True), partial(store.read, start=0, end=1)):
            asked.clear()
            with pytest.raises(OSError, match="Reduce your request rate"):
                call("bucket/x")
            assert len(asked) == remote.TRIES
    assert (own.retries, own.config_kwargs) == (type(own).retries, {"read_timeout": 5})
