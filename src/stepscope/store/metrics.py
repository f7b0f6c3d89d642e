"""Metric kinds: what a scalar is, told by its name and unit.

The kind decides how a metric is drawn and read: whether neighbouring values may be averaged, which way is
better, whether the first steps may flatten a chart.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

MetricKind = Literal[
    "loss",
    "score",
    "schedule",
    "counter",
    "nonfinite",
    "norm",
    "latency",
    "rate",
    "ratio",
    "bytes",
    "other",
]
"""``norm`` is a size that spans powers of ten, as of gradients; ``ratio`` a share without a better end."""
KINDS: tuple[MetricKind, ...] = get_args(MetricKind)

LOWER_IS_BETTER: dict[MetricKind, bool] = {
    "loss": True,
    "latency": True,
    "nonfinite": True,
    "score": False,
    "rate": False,
}
"""Kinds that have a better end; of the others less is neither better nor worse."""

_TIMES = {"s", "ms", "µs", "ns"}
_EDGE, _END = r"(?:^|[/_.\s-])", r"(?:[/_.\s\d@-]|$)"


def _words(words: str) -> re.Pattern[str]:
    return re.compile(f"{_EDGE}(?:{words}){_END}", re.IGNORECASE)


_SCHEDULE = _words(
    r"lrs?|learning[_\s-]?rates?|momentum|beta[_-]?[12]|weight[_\s-]?decay|loss[_\s-]?scale|"
    r"teacher[_\s-]?forcing|epsilon|warm[_-]?up"
)
_NONFINITE = _words(r"non[_-]?finites?|nans?|infs?|overflows?")
_RATE = re.compile(
    r"(?:^|[/_.\s-]|[a-z])per[_\s-]?s(?:ec(?:ond)?)?(?![a-z])|/s(?:ec)?$|throughput|"
    r"(?:^|[/_.-])(?:fps|qps|tps|mfu)(?:[/_.-]|$)|/sec$",
    re.IGNORECASE,
)
_LATENCY = re.compile(
    r"(?<!per)_(?:ms|us|ns|s|secs?|seconds)(?:_per_\w+)?$|(?:^|[/_.\s-])(?:time|latency|duration|wait|elapsed)"
    r"(?:[/_.\s-]|$)|(?:_|/)(?:time|latency|wait)$|^time/",
    re.IGNORECASE,
)
_BYTES = re.compile(r"(?:^|[/_.\s-])(?:[kmgt]i?b|bytes|memory|mem|vram|rss)(?:[/_.\s-]|$)", re.IGNORECASE)
_LOSS = re.compile(
    r"loss|perplexity|(?:^|[/_.-])(?:ppl|nll|mse|mae|rmse|wer|cer|fid|kl|elbo|bpc|bpb)(?:[/_.@-]|$)|error|"
    r"cross[_-]?entropy|regret",
    re.IGNORECASE,
)
_SCORE = re.compile(
    r"(?:^|[/_.@-])(?:top\d|acc|hits?)(?:[/_.@\d-]|$)|accuracy|"
    r"(?:^|[/_.@-])(?:auc|f1|bleu|rouge\w*|m?ap|iou|dice|psnr|ssim|"
    r"ndcg|mrr|r2|elo)(?:[/_.@\d-]|$)|reward|returns?(?:[/_.-]|$)|precision|recall|score|win[_-]?rate|"
    r"success[_-]?rate",
    re.IGNORECASE,
)
_COUNTER = _words(
    r"epochs?|(?:global|optimizer|update)[_-]?steps?|counts?|num|"
    r"(?:tokens|samples|examples|batches|episodes|frames)(?:[_-]?(?:seen|consumed|processed|total))?|"
    r"dropped|skipped|restarts|retries|evictions|recompiles|attempts?|errors?"
)
_NORM = _words(r"(?:grad(?:ient)?s?[_/.-]?)?(?:global[_-]?)?norms?|grad(?:ient)?s?|l2|rms|variance|curvature")
_RATIO = _words(r"ratio|fraction|share|percent|pct|util(?:i[sz]ation)?|busy|sparsity|dead|hit[_-]?rate")
_LR_PART = re.compile(r"(?:^|/)lr[-_]", re.IGNORECASE)


def metric_kind(metric: str, unit: str | None) -> MetricKind:
    """Return what a metric is, as far as its name and unit tell; ``other`` where they do not.

    Args:
        metric: Its tag.
        unit: As in ``Chart.unit``.
    """
    if _SCHEDULE.search(metric) or _LR_PART.search(metric):
        return "schedule"
    if _NONFINITE.search(metric) and unit != "ratio":
        return "nonfinite"
    if unit == "per second" or _RATE.search(metric):
        return "rate"
    if unit in _TIMES or _LATENCY.search(metric):
        return "latency"
    if unit == "bytes" or _BYTES.search(metric):
        return "bytes"
    return _by_name(metric, unit)


def _by_name(metric: str, unit: str | None) -> MetricKind:
    last = metric.rpartition("/")[2]
    if _SCORE.search(last):
        return "score"
    if unit == "ratio" and not _LOSS.search(last):
        return "ratio"
    if _LOSS.search(last) and not re.search(r"errors$|error_?count", last, re.IGNORECASE):
        return "loss"
    for kind, pattern in (("ratio", _RATIO), ("counter", _COUNTER), ("norm", _NORM)):
        if pattern.search(metric):
            return kind  # type: ignore[return-value]
    return "loss" if _LOSS.search(metric) else "score" if _SCORE.search(metric) else "other"
