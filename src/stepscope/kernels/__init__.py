"""The compiled loops: typed columns in, typed columns out.

Each module is Cython in pure-Python mode. A build compiles it next to its source; without that the same
source runs as plain Python, rightly but slowly, and says so once.
"""

from __future__ import annotations

import warnings
from types import ModuleType


def warn_if_uncompiled(module: ModuleType) -> None:
    """Say once that a kernel runs as plain Python."""
    if not str(module.__file__).endswith((".so", ".pyd")):
        warnings.warn(
            f"{module.__name__} is not compiled and runs some hundred times slower; "
            "run 'python hatch_build.py kernels' in the checkout, or install a wheel",
            RuntimeWarning,
            stacklevel=3,
        )
