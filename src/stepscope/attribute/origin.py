"""Whose code a frame of Python is, by where its file lies.

A capture records where the code of its process lay (:class:`~stepscope.trace.sampled.Places`): that decides.
Without it a path decides: a folder of packages, the standard library's, or else the user's. Kineto shortens
paths to those within such a folder, so their first part is the name of a package; XPlane gives the names of
files alone. The names of packages, and of the files of frameworks whose profiles are XPlane's, are then
compared with those of common distributions (``distributions.txt``, made by ``scripts/distributions.py``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, lru_cache
from pathlib import Path

from stepscope.trace.model import Kind, Trace
from stepscope.trace.sampled import Places, places_of

_FORMS = (
    re.compile(r"^\$?(?P<file>[^\s():]*\.py)\((?P<line>\d+)\): (?P<function>.+)$"),
    re.compile(r"^(?P<file><[\w -]+>)\((?P<line>\d+)\): (?P<function>.+)$"),
    re.compile(r"^\$(?P<file>[^\s():]+):(?P<line>\d+) (?P<function>.+)$"),
    re.compile(r"^(?P<function>.+) \((?P<file>[^()]+\.py):(?P<line>\d+)\)$"),
)
_LIBRARY = re.compile(r"(^|/)(site-packages|dist-packages|\.?venv[^/]*)/")
"""Folders of installed packages, and of environments."""
_PACKAGE = re.compile(r"(?:^|/)(?:site|dist)-packages/([^/(]+)")
_FOLDER = re.compile(r"(?:^|/)(?:site|dist)-packages/([^(]+)/[^/(]+\(")
_INTERPRETER = re.compile(r"^<|/lib(64)?/python\d|(^|/)python\d[.\d]*/|(^|/)lib/python")
_WRITTEN = re.compile(r"/__autograph_generated_file\w*\.py$|/torchinductor_[^/]+/")
"""Files that compilers write: nobody's lines to change."""
_TYPED = re.compile(r"^<(?:stdin|string|python-input-\d+|ipython-input-[\w-]+|console|cell[\w ]*)>$")
"""Files of code that somebody typed: at a prompt, after ``python -c``, in a cell."""
_GENERATED = re.compile(r"^__\w+__$")
"""Methods that dataclasses and the like write, also into a file called <string>."""
_GENERATED_OPERATIONS = re.compile(r"^gen_\w+_ops$")
"""Files that TensorFlow generates for its operations while it is built, such as ``gen_math_ops.py``."""


class Origin(IntEnum):
    """Whose code a frame is."""

    UNKNOWN = 0  # no frame of a file
    USER = 1
    LIBRARY = 2  # an installed package, a framework's included
    INTERPRETER = 3  # Python's own, or written by a compiler
    PROFILER = 4  # ours


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


@cache
def _listed() -> tuple[frozenset[str], frozenset[str]]:
    packages, files = (Path(__file__).parent / "distributions.txt").read_text().split("\n\n")
    return frozenset(packages.split()), frozenset(files.split())


@dataclass(frozen=True)
class Origins:
    """Decides whose code frames are.

    Args:
        places: Where the process's code lay, None if that was not recorded.
        directory: The directory in which the program was started, ``""`` if unknown: code there is the
            user's.
        scripts: Files that ran as the program itself, as they are recorded.
    """

    places: Places | None = None
    directory: str = ""
    scripts: frozenset[str] = frozenset()
    _known: dict[str, Origin] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, name: str) -> Origin:
        """Return the origin of a frame by its name."""
        if name not in self._known:
            line = line_of(name)
            self._known[name] = Origin.UNKNOWN if line is None else self._of_line(line, name.startswith("$"))
        return self._known[name]

    def is_own(self, name: str) -> bool:
        """Return whether a frame is of the user's own code."""
        return self.of(name) == Origin.USER

    def _of_line(self, line: SourceLine, bare: bool) -> Origin:
        file = line.file
        if _TYPED.match(file):
            return Origin.INTERPRETER if _GENERATED.match(line.function) else Origin.USER
        if file.startswith("stepscope/"):
            return Origin.PROFILER
        if _WRITTEN.search(file):
            return Origin.INTERPRETER
        if _LIBRARY.search(file):
            return Origin.LIBRARY
        if file in self.scripts or (self.directory and file.startswith(f"{self.directory}/")):
            return Origin.USER
        if _INTERPRETER.search(file):
            return Origin.INTERPRETER
        if file.startswith("/"):
            folders = self.places.folders if self.places is not None else ()
            return Origin.LIBRARY if file.startswith(folders) and folders else Origin.USER
        return self._of_short(file, bare)

    def _of_short(self, file: str, bare: bool) -> Origin:
        """Return the origin of a file whose folder was cut off."""
        first, _, rest = file.partition("/")
        name = first.removesuffix(".py")
        if self.places is not None:
            if any(path.endswith(f"/{file}") for path in self.places.own):
                return Origin.USER
            if name in self.places.installed or (bare and not rest):
                return Origin.INTERPRETER if name in sys.stdlib_module_names else Origin.LIBRARY
        packages, files = _listed()
        if rest and name in packages:
            return Origin.LIBRARY
        if name in sys.stdlib_module_names:
            return Origin.INTERPRETER
        known = bare and not rest and (name in files or _GENERATED_OPERATIONS.match(name))
        return Origin.LIBRARY if known else Origin.USER


def package_of(name: str) -> str:
    """Return the installed package whose code a frame is, by its path; ``""`` if that does not tell."""
    match = _PACKAGE.search(name)
    return match[1] if match else ""


def folder_of(name: str) -> str:
    """Return the folder of an installed package in which a frame's file lies; ``""`` as above."""
    match = _FOLDER.search(name)
    return match[1] if match else ""


def origins(trace: Trace) -> Origins:
    """Return what decides whose code the frames of a trace are; it is made once."""
    return trace.derived("origins", lambda: _of_trace(trace))


def _of_trace(trace: Trace) -> Origins:
    outermost = (trace.kind == Kind.PYTHON_FRAME) & (trace.parent < 0)
    names = {trace.strings[number] for number in set(trace.name[outermost].tolist())}
    stacks = trace.stacks
    beside = {stacks.strings[number] for number in set(stacks.name[stacks.parent < 0].tolist())}
    return Origins(places_of(trace), scripts=scripts_of(names | beside))


def scripts_of(outermost: Iterable[str]) -> frozenset[str]:
    """Return the files whose whole code is an outermost frame: they ran as the program itself."""
    lines = (line_of(name) for name in outermost)
    return frozenset(line.file for line in lines if line is not None and line.function == "<module>")
