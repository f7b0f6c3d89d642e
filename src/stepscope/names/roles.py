"""Roles: the role of a series in a rule, such as ``loss``, by its tag.

This module knows under which names Stepscope, Keras, Lightning, Hugging Face, the Estimator and the usual
training scripts record each role.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepscope.names.kinds import metric_kind
from stepscope.names.splits import Split, split_tag

ROLES: dict[str, str] = {
    "loss": "a loss, as train/loss",
    "part_loss": "a part of a loss",
    "rank_loss": "the losses of all ranks, which their telemetry holds",
    "gradient_norm": "the global gradient norm, as gradients/norm or train/grad_norm",
    "clipped_norm": "the global gradient norm after clipping, as gradients/clipped_norm",
    "clipped": "the share of clipped steps",
    "gradient_nonfinite": "counts of non-finite gradients",
    "layer_gradient": "gradient norms of the layers, as gradients/LAYER/norm",
    "update_ratio": "update ratios of the layers, as updates/LAYER/weight_ratio",
    "update_norm": "update norms of the layers",
    "weight_norm": "weight norms of the layers, as weights/LAYER/norm",
    "zeros": "shares of zero activations, as activations/LAYER/fraction_of_zero_values",
    "dead": "shares of dead units, as activations/LAYER/dead_ratio",
    "saturated": "shares of saturated activations, as activations/LAYER/saturation_ratio",
    "activation_std": "standard deviations of activations, as activations/LAYER/std",
    "activation_nonfinite": "counts of non-finite activations",
    "activation": "other statistics of activations",
    "learning_rate": "the learning rate, as train/learning_rate",
    "loss_scale": "the loss scale, as gradients/loss_scale",
    "skipped": "the number of skipped steps, as gradients/skipped_steps",
    "step_time": "step times, as speed/step_time_ms",
    "data_wait": "waits for data, as speed/data_wait_ms",
    "compile_time": "times of compilations, as speed/compile_ms",
    "gpu": "GPU utilization, as system/gpu0/utilization_ratio",
    "cpu": "CPU utilization, as system/host/cpu_ratio",
    "io_wait": "the processors' wait for input and output, as system/host/cpu_iowait_ratio",
    "cpu_wait": "waits for a processor, as system/process/cpu_wait_cores",
    "memory": "memory in use, as system/process/memory_bytes",
    "labels": "counts of labels, as labels/CLASS",
    "metric": "metrics, as train/accuracy",
    "entropy": "the entropy of a policy, as train/entropy",
    "spread": "how far outputs are apart, as train/embedding_std",
    "reward": "returns of episodes, as rollout/ep_rew_mean",
    "value_estimate": "estimates of returns, as train/q_mean",
    "setting": "settings that change in steps, as curriculum/stage, fold or seq_len",
    "expert_load": "shares of tokens of the experts, as router/LAYER/load/EXPERT",
    "attention_logit": "largest attention logits, as attention/LAYER/logit_max",
    "attention_entropy": "entropies of attention, as attention/LAYER/entropy",
    "update_operator": "operator norms of updates, as updates/LAYER/operator_norm",
    "weight_operator": "operator norms of weights, as weights/LAYER/operator_norm",
    "second_moment": "gradients against Adam's second moment, as optimizer/second_moment/LAYER",
    "left_out": "parameters with a gradient that no optimizer has, as optimizer/left_out/NAME",
}
"""Every role, in the words used when it is missing."""


class Meaning(NamedTuple):
    """The meaning of a tag's name.

    Attributes:
        layer: The layer of the model, or the device or class of the series.
        scale: Factor that turns values into seconds, ratios between 0 and 1, or bytes; -1 turns a likelihood,
            which is to rise, into a loss.
    """

    role: str
    split: Split | None = None
    layer: str | None = None
    scale: float = 1.0


LR = "learning_rate"
RANKS_LOSS = "ranks/loss"
"""Name for the series of the ranks' losses, which are in no event file."""
METRIC = (
    r"(?:.*[/_\- ])?(?:acc|[^\W_]*accuracy|genauigkeit|exactitude|exactitud|acur[aá]cia|accuratezza"
    r"|nauwkeurigheid|dok[lł]adno[sś][cć]|do[gğ]ruluk|точность|准确率|準確率|正解率|精度|정확도"
    r"|auc|auroc|f1|f1[-_]?score|precision|recall|m?iou|dice|map|map50"
    r"|[fk]id(?:[-_]?\d+k?)?(?:_full)?|bleu|rouge\w*|psnr|ssim|r2|top[-_]?[15]\w*|exact_match"
    r"|wer|cer|mae|rmse|mape|error_rate)"
    r"(?:[/_\- ]?(?:epoch|step|train|val|valid|test|macro|micro|avg|@\d+|(?<!\d)\d+))*"
)
"""Names of metrics by which a run is judged besides its loss. No run of digits is split in several ways:
matching must take time linear in the length of the name.
"""
MEASURED = ("weights/", "updates/", "gradients/", "activations/")
"""Beginning of the names of measurements in layers, which may have any name."""
MODEL_INPUT = "(input)"
"""Layer that stands for the model's input."""
MOST_NAME = 512
"""Most characters of a name that can mean something to a rule."""
EXPERT_SHARE = r"(?:load|usage|utili[sz]ation|shares?|fractions?)"
"""Words for the share of an expert."""
_OF_EPISODES = r"(?:ep|episode|episodic|mean|avg|total|true|task|env|extrinsic)"
"""Words for the whole reward of an episode, of which bonuses for a search are no part."""
_OUTPUT = r"(?:z|emb|embed(?:ding)?s?|feat(?:ure)?s?|repr(?:esentation)?s?|latents?|codes?|proj(?:ection)?s?)"
"""Words for the output of an encoder."""
_DISTANCE, _STRANGERS = r"(?:dist|distance)", r"(?:an|neg|negatives?)"
"""Words for a distance, and for two examples that are to be apart."""
_TABLE: list[tuple[str, str]] = [
    # Ours first, then other writers'. A group named layer is the layer.
    (r"ranks/loss", "rank_loss"),
    (r"gradients/(?:global/)?(?:unclipped_)?(?:l2_)?norm", "gradient_norm"),
    (r"gradients/(?:global/)?clipped_(?:l2_)?norm", "clipped_norm"),
    (r"(?:.*/)?(?:grad(?:ient)?s?_norm_clipped|clipped_grad(?:ient)?s?_norm)", "clipped_norm"),
    (r"gradients/(?:global/)?(?:clipped_ratio|clip_fraction)", "clipped"),
    (r"gradients/(?:global/)?(?:nonfinite(?:_count)?|non_finite)", "gradient_nonfinite"),
    (r"(?:.*/)?(?:loss[_ -]scale|(?:grad|scaler|amp)[_/]scale)", "loss_scale"),
    (r"(?:gradients|amp)/(?:.*/)?skipped(?:_steps)?", "skipped"),
    (r"gradients/(?P<layer>.+)/(?:nonfinite(?:_count)?|non_finite)", "gradient_nonfinite"),
    (r"gradients/(?P<layer>.+)/(?:l2_)?(?:norm|rms)", "layer_gradient"),
    (r"updates/(?P<layer>.+)/(?:weight_|update_)?ratio", "update_ratio"),
    (r"updates/(?P<layer>.+)/(?:l2_)?norm", "update_norm"),
    (r"(?:.*/)?(?:updates?|updates/global)[_/](?:l2_)?norm", "update_norm"),
    (r"weights/(?P<layer>.+)/(?:l2_)?norm", "weight_norm"),
    (r"weights/(?P<layer>[^/]+)", "weight_norm"),
    (r"(?:params?|parameters?)/(?P<layer>.+)/(?:l2_)?norm", "weight_norm"),
    (r"(?:params?|parameters?)/(?P<layer>[^/]+\.(?:weight|kernel))", "weight_norm"),
    (r"(?:.*/)?(?:weights?|params?|parameters?)_(?:l2_)?norm", "weight_norm"),
    (r"(?:activations/)?(?P<layer>.+)/fraction_of_zero_values", "zeros"),
    (r"activations/(?P<layer>.+)/zeros?_ratio", "zeros"),
    (r"activations/(?P<layer>.+)/dead(?:_units)?_ratio", "dead"),
    (r"(?:activations/)?(?:(?P<layer>.+)/)?dead_(?:fraction|ratio|units|neurons|relus?)", "dead"),
    (r"activations/(?P<layer>.+)/saturat(?:ed|ion)_ratio", "saturated"),
    (r"activations/(?P<layer>.+)/(?:std|standard_deviation)", "activation_std"),
    (r"activations/(?P<layer>.+)/(?:nonfinite(?:_count)?|non_finite)", "activation_nonfinite"),
    (r"activations/(?P<layer>.+)/(?:mean|min|max)", "activation"),
    (r"l2_norm/grad/global", "gradient_norm"),
    (r"l2_norm/grad/(?P<layer>.+)", "layer_gradient"),
    (r"l2_norm/update/(?P<layer>.+)", "update_norm"),
    (r"(?:.*/)?(?:grad|gradient)s?_norms?/(?P<layer>.+)", "layer_gradient"),
    (r"grad_\d(?:\.\d+)?_norm(?:_total|/total)", "gradient_norm"),
    (r"grad_\d(?:\.\d+)?_norm/(?P<layer>.+)", "layer_gradient"),
    (
        r"(?:.*/)?(?:total_)?(?:global_)?(?:(?:grad|gradient|gradients)[_-]|g)norm(?:_step|_epoch)?",
        "gradient_norm",
    ),
    (
        r"(?:.*/)?(?:base_|epoch_|batch_)?(?:learning[_ -]?rate|lr)(?:_\d+)?"
        r"(?:[-_/](?P<layer>(?!(?:.*[/_])?loss$).+))?",
        LR,
    ),
    (r"(?:.*/)?(?:speed/)?step_time(?:_m?s|_seconds|_secs)?", "step_time"),
    (r"(?:.*/)?(?:speed/)?(?:data_wait|data_time|data_loading(?:_time)?)(?:_m?s|_seconds)?", "data_wait"),
    (r"(?:.*/)?(?:speed/)?compile(?:_time)?(?:_m?s|_seconds|_secs)", "compile_time"),
    (r"time/(?:step|iteration|iter)(?:_m?s|_seconds)?", "step_time"),
    (r"time_metrics/end_to_end\(s\)", "step_time"),
    (r"time_metrics/data_loading\(s\)", "data_wait"),
    (r"(?:system/)?(?P<layer>gpu[./_]?\d+)[./](?:utili[sz]ation|util|gpu)(?:_ratio|_percent)?", "gpu"),
    (r"system/host/cpu_ratio", "cpu"),
    (r"system/host/cpu_iowait_ratio", "io_wait"),
    (r"system/process/cpu_wait_cores", "cpu_wait"),
    (r"(?:system/)?cpu(?:[./](?:utili[sz]ation|util|percent))?(?:_ratio|_percent)?", "cpu"),
    (r"(?:system/)?cpu[./_](?:io_?wait)(?:_ratio|_percent)?", "io_wait"),
    (r"system/(?P<layer>process|children|container)/memory_bytes", "memory"),
    (r"system/(?P<layer>(?:\w+/)?(?:\w*rss|\w*resident|memory_allocated))_bytes", "memory"),
    (r"system/(?P<layer>gpu\d+)/memory_used_bytes", "memory"),
    (r"memory/(?P<layer>\w*(?:allocated|active|used|reserved|rss))(?:_bytes|\((?:gib|gb)\))?", "memory"),
    (r"(?:.*/)?(?P<layer>\w*(?:rss|vram|memory(?:_allocated|_used|_reserved)?))_(?:bytes|[mg]i?b)", "memory"),
    (r"labels/(?P<layer>.+)", "labels"),
    (r"router/(?P<layer>.+/load/\w+)", "expert_load"),
    (rf"(?P<layer>(?:.*/)?(?:moe|router|gate)(?:/.+)?/{EXPERT_SHARE}/(?:experts?[_/])?\d+)", "expert_load"),
    (rf"(?P<layer>(?:.*/)?experts?[_/](?:{EXPERT_SHARE}[_/]\d+|\d+[_/]{EXPERT_SHARE}))", "expert_load"),
    (r"attention/(?P<layer>.+)/logit_max", "attention_logit"),
    (r"attention/(?P<layer>.+)/entropy", "attention_entropy"),
    (r"updates/(?P<layer>.+)/operator_norm", "update_operator"),
    (r"weights/(?P<layer>.+)/operator_norm", "weight_operator"),
    (r"optimizer/second_moment/(?P<layer>.+)", "second_moment"),
    (r"optimizer/left_out/(?P<layer>.+)", "left_out"),
    (r"(?:.*/)?(?:policy_|action_)?entropy", "entropy"),
    (rf"(?:.*[/_])?{_OUTPUT}[/_](?:std|stddev|var|variance|spread)(?:_mean)?", "spread"),
    (r"(?:.*[/_])?(?:codebook|vq|quanti[sz]er)[/_](?:perplexity|usage|utili[sz]ation)", "spread"),
    (rf"(?:.*[/_])?(?:{_DISTANCE}_{_STRANGERS}|{_STRANGERS}_{_DISTANCE})", "spread"),
    (rf"(?:.*/)?(?:{_OF_EPISODES}_)*(?:rew|rewards?|returns?)(?:_mean|_avg)?", "reward"),
    (r"(?:.*/)?(?:q|v|qf?\d?|values?)_(?:values?_)?(?:mean|avg|max|values?|estimates?)", "value_estimate"),
    (r"(?:.*/)?(?:mean|avg|average|max)_(?:q|v|q_values?|values?)", "value_estimate"),
    (METRIC, "metric"),
]  # fmt: skip
LAYERED = frozenset(role for pattern, role in _TABLE if "?P<layer>" in pattern)
"""Roles of series of which there is one for each layer, device or class."""
TABLE = [(re.compile(pattern, re.IGNORECASE), role) for pattern, role in _TABLE]
_SETTING = re.compile(
    r"(?:\w+[_-])?(?:fold|stage|phase|curriculum|task|level|difficulty|seq_?len(?:gth)?|sequence_length"
    r"|context_length|resolution|image_size|batch_size|sparsity|pruned|mask_ratio|domain|dataset|unfrozen"
    r"|weight|trial|subject|candidate|round|teacher_forcing(?:_ratio|_prob)?|sampling_prob"
    r"|temperature|tau|beta|noise(?:_level|_std|_scale)?|strength|magnitude)(?:[_-]?(?:id|idx|index|number|no))?"
    r"|(?:loss_)?weights?_\w+|lambda_\w+",
    re.IGNORECASE,
)
"""Endings of the names of settings that a person changes, and which change the training."""
_ATTACK = re.compile(r"(?:.*[/_])?(?:attack|adv|pgd|fgsm|perturbation)[/_]eps(?:ilon)?", re.IGNORECASE)
"""Sizes of attacks, which are settings, unlike other things called epsilon."""
_WHOLE = (
    r"(?:total|sum|all|overall|combined|full|joint|gesamt|totale?s?|totaal|toplam|общ(?:ая|ие)|总|總|合計|총)"
)
"""Words for the sum of all parts, in a dozen languages."""
_LOSS_WORD = (
    r"(?:loss(?:es)?(?:_(?:fn|func|function|value))?|nll|cross_?entropy|objective|objectif|objetivo|obiettivo|zielfunktion|criterion|bce|xent|(?:info_?)?nce|nt_?xent|(?:m|binary_|multi_)?log_?loss|cost|bp[cbd]"
    r"|bits_per_[^\W_]+|neg(?:ative)?_log_?likelihood|nelbo"
    # German, French, Spanish, Portuguese, Italian, Dutch, Polish, Turkish, Russian, Chinese, Japanese, Korean
    r"|verlust|kosten|perte|co[uû]t|p[eé]rdida|coste|perda|custo|perdita|costo|verlies|strata|kay.p|потери|损失|代价|損失|손실)"
)
_STATISTIC = r"(?:epoch|batch|step|iter|average|avg|mean|global_avg|running|reduced|ema|swa|smooth(?:ed)?)"
_LOSS = re.compile(
    rf"(?:.*/)?(?:\d*(?:'s)?_)?(?:(?:{_STATISTIC}|{_WHOLE}|lm|ce|nll|cross_entropy)_|{_WHOLE})*{_LOSS_WORD}"
    rf"(?:[_/](?:{_STATISTIC}|{_WHOLE}))*|losses?/loss",
    re.IGNORECASE,
)
"""A word for a loss, alone or with words for the whole of it and for statistics; they may be a group."""
_WHOLE_ALONE = re.compile(rf"{_WHOLE}(?:_{_STATISTIC})*", re.IGNORECASE)
_LIKELIHOOD = re.compile(
    r"(?:.*/)?(?:epoch_|batch_|total_|average_|avg_|mean_|marginal_)*"
    r"(?:log_?(?:likelihood|lik|prob)|elbo|iwae)(?:_step|_epoch)?",
    re.IGNORECASE,
)
"""Names of likelihoods and of their bounds, which are to rise."""
BOUND = re.compile(r"elbo|iwae", re.IGNORECASE)
"""Bounds of likelihoods; many record them with the sign of a loss, and under the same name."""
_METRIC = re.compile(METRIC, re.IGNORECASE)
_SIZES = {"gib": 2.0**30, "gb": 2.0**30, "mib": 2.0**20, "mb": 2.0**20}
"""Bytes by the last letters of a name; writers that say GB mean GiB."""
_BETWEEN = re.compile(r"[_\- ]")
"""The separators of words in a part of a name: "lm loss" and "Training Loss" are losses, too."""
_PART = re.compile(r"loss|\bnll\b|perplexity|\bppl\b", re.IGNORECASE)
_TERM = re.compile(r"(?:.*[/_])?(?:kld?|jsd?|divergence|penalty|recon\w*|reg\w*)(?:[/_].*)?", re.IGNORECASE)
"""Terms of a loss, of which one may grow while their sum falls."""
_NAMED_TERM = re.compile(
    r"(?:.*[/_])?(?:kld?|divergence)(?:[/_](?:div(?:ergence)?|mean|avg|total))?|recon(?:struction)?",
    re.IGNORECASE,
)
"""Terms of a variational model or of one with a code book, which many record without the word loss."""
_OF_TERM = re.compile(r"(?:.*[/_])?(?:kld?|codebook|vq|commit(?:ment)?)/[^/]*loss", re.IGNORECASE)
"""Losses in the group of a term: that term, and not the whole."""


