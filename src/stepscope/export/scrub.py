"""Secrets are removed from everything exported: traces carry environment dumps, command lines and paths.

A value is removed if its key names a secret, if the key is that of an environment dump, or if it has the
shape of a secret; user names are removed from home directories.
"""

from __future__ import annotations

import re
from typing import Any

from stepscope import text as shapes
from stepscope.text import SCRUBBED, is_secret

_ENVIRONMENT = re.compile(r"(?i)^(env|environ|environment|environment_variables|metadata)$")
_NAME = re.compile(r"(?<![\w-])([\w-]+)\s*(?:=|:(?!:))\s*")
"""A name that is given a value. A second pattern decides whether it is a secret's: one pattern for both would
start again at each letter of a long name."""
_VALUE = re.compile(r"[^\s,;&'\"]{6,}")
_SUSPICIOUS = re.compile(
    r"(?i)home/|/Users/|://|bearer|basic|hf_|gh[pousr]_|github_|glpat|sk-|AKIA|ASIA|AIza|xox|eyJ"
    r"|[\w-]\s*(?:=|:(?!:))\s*[^\s,;&'\"]{6}"
)
"""Texts that may hold a secret; a profile has a million names. The last alternative is an assignment."""
_HOME = re.compile(r"(?<![\w.])/(home|Users|fsx/home|root/home)/[^/\s:'\"]+")


def scrub_text(text: str) -> str:
    """Return a text without anything that has the shape of a secret, and without user names in paths."""
    text = shapes.scrub_text(text)
    return _HOME.sub("~", _without_assigned(text))


def _without_assigned(text: str) -> str:
    """Return a text without the values that follow a secret's name."""
    parts, at = [], 0
    for name in _NAME.finditer(text):
        if name.start() < at or not is_secret(name[1]):
            continue
        if value := _VALUE.match(text, name.end()):
            parts += [text[at : name.end()], SCRUBBED]
            at = value.end()
    return "".join([*parts, text[at:]])


def scrub_texts(texts: list[str]) -> list[str]:
    """Return texts without secrets; texts that have none are returned as the same objects."""
    return [scrub_text(text) if _SUSPICIOUS.search(text) else text for text in texts]


def scrub(value: Any) -> Any:
    """Return metadata of a profile without secrets; environment dumps are removed as a whole."""
    if isinstance(value, dict):
        return {key: _member(str(key), member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub(member) for member in value]
    return scrub_text(value) if isinstance(value, str) else value


def _member(key: str, value: Any) -> Any:
    if _ENVIRONMENT.match(key) and isinstance(value, (dict, list, str)):
        return SCRUBBED
    if is_secret(key) and not isinstance(value, (int, float, bool, type(None))):
        return SCRUBBED
    return scrub(value)
