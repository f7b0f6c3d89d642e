"""Statistics of attention and of routers in JAX: pure functions that may be jitted with the step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

MASKED = -9e3
"""A mask adds less than this to a logit that must not be seen."""


def attention_statistics(logits: Any, layer: str) -> dict[str, Any]:
    """Return by tag the largest attention logit, and the entropy over that of uniform attention.

    ``attention/LAYER/logit_max``, ``entropy`` (the mean over heads) and ``entropy_min`` (the lowest head), as
    the PyTorch hook records them; a few examples and queries are enough. Return them from the jitted step and
    record them: ``run.record(statistics)``.

    Args:
        logits: Scaled, masks added: [..., heads, queries, keys]. A key whose logit is below -9,000 is one
            that its query may not see; queries that see fewer than two have no entropy.
        layer: Its name.
    """
    logits = logits.astype(jnp.float32)
    seen = logits > MASKED
    hidden = jnp.where(seen, logits, -jnp.inf)
    shares = jax.nn.log_softmax(hidden, axis=-1)
    entropy = -jnp.where(seen, jnp.exp(shares) * jnp.where(seen, shares, 0.0), 0.0).sum(-1)
    keys = seen.sum(-1)
    counted = keys > 1
    normed = jnp.where(counted, entropy / jnp.log(jnp.maximum(keys, 2)), 0.0)
    rest = tuple(at for at in range(normed.ndim) if at != normed.ndim - 2)
    heads = normed.sum(rest) / jnp.maximum(counted.sum(rest), 1)
    return {
        f"attention/{layer}/logit_max": hidden.max(),
        f"attention/{layer}/entropy": heads.mean(),
        f"attention/{layer}/entropy_min": heads.min(),
    }


def router_load(chosen: Any, experts: int, layer: str) -> dict[str, Any]:
    """Return by tag each expert's share of tokens, and the largest share over that of a fair router.

    Args:
        chosen: Indices of the experts that tokens are sent to, of any shape.
        experts: The number of experts.
        layer: Its name.
    """
    counts = jnp.bincount(chosen.reshape(-1), length=experts)
    shares = counts / jnp.maximum(counts.sum(), 1)
    entries = {f"router/{layer}/load/{at}": shares[at] for at in range(experts)}
    return {f"router/{layer}/imbalance": shares.max() * experts, **entries}
