"""Secrets are taken out of what leaves: traces carry environment dumps, command lines and paths.

A value goes when its key names a secret, when the key is that of an environment dump, or when it has the
shape of a secret; user names go out of home directories.
"""

from __future__ import annotations

import re
from typing import Any

from stepscope import scrub as shapes
from stepscope.scrub import SCRUBBED

_SECRET_KEY = re.compile(
    r"(?i)passw|passphrase|secret|credential|authorization|cookie|bearer|api_?key|access_?key|private_?key"
    r"|(^|[_.-])(token|auth|sas|pat|key)$|auth_?token|access_?token"
)
_ENVIRONMENT = re.compile(r"(?i)^(env|environ|environment|environment_variables|metadata)$")
_ASSIGNED = re.compile(
    r"(?i)((?:[\w-]*(?:passw(?:or)?d|secret|api_?key|access_?key|token)[\w-]*)\s*[=:]\s*)[^\s,;&'\"]{6,}"
)
_HOME = re.compile(r"(?<![\w.])/(home|Users|fsx/home|root/home)/[^/\s:'\"]+")


def scrub_text(text: str) -> str:
    """Return a text without what has the shape of a secret, and without user names in paths."""
    text = shapes.scrub_text(text)
    text = _ASSIGNED.sub(rf"\1{SCRUBBED}", text)
    return _HOME.sub("~", text)


def scrub_texts(texts: list[str]) -> list[str]:
    """Return texts without secrets; those without any are the same objects."""
    suspicious = re.compile(
        r"(?i)home/|/Users/|://|bearer|basic|passw|secret|key|token|hf_|gh[pousr]_|github_|glpat|sk-|AKIA|ASIA"
        r"|AIza|xox|eyJ"
    )
    return [scrub_text(text) if suspicious.search(text) else text for text in texts]


def scrub(value: Any) -> Any:
    """Return metadata of a profile without secrets; environment dumps go whole."""
    if isinstance(value, dict):
        return {key: _member(str(key), member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub(member) for member in value]
    return scrub_text(value) if isinstance(value, str) else value


def _member(key: str, value: Any) -> Any:
    if _ENVIRONMENT.match(key) and isinstance(value, (dict, list, str)):
        return SCRUBBED
    if _SECRET_KEY.search(key) and not isinstance(value, (int, float, bool, type(None))):
        return SCRUBBED
    return scrub(value)