@lru_cache(maxsize=1 << 15)
def meaning_of(tag: str) -> Meaning | None:
    """Return the meaning of a tag's name, None if no rule knows it."""
    if tag.startswith("stepscope/") or len(tag) > MOST_NAME:
        return None
    for pattern, role in TABLE:
        match = pattern.fullmatch(tag)
        if match:
            layer = match.groupdict().get("layer")
            return Meaning(role, split_of(tag), layer, scale_of(tag, role))
    whole = without_split(tag)
    is_loss = _LOSS.fullmatch(_BETWEEN.sub("_", whole)) and not _OF_TERM.fullmatch(whole)
    if is_loss or (whole != tag and _WHOLE_ALONE.fullmatch(whole)):
        return Meaning("loss", split_of(tag))
    if _LIKELIHOOD.fullmatch(_BETWEEN.sub("_", whole)):
        return Meaning("loss", split_of(tag), scale=-1.0)
    if whole != tag and _METRIC.fullmatch(whole):
        return Meaning("metric", split_of(tag))
    if _PART.search(tag):
        return Meaning("part_loss", split_of(tag))
    kind, split = metric_kind(whole, None), split_of(tag)
    if split in ("eval", "test") and kind in ("score", "loss") and _TERM.fullmatch(whole) is None:
        # What has a better end and is of data that is not trained on is there to judge the model by.
        return Meaning("metric", split)
    if split == "train" and kind == "loss" and _TERM.fullmatch(whole) is None:
        # What is to fall on the data that is trained on is what the training lowers.
        return Meaning("loss", split)
    if split is None and kind == "loss" and _TERM.fullmatch(whole) is None:
        return Meaning("metric")  # an error, of data that the name does not tell
    if split in ("train", None) and _NAMED_TERM.fullmatch(whole) and not tag.startswith(MEASURED):
        return Meaning("part_loss", split)
    path, _, end = tag.replace(".", "/").rpartition("/")
    named = (
        _SETTING.fullmatch(_BETWEEN.sub("_", end))
        or _ATTACK.fullmatch(tag)
        or (path.rpartition("/")[2].lower() == "curriculum")
    )
    if tag.startswith(MEASURED):
        return None
    if named:
        return Meaning("setting")
    return Meaning("metric") if split is None and kind == "score" else None  # of data that it does not tell


