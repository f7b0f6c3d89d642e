"""Makes ``import torch.utils.tensorboard`` and ``import tensorboardX`` find the stand-ins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from stepscope.version import __version__

_TORCH, _TENSORBOARDX = "torch.utils.tensorboard", "tensorboardX"
_WRITERS = {
    _TORCH: ("FileWriter", "SummaryWriter"),
    _TENSORBOARDX: ("FileWriter", "GlobalSummaryWriter", "SummaryWriter"),
}
"""By package that is replaced: the names that replace the package's."""
_NEEDED = {_TORCH: "tensorboard", _TENSORBOARDX: "google.protobuf"}
"""Names that a package's own modules import: ``summary`` is the original's if it is installed."""
_ELSEWHERE = {"RecordWriter": "record_writer", "TorchVis": "torchvis"}
"""Names of the originals that have no stand-in, and the original modules that hold them."""


class StandIns(MetaPathFinder, Loader):
    """Finds the stand-ins by the names of the originals; their other modules are found as usual."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the origin of a module; None if it has no stand-in."""
        package = next((name for name in _WRITERS if fullname.startswith(name)), None)
        rest = fullname.removeprefix(package or "")
        if package is None or rest not in ("", ".writer", ".summary"):
            return None
        original = PathFinder.find_spec(fullname, path)
        if rest == ".summary" and original is not None and _there(_NEEDED[package]):
            return None
        spec = ModuleSpec(fullname, self, origin=__file__, is_package=not rest)
        if not rest and original is not None:
            spec.submodule_search_locations = original.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the names into a module."""
        package = next(name for name in _WRITERS if module.__name__.startswith(name))
        if module.__name__ == f"{package}.summary":
            module.__dict__["hparams"] = _hparams
            return
        names, ours = _WRITERS[package], import_module("stepscope.compat.writer")
        module.__dict__.update({name: getattr(ours, name) for name in names})
        if module.__name__ == package:
            module.__dict__["__all__"] = [*names]
            module.__dict__["__version__"] = _version(package)
            module.__dict__["__getattr__"] = _elsewhere(package)


_finder = StandIns()


def install() -> None:
    """Make imports of ``torch.utils.tensorboard`` and ``tensorboardX`` find the stand-ins from now on.

    For loggers of other projects, which import the originals themselves: Lightning's ``TensorBoardLogger``,
    Ray Tune's ``TBXLoggerCallback``, Accelerate's tracker, the Trainer's ``TensorBoardCallback``. Call it
    before they are imported: a name that is already bound to an original keeps that meaning. Every process
    that writes calls it, or the program is started as ``python -m stepscope.compat train.py``. It imports
    nothing by itself; a second call does nothing.
    """
    if _finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _finder)
    for name in [name for package in _WRITERS for name in (package, f"{package}.writer")]:
        if sys.modules.pop(name, None) is not None:
            import_module(name)  # also binds it in the package around it


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _version(package: str) -> str:
    """Return the version of the original, ours if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package.partition(".")[0])
    except PackageNotFoundError:
        return __version__


def _elsewhere(package: str) -> Callable[[str], Any]:
    def get(name: str) -> Any:
        if name not in _ELSEWHERE:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{package}.{_ELSEWHERE[name]}"), name)
        except ModuleNotFoundError as error:
            raise AttributeError(f"{package}.{name} is the original's own, and {error}") from error

    return get


def _hparams(hparam_dict: Any, metric_dict: Any, hparam_domain_discrete: Any = None) -> tuple[Any, ...]:
    """Return the records of the experiment, of its session's beginning and of its end.

    This is ``hparams`` of the module ``summary``, in case the original cannot be imported.
    """
    from stepscope.compat import hyper
    from stepscope.events.messages import Summary
    from stepscope.events.wire import encode

    values = hyper.records(hparam_dict, metric_dict, hparam_domain_discrete or {})
    return tuple(encode(Summary([value])) for value in values)
