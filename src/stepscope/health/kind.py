"""The kind of training of a run, as far as the names of its series show it."""

from __future__ import annotations

import re
from functools import lru_cache

from stepscope.names.roles import METRIC, split_of

KINDS: dict[str, str] = {
    "adversarial": "adversarial training, in which losses balance each other",
    "reinforcement": "reinforcement learning, in which losses need not fall",
    "variational": "a loss that contains a divergence, whose weight may be raised",
    "private": "differentially private training, which clips the gradient of every example",
    "contrastive": "self-supervised or few-shot learning, whose losses depend on the batch",
}
"""The reason that a rule gives for not judging a kind of training."""

_EDGE, _END = r"(?:^|[/_\-. ])", r"(?:$|[/_\-. \d])"
_WORDS: dict[str, str] = {
    "adversarial": r"d_loss|g_loss|loss_d|loss_g|d_real|d_fake|disc|dis|discriminator|generator|gen_loss"
    r"|loss_gen|gan|wgan|adv|adversarial|wasserstein|gradient_penalty|gp_loss|d/loss|g/loss|errd|errg|netd|netg"
    r"|lossd|lossg|cycle_loss|critic_loss|loss_critic",
    "reinforcement": r"policy|actor|approx_kl|explained_variance|value_loss"
    r"|v_loss|elo|self_?play|mcts|alpha_?zero|vf_loss|pg_loss|ep_rew_mean|ep_len_mean|ep_reward|episode"
    r"|episodic|episodes|reward|rewards|return|returns|rollout|rollouts|exploration_rate|q_loss|qf_loss"
    r"|qf1_loss|qf2_loss|q_values?|qf_values?|td_error|td_loss|advantages?|ppo|dqn|a2c|a3c|sac|ddpg|td3"
    r"|reinforce|ent_coef|entropy_loss|policy_entropy|rlhf|grpo|kl_div_ref",
    "variational": r"kl|kld|kl_loss|kl_weight|elbo|neg_elbo|latent_loss|prior_loss|beta_kl|kl_beta"
    r"|vq_loss|commitment",
    "private": r"privacy|dp_?sgd|noise_multiplier|rdp|opacus|dp_epsilon|epsilon_spent",
    "contrastive": r"simclr|contrastive|nt_?xent|info_?nce|byol|moco|dino|ibot|barlow|vicreg|swav|simsiam|ssl"
    r"|fewshot|few_shot|n_way|k_shot|proto|protonet|maml|meta_loss|inner_loop|triplet",
}
_HINTS: dict[str, tuple[str, str]] = {
    "exploration": ("reinforcement", r"(?:.*[/.])?eps(?:ilon)?"),
    "score": ("reinforcement", r"(?:.*[/.])?(?:avg_|mean_|average_|total_|max_|running_)?scores?"),
    "clip": ("reinforcement", r"(?:.*[/.])?clip_?frac(?:tion)?"),
    "q": ("reinforcement", r"(?:.*[/.])?(?:avg_|mean_|average_|max_)?q(?:_mean|_max|_avg)?"),
}
"""Names that indicate a kind only if another one does, too: epsilon is also a budget of privacy, the size of
an attack or a constant of an optimizer, and many things have scores.
"""
_HINTED = {name: (kind, re.compile(words, re.IGNORECASE)) for name, (kind, words) in _HINTS.items()}
_TEACHER = re.compile(_EDGE + r"(?:kd|distill\w*|teacher|student)" + _END, re.IGNORECASE)
"""Names of a distillation, whose divergence has a fixed weight."""
_PAIRS = re.compile(r"(?:.*[/.])?rewards/(?:chosen|rejected|margins|accuracies)", re.IGNORECASE)
"""Names of a training on pairs of answers, of which one is preferred: its loss falls as a classifier's."""
_METRIC = re.compile(METRIC, re.IGNORECASE)
_PATTERNS = {
    kind: re.compile(_EDGE + "(?:" + words + ")" + _END, re.IGNORECASE) for kind, words in _WORDS.items()
}


@lru_cache(maxsize=1 << 14)
def kind_of(tag: str) -> str | None:
    """Return the kind of training that the name of a series indicates, None if it indicates none."""
    if tag.startswith(
        ("stepscope/", "system/", "gradients/", "weights/", "updates/", "activations/", "speed/")
    ):
        return None
    indicated = next((kind for kind, pattern in _PATTERNS.items() if pattern.search(tag)), None)
    if indicated == "variational" and _TEACHER.search(tag):
        return None
    if indicated == "adversarial" and _METRIC.fullmatch(tag):  # the accuracy of a classifier under attack
        return None
    if indicated == "reinforcement" and _PAIRS.fullmatch(tag):
        return None
    is_score = "explained_variance" in tag.lower() and split_of(tag) in ("eval", "test")  # of a regression
    return None if indicated == "reinforcement" and is_score else indicated


@lru_cache(maxsize=1 << 14)
def hint_of(tag: str) -> tuple[str, str] | None:
    """Return the kind of training that a name indicates if another one does, too, and which hint it is."""
    return next(((kind, name) for name, (kind, pattern) in _HINTED.items() if pattern.fullmatch(tag)), None)
