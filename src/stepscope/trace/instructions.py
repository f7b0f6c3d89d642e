"""The instruction of an XLA program that each event ran: names, source lines, scopes and work for a draft."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepscope.trace.distinct import distinct
from stepscope.trace.draft import Array, Draft
from stepscope.trace.hlo import Instruction, Program
from stepscope.trace.model import Kind
from stepscope.trace.names import Paths, Strings

_RUNTIME = re.compile(
    r"::|^(?:PjitFunction\(|ParseArguments$|PJRT_|ThenExecute|RecordUsage|ComputeSemaphore|DevicePut|end: "
    r"|Handle input|Wait for (?:donation|usage) holds|(?:Allocate|Make)OutputBuffers"
    r"|Build buffer allocations$|shard_args$|cpp_pjit_|batched_device_put|ExecuteReplicated|CollectGarbage)"
)
"""Names of the work of XLA's own runtime on the host, recorded beside instructions."""

_WAITS = re.compile(
    r"wait for completion|^BufferSequencingEvent::|::Await$|BlockHostUntilReady|BlockUntilReady"
)
"""Those of them that wait for others."""


class Ran(NamedTuple):
    """The instruction that events ran, as they tell it; empty if they do not."""

    program: int
    """Number of the program, -1 = not recorded."""
    module: str
    instruction: str
    category: str = ""
    framework: str = ""
    source: str = ""
    """``file:line``."""


def add_instructions(draft: Draft, ran: Sequence[Ran], which: Array, programs: Mapping[int, Program]) -> None:
    """Give a draft's events the instructions that they ran.

    Scopes, Python stacks, operations and kinds of the events follow from these if nothing better is known.

    Args:
        draft: Its events; strings, scopes and stacks grow.
        ran: Distinct instructions as events name them.
        which: For each event its place in ``ran``, -1 for none.
        programs: Compiled programs by number.
    """
    rows = np.flatnonzero(which >= 0)
    if not len(rows):
        return
    which = which[rows]
    by_name = {program.name: program for program in programs.values()}
    homes = [programs.get(run.program) or by_name.get(run.module) for run in ran]
    instructions = [
        home.instruction(run.instruction) if home else None for run, home in zip(ran, homes, strict=True)
    ]
    modules = [run.module or (home.name if home else "") for run, home in zip(ran, homes, strict=True)]
    texts = _Texts(draft.strings)
    chains = [
        tuple(texts.number(frame) for frame in _frames(*pair)) for pair in zip(ran, instructions, strict=True)
    ]
    columns = {
        "instruction": [texts.number(run.instruction) for run in ran],
        "module": [texts.number(module) for module in modules],
        "label": [
            texts.number(f"{module}/{run.instruction}" if module else run.instruction)
            for run, module in zip(ran, modules, strict=True)
        ],
        "opcode": [
            texts.number(one.opcode if one else run.category)
            for run, one in zip(ran, instructions, strict=True)
        ],
        "framework": [
            texts.number(_framework(run, one)) for run, one in zip(ran, instructions, strict=True)
        ],
        "line": [chain[-1] if chain else -1 for chain in chains],
        "shapes": [texts.number(one.shapes) if one else -1 for one in instructions],
        "number_format": [texts.number(one.number_format) if one else -1 for one in instructions],
        "bytes": [one.bytes if one else -1 for one in instructions],
    }  # fmt: skip
    calls = _calls(draft, rows, np.array(columns["label"])[which])
    draft.instructions = {
        "row": rows, "calls": calls, **{key: np.array(values)[which] for key, values in columns.items()},
    }  # fmt: skip
    _add_flops(draft, rows, which, calls, instructions)
    _add_scopes(draft, rows, which, ran, instructions)
    draft.strings = texts.strings()
    _add_stacks(draft, rows, which, chains)
    _tell_runtime(draft, rows)


def _framework(run: Ran, one: Instruction | None) -> str:
    # Operators that were merged are joined by semicolons; the first stands for all.
    return (run.framework.rstrip(":") or (one.framework if one else "")).split(";", 1)[0]


def _frames(run: Ran, one: Instruction | None) -> tuple[str, ...]:
    if one and one.frames:
        return one.frames
    file, _, line = run.source.rpartition(":")
    return (f"{file}({line})",) if file and line.isdecimal() else ()


