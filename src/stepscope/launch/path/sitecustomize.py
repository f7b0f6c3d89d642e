"""Loaded by each Python process under ``stepscope run``, from PYTHONPATH; it must be quick and never fail.

It imports nothing but what Python has loaded at this point. Another ``sitecustomize``, which this one
hides, is loaded first.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
_GIVEN = {name: os.environ[name] for name in os.environ if name.startswith("STEPSCOPE_")}
_SESSION = _GIVEN.get("STEPSCOPE_RUN_SESSION", "")
WATCHED = {
    "torch": "pytorch",
    "torch._dynamo.callback": "compiling",
    "torch.utils.tensorboard": "trackers",
    "tensorboardX": "trackers",
    "tensorboard.plugins.scalar.summary_v2": "trackers",
    "flax.metrics.tensorboard": "trackers",
    "wandb.sdk.wandb_run": "trackers",
    "trackio.run": "trackers",
    "swanlab.sdk.internal.run": "trackers",
    "mlflow.tracking.fluent": "trackers",
    "mlflow.tracking.client": "trackers",
    "comet_ml.experiment": "trackers",
    "aim.sdk.run": "trackers",
    "clearml.logger": "trackers",
    "dvclive.live": "trackers",
    "accelerate.data_loader": "accelerated",
    "lightning.pytorch.trainer.trainer": "lightning",
    "pytorch_lightning.trainer.trainer": "lightning",
    "transformers.trainer": "transformers",
    "keras": "keras",
    "tf_keras": "keras",
    "jax": "jax",
    "tensorflow": "tensorflow",
    "tqdm.std": "printed",
    "logging": "",
}
"""By module of a framework: the one of ``stepscope.launch`` whose ``install`` is called once it is loaded."""
LATE = ("tqdm.std",)
"""Modules that matter only beside a framework: a program without one imports nothing of ours."""


def _without_us() -> None:
    """Take our folder off the path: the program sees its path as it would be without us."""
    sys.path[:] = [path for path in sys.path if not path or os.path.abspath(path) != _HERE]
    from importlib.machinery import PathFinder

    hidden = PathFinder.find_spec("sitecustomize", sys.path)
    if hidden is None or hidden.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(hidden)
    sys.modules["sitecustomize"] = module
    hidden.loader.exec_module(module)


class _Home:
    """Finds the package of the command, and what only it imports, in an environment without them.

    Compiled modules are those of one version of Python: in any other nothing is found.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        version, *places = _GIVEN.get("STEPSCOPE_RUN_HOME", "").split(os.pathsep)
        if path is not None or version != sys.implementation.cache_tag:
            return None
        if name == "stepscope":
            from importlib.util import spec_from_file_location

            first = os.path.join(_PACKAGE, "__init__.py")
            return spec_from_file_location(name, first, submodule_search_locations=[_PACKAGE])
        frame = sys._getframe(1)
        while frame.f_back is not None and "importlib" in frame.f_globals.get("__name__", "importlib"):
            frame = frame.f_back
        if not frame.f_globals.get("__name__", "").startswith("stepscope."):
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, places)


class _Loader:
    """Loads a module as its own loader does, and then calls what observes it."""

    def __init__(self, loader: Loader, name: str) -> None:
        self._loader, self._name = loader, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _observe(self._name, module)


class _Signs(dict[int, "int | None"]):
    """Leaves letters alone in a text: bars and tables are drawn with all other signs."""

    def __missing__(self, code: int) -> int | None:
        self[code] = left = code if chr(code).isalpha() else None
        return left


