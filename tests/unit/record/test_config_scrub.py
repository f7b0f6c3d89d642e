import pytest

from stepscope.record.config import scrub_command
from stepscope.text import SCRUBBED, is_secret, scrub_text


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "DB_PASSWORD",
        "api_key",
        "apiKey",
        "API-KEY",
        "hf_token",
        "token",
        "key",
        "Authorization",
        "aws_secret_access_key",
        "client_secret",
        "cookie",
        "wandb.api_key",
        "auth",
        "dbpassword",
        "clientsecret",
        "access_key_id",
        "PrivateKeyPath",
        "db_pwd",
    ],
)
def test_keys_of_secrets(key):
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "lr",
        "max_tokens",
        "num_tokens",
        "tokens_per_batch",
        "tokenizer",
        "pad_token",
        "eos_token",
        "mask_token",
        "pad_token_id",
        "key_dim",
        "num_keys",
        "author",
        "keyboard",
        "primary_key",
        "monitor_key",
        "secretary",
        "",
        "123",
    ],
)
def test_keys_of_anything_else(key):
    assert not is_secret(key)


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "a1B2" * 8,
        "ghp_" + "x" * 36,
        "github_pat_" + "y" * 30,
        "sk-proj-" + "z" * 30,
        "AKIA" + "ABCDEFGH12345678",
        "xoxb-1234567890-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123_-",
    ],
)
def test_secrets_are_known_by_their_shape(secret):
    assert scrub_text(f"use {secret} now") == f"use {SCRUBBED} now"


def test_passwords_in_addresses_and_headers():
    assert scrub_text("postgres://me:pw@host/db") == f"postgres://{SCRUBBED}@host/db"
    assert scrub_text("Authorization: Bearer abcdefgh.123") == f"Authorization: Bearer {SCRUBBED}"
    assert scrub_text("http://host:6006/path and a@b.c") == "http://host:6006/path and a@b.c"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["python", "train.py", "--lr", "0.1"], "python train.py --lr 0.1"),
        (
            ["python", "train.py", "--api-key", "abc", "--lr", "1"],
            f"python train.py --api-key {SCRUBBED} --lr 1",
        ),
        (["python", "train.py", "--token=abc"], f"python train.py --token={SCRUBBED}"),
        (["env", "WANDB_API_KEY=abc", "python"], f"env WANDB_API_KEY={SCRUBBED} python"),
        (["train", "--max_tokens=4096"], "train --max_tokens=4096"),
        (["train", "--password", "--verbose"], "train --password --verbose"),
        (["train", "a b"], "train 'a b'"),
    ],
)
def test_command_lines(words, shown):
    assert scrub_command(words) == shown
