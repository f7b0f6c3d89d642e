"""``watch``: one call attaches all that can be seen of a PyTorch model and its optimizer to a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.errors import UsageError
from stepscope.integrations.compiling import follow
from stepscope.integrations.guard import report_raised
from stepscope.integrations.torch.exchange import running
from stepscope.integrations.torch.facts import inner_optimizer, model_facts, optimizer_facts
from stepscope.integrations.torch.ledger import SILENT_STEPS, ledger_of, parameters_of
from stepscope.integrations.torch.losses import Losses
from stepscope.integrations.torch.rates import LearningRates, LossScaleRecorder
from stepscope.integrations.torch.zeroing import Zeroing
from stepscope.kernels.steps import LONGEST, Rest
from stepscope.record import Run
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks import Hook
from stepscope.record.statistics import ActivationHook, GradientHook

if TYPE_CHECKING:
    from stepscope.integrations.torch.gradients import Gradients


class Removable(Protocol):
    """A handle that can be removed again."""

    def remove(self) -> None:
        """Take it off."""


class Watch:
    """Everything that ``watch`` attached to a run, a model and its optimizers.

    Attributes:
        run: The run.
        model: The model, as it was given.
        optimizers: The optimizers by name, without the wrappers of trainers; "" if there is one.
        gradients: The parts that measure gradients.
    """

    def __init__(
        self,
        run: Run,
        model: nn.Module | None,
        optimizers: Mapping[str, Optimizer],
        process_group: Any = None,
    ) -> None:
        self.run, self.model, self.optimizers = run, model, dict(optimizers)
        self._process_group = process_group
        self.gradients: list[Gradients] = []
        self._parts: list[Removable] = []

    def add(self, part: Removable) -> None:
        """Have ``remove`` take this off too."""
        self._parts.append(part)

    def remove(self) -> None:
        """Detach everything again; recorded values stay. Repeating it does nothing."""
        ledger_of(self.run).forget(self)
        self.gradients = []
        parts, self._parts = self._parts, []
        for part in reversed(parts):
            part.remove()

    def adopt(self, optimizer: Optimizer) -> None:
        """Watch an optimizer that the training has begun to use since.

        It takes the place of one that has parameters in common with it, or whose parameters are trained no
        more; otherwise it is watched beside the others.
        """
        if not self.optimizers:
            return  # the user wanted none to be watched
        ids = set(map(id, parameters_of(optimizer)))
        replaced = [name for name, optimizer in self.optimizers.items() if self._gives_way(optimizer, ids)]
        if replaced:
            old = self.optimizers[replaced[0]]
            self.optimizers[replaced[0]] = optimizer
            for part in self._parts:
                if hasattr(part, "follow"):
                    part.follow(old, optimizer)
        elif running():
            self.run.unmeasured(
                f"gradients of a new {type(optimizer).__name__}",
                "it began to step after watch(), which every rank must call for it",
            )
        else:
            name = next(str(at) for at in range(len(self.optimizers) + 1) if str(at) not in self.optimizers)
            self.optimizers[name] = optimizer
            for part in self._parts:
                if hasattr(part, "join"):
                    part.join(optimizer)
            _follow_optimizers(self, {name: optimizer}, self._process_group)
        _describe(self)

    def _gives_way(self, optimizer: Optimizer, ids: set[int]) -> bool:
        """Return whether an optimizer was replaced by one with parameters of these identities."""
        own = list(parameters_of(optimizer))
        if not ids.isdisjoint(map(id, own)):
            return True
        models = ids if self.model is None else set(map(id, self.model.parameters()))
        return self.model is not None and not any(
            parameter.requires_grad and id(parameter) in models for parameter in own
        )

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def watch(
    model: nn.Module | None,
    optimizer: Optimizer | Mapping[str, Optimizer] | Iterable[Optimizer] | None,
    run: Run,
    *,
    scaler: Any = None,
    loss: nn.Module | str | None = None,
    process_group: Any = None,
) -> Watch:
    """Attach a model and its optimizer to a run; the loop stays as it is.

    It records the learning rate of each optimizer step (``optimizer/lr``), the loss if you name the module
    that computes it, the loss scale of a scaler and how often it skipped a step (``gradients/loss_scale``,
    ``gradients/skipped_steps``) and, in the run's configuration, facts about the model and the optimizer. A
    ``GradientHook`` or ``ActivationHook`` of the run measures this model from now on.

    Call it on every rank, after wrapping the model (DistributedDataParallel, ``fully_shard``,
    ``torch.compile``) and creating the optimizer.

    Args:
        model: The model; None for none.
        optimizer: The optimizer; if there are several, a mapping by name or a sequence; None for none.
        run: The run to record into.
        scaler: The ``torch.amp.GradScaler`` in use, if there is one.
        loss: Computes the loss, to be recorded as ``train/loss`` at every step: a module such as
            ``torch.nn.CrossEntropyLoss()``, or the name of the field in the model's output, "loss". None if
            the loop records it with ``run.scalar("train/loss", loss)``.
        process_group: The ranks that train this model together, for statistics over all of them; None
            for all ranks of the job.

    Returns:
        The attached parts; ``remove()`` detaches them.

    Raises:
        UsageError: An argument has another type.
    """
    _check("run", run, Run)
    if model is not None:
        _check("model", model, nn.Module)
    watched = Watch(run, model, _named(optimizer, model), process_group)
    run.add_hook(_Ends(watched))
    try:
        _describe(watched)
    except Exception as error:  # noqa: BLE001  facts of somebody's own module or optimizer
        report_raised(run, "watch", error)
    _mark_stages(watched)
    follow(run)
    if run.role.writes:
        for name, one_optimizer in watched.optimizers.items():
            watched.add(LearningRates(one_optimizer, run, name))
            watched.add(Zeroing(one_optimizer, run))
        if scaler is not None:
            watched.add(LossScaleRecorder(scaler, run))
    if loss is not None:
        watched.add(Losses(run, model, loss, list(watched.optimizers.values())))
    _measure(watched, process_group)
    if model is not None or watched.optimizers:
        ledger_of(run).follow(watched)
    return watched


def _follow_optimizers(watched: Watch, optimizers: Mapping[str, Optimizer], process_group: Any) -> None:
    """Record the usual values of optimizers that came later."""
    if watched.run.role.writes:
        for name, optimizer in optimizers.items():
            watched.add(LearningRates(optimizer, watched.run, name))
            watched.add(Zeroing(optimizer, watched.run))
    for hook in watched.run.hooks:
        if isinstance(hook, GradientHook):
            _measure_gradients(watched, optimizers, hook, process_group, later=True)


def _mark_stages(watched: Watch) -> None:
    """Mark the beginning of the stages of each step, on every rank."""
    from stepscope.integrations.torch.completion import device_stages
    from stepscope.integrations.torch.mesh import work_of
    from stepscope.integrations.torch.stages import StageMarks

    stages = watched.run.step_counter.stages
    if stages is None:
        return
    try:
        # One that another watch has started sees the moments of all.
        timed = stages.device is not None and not stages.device.stopped
        timer = None if timed else device_stages(watched.model, watched.run)
        counter, optimizers = watched.run.step_counter, watched.optimizers.values()
        watched.add(StageMarks(counter, watched.model, optimizers, timer, watched.run))
        if stages.group is None and watched.model is not None:
            watched.run.rank_group(work_of(watched.model))
    except Exception as error:  # noqa: BLE001  modules and optimizers of any kind
        report_raised(watched.run, "watch: stages", error)


def _measure(watched: Watch, process_group: Any) -> None:
    """Make the run's measuring hooks measure these tensors."""
    for hook in watched.run.hooks:
        if isinstance(hook, GradientHook) and watched.optimizers:
            _measure_gradients(watched, watched.optimizers, hook, process_group)
        elif isinstance(hook, ActivationHook) and watched.model is not None:
            _measure_activations(watched, watched.model, hook, process_group)


