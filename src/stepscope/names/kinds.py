"""Metric kinds: the kind of a scalar, according to its name and unit.

The kind decides how a metric is drawn and read: whether neighbouring values may be averaged, which way is
better, whether the first steps may flatten a chart.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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
"""Kinds with a better direction; for others, lower is neither better nor worse."""

UNITS = {
    "_bytes_per_second": "bytes per second",
    "_per_second": "per second",
    "_ms": "ms",
    "_us": "µs",
    "_s": "s",
    "_bytes": "bytes",
    "_ratio": "ratio",
}
"""Units by the ending of a tag, longest ending first."""
KEPT_IN_TITLE = {"_bytes_per_second", "_per_second", "_ratio"}
"""Endings without which the rest would mean something else."""
_SECOND = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
"""Units of time, the largest first, in seconds."""
_BYTE = {"TiB": 2.0**40, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10, "B": 1.0}
"""Units of bytes, the largest first, in bytes."""
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    **{unit: tuple((size / own, name) for name, size in _SECOND.items()) for unit, own in _SECOND.items()},
    "bytes": tuple((size, name) for name, size in _BYTE.items()),
    "bytes per second": tuple((size, f"{name}/s") for name, size in _BYTE.items()),
    "per second": tuple(
        (10.0**power, f"{word}/s")
        for power, word in ((12, "trillion"), (9, "billion"), (6, "million"), (0, ""))
    ),
}
"""Units in which values of a unit are shown, the largest first: how many of their own unit they are."""
_LEAST_FIGURE, _MOST_FIGURE = 0.1, 1e4
"""A unit is kept while the largest figure in it lies between these: the unit of a metric is a habit."""
_SECONDS = r"(?:s|ms|us|ns|secs?|seconds?|minutes?|mins?|hours?|hrs?)"
_WORD_ENDS = re.compile(
    r"(?<=[a-z]{2})(?=[A-Z])|(?<=[a-z0-9])(?=[A-Z][a-z]{2})|(?<=[A-Z])(?=[A-Z][a-z]{2})|"
    r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])"
)
"""Word boundaries inside ``rssMB``, ``aAcc``, ``KLDivergence`` and ``top5``; ``mAP`` and ``IoU`` are one
word.
"""
_PER_SECOND = re.compile(r"/(?=(?:s|secs?)(?:$|[/\s)]))", re.IGNORECASE)
_STAGE = re.compile(r"^_(?:epoch|batch|evaluation)_(?=.)(?!size_|count_|time_|num_)")
"""Keras puts it before the name of a metric."""


def _has(words: str) -> re.Pattern[str]:
    return re.compile(f"_(?:{words})(?=_)")


def _is(words: str) -> re.Pattern[str]:
    return re.compile(f"^_(?:{words})_(?:\\d+_)*$")


_LAST_LOSS = re.compile(r"_loss_(?:\d+_)*$")
_SCHEDULE = _has(
    r"lrs?|learning_rates?|momentum|betas?_[12]|weight_decay|(?:loss|grad|gradient)_scaler?|teacher_forcing|epsilon|eps|"
    r"warm_?up|clip_range(?:_vf)?|(?:kl|loss|reg|aux|penalty)_weights?|exploration(?:_rate)?|"
    r"(?:ema|lr|rate|polyak)_decay|decay_rate|drop_?out(?:_rate|_prob)?|batch_size"
)
_COEFFICIENT = _has("coeff?(?:icient)?s?")
_SCALE, _SCALER = _is("scale"), _has("amp|scaler|fp|loss")
_TEMPERATURE, _HARDWARE = _is("temperature"), _has("gpu|cpu|system|hardware|device|sensors?|node|host")
_NONFINITE = _has(r"non_?finites?|nans?|infs?|overflows?")
_RATE = _has(
    r"[^\W_]+_per_s(?:ecs?|econds?)?|per_s(?:ecs?|econds?)?|throughput|fps|qps|[tswu]ps|mfu|hfu|[gtp]flops?|bandwidth|its_s|frame_rate"
)
_LATENCY = _has(
    r"(?:wall_?|run_?)?times?|timings?|timers?|latency|latencies|durations?|waits?|waiting|elapsed|wall|runtime|dt|eta|"
    rf"{_SECONDS}_per_[^\W_]+"
)
_LAST_UNIT = re.compile(f"_(?!min_){_SECONDS}_$")
"""``min`` at the end is the least value: of minutes, another word says that time is measured."""
_BYTES = _has(r"[kmgt]i?b|bytes|memory|mem|vram|rss")
_COUNTED = re.compile(
    r"^_(?:num|n|number_of)_|_(?:counts?|dropped|skipped|skips|retries|restarts|attempts?|ooms?|evictions|"
    r"recompiles|recompilations)_(?:\d+_)*$|_(?:errors|false_positives|false_negatives|true_positives|true_negatives)_$"
)
_COUNTER = re.compile(
    r"^_(?:(?:current|total|last)_)?epochs?_$|_(?:global|optimizer|update|env|agent|train|training|total|"
    r"current|gradient)_steps?_$|_(?:time_?steps|iterations?|updates|ticks?|kimg|total_flos|total_flops)_$|"
    r"_(?:tokens?|samples|examples|batches|episodes|frames|images|steps|sequences)_(?:[^\W_]+_){0,3}(?:seen|consumed|processed|sampled|"
    r"trained|collected|total)_|_(?:seen|consumed|processed|sampled|trained|collected|total)_(?:[^\W_]+_){0,3}"
    r"(?:tokens?|samples|examples|batches|episodes|frames|images|steps|sequences)_$|"
    r"^_(?:tokens?|samples|examples|batches|episodes|frames|sequences)_$|_in_epoch_$|_(?:dropped|skipped)_"
)
_SCORE = _has(
    r"[^\W_]*(?:accuracy|accuracies|precision|recall|reward|score)s?|top_\d+|accs?|hits?(?:_\d+|_rate|_ratio)?|hr_\d+|au_?roc|"
    r"au_?prc?|roc_auc|auc|roc|f_\d|f_beta|dice|(?:sacre)?bleu|rouge[^\W_]*|meteor|chrf|cider|m?ap[sml]?|ar_\d+|[mf]?w?iou|io_u|"
    r"jaccard|psnr|ssim|ndcg|mrr|r_2|r_squared|elo|rews?|returns?|win_?rate|success(?:_rate)?|kappa|mcc|matthews|"
    r"correlation|corr|corr_?coef|spearmanr?|pearsonr?|kendall|similarity|exact_match|em|is_\d+_k|pass_\d+|"
    r"genauigkeit|exactitude|exactitud|acur[aá]cia|accuratezza|nauwkeurigheid|dok[lł]adno[sś][cć]|do[gğ]ruluk|точность|"
    r"准确率|準確率|正解率|精度|정확도|"
    r"explained_var(?:iance)?|sensitivity|specificity|pck|nmi|top_k|margins?"
)
_ERROR = _has("error|err")
"""The error of a score, as of ``top1_error``, is a loss."""
_STD = re.compile(r"_(?:std|stddev|stdev)_$")
_LOSS = _has(
    r"[^\W_]*(?:loss|losses|perplexity|crossentropy)|ppl|nll|[rn]?mse|r?mae|[sw]?mape|[wct]er|fid|kid|kl|kld|js|jsd|elbo|bp[cbd]|"
    r"bits_per_[^\W_]+|error(?:_rate)?|err|cross_ent(?:ropy)?|xent|ce|bce|nce|infonce|regret|divergence|hinge|penalty|distortion|lpips|"
    r"verlust|perte|p[eé]rdida|perda|perdita|verlies|strata|kay.p|потери|损失|損失|손실|cost|"
    r"criterion|huber|smooth_l_1|ctc|rnnt|nelbo|kosten|co[uû]t|coste|custo|costo|代价|"
    r"brier|ece|mcd|recon(?:struction)?|deviance|eer|emd|hausdorff|epe"
)
_OTHER = _has(
    r"entropy|alpha|values|logits?|logps?|log_?probs?|advantages?|std|noise|len|length|lengths|temp|temperature|watts|power"
)
_RATIO = _has(
    r"ratio|fraction|frac|share|percent|pct|util(?:i[sz]ation)?|busy|sparsity|dead|clip_?frac|usage|"
    r"false_(?:negative|positive)|(?:acceptance|rejection|drop|miss|cache_hit)_rate"
)
_MACHINE = _is(r"clip|cpu|gpu(?:_\d+)?(?:_gpu)?")
_NORM = _has(r"[^\W_]*norms?|grad(?:ient)?s?|l_2|rms|variance|curvature")


def metric_kind(metric: str, unit: str | None) -> MetricKind:
    """Return the kind of a metric, as far as its name and unit tell; ``other`` if they do not.

    Its last part is asked first, then the parts that it is in, the nearest first.

    Args:
        metric: Its tag.
        unit: As in ``Chart.unit``.
    """
    parts = [_worded(part) for part in _PER_SECOND.sub("_per_", metric).split("/")]
    whole = "_".join(parts)
    if metric == "_step":  # as W&B counts what it was given
        return "counter"
    if _SCALE.search(parts[-1]) and _SCALER.search(whole):
        return "schedule"
    if _TEMPERATURE.search(parts[-1]) and not _HARDWARE.search(whole):
        return "schedule"
    for place, part in enumerate(reversed(parts)):
        if kind := _of_part(part, None if place else unit, last=place == 0):
            return kind
    return "other"


def tells_nothing(metric: str) -> bool:
    """Return whether no word of a name says what the metric is, or it is only said that it is a share."""
    kind = metric_kind(metric, None)
    parts = map(_worded, metric.split("/"))
    return kind == "ratio" or (kind == "other" and not any(map(_OTHER.search, parts)))


def title_and_unit(metric: str) -> tuple[str, str | None]:
    """Return a metric's name without its unit, and the unit."""
    for end, unit in UNITS.items():
        if metric.endswith(end) and len(metric.rpartition("/")[2]) > len(end):
            if unit == "s" and metric_kind(metric, None) == "score":
                return metric, None  # that of small things, as COCO's `bbox_mAP_s`
            return (metric if end in KEPT_IN_TITLE else metric.removesuffix(end)), unit
    return metric, None


