"""Types sent about what a request may do, and about links for sharing."""

from __future__ import annotations

import msgspec


class AccessFacts(msgspec.Struct, frozen=True):
    """Rights of the one who asks: the answer of ``GET api/v1/access``."""

    changes: bool
    """Whether runs may be named, deleted, restored, asked for profiles, and shared."""
    until: float | None
    """When a link for sharing ends; null for never."""
    can_share: bool
    """Whether the server makes links: it needs a token to sign them."""


class ShareRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/share``: how long the link is to work."""

    seconds: int


class ShareLink(msgspec.Struct, frozen=True):
    """A view-only token for this log directory, which expires."""

    token: str
    until: float
