"""The kind of training of a run, as far as the names of its series show it."""

from __future__ import annotations

import re
from functools import lru_cache

KINDS: dict[str, str] = {
    "adversarial": "adversarial training, in which losses balance each other",
    "reinforcement": "reinforcement learning, in which losses need not fall",
    "variational": "a loss that contains a divergence, whose weight may be raised",
    "contrastive": "self-supervised or few-shot learning, whose losses depend on the batch",
}
"""The reason that a rule gives for not judging a kind of training."""

_EDGE, _END = r"(?:^|[/_\-. ])", r"(?:$|[/_\-. \d])"
_WORDS: dict[str, str] = {
    "adversarial": r"d_loss|g_loss|loss_d|loss_g|d_real|d_fake|disc|dis|discriminator|generator|gen_loss"
    r"|loss_gen|gan|wgan|adv|adversarial|wasserstein|gradient_penalty|gp_loss|d/loss|g/loss|errd|errg|netd|netg"
    r"|lossd|lossg|cycle_loss",
    "reinforcement": r"policy|actor|approx_kl|clip_fraction|clipfrac|explained_variance|value_loss|v_loss"
    r"|vf_loss|pg_loss|ep_rew_mean|ep_len_mean|ep_reward|episode|episodic|episodes|reward|rewards|return|returns|rollout|rollouts"
    r"|exploration_rate|epsilon|q_loss|qf_loss|qf1_loss|qf2_loss|q_values?|qf_values?|td_error|td_loss|advantages?"
    r"|ppo|dqn|a2c|a3c|sac|ddpg|td3|reinforce|ent_coef|entropy_loss|policy_entropy|rlhf|grpo|kl_div_ref",
    "variational": r"kl|kld|kl_loss|kl_weight|elbo|neg_elbo|latent_loss|prior_loss|beta_kl|kl_beta"
    r"|vq_loss|commitment",
    "contrastive": r"simclr|contrastive|nt_?xent|info_?nce|byol|moco|dino|ibot|barlow|vicreg|swav|simsiam|ssl"
    r"|fewshot|few_shot|n_way|k_shot|proto|protonet|maml|meta_loss|inner_loop|triplet",
}
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
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.search(tag)), None)
