"""Loaded by each Python process under ``stepscope run``, from PYTHONPATH; it must be quick and never fail.

It imports nothing but what Python has loaded at this point. Another ``sitecustomize``, which this one
hides, is loaded first.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
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
    if name in LATE and "stepscope.launch." + WATCHED[name] not in sys.modules:
        return
    try:
        from importlib import import_module

        import_module("stepscope.launch.process").process.given(_GIVEN)
        import_module("stepscope.launch." + WATCHED[name]).install(module)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
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


def _begin() -> None:
    number = os.getpid()
    with open(os.path.join(_SESSION, f"python-{number}"), "w", encoding="utf-8"):
        pass
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_Home)


try:
    _without_us()
finally:
    if _SESSION and os.path.isdir(_SESSION):
        try:
            _begin()
        except OSError:
            pass
