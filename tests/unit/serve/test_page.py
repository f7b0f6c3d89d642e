import gzip
import os

import pytest
from starlette.requests import Request

from stepscope.serve.page import MEDIA_TYPES, NOT_BUILT, Page
from stepscope.serve.reply import Refusal

SCRIPT = b"export const points = [];\n" * 100


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<!doctype html>")
    (folder / "assets" / "index-Dk3xQ_9-.js").write_bytes(SCRIPT)
    (folder / "build-inputs.sha256").write_text("0")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def get(folder, ask):
    page = Page(folder)

    def get(target="/", **options):
        async def app(scope, receive, send):
            try:
                answer = page.answer(Request(scope))
            except Refusal as refusal:
                answer = refusal.response()
            await answer(scope, receive, send)

        return ask(app, target, **options)

    return get


def test_the_index_is_asked_for_anew_each_time(get):
    answer = get("/")
    assert answer.status == 200
    assert answer.header("content-type") == "text/html; charset=utf-8"
    assert answer.header("cache-control") == "no-cache"
    again = get("/", headers={"if-none-match": answer.header("etag")})
    assert again.status == 304
    assert again.body == b""


def test_a_file_named_by_its_content_is_kept_for_ever(get):
    answer = get("/assets/index-Dk3xQ_9-.js")
    assert answer.body == SCRIPT
    assert answer.header("content-type").startswith("text/javascript")
    assert "immutable" in answer.header("cache-control")


def test_compressed_for_clients_elsewhere_and_not_on_loopback(get):
    headers = {"accept-encoding": "gzip, br"}
    assert get("/assets/index-Dk3xQ_9-.js", headers=headers).header("content-encoding") is None
    remote = get("/assets/index-Dk3xQ_9-.js", headers=headers, client="10.0.0.7")
    assert remote.header("content-encoding") == "gzip"
    assert remote.header("vary") == "Accept-Encoding"
    assert gzip.decompress(remote.body) == SCRIPT
    assert (
        get("/assets/index-Dk3xQ_9-.js", headers={"accept-encoding": "gzip;q=0"}, client="10.0.0.7").body
        == SCRIPT
    )


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%252e%252e/secret.txt",
        "/..%255csecret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/etc/passwd",
        "/index.html%00.js",
        "/./index.html%2f..",
        "/assets/",
        "/assets",
        "/build-inputs.sha256",
        "/link.txt",
        "/linked/secret.txt",
    ],
)
def test_nothing_outside_the_folder_is_ever_served(get, folder, target):
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "linked").symlink_to(folder.parent, target_is_directory=True)
    answer = get(target)
    assert answer.status == 404
    assert b"secret" not in answer.body


def test_a_page_built_anew_is_noticed(get, folder):
    assert get("/new.css").status == 404
    (folder / "new.css").write_text("a{}")
    assert get("/new.css").body == b"a{}"
    (folder / "new.css").write_text("b{}")
    os.utime(folder / "new.css", ns=(1, 1))
    assert get("/new.css").body == b"b{}"
    (folder / "new.css").unlink()
    assert get("/new.css").status == 404


def test_without_a_built_page_the_command_is_named(folder, get):
    (folder / "index.html").unlink()
    answer = get("/")
    assert answer.status == 503
    assert answer.body.decode() == NOT_BUILT
    assert "python hatch_build.py page" in NOT_BUILT


def test_every_kind_of_file_that_the_build_makes_has_a_media_type(get, folder):
    for suffix, media_type in MEDIA_TYPES.items():
        (folder / f"x{suffix}").write_bytes(b"x")
        assert get(f"/x{suffix}").header("content-type").startswith(media_type)
