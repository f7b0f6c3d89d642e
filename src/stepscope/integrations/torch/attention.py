"""The size of attention logits and the spread of attention in each layer: an optional hook."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from stepscope.integrations.guard import SelfEnding
from stepscope.integrations.torch.calls import after_forward, before_forward, take_off
from stepscope.integrations.torch.functional import compiled
from stepscope.integrations.torch.parameters import clean
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.protocol import Hook

if TYPE_CHECKING:
    from stepscope.record import Run

MASKED = -9e3
"""A mask adds less than this to a logit that must not be seen."""
SOFTMAX = frozenset((torch.softmax, Tensor.softmax, functional.softmax))
ATTENTION = re.compile(r"attn|attention|heads?\b", re.IGNORECASE)
"""Names of modules, or of their classes, whose softmax over the last of three or four axes is attention."""


class AttentionHook(SelfEnding, Hook):
    """Records the largest logit and the entropy of each attention layer.

    It sees ``scaled_dot_product_attention``, ``nn.MultiheadAttention`` and, in modules whose name says
    attention, ``softmax`` over the last axis, as in the eager attention of transformers. In the first forward
    pass in training mode of a sampled step it records:

    - ``attention/LAYER/logit_max``: the largest scaled logit of a key that a query can see.
    - ``attention/LAYER/entropy``: the entropy of the weights over the logarithm of the number of keys that
      the query can see, as the mean over queries and heads: 1 is uniform, 0 is a single key.
    - ``attention/LAYER/entropy_min``: the same for the head with the lowest entropy.

    Kernels with other names, such as flash-attn's own functions and flex_attention, are not seen, and neither
    are models compiled by ``torch.compile``: nothing is recorded for them.

    Args:
        model: The model, as it is called.
        every_n_steps: Distance between samples.
        examples: Number of examples of a batch to look at, beginning with the first.
        queries: Number of queries of each example to look at, evenly spaced.
    """

    what = "attention statistics"
    hint = "it is measured by attention_statistics(logits) of stepscope.integrations.torch.attention too"

    def __init__(
        self, model: nn.Module, *, every_n_steps: int = 50, examples: int = 4, queries: int = 64
    ) -> None:
        self._model, self._every = model, max(every_n_steps, 1)
        self._examples, self._queries = max(examples, 1), max(queries, 1)
        self._names = {id(module): clean(name) for name, module in model.named_modules()}
        self._handles: list[Any] = []
        self._calls: AttentionCalls | None = None
        self._seen = False
        self._run: Run

    def begin(self, run: Run) -> None:
        """Know the run."""
        self._run = run
        if compiled(self._model):
            self._over = True
            why = "the model is compiled, its calls cannot be seen without torch._dynamo.config.disable"
            run.unmeasured(self.what, why, 0)

    def before_step(self, step: int) -> None:
        """Observe the next forward pass, if it is due."""
        if step % self._every == 0 and not self._over and self._run.role.writes:
            self._handles = [
                before_forward(self._model, self._enter),
                after_forward(self._model, self._leave, always_call=True),
            ]

    def after_step(self, step: int) -> None:
        """Record the observed calls."""
        if not self._handles:
            return
        self._release()
        calls, self._calls = self._calls, None
        if calls is None:
            return
        if calls.failed is not None:
            self._failed(calls.failed)
        self._seen = self._seen or bool(calls.layers)
        if calls.layers:
            self._run.record(calls.numbers(), step)
        elif not self._seen:
            self._failed(RuntimeError("no attention was seen in a forward pass"))

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Take the hooks off."""
        self._release()

    def _release(self) -> None:
        take_off(self._handles)
        if self._calls is not None:
            self._calls.leave()

    def _enter(self, model: nn.Module, inputs: Any) -> None:
        if self._calls is None and model.training and torch.is_grad_enabled():
            self._calls = AttentionCalls(self._names, self._examples, self._queries)
            self._calls.enter(self._model)

    def _leave(self, *_: Any) -> None:
        if self._calls is not None:
            self._calls.leave()


@dataclass
class LayerAttention:
    """Statistics of one layer in one forward pass.

    Attributes:
        largest: Logits.
        entropy: Normalized, of each head.
    """

    largest: list[Tensor] = field(default_factory=list)
    entropy: list[Tensor] = field(default_factory=list)


