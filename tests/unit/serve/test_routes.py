"""One reading of the query for every address."""

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta
from support.addresses import Addresses
from support.errors import raises

from stepscope.serve import routes
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get, post, route_of


class Message(msgspec.Struct):
    text: str


@pytest.fixture
def addresses(monkeypatch):
    monkeypatch.setattr(routes, "ROUTES", {})
    monkeypatch.setattr(routes, "MODULES", ())

    @get("whole")
    def whole(n: int) -> int:
        return n

    @get("bounded", strict=True)
    def bounded(n: Annotated[int, Meta(ge=1, le=5)] = 3, m: int | None = None) -> list[object]:
        return [n, m]

    @get("texts")
    def texts(
        many: list[str],
        lanes: list[int] | None = None,
        word: Literal["a", "b"] = "a",
        name: Annotated[str, Meta(pattern="^x+$", description="many x")] = "x",
    ) -> list[object]:
        return [many, lanes, word, name]

    @post("said")
    def said(body: Message) -> str:
        return body.text

    return Addresses()


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-3", -3), ("007", 7), (str(2**62), 2**62)])
def test_a_whole_number_is_read(addresses, text, number):
    assert addresses.ask("whole", n=text) == number


@pytest.mark.parametrize(
    "text", ["", "1.5", "1_000", " 1", "1 ", "+1", "٣", "x", "9" * 20, str(2**63), "nan"]
)
def test_what_is_none_is_refused(addresses, text):
    with raises(Refusal, match=r"n is .*: expected a whole number", status=400):
        addresses.ask("whole", n=text)


@pytest.mark.parametrize("text", ["0", "6"])
def test_bounds_are_said(addresses, text):
    with pytest.raises(Refusal, match=f"n is '{text}': expected a whole number from 1 to 5"):
        addresses.ask("bounded", n=text)


def test_what_is_left_out_has_its_default_or_is_asked_for(addresses):
    assert addresses.ask("bounded") == [3, None]
    with pytest.raises(Refusal, match="no n given"):
        addresses.ask("whole")


def test_other_names_are_refused_where_the_address_is_strict(addresses):
    assert addresses.ask("whole", n="1", other="x") == 1
    with raises(Refusal, match="unknown parameter 'other'", hint="use m and n"):
        addresses.ask("bounded", other="x")


def test_lists_words_and_patterns(addresses):
    assert addresses.ask("texts", "many=1&many=2&lanes=3,,-4&word=b&name=xx") == [
        ["1", "2"], [3, -4], "b", "xx"
    ]  # fmt: skip
    for wrong, message in (("lanes=1,y", "lanes is '1,y': expected numbers"), ("word=c", "expected a or b"),
                           ("name=y", "name is 'y': expected many x")):  # fmt: skip
        with pytest.raises(Refusal, match=message):
            addresses.ask("texts", f"many=1&{wrong}")


def test_a_body_is_a_message(addresses):
    assert addresses.ask("said", body=b'{"text": "x"}') == "x"
    with pytest.raises(Refusal, match="not a Message: "):
        addresses.ask("said", body=b"[]")


def test_there_are_many_addresses_and_no_others():
    assert len(routes.all_routes()) >= 58
    assert route_of("gone") is None
