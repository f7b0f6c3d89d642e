"""Errors that are expected, with what they say."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def raises(
    kind: type[BaseException], match: str | None = None, *, hint_has: str = "", **facts: Any
) -> Iterator[None]:
    """Expect an error as ``pytest.raises`` does, with these attributes and this text in its hint."""
    with pytest.raises(kind, match=match) as caught:
        yield
    assert {name: getattr(caught.value, name) for name in facts} == facts
    if hint_has:
        assert hint_has in caught.value.hint
