"""Statistics of gradients, weights, updates and activations: quantities, their steps, and their final form.

Nothing here knows a framework. An integration measures its tensors into a ``Table``, a ``Rounds`` adds the
tables of all ranks up, and ``Writer`` finishes and records them.
"""

from stepscope.record.statistics.hooks import ActivationHook, GradientHook

__all__ = ["ActivationHook", "GradientHook"]
