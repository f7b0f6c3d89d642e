"""Which line of the user's own code some time of a thread belongs to.

Recorders write Python frames in four ways: ``train.py(31): fetch`` (PyTorch), ``$train.py:31 fetch``
(XPlane),
``fetch (train.py:31)`` (viztracer, sampled) and, as a stack beside an operator, a chain of the first. The
line
is the one that the recorder gives: PyTorch gives the line at which the function begins.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stepscope.attribute.library_files import is_library_file
from stepscope.attribute.named import of_names
from stepscope.attribute.spans import Ints, Spans
from stepscope.kernels import tree
from stepscope.trace.model import Kind, Trace

_FORMS = (
    re.compile(r"^\$?(?P<file>[^\s():]*\.py)\((?P<line>\d+)\): (?P<function>.+)$"),
    re.compile(r"^(?P<file><[\w -]+>)\((?P<line>\d+)\): (?P<function>.+)$"),
    re.compile(r"^\$(?P<file>[^\s():]+):(?P<line>\d+) (?P<function>.+)$"),
    re.compile(r"^(?P<function>.+) \((?P<file>[^()]+\.py):(?P<line>\d+)\)$"),
)
_INSTALLED = re.compile(
    r"(^|/)(site-packages|dist-packages)/|/lib(64)?/python\d|^<|(^|/)python\d[.\d]*/|(^|/)lib/python"
    # What compilers write is nobody's line to change.
    r"|/__autograph_generated_file\w*\.py$|/torchinductor_[^/]+/"
)
_TYPED = re.compile(r"^<(?:stdin|string|python-input-\d+|ipython-input-[\w-]+|console|cell[\w ]*)>$")
"""Files of code that somebody typed: at a prompt, after ``python -c``, in a cell."""
_GENERATED = re.compile(r"^__\w+__$")
"""Methods that dataclasses and the like write, also into a file called <string>."""
_LIBRARIES = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "torchtext",
        "functorch",
        "torchgen",
        "triton",
        "torchao",
        "torchrec",
        "fbgemm_gpu",
        "jax",
        "jaxlib",
        "flax",
        "optax",
        "orbax",
        "chex",
        "haiku",
        "keras",
        "tf_keras",
        "tensorflow",
        "tensorboard",
        "tensorboardX",
        "numpy",
        "scipy",
        "pandas",
        "polars",
        "pyarrow",
        "PIL",
        "cv2",
        "skimage",
        "sklearn",
        "matplotlib",
        "transformers",
        "accelerate",
        "datasets",
        "tokenizers",
        "peft",
        "trl",
        "diffusers",
        "lightning",
        "lightning_fabric",
        "lightning_utilities",
        "pytorch_lightning",
        "torchmetrics",
        "deepspeed",
        "apex",
        "megatron",
        "fairscale",
        "xformers",
        "flash_attn",
        "flashinfer",
        "vllm",
        "bitsandbytes",
        "wandb",
        "mlflow",
        "comet_ml",
        "aim",
        "tqdm",
        "rich",
        "fsspec",
        "requests",
        "urllib3",
        "yaml",
        "msgpack",
        "msgspec",
        "cloudpickle",
        "joblib",
        "dask",
        "ray",
        "grain",
        "absl",
        "einops",
        "timm",
        "albumentations",
        "kornia",
        "stepscope",
        "pyinstrument",
        "viztracer",
        "IPython",
        "ipykernel",
        "tornado",
        "traitlets",
        "hydra",
        "omegaconf",
        "fire",
        "click",
        "typer",
        "pydantic",
        "filelock",
        "safetensors",
        "sympy",
        "networkx",
        "onnx",
        "onnxruntime",
        "h5py",
        "tables",
        "zarr",
        "webdataset",
        "tfds",
        "ml_collections",
        "etils",
    ]
)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A place in code.

    Attributes:
        file: As recorded.
        line: Its number.
        function: Its name.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


@lru_cache(maxsize=65536)
def line_of(name: str) -> SourceLine | None:
    """Return the place that a frame's name gives, None if it is not a frame of a file."""
    for form in _FORMS:
        if match := form.match(name):
            return SourceLine(match["file"], int(match["line"]), match["function"])
    return None


@lru_cache(maxsize=65536)
def is_own(name: str) -> bool:
    """Return whether a frame's name is of the user's own code: no installed package, no standard library."""
    line = line_of(name)
    if line is not None and _TYPED.match(line.file):
        return not _GENERATED.match(line.function)
    if line is None or _INSTALLED.search(line.file):
        return False
    parts = line.file.strip("/").split("/")
    if name.startswith("$") and len(parts) == 1 and is_library_file(parts[0]):
        return False
    first = parts[0].removesuffix(".py")
    if first in _LIBRARIES or any(part in _LIBRARIES for part in parts[:-1]):
        return False
    # A relative path whose first part is a module of the standard library, as PyTorch shortens paths.
    return line.file.startswith("/") or not (
        first in sys.stdlib_module_names and (len(parts) > 1 or first not in _OWN_NAMES)
    )