class AttentionCalls(TorchFunctionMode):
    """Sees the attention in a forward pass, and in which module it is called.

    Args:
        names: Of modules, by id.
        examples: Of a batch.
        queries: Of an example.
    """

    def __init__(self, names: dict[int, str], examples: int, queries: int) -> None:
        super().__init__()
        self._names, self._examples, self._queries = names, examples, queries
        self._stack: list[tuple[str, str]] = []
        self._handles: list[Any] = []
        self.layers: dict[str, LayerAttention] = {}
        self.failed: Exception | None = None

    def enter(self, model: nn.Module) -> None:
        """Begin to look."""
        for module in model.modules():
            name = self._names.get(id(module), "")
            inside = name, f"{name}.{type(module).__name__}"
            self._handles.append(before_forward(module, partial(self._push, inside)))
            self._handles.append(after_forward(module, self._pop, always_call=True))
        self.__enter__()  # type: ignore[no-untyped-call]  # no block: it ends in another hook

    def leave(self) -> None:
        """Look no more."""
        if self._handles:
            take_off(self._handles)
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def numbers(self) -> dict[str, Any]:
        """Return the observed statistics, by tag."""
        values: dict[str, Any] = {}
        for name, layer in self.layers.items():
            values[f"attention/{name}/logit_max"] = torch.stack(layer.largest).amax()
            entropy = torch.cat(layer.entropy)
            if len(entropy):
                values[f"attention/{name}/entropy"] = entropy.mean()
                values[f"attention/{name}/entropy_min"] = entropy.amin()
        return values

    def _push(self, inside: tuple[str, str], *_: Any) -> None:
        self._stack.append(inside)

    def _pop(self, *_: Any) -> None:
        if self._stack:
            self._stack.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            with torch.no_grad():
                logits = self._logits(func, args, kwargs)
                if logits is not None:
                    self._take(logits)
        except Exception as raised:  # noqa: BLE001  tensors and masks of any kind
            self.failed = raised
        return func(*args, **kwargs)

    def _logits(self, func: Any, args: Any, kwargs: Any) -> Tensor | None:
        if func is functional.scaled_dot_product_attention:
            return self._of_product(*args, **kwargs)
        if func is functional.multi_head_attention_forward:
            return self._of_module(inspect.signature(func).bind(*args, **kwargs).arguments)
        if func in SOFTMAX and self._stack and ATTENTION.search(self._stack[-1][1]):
            return self._of_softmax(*args, **kwargs)
        return None

    def _take(self, logits: Tensor) -> None:
        name = self._stack[-1][0] if self._stack else ""
        seen = self.layers.setdefault(name or "attention", LayerAttention())
        largest, entropy = attention_statistics(logits)
        seen.largest.append(largest)
        seen.entropy.append(entropy)

    def _rows(self, length: int, device: torch.device) -> Tensor:
        count = min(length, self._queries)
        return torch.linspace(0, length - 1, count, device=device).round().long()

    def _of_product(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if enable_gqa:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        rows = self._rows(query.shape[-2], query.device)
        mask = attn_mask
        if mask is not None:
            full = mask.expand((*query.shape[:-1], key.shape[-2]))
            mask = full[: self._examples, ..., rows, :] if full.ndim > 2 else full[rows]
        if query.ndim > 2:
            query, key = query[: self._examples], key[: self._examples]
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        logits = query[..., rows, :].float() @ key.float().transpose(-1, -2) * scale
        if is_causal:
            later = torch.arange(key.shape[-2], device=query.device) > rows[:, None]
            logits = logits.masked_fill(later, -math.inf)
        if mask is None:
            return logits
        return logits.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else logits + mask

    def _of_softmax(self, logits: Tensor, dim: int | None = None, *_: Any, **__: Any) -> Tensor | None:
        if logits.ndim not in (3, 4) or dim not in (-1, logits.ndim - 1) or logits.shape[-1] < 2:
            return None
        return logits[: self._examples, ..., self._rows(logits.shape[-2], logits.device), :].float()

    def _of_module(self, given: dict[str, Any]) -> Tensor:
        query, key, heads = given["query"], given["key"], given["num_heads"]
        width, weight, bias = query.shape[-1], given["in_proj_weight"], given["in_proj_bias"]
        if given.get("use_separate_proj_weight"):
            parts = given["q_proj_weight"], given["k_proj_weight"]
        else:
            parts = weight[:width], weight[width : 2 * width]
        biases = (None, None) if bias is None else (bias[:width], bias[width : 2 * width])
        shifted = []
        for tensor, one, shift in zip((query, key), parts, biases, strict=True):
            made = functional.linear(tensor, one, shift)  # L, N, E, or L, E of one example
            made = made.unsqueeze(1) if made.ndim == 2 else made
            shifted.append(made.reshape(*made.shape[:2], heads, -1).permute(1, 2, 0, 3))
        mask, padding, causal = given.get("attn_mask"), given.get("key_padding_mask"), False
        if mask is not None and mask.ndim == 3:
            mask = mask.reshape(-1, heads, *mask.shape[1:])
        bars = [additive(bias) for bias in (mask,) if bias is not None]
        if padding is not None:
            bars.append(additive(padding.reshape(-1, 1, 1, padding.shape[-1])))
        total: Tensor | None = None
        for bar in bars:
            total = bar if total is None else total + bar
        return self._of_product(shifted[0], shifted[1], shifted[1], total, is_causal=causal)


def additive(mask: Tensor) -> Tensor:
    """Return a mask of ``nn.MultiheadAttention``, in which True hides, as a term added to logits."""
    if mask.dtype != torch.bool:
        return mask.float()
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -math.inf)


def attention_statistics(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest logit, and each head's mean entropy over that of uniform attention.

    A key whose logit is below -9,000 is one that its query may not see. Queries that see fewer than two keys
    have no entropy. Zhai et al. 2023 (arXiv 2303.06296) watch the entropy, Dehghani et al. 2023
    (arXiv 2302.05442) and Wortsman et al. 2023 (arXiv 2309.14322) the largest logit.

    Args:
        logits: Scaled, with masks added: [..., heads, queries, keys], or [queries, keys] of one head.
    """
    logits = logits.float()
    seen = logits > MASKED
    largest = torch.where(seen, logits, -math.inf).amax()
    shares = torch.where(seen, logits, -math.inf).log_softmax(-1)
    entropy = -torch.where(seen, shares.exp() * shares, 0.0).sum(-1)
    keys = seen.sum(-1)
    counted = keys > 1
    normed = torch.where(counted, entropy / keys.clamp_min(2).log(), 0.0)
    if logits.ndim < 3:
        normed, counted = normed[None], counted[None]
    rest = [at for at in range(normed.ndim) if at != normed.ndim - 2]
    total = counted.sum(rest)
    heads = normed.sum(rest) / total.clamp_min(1)
    return largest, heads[total > 0]
