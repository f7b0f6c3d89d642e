import gzip

import pytest
from starlette.requests import Request

from stepscope.serve.reply import COMPRESS_FROM_BYTES, Refusal, body_response, gzipped

LARGE = b'{"runs": []}' * (COMPRESS_FROM_BYTES // 8)


@pytest.fixture
def answer(ask):
    def answer(body, **options):
        async def app(scope, receive, send):
            await body_response(Request(scope), body, media_type="application/json")(scope, receive, send)

        return ask(app, **options)

    return answer


def test_a_large_answer_to_a_client_elsewhere_is_compressed(answer):
    found = answer(LARGE, client="10.0.0.7", headers={"accept-encoding": "br, gzip"})
    assert found.header("content-encoding") == "gzip"
    assert found.header("vary") == "Accept-Encoding"
    assert found.header("content-length") == str(len(found.body))
    assert len(found.body) < len(LARGE) / 10
    assert gzip.decompress(found.body) == LARGE


@pytest.mark.parametrize(
    ("body", "client", "encoding"),
    [
        (LARGE, "127.0.0.1", "gzip"),
        (LARGE, "::1", "gzip"),
        (LARGE, "10.0.0.7", "br, deflate"),
        (LARGE, "10.0.0.7", "gzip;q=0"),
        (LARGE, "10.0.0.7", ""),
        (LARGE[: COMPRESS_FROM_BYTES - 1], "10.0.0.7", "gzip"),
    ],
)
def test_everything_else_is_sent_as_it_is(answer, body, client, encoding):
    found = answer(body, client=client, headers={"accept-encoding": encoding})
    assert found.header("content-encoding") is None
    assert found.body == body


@pytest.mark.parametrize("level", [1, 9])
def test_gzipped(level):
    assert gzip.decompress(gzipped(LARGE, level=level)) == LARGE


def test_a_refusal_is_json_with_a_hint(ask):
    answer = ask(Refusal(405, "no", "do", headers={"Allow": "GET"}).response())
    assert (answer.status, answer.header("allow")) == (405, "GET")
    assert answer.json == {"error": "no", "hint": "do"}
