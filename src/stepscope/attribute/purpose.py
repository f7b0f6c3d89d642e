"""The purposes of time in a step, and the ways in which they are known.

A purpose is a leaf of one tree. Each level is a projection of the one below: :data:`BRANCH_OF` gives the
branch of each leaf, and every other vocabulary of the package is a table from leaves and kinds of events.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from stepscope.trace.model import Kind


class Branch(IntEnum):
    """A branch of the tree under the step."""

    UNKNOWN = 0
    MODEL = 1
    DATA = 2
    EXCHANGE = 3
    BESIDE = 4  # what the program does beside training
    WAIT = 5


class Purpose(IntEnum):
    """The purpose of an event, a leaf of the tree."""

    UNKNOWN = 0
    # the model
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    GRADIENTS = 4  # clipping, scaling and checking them
    # data
    LOADING = 5  # waiting for the loader
    PREPROCESSING = 6  # preparing it on this thread
    COPYING = 7  # to the device
    # exchange between ranks
    COLLECTIVE = 8
    POINT_TO_POINT = 9
    PARAMETER_SERVER = 10
    # beside the training
    COMPILING = 11
    EVALUATING = 12
    SAVING = 13
    LOGGING = 14
    PROFILING = 15  # the profiler's own work
    COLLECTING = 16  # garbage
    # waiting
    WAITING_DEVICE = 17
    WAITING_THREAD = 18  # a lock, a queue, another process, or sleep
    WAITING_STORAGE = 19


BRANCH_OF = np.array(
    [Branch.UNKNOWN]
    + [Branch.MODEL] * 4
    + [Branch.DATA] * 3
    + [Branch.EXCHANGE] * 3
    + [Branch.BESIDE] * 6
    + [Branch.WAIT] * 3,
    np.int32,
)
"""The :class:`Branch` of each :class:`Purpose`."""

WORDS = {
    Purpose.GRADIENTS: "clipping and scaling gradients",
    Purpose.PREPROCESSING: "preparing data",
    Purpose.COMPILING: "compiling",
    Purpose.EVALUATING: "evaluating",
    Purpose.SAVING: "saving",
    Purpose.LOGGING: "logging",
    Purpose.PROFILING: "profiling",
    Purpose.COLLECTING: "collecting garbage",
    Purpose.WAITING_DEVICE: "waiting for the device",
    Purpose.WAITING_THREAD: "waiting for a thread or a timer",
    Purpose.WAITING_STORAGE: "reading and writing files",
}
"""Purposes that no part of a step has the name of, as people read them."""


class Source(IntEnum):
    """How a purpose is known, the weakest first."""

    NONE = 0
    POSITION = 1  # where in the step the event lies
    THREAD = 2  # the name of its thread
    NAME = 3  # the name of an operator, a call or a kernel
    STACK = 4  # a frame of Python
    LINK = 5  # autograd's own links and names
    RECORDED = 6  # an annotation, or the kind that the recorder gave


SOURCE_OF_KIND = np.full(max(Kind) + 1, Source.NAME, np.int32)
"""How a name of an event of each :class:`~stepscope.trace.model.Kind` makes its purpose known."""
SOURCE_OF_KIND[Kind.PYTHON_FRAME] = Source.STACK
SOURCE_OF_KIND[[
    Kind.ANNOTATION, Kind.MODULE_SCOPE, Kind.DATA_LOADING, Kind.OVERHEAD, Kind.COLLECTIVE, Kind.SEND_RECV,
]] = Source.RECORDED  # fmt: skip
