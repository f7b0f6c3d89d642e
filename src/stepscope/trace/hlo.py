"""XLA programs in a profile: the source line and the framework operator of each instruction.

XPlane files keep each compiled program as an ``HloProto`` in the plane ``/host:metadata``. An event says only
the names of its program and instruction; operator, source and shapes are looked up here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from stepscope.trace.schema import message, text

_TYPES = {
    1: ("pred", 1), 2: ("s8", 1), 3: ("s16", 2), 4: ("s32", 4), 5: ("s64", 8), 6: ("u8", 1), 7: ("u16", 2),
    8: ("u32", 4), 9: ("u64", 8), 10: ("f16", 2), 11: ("f32", 4), 12: ("f64", 8), 15: ("c64", 8),
    16: ("bf16", 2), 18: ("c128", 16), 19: ("f8e5m2", 1), 20: ("f8e4m3fn", 1), 21: ("s4", 0.5),
    22: ("u4", 0.5), 23: ("f8e4m3b11fnuz", 1), 24: ("f8e5m2fnuz", 1), 25: ("f8e4m3fnuz", 1),
    28: ("f8e4m3", 1), 29: ("f8e3m4", 1), 32: ("f4e2m1fn", 0.5), 33: ("f8e8m0fnu", 1),
}  # fmt: skip
"""Name and bytes of each ``PrimitiveType`` of xla_data.proto that has a size."""

_TUPLE = 13
_GEMM = ("__cublas$gemm", "__cublas$lt$matmul", "__triton_gemm")
_CONVOLUTION = "__cudnn$conv"
_DEEPEST = 64
"""Depth of nested calls that is followed; XLA has no program that calls itself."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a program."""

    name: str
    opcode: str
    """``dot``, ``fusion``, ``custom-call`` …; for a call, its target stands behind a colon."""
    framework: str
    """The framework's operator with its scopes, such as ``jit(step)/encoder/dot_general``."""
    frames: tuple[str, ...]
    """The source stack, outermost first, as ``file(line): function``."""
    shapes: str
    """Types and shapes of operands and result: ``f32[8,4] f32[4,2] -> f32[8,2]``."""
    number_format: str
    """Type of the first operand of its products, else of its result."""
    flops: int
    """Operations of the products and convolutions in it; 0 if it holds none."""
    bytes: int
    """Bytes of operands and result, each once; -1 if a shape has no size."""


def read_program(data: bytes) -> Program | None:
    """Read an ``HloProto``; None if it is damaged: a profile is read without it."""
    try:
        return Program(message("HloProto").FromString(data).hlo_module)
    except DecodeError:
        return None


