"""Variables and tensors of any backend as numpy arrays."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray


def array(value: Any) -> NDArray[Any]:
    """Return a variable, a tensor or a number as an array; this waits for its device."""
    if not hasattr(keras, "ops"):
        return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if isinstance(value, keras.Variable):
        value = value.value
    if hasattr(value, "detach"):  # Keras's own conversion of torch tensors makes numpy 2 warn
        value = value.detach().cpu()
        return np.asarray((value.float() if value.dtype.itemsize == 2 else value).numpy())
    return np.asarray(keras.ops.convert_to_numpy(value))


def number(value: Any) -> float:
    """Return a variable or tensor of one element as a number."""
    return float(array(value).reshape(()))
