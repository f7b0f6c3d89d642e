"""PyTorch: steps of a loop of the user's own, from its loaders, its backward passes and its optimizers."""

from __future__ import annotations

import atexit
import sys
from functools import wraps
from time import perf_counter
from types import FrameType, ModuleType
from typing import Any

from stepscope.kernels.marks import timed
from stepscope.launch import printed
from stepscope.launch.loop import BY_HAND, Loop
from stepscope.launch.objective import Objective
from stepscope.launch.process import process
from stepscope.launch.sources import PRINTED
from stepscope.record import Run
from stepscope.record.card import DATA_WAIT
from stepscope.record.clock import Deadline
from stepscope.record.hooks import Hook

MAX_DEPTH = 12
"""Calls around an optimizer's step in which its model is looked for."""
OWN = "stepscope"
FURTHER = "the gradients of further models than the first; watch(model, optimizer, run) measures them"

_loops: list[Loop] = []


def loop_of(torch: ModuleType) -> Loop:
    """Return the loop of the process."""
    if not _loops:
        _loops.append(Loop(process, _starts, torch.is_grad_enabled))
    return _loops[0]


def install(torch: ModuleType) -> None:
    """Observe loaders and optimizers from now on.

    Args:
        torch: The package.
    """
    printed.install()
    loop = loop_of(torch)
    optimizer = sys.modules["torch.optim.optimizer"]
    if not hasattr(optimizer, "register_optimizer_step_pre_hook"):
        process.say(f"the steps: torch {torch.__version__} has no hooks of all optimizers, torch 2.0 has")
        return
    _watch_loaders(torch, loop)
    _watch_scalers(torch, loop)
    loop.objective = Objective(torch, loop)
    loop.objective.watch(_scaler_of(torch))
    _watch_evaluation(torch, loop)
    from stepscope.integrations.torch import backward
    from stepscope.integrations.torch.updates import Joined

    Joined(loop)
    _watch_weights(torch, optimizer.Optimizer, loop)  # hears of a pass before the loop does
    backward.listen(loop)
    atexit.register(loop.close)
    process.reasons.append(lambda: BY_HAND if loop.run is None and loop.differentiated else "")


def _watch_loaders(torch: ModuleType, loop: Loop) -> None:
    iterator = getattr(torch.utils.data.dataloader, "_BaseDataLoaderIter", None)
    original = getattr(iterator, "__next__", None)
    if iterator is None or original is None:
        process.say(f"{DATA_WAIT}: the loaders of torch {torch.__version__} are not known here")
        return
    iterator.__next__ = timed(original, loop)


def _scaler_of(torch: ModuleType) -> Any:
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler  # before torch 2.3


def _watch_scalers(torch: ModuleType, loop: Loop) -> None:
    """Count the updates that a scaler skips, too."""
    scaler = _scaler_of(torch)
    original = scaler.step

    @wraps(original)
    def step(self: Any, optimizer: Any, *arguments: Any, **options: Any) -> Any:
        before = loop.updates
        result = original(self, optimizer, *arguments, **options)
        if loop.updates == before:
            inner = getattr(optimizer, "optimizer", optimizer)
            loop.update_begins(inner)
            loop.update_ended(inner)
        return result

    scaler.step = step


def _watch_weights(torch: ModuleType, optimizer: Any, loop: Loop) -> None:
    """Notice updates by hand until the program makes an optimizer. Weights that are loaded are no update.

    Args:
        torch: The package.
        optimizer: The class of all optimizers.
        loop: Takes the updates.
    """
    from stepscope.integrations.torch import backward
    from stepscope.launch.by_hand import ByHand

    loop.by_hand = by_hand = ByHand(loop)
    backward.listen(by_hand)
    original = optimizer.__init__

    @wraps(original)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
        if loop.by_hand is not None:
            loop.by_hand = None
            backward.ignore(by_hand)
        original(self, *arguments, **options)

    optimizer.__init__ = __init__
    load = torch.nn.Module.load_state_dict

    @wraps(load)
    def load_state_dict(self: Any, *arguments: Any, **options: Any) -> Any:
        if loop.by_hand is None or process.led or process.off:
            return load(self, *arguments, **options)
        by_hand.look()
        result = load(self, *arguments, **options)
        by_hand.note()
        return result

    torch.nn.Module.load_state_dict = load_state_dict


