"""Measures the outputs of a model's layers in training, for an ``ActivationHook``.

Only in a step that is measured the layers have hooks: other steps cost one call. A layer is measured from
its first call until the next backward pass, whoever calls it: the model, a method of it, or the loop. The
step is that of the run; if it counts none, that of the optimizer, else the model's own calls are counted.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.integrations.guard import SelfEnding
from stepscope.integrations.torch import backward, functional, measure
from stepscope.integrations.torch.calls import after_forward, before_forward, callable_modules, is_compiled
from stepscope.integrations.torch.exchange import GroupExchange, name_lists, running
from stepscope.integrations.torch.pace import Pace
from stepscope.integrations.torch.parameters import clean, local_part
from stepscope.names.roles import MODEL_INPUT
from stepscope.record import Run
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks import Hook
from stepscope.record.statistics import ActivationHook
from stepscope.record.statistics.hooks import ActivationReport
from stepscope.record.statistics.sampling import SamplingBudget
from stepscope.record.statistics.table import Round, Rounds, StatisticsTable

SILENT_TURNS = 3
"""So many measured steps in a row without a call of a layer are a fact; of fewer, one may have skipped it."""
MAX_NAMES = 5
EVERYTHING = "activations"
NOT_MEASURED = -1e9
"""Stands for an active unit: below zero whatever other ranks add."""
SILENT = (nn.ReLU, nn.ReLU6, nn.Threshold, nn.Hardswish, nn.RReLU)
"""Layers whose units can be dead, with zero as output for every input."""
SATURATION: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Tanh: torch.abs,
    nn.Hardtanh: torch.abs,
    nn.Sigmoid: lambda out: (2 * out - 1).abs(),
    nn.Hardsigmoid: lambda out: (2 * out - 1).abs(),
}
"""How close the output of a layer is to its bounds, from 0 to 1."""
Flags = npt.NDArray[np.float64]


class Activations(SelfEnding):
    """The activations of one model.

    Args:
        run: The run.
        hook: Chooses the quantities.
        model: The model, as it is called in training.
        optimizers: Those that train it; the first one's steps are counted if the run counts none.
        process_group: The ranks; None for all.
    """

    what = "activation statistics"

    def __init__(
        self,
        run: Run,
        hook: ActivationHook,
        model: nn.Module,
        optimizers: Iterable[Optimizer] = (),
        process_group: Any = None,
    ) -> None:
        self._run, self._hook, self._model = run, hook, model
        self._ranks = GroupExchange(process_group) if running() else None
        self._sampling, self._pace = hook.sampling(), Pace()
        self._budget = SamplingBudget(hook, self._sampling)
        reachable = {id(module) for module in callable_modules(model)}
        wanted: dict[str, nn.Module] = {}
        for name, module in model.named_modules():
            if self._wants(name, module):  # of a wrapper and what is in it the wrapper comes first
                wanted.setdefault(clean(name), module)
        self._layers = {name: module for name, module in wanted.items() if id(module) in reachable}
        self._hidden = [name for name in wanted if name not in self._layers]
        self._names = list(self._layers)
        if self._ranks is not None:
            lists, _ = name_lists(self._ranks, self._names)
            self._names = list(dict.fromkeys(name for one in lists for name in one))
        self._rows = {name: row for row, name in enumerate(self._names)}
        self._units: dict[int, int] = {}
        self._report = ActivationReport(run, hook.stats, hook.window)
        self._rounds = Rounds(self._done, self._ranks, failed=self._post)
        self._pass: Pass | None = None
        self._inside = False
        """Whether the model itself is being called in training."""
        self._inputs: tuple[int, list[Tensor]] = (-1, [])
        self._compiled = functional.compiled(model)
        self._count = -1
        self._optimized: int | None = None
        self._failures = 0
        self._silence = Silence(self._rows)
        self._first: int | None = None
        self._lacking: dict[str, set[int]] = {}
        self._handles: list[Any] = []
        if not is_compiled(model) or hasattr(model, "_orig_mod"):
            self._handles += [
                before_forward(model, self._begin, with_kwargs=True),
                after_forward(model, self._end, always_call=True),
            ]
        self._optimizer = next(iter(optimizers), None)
        if self._optimizer is not None:
            self._handles.append(self._optimizer.register_step_post_hook(self._stepped))
        backward.listen(self)
        run.add_hook(Turns(self))
        self._tell_hidden()

    def finish(self, timeout: float) -> None:
        """Record the measurements so far, and stop measuring."""
        self.remove()
        self._rounds.close(timeout)

    def remove(self) -> None:
        """Take all hooks off the model."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        backward.ignore(self)
        self._inputs = (-1, [])
        if self._pass is not None:
            self._pass.release()
            self._pass = None

    def look_at_inputs(self, step: int) -> None:
        """Record how many values that went into the model in a step are not finite, if they are still there.

        Called when a gradient is not finite for the first time, to see whether the data were finite.
        """
        number, inputs = self._inputs
        if number == step and inputs and self._run.role.writes:
            bad = sum(tensor.numel() - int(torch.isfinite(tensor).sum()) for tensor in inputs)
            self._run.scalar(f"activations/{MODEL_INPUT}/nonfinite_count", bad, step)

    def _wants(self, name: str, layer: nn.Module) -> bool:
        if not clean(name):
            return False
        if self._hook.all_layers:
            return hasattr(layer, "_orig_mod") or not any(True for _ in layer.children())
        return self._hook.wants(clean(name), layer)

    # --- steps ---------------------------------------------------------------------------------------

    def follow(self, old: Optimizer, new: Optimizer) -> None:
        """Count the steps of an optimizer that replaced the one that was counted."""
        if old is self._optimizer and self._handles:
            self._optimizer = new
            self._handles.append(new.register_step_post_hook(self._stepped))

    def step_begins(self, step: int) -> None:
        """Begin to measure if it is the step's turn."""
        if self._handles:
            with self._guarded():
                self._close()
                self._open(step)

    def step_ended(self) -> None:
        """Hand on the measurements of a step."""
        if self._pass is not None:
            with self._guarded():
                self._close()

    def _stepped(self, *_: Any) -> None:
        """Go on to the next step, if the run counts none."""
        if self._run.current_step is not None:
            return
        with self._guarded():
            self._close()
            self._optimized = 0 if self._optimized is None else self._optimized + 1
            self._open(self._optimized + 1)

    def _open(self, number: int) -> None:
        """Begin a step, and put hooks on the layers if it is measured."""
        self._pace.begin(number, time.perf_counter())
        if self._rounds.full or not self._sampling.due(number):
            return
        turns = self._hook.rotate
        turn = self._sampling.turn(number, turns)
        layers = {self._rows[name]: layer for name, layer in self._layers.items()}
        chosen = {row: layer for row, layer in layers.items() if row % turns == turn}
        table = StatisticsTable(len(self._names), histograms=self._sampling.histogram_due(number))
        self._pass = Pass(number, table, self._hook, chosen, lambda: self._inside, self._failed)

    def _close(self) -> None:
        """Hand on the measurements of the open pass."""
        seen, self._pass = self._pass, None
        if seen is None:
            return
        seen.release()
        if seen.measured or self._ranks is not None:  # other ranks may have measured something
            self._pace.took(seen.seconds)
            self._rounds.put(self._round(seen))
        if seen.trained:
            self._first = seen.number if self._first is None else self._first
            self._tell_silent(self._silence.look(seen.number, seen.rows, seen.measured))

    def backward_begins(self, outputs: Any) -> None:
        """Measure earlier calls no further: a layer that is called again computes it again."""
        seen = self._pass
        if seen is not None:
            with self._guarded():
                seen.backward_begins(outputs)

    def backward_ended(self) -> None:
        """Wait for the end of the step."""

    # --- around a call of the model ------------------------------------------------------------------

    def _begin(self, model: nn.Module, inputs: Any, named: dict[str, Any]) -> None:
        with self._guarded():
            if self._inside or not model.training or not torch.is_grad_enabled():
                return
            number = self._run.current_step
            if number is None:
                if self._optimized is not None:
                    number = self._optimized + 1
                else:
                    number = self._count = self._count + 1
                    self._open(number)
            self._inside = True
            # Kept until the next pass where that costs no memory of a device.
            self._inputs = (
                number,
                [
                    tensor
                    for tensor in (*inputs, *named.values())
                    if isinstance(tensor, Tensor) and tensor.is_cpu and tensor.is_floating_point()
                ],
            )
            if self._pass is not None and not self._compiled:
                self._pass.see_calls()

    def _end(self, model: nn.Module, inputs: Any, output: Any) -> None:
        if not self._inside:
            return
        with self._guarded():
            self._inside = False
            if self._pass is not None:
                self._pass.miss_calls()
            if self._run.current_step is None and self._optimized is None:
                self._close()

    def _round(self, seen: Pass) -> Round:
        round_ = Round(
            seen.number,
            seen.table,
            True,
            shape=zlib.crc32(repr(sorted(self._units.items())).encode()),
            cost_seconds=self._pace.sample_seconds,
            step_seconds=self._pace.step_seconds,
        )
        units = dict(self._units)
        self._units.update({row: flags.numel() for row, flags in seen.active.items()})

        def wait() -> None:
            for one in seen.waits:
                one()
            round_.loose = np.zeros(2 * len(self._names))
            for row, (saturated, size) in seen.saturated.items():
                round_.loose[2 * row : 2 * row + 2] += float(saturated), size
            round_.raw = flat_flags(seen.active, units)

        round_.wait = wait
        round_.done = lambda: self._write(round_, units)
        return round_

    # --- on the thread of the rounds ----------------------------------------------------------------

    def _done(self, round_: Round) -> None:
        self._budget.spent(round_.step, round_.cost_seconds, round_.step_seconds)
        if self._run.role.writes and round_.done is not None:
            round_.done()

    def _write(self, round_: Round, units: dict[int, int]) -> None:
        saturated = {
            self._names[row]: float(number / size)
            for row, (number, size) in enumerate(round_.loose.reshape(-1, 2))
            if size
        }
        active = {}
        at = 0
        for row, size in sorted(units.items()):
            flags = round_.raw[at : at + size]
            at += size
            if flags.min(initial=0) >= 0:  # else not measured this time
                active[self._names[row]] = flags > 0
        self._report.take(round_.step, self._names, round_.table, saturated=saturated, active=active)

    # --- what is not measured ------------------------------------------------------------------------

    def _tell_hidden(self) -> None:
        """Say which layers are in a compiled part of the model."""
        if self._hidden and self._run.role.writes:
            self._run.unmeasured(
                f"activations of {listed(self._hidden)}" if self._layers else EVERYTHING,
                "torch.compile or TorchScript runs the model as a whole, and calls no hooks in there; look "
                "at activations without it, or compile block by block: what a block returns is measured",
            )

    def _tell_silent(self, turn: Turn) -> None:
        """Say of which layers nothing is recorded, and since when."""
        run = self._run
        if not run.role.writes:
            return
        if turn.silent and not self._silence.heard:
            self._lacking[EVERYTHING] = set(turn.rows)
            run.unmeasured(
                EVERYTHING,
                f"in {SILENT_TURNS} measured steps no layer of {type(self._model).__name__} was called in "
                "training mode with gradients, or only compiled functions called them; watch() the model "
                "that is trained, and look at activations without torch.compile",
                self._first,
            )
        since = {row: last for row, last in turn.silent.items() if last is not None}
        if since:
            what = f"activations of {listed([self._names[row] for row in since])}"
            self._lacking[what] = set(since)
            run.unmeasured(
                what,
                f"they were not called in {SILENT_TURNS} measured steps, or only by compiled functions",
                min(since.values()) + 1,
            )
        for what, rows in tuple(self._lacking.items()):
            if not rows.isdisjoint(turn.measured):
                del self._lacking[what]
                run.measured_again(what, turn.step)


