"""Activities of the host's threads: loading, preprocessing, compiling, saving, logging, profiling, waiting.

They are the purposes that :mod:`~stepscope.attribute.attribution` finds in events, together with those that
only sampled stacks show. Waiting is kept apart, because it is not work: ``run_backward`` waits for the
thread of the backward pass, ``cudaStreamSynchronize`` for a device, ``acquire`` for another thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import rows_spans
from stepscope.attribute.evaluations import programs_without_gradients
from stepscope.attribute.named import named
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.sampled import MIN_SAMPLES, Sampled, function_of
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.table import ACTIVITY_NAMES, WAITS
from stepscope.trace.model import Kind, Trace, among

WRAPPERS = re.compile(
    r"^(?:record_param_comms|hipGraphLaunch|cudaGraphLaunch|cuGraphLaunch|ThunkExecutor::Execute.*|ProfilerStep#.*"
    r"|PyTorch Profiler.*|Torch-Compiled Region.*|CompiledFunction\w*|CommonPjRt.*|PjRt.*"
    r"|TfrtCpu.*::Execute.*"
    r"|KernelAndDevice\w*::Run|Eager(?:Local|Kernel|Remote)?Execute(?:: .*)?"
    r"|(?:partitioned_|stateful_)?FunctionRun"
    r"|PjitFunction.*|.*Executable::Execute.*|ThreadpoolListener.*|.*evaluate_function: .*"
    r"|Call CompiledFxGraph.*"
    r"|## Call CompiledFxGraph.*|nn\.Module: .*|<built-in (?:method|function) (?:apply|run_backward"
    r"|_call_impl)\b.*"
    r"|c10d::.*|autograd::engine.*|Optimizer\.(?:step|zero_grad)#.*|end: \d+.*|Execut(?:e|ion).*|PythonOp.*"
    r"|.*module\.py\(\d+\): (?:_call_impl|_wrapped_call_impl)|Launch\w*Kernel\w*)$"
)
"""Events that only contain others, or that pass work on: they never take the time themselves."""


_WHOLE = (Purpose.SAVING, Purpose.LOGGING)
"""Activities of which a function that runs one and never trains is wholly a part."""
_HOLDING = (Purpose.EVALUATING,)
"""Activities that include others: an evaluation loads its own data."""


class Activities:
    """The activities of a trace's threads.

    Args:
        trace: Any trace.
        sampled: Stacks of its training threads that were sampled beside it.
    """

    def __init__(self, trace: Trace, sampled: Iterable[Sampled] = ()) -> None:
        self._trace = trace
        self._sampled = {thread.lane: thread for thread in sampled}
        self._of_samples: dict[int, Ints] = {}
        self._lanes: dict[int, tuple[Ints, Ints]] = {}

    @cached_property
    def waits(self) -> npt.NDArray[np.bool_]:
        """Whether each name is that of an event that waits; the last element stands for the name -1."""
        return named(self._trace, WAITS)

    @property
    def without_gradients(self) -> Ints:
        """Calls of modules that are recognized as an evaluation by their content; see :mod:`evaluations`."""
        return attribution(self._trace).without_gradients

    @cached_property
    def evaluating_programs(self) -> Ints:
        """Executions of XLA programs that are recognized as an evaluation; see :mod:`evaluations`."""
        return programs_without_gradients(self._trace)

    def outermost(self, lane: int) -> tuple[Ints, Ints]:
        """Return the outermost rows of activities on a lane and the purpose of each, in order of time."""
        if lane not in self._lanes:
            rows = self._recorded(lane)
            rows = rows[~self._held(lane, rows)]
            self._lanes[lane] = rows, attribution(self._trace).purpose[rows].astype(np.int64)
        return self._lanes[lane]

    def _recorded(self, lane: int) -> Ints:
        first, last = np.searchsorted(self._trace.lane, (lane, lane + 1))
        holder = attribution(self._trace).holder[first:last]
        return np.asarray(first + np.flatnonzero(holder == np.arange(first, last)))

    def _held(self, lane: int, rows: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each row, with all within it, lies in an activity that only sampled stacks show."""
        trace, spans = self._trace, Spans.empty()
        for activity in _HOLDING if lane in self._sampled and len(rows) else ():
            spans = spans.union(self._sampled[lane].where_stack(self._of_stack(lane) == activity))
        within = spans.within(trace.start_ns[rows], trace.end_ns[rows])
        purpose = attribution(trace).purpose[rows]
        return (2 * within > trace.duration_ns[rows]) & ~np.isin(purpose, _HOLDING)

    def _of_stack(self, lane: int) -> Ints:
        """Return the activity of each sampled stack of a lane, -1 = none."""
        if lane not in self._of_samples:
            sampled = self._sampled[lane]
            evaluators = self._wholly(lane, self._modules_without_gradients(lane))
            trained = sampled.functions_in(self._trained(lane))

            def activity(text: str) -> int:
                function = function_of(text)
                if function in evaluators:
                    return Purpose.EVALUATING
                named = self.of(text)
                # Whatever its name, a function that trains does not evaluate.
                return -1 if named == Purpose.EVALUATING and trained[function] >= MIN_SAMPLES else named

            sampled_activity = sampled.of_frames(activity)
            self._of_samples[lane] = np.where(
                sampled_activity < 0, self._around(lane, sampled_activity), sampled_activity
            )
        return self._of_samples[lane]

    def _around(self, lane: int, known: Ints) -> Ints:
        """Return the activity of stacks in functions of the user's own that run one activity and never train.

        What a function that saves does beside the call that writes, such as copying weights or moving the
        file to its place, is saving, too.

        Args:
            lane: The thread.
            known: The activity of each stack by its own frames.
        """
        sampled, rows = self._sampled[lane], self._recorded(lane)
        wholly: dict[str, set[int]] = {}
        for activity in _WHOLE:
            recorded = rows_spans(self._trace, rows[attribution(self._trace).purpose[rows] == activity])
            for function in self._wholly(lane, recorded.union(sampled.where_stack(known == activity))):
                wholly.setdefault(function, set()).add(activity)
        one = {function: which.pop() for function, which in wholly.items() if len(which) == 1}
        return sampled.of_frames(lambda text: one.get(function_of(text), -1) if one else -1)

    def _modules_without_gradients(self, lane: int) -> Spans:
        scopes = self.without_gradients
        return rows_spans(self._trace, scopes[self._trace.lane[scopes] == lane])

    def _wholly(self, lane: int, spans: Spans) -> frozenset[str]:
        """Return the user's functions that ran in some time and do not train."""
        return self._sampled[lane].functions_of(spans, self._trained(lane)) if len(spans) else frozenset()

    def _trained(self, lane: int) -> Spans:
        """Return the time in which a thread ran operators that gradients pass, and those that use them."""
        trace = self._trace
        trains = attribution(trace).of(Purpose.BACKWARD, Purpose.OPTIMIZER, Purpose.GRADIENTS)
        trained = trains & (trace.kind == Kind.HOST_OP)
        # PyTorch numbers each operator while gradients are wanted; those that one passed train.
        trained[trace.forward[trace.forward >= 0]] = True
        return rows_spans(trace, np.flatnonzero(trained & (trace.lane == lane)))

    def of(self, name: str) -> int:
        """Return the activity that a name begins, -1 for none."""
        place = ACTIVITY_NAMES.number_of(name)
        return -1 if place < 0 else ACTIVITY_NAMES.rules[place].purpose

    def rows(self, lane: int, activity: Purpose) -> Ints:
        """Return the outermost rows of one activity on a lane."""
        rows, which = self.outermost(lane)
        chosen: Ints = rows[which == activity]
        return chosen

    def spans(self, lane: int, *activities: Purpose) -> Spans:
        """Return the time of these activities on a lane; of all of them if none is named."""
        rows, which = self.outermost(lane)
        recorded = rows_spans(self._trace, rows[np.isin(which, activities)] if activities else rows)
        return recorded.union(self.seen(lane, *activities)) if lane in self._sampled else recorded

    def seen(self, lane: int, *activities: Purpose) -> Spans:
        """Return the time of activities by sampled stacks alone, if no event names the activity."""
        sampled = self._sampled.get(lane)
        if sampled is None:
            return Spans.empty()
        of_stack = self._of_stack(lane)
        spans = Spans.empty()
        for activity in activities or tuple({rule.purpose for rule in ACTIVITY_NAMES.rules}):
            spans = spans.union(sampled.where_stack(of_stack == activity))
        return spans.minus(rows_spans(self._trace, self.outermost(lane)[0])) if len(spans) else spans

    def waiting(self, lane: int) -> Spans:
        """Return the time in which a thread waited: own time of waiting events, without operators in them."""
        trace = self._trace
        mine = np.flatnonzero((trace.lane == lane) & self.waits[trace.name] & (trace.device < 0))
        if not len(mine):
            return Spans.empty()
        inner = np.flatnonzero(
            (trace.lane == lane)
            & among(Kind.HOST_OP, Kind.DATA_LOADING)[trace.kind]
            & ~self.waits[trace.name]
            & (trace.device < 0)
        )
        # Where operators fill most of it, the thread did not wait: on a host alone it runs the backward
        # pass itself.
        filled = rows_spans(trace, inner).within(trace.start_ns[mine], trace.end_ns[mine])
        mine = mine[filled <= trace.duration_ns[mine] // 2]
        spans = rows_spans(trace, mine)
        inside = inner[spans.holds(trace.start_ns[inner])]
        # An operator around the wait is not within it.
        within = inside[
            spans.within(trace.start_ns[inside], trace.end_ns[inside]) >= trace.duration_ns[inside]
        ]
        return spans.minus(rows_spans(trace, within)) if len(within) else spans