def _watch_evaluation(torch: ModuleType, loop: Loop) -> None:
    """Leave the time between ``model.eval()`` and ``model.train()`` out of the step around it.

    ``train`` calls itself for every module within, so it is wrapped during evaluations alone.
    """
    module = torch.nn.Module
    evaluate = module.eval
    paused: list[tuple[Any, Any, int, float]] = []

    @wraps(evaluate)
    def eval(self: Any) -> Any:  # noqa: A001  the method's own name
        run = process.opened
        trains = run is not None and not process.led and not process.off
        if run is not None and trains and not paused and run.step_counter.running:
            pause = run.pause("evaluation")
            pause.__enter__()
            paused.append((self, pause, run.step_counter.done, perf_counter()))
            loop.evaluating = True
            wait_for_train()
        return evaluate(self)

    def wait_for_train() -> None:
        train = module.train

        @wraps(train)
        def training(self: Any, mode: bool = True) -> Any:
            if paused and mode and paused[0][0] is self:
                _, pause, done, begun = paused.pop()
                loop.evaluating = False
                pause.__exit__(None, None, None)
                run = process.opened
                if run is not None and run.step_counter.done == done:
                    loop.evaluated(begun)
                if module.train is training:  # else somebody else has wrapped it meanwhile
                    module.train = train
            return train(self, mode)

        module.train = training

    module.eval = eval


class FurtherModels(Hook):
    """Says at the end if other models than the first were trained, too."""

    ranks = "all"

    def end(self, run: Run, status: str, deadline: Deadline) -> None:
        """Look at the optimizers that stepped and belong to no watched model."""
        from stepscope.integrations.torch.ledger import ledger_of

        if ledger_of(run).strangers:
            process.say(FURTHER)


def _starts(run: Run, updater: Any) -> None:
    """Watch the model of the first optimizer that steps, or of a weight."""
    from stepscope.integrations.torch import watch

    process.record(PRINTED, printed.told.of_first_step(), run.step_counter.next)
    groups = getattr(updater, "param_groups", None)
    if groups is None:  # updated by hand: gradients may be emptied before anybody could measure them
        watch(_model_of([updater]), None, run)
        return
    process.measured()
    run.add_hook(FurtherModels())
    if _loops[0].objective is not None:
        run.add_hook(_loops[0].objective)
    watch(_model_of([parameter for group in groups for parameter in group["params"]]), updater, run)


def _model_of(parameters: list[Any]) -> Any:
    """Return the model that has parameters, as the functions around their update hold it; None if none does.

    Of several the outermost is the model, such as DistributedDataParallel around it.
    """
    module = sys.modules["torch"].nn.Module
    wanted = set(map(id, parameters))
    models: list[tuple[int, Any]] = []
    frame: FrameType | None = sys._getframe(1)
    depth = 0
    seen: set[int] = set()
    while frame is not None and depth < MAX_DEPTH:
        if not str(frame.f_globals.get("__name__", "")).startswith((OWN, "torch.")):
            depth += 1
            held = [*frame.f_locals.values(), *frame.f_globals.values()]
            held += [value for owner in frame.f_locals.values() for value in _attributes(owner)]
            for candidate in held:
                if (
                    issubclass(type(candidate), module) and id(candidate) not in seen
                ):  # asks nothing of the object
                    seen.add(id(candidate))
                    if wanted <= {id(parameter) for parameter in candidate.parameters()}:
                        models.append((sum(1 for _ in candidate.modules()), candidate))
        frame = frame.f_back
    return max(models, key=lambda entry: entry[0])[1] if models else None


def _attributes(owner: Any) -> list[Any]:
    try:
        return list(object.__getattribute__(owner, "__dict__").values())
    except (AttributeError, TypeError):
        return []