def listed(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


class Turns(Hook):
    """Tells activations of the steps of the run.

    Args:
        activations: Those.
    """

    ranks = "all"

    def __init__(self, activations: Activations) -> None:
        self._activations = activations

    def before_step(self, step: int) -> None:
        """A step begins."""
        self._activations.step_begins(step)

    def after_step(self, step: int) -> None:
        """It has ended."""
        self._activations.step_ended()

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Leave the last step to the hook that measures."""


class Turn(NamedTuple):
    """A measured step.

    Attributes:
        step: Its number.
        rows: Those whose turn it was.
        measured: Those that were called.
        silent: Those that have now been silent for long enough, and in which step each was measured last;
            None for never.
    """

    step: int
    rows: Collection[int]
    measured: Collection[int]
    silent: Mapping[int, int | None]


class Silence:
    """Which layers are not called any more, or never were.

    Args:
        rows: Of the layers.
    """

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._turns = dict.fromkeys(rows.values(), 0)
        self._last: dict[int, int | None] = dict.fromkeys(rows.values())
        self.heard = False
        """Whether any was ever called."""

    def look(self, step: int, rows: Collection[int], measured: Collection[int]) -> Turn:
        """Note a measured step."""
        silent = {}
        for row in rows:
            if row in measured:
                self._turns[row], self._last[row], self.heard = 0, step, True
            else:
                self._turns[row] += 1
                if self._turns[row] == SILENT_TURNS:
                    silent[row] = self._last[row]
        return Turn(step, rows, measured, silent)


class Pass:
    """The calls of layers in one step that is measured.

    Args:
        number: Of the step.
        table: Takes the sums.
        hook: Chooses the quantities.
        layers: By row.
        inside: Returns whether the whole model is being called in training, as a layer in it is then.
        failed: Receives exceptions from measuring.

    Attributes:
        rows: Those of the layers.
        waits: The functions that wait for devices.
        saturated: By row, how many outputs are saturated, and of how many.
        active: By row, which units put out anything but zeros.
        measured: Rows of which something was measured.
        trained: Whether a backward pass has begun, or something was measured.
        seconds: Time that measuring took.
    """

    def __init__(
        self,
        number: int,
        table: StatisticsTable,
        hook: ActivationHook,
        layers: dict[int, nn.Module],
        inside: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        self.number, self.table, self._hook = number, table, hook
        self._inside, self._failed = inside, failed
        self.rows = tuple(layers)
        self.waits: list[Callable[[], None]] = []
        self.saturated: dict[int, tuple[Any, int]] = {}
        self.active: dict[int, Tensor] = {}
        self.measured: set[int] = set()
        self.trained = False
        self.seconds = 0.0
        self._calls: functional.FunctionalCalls | None = None
        self._outputs: dict[int, tuple[Any, bool]] = {}
        self._handles: dict[int, list[Any]] = {}
        for row, layer in layers.items():
            self._handles[row] = [after_forward(layer, partial(self._look, row))]
            if isinstance(layer, SILENT) or type(layer) in SATURATION:
                self._handles[row].append(before_forward(layer, self._enter))

    def see_calls(self) -> None:
        """Also observe activations that are called as functions, until ``miss_calls``."""
        if self._calls is None:
            self._calls = functional.FunctionalCalls(self._call)
            self._calls.__enter__()  # type: ignore[no-untyped-call]  # no block: it ends in another hook

    def miss_calls(self) -> None:
        """Observe them no longer."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def release(self) -> None:
        """Take the hooks off the layers."""
        for handles in self._handles.values():
            for handle in handles:
                handle.remove()
        self._handles = {}
        self._outputs = {}
        self.miss_calls()

    def backward_begins(self, outputs: Any) -> None:
        """Take the hooks off the layers that were measured."""
        self.trained = True
        begun = time.perf_counter()
        if self._outputs:
            with torch.no_grad():
                for row, func, out in functional.results(outputs, self._outputs):
                    self._function(row, func, out)
            self._outputs = {}
        for row in self.measured:
            for handle in self._handles.pop(row, ()):
                handle.remove()
        self.seconds += time.perf_counter() - begun

    def _enter(self, *_: Any) -> None:
        if self._calls is not None:
            self._calls.within += 1

    def _call(self, row: int, func: Any, out: Tensor) -> None:
        """Measure the result of a function on a layer's output."""
        if row not in self._handles:
            return
        begun = time.perf_counter()
        with torch.no_grad():
            self._function(row, func, out)
        self.seconds += time.perf_counter() - begun

    def _function(self, row: int, func: Any, out: Tensor) -> None:
        out = local_part(out.detach())
        if func in functional.SILENT and out.ndim > 1 and "dead_ratio" in self._hook.stats:
            self._activity(row, out)
        far = functional.FAR.get(func)
        if far is not None and "saturation_ratio" in self._hook.stats:
            self._saturated(row, far(out))

    def _look(self, row: int, layer: nn.Module, inputs: Any, output: Any) -> None:
        try:
            self._measure(row, layer, output)
        except Exception as error:  # noqa: BLE001  tensors of any kind
            self._failed(error)

    def _measure(self, row: int, layer: nn.Module, output: Any) -> None:
        begun = time.perf_counter()
        inside = self._inside()
        if not inside and not (layer.training and torch.is_grad_enabled()):
            return
        out = first_tensor(output)
        if self._calls is not None:
            if isinstance(layer, SILENT) or type(layer) in SATURATION:
                self._calls.within -= 1
            elif out is not None:
                self._calls.made(row, out)
        self.measured.add(row)
        self.trained = True
        if out is None or not (out.is_floating_point() or out.is_complex()):
            return
        if not inside and out.grad_fn is not None:
            silent = isinstance(layer, SILENT) or type(layer) in SATURATION
            self._outputs[row] = out.grad_fn, silent
        with torch.no_grad():
            out = local_part(out)
            wait = measure.measure(self.table, [(row, out)])
            if wait is not None:
                self.waits.append(wait)
            self._saturation(row, layer, out)
            if isinstance(layer, SILENT) and out.ndim > 1 and "dead_ratio" in self._hook.stats:
                self._activity(row, out)
        self.seconds += time.perf_counter() - begun

    def _saturation(self, row: int, layer: nn.Module, out: Tensor) -> None:
        far = SATURATION.get(type(layer))
        if far is not None and "saturation_ratio" in self._hook.stats:
            self._saturated(row, far(out))

    def _saturated(self, row: int, far: Tensor) -> None:
        number, size = self.saturated.get(row, (0, 0))
        self.saturated[row] = number + (far >= self._hook.saturated).sum(), size + far.numel()

    def _activity(self, row: int, out: Tensor) -> None:
        unit = 1 if out.ndim >= 4 else out.ndim - 1  # channels of an image stand second, of all else last
        active = (out != 0).transpose(0, unit).flatten(1).any(1)
        before = self.active.get(row)
        self.active[row] = active if before is None or before.shape != active.shape else before | active


def look_at_inputs(run: Run, step: int) -> None:
    """Make the activations of a run record whether the inputs of their models were finite."""
    for hook in run.hooks:
        for part in hook.parts if isinstance(hook, ActivationHook) else ():
            if isinstance(part, Activations):
                part.look_at_inputs(step)


def first_tensor(output: Any) -> Tensor | None:
    """Return a layer's output, or the first tensor of several."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, tuple | list):
        return next((tensor for tensor in output if isinstance(tensor, Tensor)), None)
    return None


def flat_flags(active: dict[int, Tensor], units: dict[int, int]) -> Flags:
    """Return which units were active, of the rows that all ranks know, one after the other."""
    parts = []
    for row, size in sorted(units.items()):
        flags = active.get(row)
        if flags is None or flags.numel() != size:
            parts.append(np.full(size, NOT_MEASURED))
        else:
            parts.append(flags.cpu().numpy().astype(np.float64))
    return np.concatenate(parts) if parts else np.zeros(0)