def scale_of(tag: str, role: str) -> float:
    """Return the factor that turns the values of a tag into seconds, ratios and bytes."""
    if role in ("step_time", "data_wait", "compile_time"):
        return 1e-3 if tag.lower().endswith("_ms") else 1.0
    if role in ("gpu", "cpu", "io_wait"):
        return 1.0 if tag.lower().endswith("_ratio") else 1e-2
    return _SIZES.get(tag.lower().rstrip(")")[-3:].lstrip("_("), 1.0) if role == "memory" else 1.0


def is_accuracy(tag: str) -> bool:
    """Return whether a metric is how often a classifier is right, as ``val/acc`` and ``accuracy`` are."""
    return "acc" in tag.lower() or "top1" in tag.lower()


def is_metric(tag: str) -> bool:
    """Return whether a tag is the usual name of what a model is judged by."""
    return _METRIC.fullmatch(tag) is not None


def is_loss_by_kind(tag: str) -> bool:
    """Return whether a tag is taken for a loss though it names none: it is to fall on the training's data."""
    meaning = meaning_of(tag)
    return meaning is not None and meaning.role == "loss" and not _names_loss(without_split(tag))


def _names_loss(whole: str) -> bool:
    name = _BETWEEN.sub("_", whole)
    return bool(_LOSS.fullmatch(name) or _LIKELIHOOD.fullmatch(name))


def split_of(tag: str) -> Split | None:
    """Return the part of the data that a word in the tag names."""
    return split_tag(tag).split


def without_split(tag: str) -> str:
    """Return the tag without all words that name a part of the data: ``loss`` for ``train/train_loss``."""
    while True:
        metric, split, _ = split_tag(tag)
        if split is None:
            return tag
        tag = metric
