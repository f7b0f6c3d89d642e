"""Practices of a run, by its recorded configuration: advice leaves out what is done already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepscope.names.settings import flatten


class _Practice(NamedTuple):
    """The settings that show a practice.

    Attributes:
        key: Of the setting, without the groups that it is in.
        value: What it must be, as text; a number must not be 0.
    """

    key: re.Pattern[str]
    value: re.Pattern[str]


_ANY = r"(?!(?:false|none|no|null|off|constant|)$).+"


def _practice(key: str, value: str = _ANY) -> _Practice:
    return _Practice(re.compile(key, re.IGNORECASE), re.compile(value, re.IGNORECASE))


PRACTICES: dict[str, _Practice] = {
    "workers": _practice(r"(?:\w+_)?(?:num_|n_)?workers|(?:\w+_)?num_parallel_calls|num_proc"),
    "mixed precision": _practice(
        r"(?:use_)?(?:amp|fp16|bf16|mixed_precision|half)|(?:\w+_)?(?:precision|dtype)",
        r"true|1|.*(?:16|fp8|float8|amp|half).*",
    ),
    "clipping": _practice(
        r"(?:max_)?grad(?:ient)?_(?:norm|clip\w*)|clip_?grad\w*|clip_?norm|global_clipnorm"
    ),
    "schedule": _practice(
        r"(?:\w+_)?(?:lr|learning_rate)_(?:sched\w*|decay\w*)|scheduler(?:_type)?|lr_schedule"
    ),
    "weight decay": _practice(r"weight_decay|wd"),
    "kept gradients": _practice("gradients_kept", "true|1"),
    "dropout": _practice(r"(?:\w+_)?drop_?out(?:_rate|_prob|_p)?"),
}
"""Each practice by its name, which a rule gives in ``applied``. Keys are those of the arguments of PyTorch,
Lightning, transformers, Keras, timm and Hydra's usual groups."""


def practices_of(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the practices that a configuration shows."""
    # Groups are written a.b, a/b and --a-b.
    settings = [
        (re.split(r"[./]", key)[-1].lstrip("-").replace("-", "_"), value)
        for key, value in flatten(config).items()
    ]
    return frozenset(
        name
        for name, practice in PRACTICES.items()
        if any(practice.key.fullmatch(key) and _is_on(practice, value) for key, value in settings)
    )


def _is_on(practice: _Practice, value: Any) -> bool:
    if value is None or value is False or value == 0:
        return False
    return practice.value.fullmatch(f"{value:g}" if isinstance(value, float) else str(value)) is not None
