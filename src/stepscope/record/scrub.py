"""Secrets are taken out of what a run says about itself: its config, its command line, its failure reason.

A value goes when its key names a secret (``password``, ``api_key``, ``hf_token``, ``authorization`` …) or
when it has the shape of one (a GitHub, Hugging Face, OpenAI, AWS, Slack or JSON web token, a password in a
URL). Numbers stay: ``max_tokens=4096`` is no secret. Text tokens of a vocabulary (``pad_token="<pad>"``) stay
too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from stepscope.scrub import SCRUBBED, scrub_text

# fmt: off
_ALWAYS = frozenset((
    "password", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials", "bearer",
    "authorization", "cookie", "cookies", "apikey", "accesskey", "secretkey", "privatekey", "authtoken",
    "accesstoken",
))
_LAST = frozenset(("key", "token", "auth", "sas", "pat"))
# Before one of _LAST these words mean a vocabulary's token or a table's key.
_VOCABULARY = frozenset((
    "pad", "eos", "bos", "sos", "unk", "mask", "sep", "cls", "special", "image", "audio", "video", "start",
    "end", "stop", "begin", "prompt", "decoder", "encoder", "sort", "primary", "foreign", "metric", "monitor",
    "dict", "state", "cache", "group", "index", "column", "batch", "input", "output", "label",
))
# fmt: on
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_secret(key: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words:
        return False
    if _ALWAYS.intersection(words):
        return True
    return words[-1] in _LAST and (len(words) == 1 or words[-2] not in _VOCABULARY)


def scrub_command(words: Sequence[str]) -> str:
    """Return a command line as one text, quoted for a shell, without the values of secret options."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            shown.append(SCRUBBED)
        elif equals and value and is_secret(name):
            shown.append(f"{name}={SCRUBBED}")
        else:
            shown.append(shlex.quote(scrub_text(word)))
        hide_next = word.startswith("-") and not equals and is_secret(word)
    return " ".join(shown)