def _measure_activations(watched: Watch, model: nn.Module, hook: ActivationHook, process_group: Any) -> None:
    from stepscope.integrations.torch.activations import Activations

    try:
        optimizers = watched.optimizers.values()
        part = Activations(watched.run, hook, model, optimizers, process_group)
    except Exception as error:  # noqa: BLE001  modules of any kind, process groups that cannot be made
        report_raised(watched.run, "watch: ActivationHook", error)
    else:
        hook.parts.append(part)
        watched.add(part)


def _measure_gradients(
    watched: Watch,
    optimizers: Mapping[str, Optimizer],
    hook: GradientHook,
    process_group: Any,
    *,
    later: bool = False,
) -> None:
    from stepscope.integrations.torch.gradients import attach

    try:
        parts = attach(
            watched.run, watched.model, optimizers, hook, process_group=process_group, same_model=later
        )
    except Exception as error:  # noqa: BLE001  tensors of any kind, process groups that cannot be made
        report_raised(watched.run, "watch: GradientHook", error)
    else:
        watched.gradients += parts
        for part in parts:
            watched.add(part)


def _describe(watched: Watch) -> None:
    facts: dict[str, Any] = {}
    if watched.model is not None:
        facts["model"] = model_facts(watched.model)
    several = {name: optimizer_facts(optimizer) for name, optimizer in watched.optimizers.items()}
    if several:
        facts["optimizer"] = several.get("", several) if len(several) == 1 else several
    watched.run.describe(facts)


class _Ends(Hook):
    """Detaches everything when the run ends."""

    ranks = "all"

    def __init__(self, watched: Watch) -> None:
        self._watched = watched
        self._rest: Rest = Rest()

    def after_step(self, step: int) -> None:
        """Look for missing parts, and rest until one may be missing."""
        # Nobody is missed sooner, a part that comes meanwhile included. In a long run a look every ten steps
        # would cost more than a stage's marks, and the step is named anyway since which a part is missed.
        quiet = max(SILENT_STEPS, min(step // 8, LONGEST))
        for part in self._watched.gradients:
            part.look(step)
            if step - part.rhythm.last >= part.rhythm.longest:
                quiet = min(quiet, part.rhythm.last + part.rhythm.patience - step)
        self._rest.until(max(quiet, 0), low=step)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Record no more."""
        self._watched.remove()


def _named(optimizer: Any, model: nn.Module | None) -> dict[str, Optimizer]:
    """Return optimizers by name: "" for a single one, the parameter's name if it has only one."""
    try:
        if optimizer is None:
            return {}
        if isinstance(optimizer, Mapping):
            names = (
                {} if model is None else {id(parameter): name for name, parameter in model.named_parameters()}
            )
            return {
                names.get(id(key), str(at)) if isinstance(key, Tensor) else str(key): inner_optimizer(inner)
                for at, (key, inner) in enumerate(optimizer.items())
            }
        if not isinstance(optimizer, Iterable):
            return {"": inner_optimizer(optimizer)}
        several = [inner_optimizer(member) for member in optimizer]
    except TypeError as error:
        raise UsageError(
            f"optimizer cannot be watched: {error}",
            hint="watch(model, optimizer, run); None for no optimizer",
        ) from error
    return (
        {"": several[0]}
        if len(several) == 1
        else {str(at): optimizer_ for at, optimizer_ in enumerate(several)}
    )


def _check(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        message = f"{name} must be a {kind.__name__}, got {type(value).__qualname__}"
        raise UsageError(message, hint="watch(model, optimizer, run)")
