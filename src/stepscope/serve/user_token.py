"""The token of a user, in a file that only this user can read.

It signs the links of ``stepscope share``, so that they live through a restart of the server, and scripts may
send it. Addresses and cookies never contain it: whoever listens on a port that a server has left gets those.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from stepscope.errors import ServeError, UsageError
from stepscope.files import replacing
from stepscope.text import counted

CHECK_EVERY_S = 1.0
"""How often a server looks whether its user has a new token."""
SHORTEST_TOKEN = 8


def token_path() -> Path:
    """Return the file of the token."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "stepscope" / "token"


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(24)


def user_token() -> str:
    """Return the token of this user, made if there is none.

    If it cannot be kept, or another user could have written or read it, the answer is a new one each time.
    """
    try:
        return kept_token() or replace_token()
    except (OSError, RuntimeError, UnicodeDecodeError, UsageError):
        return new_token()


def kept_token() -> str | None:
    """Return the token in the file; None if there is none yet.

    Raises:
        OSError: The file cannot be read.
        UsageError: Another user could know it, or it is no token.
    """
    try:
        opened = os.open(token_path(), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(opened) as file:
        status = os.fstat(opened)
        if status.st_uid != os.getuid() or status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
            raise UsageError(
                f"other users may know the token in {token_path()}",
                hint="stepscope token --new makes another",
            )
        token = file.read(200)
    if token:
        check_token(token)
    return token or None


def replace_token() -> str:
    """Keep a new token in place of the one before, and return the one that is there afterwards.

    Raises:
        OSError: It cannot be kept.
        ServeError: Something else than a file has the name.
    """
    path = token_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_dir():
        raise ServeError(f"{path} is a directory: the token cannot be kept there", hint=f"rmdir {path}")
    with replacing(path, mode=0o600) as file:
        file.write(new_token().encode())
        file.flush()
        os.fsync(file.fileno())
    # Two programs may have begun at once: both go on with what lies there now.
    return kept_token() or new_token()


def check_token(token: str) -> None:
    """Refuse a token that is too short or needs escaping in a URL or cookie."""
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"token of {counted(len(token), 'character')}: expected at least {SHORTEST_TOKEN}",
            hint="use --token auto to generate a good one",
        )
    if not all(letter.isascii() and (letter.isalnum() or letter in "-._~") for letter in token):
        raise UsageError(
            "token with a character that a URL cannot carry: expected letters, digits and - . _ ~",
            hint="use --token auto to generate a good one",
        )
