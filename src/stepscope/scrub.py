"""Text made safe to keep: without anything that looks like a secret, and as valid UTF-8."""

from __future__ import annotations

import os
import re

SCRUBBED = "[scrubbed]"

_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_HEADER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_SURROGATES = re.compile("[\ud800-\udfff]")


def utf8(text: str) -> bytes:
    """Return any text as UTF-8.

    File names, arguments and texts of exceptions may hold lone surrogates, which stand for bytes that were
    not UTF-8; each becomes U+FFFD.
    """
    return _SURROGATES.sub("\ufffd", text).encode()


def printable(text: str) -> str:
    r"""Return a file's name as text that can be sent: bytes that are not UTF-8 are written as ``\xff``."""
    if not _SURROGATES.search(text):
        return text
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def scrub_text(text: str) -> str:
    """Return the text without anything that has the shape of a secret."""
    text = _SHAPES.sub(SCRUBBED, text)
    text = _URL_PASSWORD.sub(SCRUBBED, text)
    return _HEADER.sub(rf"\1 {SCRUBBED}", text)