class _Texts:
    """A string table that grows."""

    def __init__(self, strings: Strings) -> None:
        self.texts = list(strings.texts())
        self.numbers = {text: number for number, text in enumerate(self.texts)}

    def number(self, text: str) -> int:
        """Return the number of a text, -1 for an empty one."""
        if not text:
            return -1
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def strings(self) -> Strings:
        return Strings.of(self.texts)


def _calls(draft: Draft, rows: Array, label: Array) -> Array:
    """Return 1 for each event with which an execution begins, else 0.

    Of events of one instruction that follow each other on a lane, those begin one that have the first one's
    name: an instruction may run several kernels, always the same ones. A device's work is not counted again
        at the host's call.
    """
    order = np.lexsort((draft.start_ns[rows], draft.lane[rows]))
    lane, names, labels = draft.lane[rows][order], draft.name[rows][order], label[order]
    fresh = np.append(True, (labels[1:] != labels[:-1]) | (lane[1:] != lane[:-1]))
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(rows)), 0))
    calls = np.zeros(len(rows), np.uint8)
    calls[order] = names == names[first]
    device = np.array([lane.device for lane in draft.lanes])[draft.lane[rows]] >= 0
    if device.any():
        calls[~device & np.isin(label, label[device])] = 0
    return calls


def _add_flops(
    draft: Draft, rows: Array, which: Array, calls: Array, instructions: Sequence[Instruction | None]
) -> None:
    """Count the operations of each execution, if the file does not."""
    flops = np.full(len(draft.name), -1, np.int64) if draft.flops is None else draft.flops
    if (flops >= 0).any():
        return
    own = np.array([one.flops if one and one.flops else -1 for one in instructions], np.int64)[which]
    flops[rows] = np.where(calls > 0, own, -1)
    draft.flops = flops


def _add_scopes(
    draft: Draft, rows: Array, which: Array, ran: Sequence[Ran], instructions: Sequence[Instruction | None]
) -> None:
    """Put events into their framework operators' scopes, those that have none of their own."""
    names = [_framework(*pair) for pair in zip(ran, instructions, strict=True)]
    wanted = [name.split("/") if "/" in name else [] for name in names]
    known = draft.scopes.texts() if draft.scopes is not None else []
    scopes, numbers = Paths.of([*(path.split("/") for path in known), *wanted])
    scope = np.full(len(draft.name), -1, np.int32) if draft.scope is None else draft.scope
    scope = np.where(scope >= 0, numbers[scope], -1).astype(np.int32) if known else scope
    numbers_ = numbers[len(known) :][which]
    # A program's name alone is less than what the program says.
    shallow = (scope[rows] < 0) | (scopes.depths()[scope[rows]] == 1 if len(scopes) else False)
    scope[rows] = np.where((numbers_ >= 0) & shallow, numbers_, scope[rows])
    if len(scopes):
        draft.scope, draft.scopes = scope, scopes


def _add_stacks(draft: Draft, rows: Array, which: Array, chains: Sequence[tuple[int, ...]]) -> None:
    known: dict[tuple[int, int], int] = {}
    numbers = []
    for chain in chains:
        at = -1
        for name in chain:
            at = known.setdefault((at, name), len(known))
        numbers.append(at)
    if known:
        table = np.array(list(known), np.int32).reshape(-1, 2)
        draft.stacks = Paths(table[:, 0].copy(), table[:, 1].copy(), draft.strings)
        draft.stack = np.full(len(draft.name), -1, np.int32)
        draft.stack[rows] = np.array(numbers, np.int32)[which]


def _tell_runtime(draft: Draft, rows: Array) -> None:
    """Separate the runtime's work on the host from operators, which are the instructions, if known.

    Waits are neither.
    """
    host = draft.kind == Kind.HOST_OP
    host[rows] = False
    names: Any = distinct(draft.name[host])
    for rule, kind in ((_RUNTIME, Kind.RUNTIME_CALL), (_WAITS, Kind.OTHER)):
        numbers = [number for number in names.tolist() if rule.search(draft.strings[number])]
        draft.kind[host & np.isin(draft.name, numbers)] = kind