class Program:
    """One compiled program; an instruction is decoded when it is needed.

    Args:
        module: Its ``HloModuleProto``.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.name = text(module.name)
        self.computations = {computation.id: computation for computation in module.computations}
        self.by_id = {
            instruction.id: instruction for part in module.computations for instruction in part.instructions
        }
        self.by_name = {text(instruction.name): instruction for instruction in self.by_id.values()}
        self.frames: dict[int, tuple[str, ...]] = {0: ()}
        self.work: dict[int, tuple[int, str]] = {}

    def instruction(self, name: str) -> Instruction | None:
        """Return an instruction, None if the program has none of this name."""
        entry = self.by_name.get(name)
        if entry is None:
            return None
        operands = [self.by_id[number].shape for number in entry.operand_ids if number in self.by_id]
        flops, number_format = self.flops(entry)
        sizes = [_bytes(shape) for shape in (*operands, entry.shape)]
        target = text(entry.custom_call_target)
        return Instruction(
            name=text(entry.name),
            opcode=text(entry.opcode) + (f":{target}" if target else ""),
            framework=text(entry.metadata.op_name),
            frames=self.source(entry.metadata),
            shapes=f"{' '.join(map(_shape, operands))} -> {_shape(entry.shape)}".strip(),
            number_format=number_format or _format(entry.shape),
            flops=flops,
            bytes=-1 if min(sizes) < 0 else sum(sizes),
        )

    # --- source ---

    def source(self, metadata: Any) -> tuple[str, ...]:
        """Return the frames that an instruction's metadata names, outermost first."""
        frames = self.stack(metadata.stack_frame_id)
        if frames or not metadata.source_file:
            return frames
        return (f"{text(metadata.source_file)}({metadata.source_line})",)

    def stack(self, number: int, depth: int = 0) -> tuple[str, ...]:
        """Return the frames of a numbered stack; numbers count from 1."""
        index = self.module.stack_frame_index
        if number not in self.frames:
            if not 0 < number <= len(index.stack_frames) or depth > 1000:
                return ()
            frame = index.stack_frames[number - 1]
            above = self.stack(frame.parent_frame_id, depth + 1)
            self.frames[number] = (*above, *self.frame(frame.file_location_id))
        return self.frames[number]

    def frame(self, number: int) -> tuple[str, ...]:
        """Return the frame at a numbered place, nothing if there is no such place."""
        index = self.module.stack_frame_index
        if not 0 < number <= len(index.file_locations):
            return ()
        place = index.file_locations[number - 1]
        file, function = (
            text(names[at - 1]) if 0 < at <= len(names) else ""
            for names, at in (
                (index.file_names, place.file_name_id),
                (index.function_names, place.function_name_id),
            )
        )
        return (f"{file}({place.line}): {function}" if function else f"{file}({place.line})",)

    # --- work ---

    def flops(self, instruction: Any, depth: int = 0) -> tuple[int, str]:
        """Return operations of an instruction and of its calls, and their type.

        The body of a loop or a condition does not count: its events say how often that ran.
        """
        if instruction.id in self.work or depth > _DEEPEST:
            return self.work.get(instruction.id, (0, ""))
        opcode, target = text(instruction.opcode), text(instruction.custom_call_target)
        kind_and_name = 0, ""
        if opcode == "dot":
            kind_and_name = self.dot(
                instruction, instruction.dot_dimension_numbers.lhs_contracting_dimensions
            )
        elif opcode == "convolution" or target.startswith(_CONVOLUTION):
            kind_and_name = self.convolution(instruction)
        elif target.startswith(_GEMM):
            kind_and_name = self.dot(instruction, _contracting(instruction.backend_config))
        elif opcode in ("fusion", "call", "async-start"):
            called = [
                self.flops(inner, depth + 1)
                for number in instruction.called_computation_ids
                if number in self.computations
                for inner in self.computations[number].instructions
            ]
            kind_and_name = sum(work for work, _ in called), next((kind for work, kind in called if work), "")
        self.work[instruction.id] = kind_and_name
        return kind_and_name

    def dot(self, instruction: Any, contracting: Any) -> tuple[int, str]:
        """Two for each element of the result and each place along the contracted dimensions."""
        left = self.operand(instruction, 0)
        if left is None or not len(contracting) or max(contracting) >= len(left.dimensions):
            return 0, ""
        depth = math.prod(left.dimensions[number] for number in contracting)
        return 2 * math.prod(_result(instruction.shape).dimensions) * depth, _format(left)

    def convolution(self, instruction: Any) -> tuple[int, str]:
        """Two for each element of the result, place of the window and input feature of a group.

        cuDNN's gradients name the tensors as the forward pass does, whichever of them is the result: image
        and weight are told by the call's target.
        """
        target, numbers = text(instruction.custom_call_target), instruction.convolution_dimension_numbers
        image, weight, result = (
            self.operand(instruction, 0),
            self.operand(instruction, 1),
            _result(instruction.shape),
        )
        if target.endswith("BackwardInput"):
            image, result = result, image
        elif target.endswith("BackwardFilter"):
            weight, result = result, weight
        if image is None or weight is None or result is None:
            return 0, ""
        places = (*numbers.kernel_spatial_dimensions, numbers.kernel_input_feature_dimension)
        if not len(weight.dimensions) or max(places) >= len(weight.dimensions):
            return 0, ""
        once = math.prod(weight.dimensions[number] for number in places)
        return 2 * math.prod(result.dimensions) * once, _format(image)

    def operand(self, instruction: Any, place: int) -> Any | None:
        """Return the shape of an operand, None if there is none."""
        numbers = instruction.operand_ids
        known = len(numbers) > place and numbers[place] in self.by_id
        return self.by_id[numbers[place]].shape if known else None


def _contracting(config: bytes) -> list[int]:
    """Return the contracted dimensions of a matrix product of a library, from its configuration."""
    try:
        whole = json.loads(config)
        part = whole.get("gemm_backend_config", whole)
        return [int(number) for number in part["dot_dimension_numbers"]["lhs_contracting_dimensions"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _result(shape: Any) -> Any:
    """Return the first part of a tuple: libraries return their scratch memory as the rest."""
    return shape.tuple_shapes[0] if shape.element_type == _TUPLE and len(shape.tuple_shapes) else shape


def _format(shape: Any) -> str:
    return _TYPES.get(_result(shape).element_type, ("", 0))[0]


def _shape(shape: Any) -> str:
    if shape.element_type == _TUPLE:
        return f"({' '.join(map(_shape, shape.tuple_shapes))})"
    name = _TYPES.get(shape.element_type, ("opaque", 0))[0]
    return f"{name}[{','.join(map(str, shape.dimensions))}]"


def _bytes(shape: Any) -> int:
    if shape.element_type == _TUPLE:
        parts = [_bytes(part) for part in shape.tuple_shapes]
        return -1 if min(parts, default=0) < 0 else sum(parts)
    if shape.element_type not in _TYPES:
        return -1 if shape.element_type not in (0, 17) else 0  # nothing, and a token
    elements: int = math.prod(shape.dimensions)
    return math.ceil(elements * _TYPES[shape.element_type][1])