_OWN_NAMES = frozenset({"test", "this", "code", "profile", "main"})
"""Modules of the standard library whose names programs use."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of some time a line accounts for."""

    line: SourceLine
    time_ns: int
    rows: int
    name: str
    """As recorded, for a search."""


MOST_LINES = 8


def responsible(trace: Trace, lane: int, spans: Spans, *, most: int = MOST_LINES) -> list[Share]:
    """Return the innermost lines of the user's own code that ran on a thread in some time, most time first.

    Args:
        trace: The trace.
        lane: The thread.
        spans: The time.
        most: So many are returned.
    """
    rows = np.flatnonzero(trace.lane == lane)
    frames = rows[trace.kind[rows] == Kind.PYTHON_FRAME]
    own = frames[_own(trace)[trace.name[frames]]] if len(frames) else frames
    found = _from_frames(trace, own, spans) if len(own) else []
    return (found or _from_stacks(trace, rows, spans))[:most]


def callers(trace: Trace, rows: Ints) -> list[Share]:
    """Return the innermost lines of the user's own code around some rows, most time first."""
    own = _own(trace) if len(rows) else np.zeros(0, bool)
    names, times = [], []
    for row in rows.tolist():
        at = int(trace.parent[row])
        while at >= 0 and not (trace.kind[at] == Kind.PYTHON_FRAME and own[trace.name[at]]):
            at = int(trace.parent[at])
        if at >= 0:
            names.append(int(trace.name[at]))
            times.append(int(trace.duration_ns[row]))
    return _ranked(trace, np.array(names, np.int64), np.array(times, np.int64)) if names else []


def _own(trace: Trace) -> npt.NDArray[np.bool_]:
    return trace.derived("own lines", lambda: of_names(trace, is_own, np.bool_))


def _from_frames(trace: Trace, own: Ints, spans: Spans) -> list[Share]:
    start = trace.start_ns[own]
    covered = spans.within(start, start + trace.duration_ns[own])
    # Rows of a lane are in the order of calls, so the nearest own frame above is found by a walk over them.
    wanted = np.zeros(len(trace), np.uint8)
    wanted[own] = 1
    nearest = np.empty(len(trace), np.int32)
    tree.nearest(np.ascontiguousarray(trace.parent, np.int32), wanted, nearest)
    above = np.where(trace.parent[own] >= 0, nearest[trace.parent[own]], -1)
    exclusive = covered.copy()
    places = np.searchsorted(own, above[above >= 0])
    np.subtract.at(exclusive, places, covered[above >= 0])
    return _ranked(trace, trace.name[own], exclusive)


def _from_stacks(trace: Trace, rows: Ints, spans: Spans) -> list[Share]:
    """Use the stacks beside operators: each counts for its operator's own time."""
    known = rows[(trace.stack[rows] >= 0) & (trace.self_ns[rows] > 0)]
    if not len(known):
        return []
    start = trace.start_ns[rows]
    covered = np.zeros(len(trace), np.int64)
    covered[rows] = spans.within(start, start + trace.duration_ns[rows])
    # What lies in an operator's own part of the time: without what lies in those right within it.
    inner_rows = rows[trace.parent[rows] >= 0]
    inside = np.bincount(trace.parent[inner_rows], weights=covered[inner_rows], minlength=len(trace))
    covered = np.minimum((covered - inside.astype(np.int64))[known], trace.self_ns[known])
    known, covered = known[covered > 0], covered[covered > 0]
    own, names = _own_of_strings(trace.stacks.strings), trace.stacks.name
    inner = np.full(len(trace.stacks), -1, np.int32)
    inner[own[names]] = names[own[names]]
    tree.inherit(np.ascontiguousarray(trace.stacks.parent, np.int32), inner)
    name = inner[trace.stack[known]]
    kept = name >= 0
    return _ranked(trace, name[kept], covered[kept], trace.stacks.strings)


def _own_of_strings(strings: Sequence[str]) -> npt.NDArray[np.bool_]:
    return np.array([is_own(text) for text in strings] + [False], bool)


_MOST_RANKED = 64


def _ranked(trace: Trace, name: Ints, time: Ints, strings: Sequence[str] | None = None) -> list[Share]:
    texts = trace.strings if strings is None else strings
    total, count = np.bincount(name, weights=time), np.bincount(name, weights=time > 0)
    found = []
    for number in np.argsort(-total, kind="stable")[:_MOST_RANKED].tolist():
        line = line_of(texts[number])
        if total[number] > 0 and line is not None:
            found.append(Share(line, int(total[number]), int(count[number]), texts[number]))
    return found