@dataclass(frozen=True, slots=True)
class Measure:
    """How the values of a metric are shown on all pages.

    Attributes:
        factor: What a recorded value is multiplied by.
        unit: What the product is in; empty if it has no unit.
    """

    factor: float
    unit: str


def measure_of(unit: str | None, largest: float = 0.0, before: Measure | None = None) -> Measure:
    """Return how the values of a metric are shown: as recorded, or as before, while that reads well.

    Args:
        unit: As in ``Chart.unit``.
        largest: The size of the largest of the values that are to be read; 0: none is known.
        before: How they were shown so far.
    """
    if unit == "ratio":
        return Measure(100.0, "%")
    scales = _SCALES.get(unit or "", ())
    if not scales:
        return Measure(1.0, unit or "")
    usual = before or next(Measure(1 / size, name) for size, name in scales if size == 1)
    if not 0 < largest < math.inf or _LEAST_FIGURE <= largest * usual.factor < _MOST_FIGURE:
        return usual
    size, name = next((scale for scale in scales if largest >= scale[0]), scales[-1])
    return Measure(1 / size, name)


def _worded(part: str) -> str:
    """Return a part of a name as its words in small letters, each between underscores."""
    words = re.sub(r"[\W_]+", "_", _WORD_ENDS.sub("_", part.replace("%", " percent ")).lower())
    return _STAGE.sub("_", f"_{words.strip('_')}_")


