import pytest

from stepscope.export.scrub import scrub, scrub_text, scrub_texts
from stepscope.text import SCRUBBED


@pytest.mark.parametrize(
    "text",
    [
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "Authorization: Bearer abcdefgh12345678",
        "AKIAABCDEFGHIJKLMNOP",
        "postgres://user:hunter2@db/x",
        "export WANDB_API_KEY=0123456789abcdef",
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4",
        "Set-Cookie: sessionid123",
        "run --pwd=hunter2222",
    ],
)
def test_secrets_go(text):
    assert SCRUBBED in scrub_text(text)
    assert scrub_texts([text]) == [scrub_text(text)]


@pytest.mark.parametrize(
    "text",
    [
        "aten::mm", "void at::native::foo<4, float>(int)", "pad_token_id", "dnn/tokens/embedding", "key 5",
        "num_tokens=123456", "pad_token=[PADDING]", "at::native::token::abcdefgh",
    ],
)  # fmt: skip
def test_names_stay(text):
    assert scrub_text(text) == text
    assert scrub_texts([text])[0] is text


def test_metadata():
    facts = {
        "environment": {"PATH": "/usr/bin"},
        "metadata": "HOME=/root",
        "hf_token": "abc",
        "max_tokens": 4096,
        "deviceProperties": [{"name": "A100", "path": "/home/joe/x"}],
        "record_shapes": 1,
    }
    assert scrub(facts) == {
        "environment": SCRUBBED,
        "metadata": SCRUBBED,
        "hf_token": SCRUBBED,
        "max_tokens": 4096,
        "deviceProperties": [{"name": "A100", "path": "~/x"}],
        "record_shapes": 1,
    }


@pytest.mark.parametrize(
    "text", ["a_", "secret", "token-", "key=", "://a:", "/home/", "eyJ", "sk-", "Bearer ", " "]
)
def test_a_long_text_of_others_holds_nobody_up(text):
    """It takes milliseconds; a pattern that begins anew at each letter would take minutes."""
    assert len(scrub_text(text * (120_000 // len(text)))) > 0


def test_an_assigned_secret_goes_wherever_it_stands():
    assert scrub_text("a=my-api_key = abcdefgh,b=1") == "a=my-api_key = [scrubbed],b=1"
    assert scrub_text("TOKEN:secret=abcdefgh tokens: 12345") == "TOKEN:[scrubbed] tokens: 12345"
