"""Integrations with the frameworks: the only place that imports one, and only the one that is needed.

``from stepscope.integrations.torch import watch``: a package or module per framework, loaded on first use.
"""

from __future__ import annotations

from stepscope import lazy

FRAMEWORKS = ("accelerate", "jax", "keras", "lightning", "tensorflow", "torch", "transformers")

__getattr__, __dir__ = lazy.names(__name__, dict.fromkeys(FRAMEWORKS, ""))