class _Lines:
    """Looks at what a program without a framework prints, logs or writes, as long as that takes little time.

    Of lines whose words are the same, as a training prints them, ``SAME`` are kept. Then they and
    all further ones go to ``stepscope.launch.plain``, which is loaded for them.
    """

    SAME, KEPT = 3, 64
    """How often a line must come before it counts as one of a training, and how many lines wait for that: the
    names of a table's columns stand before its values.
    """
    SHARE, CREDIT, LOOK_SECS = 0.02, 2.0, 0.001
    """The share of the time that the looks may take, the seconds for which it may be saved, and the most
    seconds that a look counts: those that load something are rare.
    """
    LONGEST, MOST_ITEMS = 400, 20
    """Characters of a line, as in ``stepscope.launch.lines``, and items of a printed collection: its text is
    made a second time here.
    """
    MOST_SKIPPED = 100_000
    """Lines that came too fast to be looked at, after which a program that does not train is left alone."""

    def __init__(self) -> None:
        import builtins
        from _thread import allocate_lock
        from time import monotonic

        self._builtins, self._now, self._lock = builtins, monotonic, allocate_lock()
        self._pid = os.getpid()
        self._digits = {ord(digit): None for digit in "0123456789.+-e"}
        self._signs = _Signs()
        self._shapes: dict[str, int] = {}
        self._kept: list[str] = []
        self.take: Callable[[str], None] | None = None
        """Takes the lines; None until some come as those of a training do, or a framework is loaded."""
        self.told: Any = None
        """The object of ``stepscope.launch.plain`` that takes the lines; None while it is not loaded."""
        self.bare = builtins.print
        self._streams: list[tuple[Any, Callable[..., Any], Callable[[], None]]] = []
        self.print = self._watched()
        builtins.print = self.print

    def _watched(self) -> Callable[..., None]:
        now, look, call = self._now, self._look, self.bare
        rest, skipped = 0.0, 0
        prints = False

        def aside(call: Callable[..., None], *arguments: Any) -> None:
            nonlocal prints
            before, prints = prints, True
            try:
                call(*arguments)
            finally:
                prints = before

        def print(*values: Any, **options: Any) -> None:  # noqa: A001  replaces the function of this name
            nonlocal skipped, prints
            before, prints = prints, True
            try:
                call(*values, **options)
            finally:
                prints = before
            if now() < rest:
                skipped += 1
            else:
                look(values, options.get("file"))

        def watch(stream: Any) -> None:
            original = getattr(stream, "write", None)
            if original is None or not hasattr(stream, "__dict__"):
                return

            left = False

            def leave() -> None:
                nonlocal left
                left = True
                del stream.write

            def write(text: Any) -> Any:
                nonlocal skipped, left
                if left:
                    # The program has kept this one, as csv.writer does: pass the text to what watches the
                    # stream now. If that calls this one again, the stream itself writes.
                    left = False
                    try:
                        return stream.write(text)
                    finally:
                        left = True
                result = original(text)
                if prints:
                    return result
                if now() < rest:
                    skipped += 1
                else:
                    look((text,))
                return result

            stream.write = write
            self._streams.append((stream, write, leave))

        watch(sys.stdout)
        watch(sys.stderr)

        def pause(until: float) -> None:
            nonlocal rest
            rest = until

        def replace(by: Callable[..., None]) -> None:
            nonlocal call
            call = by

        self.pause, self.replace, self.aside = pause, replace, aside
        self.rest: Callable[[], float] = lambda: rest
        self.skipped: Callable[[], int] = lambda: skipped
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(print, name, getattr(self.bare, name))
        print.stepscope = self  # type: ignore[attr-defined]
        return print

    def _look(self, values: Sequence[Any], file: Any = None) -> None:
        """Look at a line; whatever goes wrong here, the program goes on."""
        if file not in (None, sys.stdout, sys.stderr) or not self._lock.acquire(False):
            return
        begun = self._now()
        try:
            listing = self.skipped() > self.MOST_SKIPPED and not (self.told and self.told.leads)
            if os.getpid() != self._pid or listing:
                self.off()
            else:
                self._line(" ".join(map(self._text, values)))
        except Exception:  # noqa: BLE001  the program's own objects
            self.off()
        finally:
            spent = min(self._now() - begun, self.LOOK_SECS)
            self.pause(max(self.rest(), begun - self.CREDIT) + spent / self.SHARE)
            self._lock.release()

    def off(self) -> None:
        """Look at nothing any more."""
        self.leave_streams()
        if self._builtins.print is self.print:
            self._builtins.print = self.bare

    def leave_streams(self) -> None:
        """Give the streams their own ``write`` back, unless somebody else has replaced it since."""
        self.pause(float("inf"))
        for stream, write, leave in self._streams:
            if stream.__dict__.get("write") is write:
                leave()
        self._streams.clear()

    def _text(self, value: Any) -> str:
        if type(value) is str:
            return value
        try:
            return str(value) if not hasattr(value, "__len__") or len(value) <= self.MOST_ITEMS else ""
        except TypeError:  # an array without dimensions
            return str(value)

    def _line(self, text: str) -> None:
        if len(text) > self.LONGEST:
            return
        if self.take is not None:
            self.take(text)
            return
        shape = text.translate(self._digits)
        self._kept.append(text)
        if len(self._kept) > self.KEPT:
            del self._kept[0]
        if shape == text or "." not in text or not (shape := shape.translate(self._signs)):
            return
        if len(self._shapes) > self.KEPT:
            self._shapes.clear()
        self._shapes[shape] = times = self._shapes.get(shape, 0) + 1
        if times >= self.SAME:
            self.take = self._taker()
            for line in self._kept if self.take is not None else ():
                self.take(line)
            self._kept.clear()

    def _taker(self) -> Callable[[str], None]:
        from importlib import import_module

        try:
            self.told = import_module("stepscope.launch.plain").Told(_GIVEN, self.skipped)
        except ImportError as error:
            _say_missing("what is printed", error)
            raise
        told = self.told

        def take(text: str) -> None:
            for line in text.splitlines():
                told.line(line)
            if told.over:
                self.off()

        return take

    def logged(self, module: ModuleType) -> None:
        """Also look at what is logged, in the call: what the handlers write of it tells nothing more.

        Args:
            module: ``logging``.
        """
        handle = module.Logger.handle
        usual = {*vars(module.makeLogRecord({})), "message", "asctime"}

        def handled(logger: Any, record: Any) -> None:
            self.aside(handle, logger, record)
            if self._now() < self.rest() or record.levelno < module.INFO:
                return
            try:
                text = record.getMessage()
            except Exception:  # noqa: BLE001  arguments that do not fit, which the handlers have reported
                return
            extra = [f"{name}={value}" for name, value in vars(record).items() if name not in usual]
            self._look((text if not extra else f"{text}\n{', '.join(extra)}",))

        handled.__wrapped__ = handle  # type: ignore[attr-defined]
        module.Logger.handle = handled


