"""The category that colours a span: the same categories in every bar, lane and flame."""

from __future__ import annotations

from typing import get_args

import numpy as np
import numpy.typing as npt

from stepscope.attribute.attribution import attribution
from stepscope.attribute.purpose import BRANCH_OF, Branch, Purpose
from stepscope.serve.profiles.types import Category
from stepscope.trace.model import Kind, Trace

CATEGORIES: tuple[Category, ...] = get_args(Category)
_NUMBER = {name: number for number, name in enumerate(CATEGORIES)}
_OF_KIND: dict[Kind, Category] = {
    Kind.HOST_OP: "host", Kind.PYTHON_FRAME: "host", Kind.MODULE_SCOPE: "host", Kind.ANNOTATION: "host",
    Kind.RUNTIME_CALL: "runtime", Kind.KERNEL: "compute", Kind.MEMCPY: "copy", Kind.MEMSET: "copy",
    Kind.COLLECTIVE: "collective", Kind.SEND_RECV: "collective", Kind.DATA_LOADING: "loading",
    Kind.STEP: "step", Kind.SYNC: "wait", Kind.OVERHEAD: "other", Kind.OTHER: "other",
}  # fmt: skip
_OF_PURPOSE: dict[Purpose, Category] = {
    Purpose.LOADING: "loading", Purpose.FORWARD: "forward", Purpose.BACKWARD: "backward",
    Purpose.OPTIMIZER: "optimizer",
}  # fmt: skip
_WAITS = (Kind.RUNTIME_CALL, Kind.PYTHON_FRAME)


def categories(trace: Trace) -> npt.NDArray[np.uint8]:
    """Return the category of every event, as its number.

    Kernels take the colour of their purpose. So do operators of a rank without a device: there they are the
    work itself. What waits has the colour of waiting.
    """
    table = np.zeros(256, np.uint8)
    for kind, name in _OF_KIND.items():
        table[kind] = _NUMBER[name]
    category = table[trace.kind]
    purpose = attribution(trace).purpose
    with_device = np.unique(trace.rank[trace.device_work()])
    work = trace.kind == Kind.KERNEL
    work |= np.isin(trace.kind, (Kind.HOST_OP, Kind.MODULE_SCOPE)) & ~np.isin(trace.rank, with_device)
    for one, name in _OF_PURPOSE.items():
        category[work & (purpose == one)] = _NUMBER[name]
    category[(BRANCH_OF[purpose] == Branch.WAIT) & np.isin(trace.kind, _WAITS)] = _NUMBER["wait"]
    return category
