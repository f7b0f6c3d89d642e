"""Measures the outputs of a model's layers in a forward pass, for an ``ActivationHook``.

A hook on the whole model sees each forward pass begin. Only if it is to be measured do the layers get hooks,
until it ends: other passes cost one call.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from stepscope.errors import RecordError
from stepscope.health.series import MODEL_INPUT
from stepscope.integrations.torch import functional, measure
from stepscope.integrations.torch.exchange import GroupExchange, name_lists, running
from stepscope.integrations.torch.pace import Pace
from stepscope.integrations.torch.parameters import clean, local_part
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook
from stepscope.record.statistics.hooks import ActivationReport
from stepscope.record.statistics.sampling import SamplingBudget
from stepscope.record.statistics.table import Round, Rounds, StatisticsTable

MAX_FAILURES = 3
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


class Activations:
    """The activations of one model.

    Args:
        run: The run.
        hook: Says what is measured.
        model: The model, as it is called in training.
        process_group: The ranks; None for all.
    """

    def __init__(self, run: Run, hook: ActivationHook, model: nn.Module, process_group: Any = None) -> None:
        self._run, self._hook, self._model = run, hook, model
        self._ranks = GroupExchange(process_group) if running() else None
        self._sampling, self._pace = hook.sampling(), Pace()
        self._budget = SamplingBudget(hook, self._sampling)
        self._layers = {clean(name): each for name, each in model.named_modules() if self._wants(name, each)}
        self._names = list(self._layers)
        if self._ranks is not None:
            lists, _ = name_lists(self._ranks, self._names)
            self._names = list(dict.fromkeys(name for one in lists for name in one))
        self._rows = {name: row for row, name in enumerate(self._names)}
        self._units: dict[int, int] = {}
        self._report = ActivationReport(run, hook.stats, hook.window)
        self._rounds = Rounds(self._done, self._ranks, failed=self._post)
        self._pass: Pass | None = None
        self._inputs: tuple[int, list[Tensor]] = (-1, [])
        self._compiled = functional.compiled(model)
        self._count = -1
        self._failures = 0
        self._handles = [
            model.register_forward_pre_hook(self._begin, with_kwargs=True),
            model.register_forward_hook(self._end, always_call=True),
        ]

    def finish(self, timeout: float) -> None:
        """Record what is measured already, and stop measuring."""
        self.remove()
        self._rounds.close(timeout)

    def remove(self) -> None:
        """Take all hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
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
            bad = sum(each.numel() - int(torch.isfinite(each).sum()) for each in inputs)
            self._run.scalar(f"activations/{MODEL_INPUT}/nonfinite_count", bad, step)

    def _wants(self, name: str, layer: nn.Module) -> bool:
        if not name:
            return False
        if self._hook.all_layers:
            return not any(True for _ in layer.children())
        return self._hook.wants(clean(name), layer)

    # --- around a forward pass ----------------------------------------------------------------------

    def _begin(self, model: nn.Module, inputs: Any, named: dict[str, Any]) -> None:
        with self._guarded():
            if self._pass is not None or not model.training or not torch.is_grad_enabled():
                return
            number = self._run.current_step
            if number is None:
                number = self._count = self._count + 1
            self._pace.begin(number, time.perf_counter())
            # Kept until the next pass where that costs no memory of a device.
            self._inputs = (
                number,
                [
                    each
                    for each in (*inputs, *named.values())
                    if isinstance(each, Tensor) and each.is_cpu and each.is_floating_point()
                ],
            )
            if self._rounds.full or not self._sampling.due(number):
                return
            turns = self._hook.rotate
            turn = self._sampling.turn(number, turns)
            layers = {self._rows[name]: layer for name, layer in self._layers.items()}
            chosen = {row: layer for row, layer in layers.items() if row % turns == turn}
            table = StatisticsTable(len(self._names), histograms=self._sampling.histogram_due(number))
            self._pass = Pass(number, table, self._hook, chosen)
            if not self._compiled:
                self._pass.see_calls()

    def _end(self, model: nn.Module, inputs: Any, output: Any) -> None:
        with self._guarded():
            seen, self._pass = self._pass, None
            if seen is None:
                return
            seen.release()
            self._pace.took(seen.seconds)
            self._rounds.put(self._round(seen))

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

    def _post(self, reason: str, words: str, hint: str, over: bool) -> None:
        found = f"activation statistics: {words}" + ("; they are switched off" if over else "")
        error = RecordError(found, hint=hint or "the training is not affected", path=self._run.log_dir)
        self._run.report(reason, error, later=True)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  modules and tensors of any kind
            self._failures += 1
            off = self._failures >= MAX_FAILURES
            if off:
                self.remove()
            then = "switched off" if off else "the training goes on"
            found = f"activation statistics: {type(error).__name__}: {error}; {then}"
            refusal = RecordError(found, hint="see where it raises with STEPSCOPE_STRICT=1")
            refusal.__cause__ = error
            self._run.report("statistics", refusal)


class Pass:
    """One forward pass that is measured.

    Args:
        number: Of the step.
        table: Where to.
        hook: Says what is wanted.
        layers: By row.

    Attributes:
        waits: What waits for devices.
        saturated: By row, how many outputs are saturated, and of how many.
        active: By row, which units put out anything but zeros.
        seconds: What measuring took.
    """

    def __init__(
        self, number: int, table: StatisticsTable, hook: ActivationHook, layers: dict[int, nn.Module]
    ) -> None:
        self.number, self.table, self._hook = number, table, hook
        self.waits: list[Callable[[], None]] = []
        self.saturated: dict[int, tuple[Any, int]] = {}
        self.active: dict[int, Tensor] = {}
        self.seconds = 0.0
        self._calls: functional.FunctionalCalls | None = None
        self._handles = [
            layer.register_forward_hook(partial(self._look, row)) for row, layer in layers.items()
        ]
        for layer in layers.values():
            if isinstance(layer, SILENT) or type(layer) in SATURATION:
                self._handles.append(layer.register_forward_pre_hook(self._enter))

    def see_calls(self) -> None:
        """Also observe activations that are called as functions, until ``release``."""
        self._calls = functional.FunctionalCalls(self._call)
        self._calls.__enter__()  # type: ignore[no-untyped-call]  # no block: it ends in another hook

    def release(self) -> None:
        """Take the hooks off the layers."""
        for handle in self._handles:
            handle.remove()
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _enter(self, *_: Any) -> None:
        if self._calls is not None:
            self._calls.within += 1

    def _call(self, row: int, func: Any, out: Tensor) -> None:
        """Measure what a function made of a layer's output."""
        begun = time.perf_counter()
        with torch.no_grad():
            out = local_part(out.detach())
            if func in functional.SILENT and out.ndim > 1 and "dead_ratio" in self._hook.stats:
                self._activity(row, out)
            far = functional.FAR.get(func)
            if far is not None and "saturation_ratio" in self._hook.stats:
                self._saturated(row, far(out))
        self.seconds += time.perf_counter() - begun

    def _look(self, row: int, layer: nn.Module, inputs: Any, output: Any) -> None:
        begun = time.perf_counter()
        out = first_tensor(output)
        if self._calls is not None:
            if isinstance(layer, SILENT) or type(layer) in SATURATION:
                self._calls.within -= 1
            elif out is not None:
                self._calls.made(row, out)
        if out is None or not (out.is_floating_point() or out.is_complex()):
            return
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
        return next((each for each in output if isinstance(each, Tensor)), None)
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