class _Finder:
    """Notices the imports of frameworks."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in WATCHED or name in self._looking:
            return None
        from importlib.util import find_spec

        self._looking.add(name)
        try:
            spec = find_spec(name)
        except (ImportError, ValueError, AttributeError):
            return None
        finally:
            self._looking.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, name)  # type: ignore[assignment]
        return spec


def _observe(name: str, module: ModuleType) -> None:
    """Have the module for a framework observe it; whatever goes wrong there, the program goes on."""
    if name == "logging":
        _lines.logged(module)
        return
    if name in LATE and "stepscope.launch." + WATCHED[name] not in sys.modules:
        return
    try:
        from importlib import import_module

        import_module("stepscope.launch.process").process.given(_GIVEN)
        import_module("stepscope.launch." + WATCHED[name]).install(module)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        _say_missing(name, error)


def _say_missing(name: str, error: BaseException) -> None:
    cure = ""
    if isinstance(error, ImportError):  # the command's Stepscope, which is built for its own Python
        cure = f"; {sys.executable} -m pip install stepscope"
    _say(f"{name} is not observed: {type(error).__name__}: {error}{cure}")


def _say(text: str) -> None:
    """Leave a line for the card, which the command prints at the end."""
    try:
        with open(os.path.join(_SESSION, "said"), "a", encoding="utf-8") as file:
            file.write(text.replace("\n", " ") + "\n")
    except OSError:
        pass


_lines: _Lines


def _begin() -> None:
    global _lines
    number = os.getpid()
    with open(os.path.join(_SESSION, f"python-{number}"), "w", encoding="utf-8"):
        pass
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_Home)
    _lines = _Lines()


try:
    _without_us()
finally:
    if _SESSION and os.path.isdir(_SESSION):
        try:
            _begin()
        except OSError:
            pass
