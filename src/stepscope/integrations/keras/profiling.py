"""``profile_batch`` of Keras's TensorBoard callback, as the hook that captures steps."""

from __future__ import annotations

from stepscope.capture import LambdaProfilerHook, ProfilerHook
from stepscope.errors import UsageError

ProfileBatch = int | str | tuple[int, int] | list[int]


def hook_of(profile_batch: ProfileBatch) -> ProfilerHook | None:
    """Return a hook that captures these batches once, counted from 1 as Keras does; None for none.

    Args:
        profile_batch: A batch; or the first and the last, also as text: "10,20". 0 for none.

    Raises:
        UsageError: It says neither.
    """
    first, last = batches(profile_batch)
    if first == last == 0:
        return None
    return LambdaProfilerHook(lambda step: first <= step + 1 <= last)


def batches(profile_batch: ProfileBatch) -> tuple[int, int]:
    """Return the first and the last batch."""
    parts: list[int] = []
    if isinstance(profile_batch, str):
        text = profile_batch.split(",")
        parts = [int(part) for part in text] if all(part.strip().isdigit() for part in text) else []
    elif isinstance(profile_batch, int):
        parts = [profile_batch]
    elif isinstance(profile_batch, tuple | list) and all(isinstance(part, int) for part in profile_batch):
        parts = list(profile_batch)
    first, last = (parts * 2)[:2] if len(parts) in (1, 2) else (-1, -1)
    if first < 0 or last < first or (first == 0 and last != 0):
        raise UsageError(
            f"profile_batch must be a batch, or the first and the last, got {profile_batch!r:.60}",
            hint="profile_batch=(10, 12) captures the batches 10, 11 and 12; 0 none",
        )
    return first, last