def _of_part(part: str, unit: str | None, *, last: bool) -> MetricKind | None:
    """Return the kind that one part of a name indicates; None if it indicates none."""
    if _LAST_LOSS.search(part):
        return "loss"
    if _SCHEDULE.search(part):
        return "schedule"
    if (unit or "").endswith("per second") or _RATE.search(part):
        return "rate"
    if unit != "ratio" and not _RATIO.search(part) and (measured := _measured(part, unit)):
        return measured
    return _judged(part, unit, last=last)


def _measured(part: str, unit: str | None) -> MetricKind | None:
    """Return the kind of a metric that counts, times or weighs something."""
    if _LATENCY.search(part):
        return "latency"
    if _NONFINITE.search(part):
        return "nonfinite"
    if _COUNTED.search(part):
        return "counter"
    if unit == "bytes" or _BYTES.search(part):
        return "bytes"
    if (unit in _SECOND or _LAST_UNIT.search(part)) and not _SCORE.search(part):
        return "latency"
    return None


def _judged(part: str, unit: str | None, *, last: bool) -> MetricKind | None:
    """Return the kind of a metric that says how good something is, or of the rest."""
    if _SCORE.search(part) and not _STD.search(part) and not _ERROR.search(part):
        return "score"
    if _COEFFICIENT.search(part):
        return "schedule"
    if _LOSS.search(part):
        return "loss"
    if unit == "ratio" or _RATIO.search(part) or _MACHINE.search(part):
        return "ratio"
    if last and _COUNTER.search(part):
        return "counter"
    if _NORM.search(part):
        return "norm"
    return "other" if _OTHER.search(part) else None
