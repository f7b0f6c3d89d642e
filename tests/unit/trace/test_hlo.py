"""Programs of XLA: what an instruction is, where it was written, and how much work it is."""

import json

import numpy as np
import pytest

from stepscope.trace.hlo import read_program
from stepscope.trace.schema import message

F32, BF16, U8, TUPLE, TOKEN = 11, 16, 6, 13, 17


def shape(kind, *dimensions):
    return message("HloShape")(element_type=kind, dimensions=dimensions)


def instruction(number, name, opcode, result, operands=(), **fields):
    one = message("HloInstruction")(
        id=number, name=name.encode(), opcode=opcode.encode(), operand_ids=operands, **fields
    )
    one.shape.CopyFrom(result)
    return one


def program(*computations, frames=None):
    proto = message("HloProto")()
    proto.hlo_module.name = b"jit_step"
    for number, instructions in enumerate(computations):
        proto.hlo_module.computations.add(id=number).instructions.extend(instructions)
    if frames is not None:
        proto.hlo_module.stack_frame_index.CopyFrom(frames)
    return read_program(proto.SerializeToString())


def matrices(left=(8, 4), right=(4, 2), kind=F32):
    return instruction(1, "x", "parameter", shape(kind, *left)), instruction(
        2, "w", "parameter", shape(kind, *right)
    )


def dot(number=3, name="dot.1", result=(8, 2), kind=F32, contracting=(1,)):
    one = instruction(number, name, "dot", shape(kind, *result), (1, 2))
    one.dot_dimension_numbers.lhs_contracting_dimensions.extend(contracting)
    return one


def test_a_product_is_two_for_each_element_and_place():
    found = program([*matrices(), dot()]).instruction("dot.1")
    assert (found.flops, found.bytes, found.number_format) == (2 * 8 * 2 * 4, 4 * (32 + 8 + 16), "f32")
    assert found.shapes == "f32[8,4] f32[4,2] -> f32[8,2]"


def test_a_batch_is_part_of_the_result():
    made = program(
        [*matrices((5, 8, 4), (5, 4, 2), BF16), dot(result=(5, 8, 2), kind=BF16, contracting=(2,))]
    )
    found = made.instruction("dot.1")
    assert (found.flops, found.bytes, found.number_format) == (5 * 2 * 8 * 2 * 4, 2 * 5 * 56, "bf16")


def test_a_fusion_has_the_work_of_what_it_fuses_and_moves_its_own_operands():
    fused = instruction(9, "fusion", "fusion", shape(BF16, 8, 2), (1,), called_computation_ids=[0])
    found = program([*matrices(), dot()], [fused]).instruction("fusion")
    assert (found.flops, found.bytes, found.number_format) == (128, 4 * 32 + 2 * 16, "f32")


def test_a_loop_has_no_work_of_its_own():
    loop = instruction(9, "while", "while", shape(F32, 8, 2), (1,), called_computation_ids=[0])
    made = program([*matrices(), dot()], [loop])
    assert (made.instruction("while").flops, made.instruction("dot.1").flops) == (0, 128)


def test_a_program_that_calls_itself_ends():
    call = instruction(9, "call", "call", shape(F32, 8, 2), (), called_computation_ids=[0])
    assert program([call]).instruction("call").flops == 0


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul$f8"])
def test_a_matrix_product_of_a_library_says_its_dimensions_in_its_configuration(target):
    config = {"gemm_backend_config": {"dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"]}}}
    result = message("HloShape")(element_type=TUPLE, tuple_shapes=[shape(F32, 8, 2), shape(U8, 4096)])
    call = instruction(
        3, "gemm", "custom-call", result, (1, 2), custom_call_target=target.encode(),
        backend_config=json.dumps(config).encode(),
    )  # fmt: skip
    found = program([*matrices(), call]).instruction("gemm")
    assert (found.flops, found.opcode) == (128, f"custom-call:{target}")


@pytest.mark.parametrize("config", [b"", b"not json", b"[]", b'{"gemm_backend_config": 3}'])
def test_a_configuration_that_says_nothing_gives_no_work(config):
    call = instruction(
        3, "gemm", "custom-call", shape(F32, 8, 2), (1, 2), custom_call_target=b"__cublas$gemm",
        backend_config=config,
    )  # fmt: skip
    assert program([*matrices(), call]).instruction("gemm").flops == 0


IMAGE, WEIGHT, OUT = (2, 3, 10, 10), (6, 3, 3, 3), (2, 6, 8, 8)


@pytest.mark.parametrize(
    ("target", "operands", "result"),
    [
        ("", (IMAGE, WEIGHT), OUT),
        ("__cudnn$convForward", (IMAGE, WEIGHT), OUT),
        ("__cudnn$convBackwardInput", (OUT, WEIGHT), IMAGE),
        ("__cudnn$convBackwardFilter", (IMAGE, OUT), WEIGHT),
    ],
)
def test_a_convolution_and_its_gradients_are_the_same_work(target, operands, result):
    parameters = [
        instruction(n, f"p{n}", "parameter", shape(F32, *each)) for n, each in enumerate(operands, 1)
    ]
    one = instruction(
        3, "conv", "custom-call" if target else "convolution", shape(F32, *result), (1, 2),
        custom_call_target=target.encode(),
    )  # fmt: skip
    one.convolution_dimension_numbers.kernel_input_feature_dimension = 1
    one.convolution_dimension_numbers.kernel_spatial_dimensions.extend([2, 3])
    assert program([*parameters, one]).instruction("conv").flops == 2 * 2 * 6 * 8 * 8 * 3 * 3 * 3


def test_where_it_was_written_is_a_stack_with_functions():
    index = message("StackFrameIndex")(
        file_names=[b"train.py", b"net.py"],
        function_names=[b"<module>", b"encode"],
        file_locations=[
            {"file_name_id": 1, "function_name_id": 1, "line": 7},
            {"file_name_id": 2, "function_name_id": 2, "line": 42},
        ],
        stack_frames=[{"file_location_id": 1}, {"file_location_id": 2, "parent_frame_id": 1}],
    )
    one = dot()
    one.metadata.op_name, one.metadata.stack_frame_id = b"jit(step)/encoder/dot_general", 2
    one.metadata.source_file, one.metadata.source_line = b"old.py", 1
    found = program([*matrices(), one], frames=index).instruction("dot.1")
    assert found.frames == ("train.py(7): <module>", "net.py(42): encode")
    assert found.framework == "jit(step)/encoder/dot_general"


def test_without_a_stack_the_line_alone_is_known():
    one = dot()
    one.metadata.source_file, one.metadata.source_line = b"old.py", 12
    assert program([*matrices(), one]).instruction("dot.1").frames == ("old.py(12)",)


def test_a_shape_without_a_size_makes_traffic_unknown():
    opaque = instruction(1, "x", "parameter", message("HloShape")(element_type=14))
    token = instruction(2, "t", "parameter", shape(TOKEN))
    one = instruction(3, "f", "custom-call", shape(F32, 2), (1,))
    made = program([opaque, token, one, instruction(4, "g", "custom-call", shape(F32, 2), (2,))])
    assert (made.instruction("f").bytes, made.instruction("g").bytes) == (-1, 8)


def test_a_damaged_program_is_none_and_an_unknown_instruction_too():
    assert read_program(b"\x0a\xff\xff\xff") is None
    assert program([*matrices(), dot()]).instruction("dot.2") is None


def test_jax_counts_the_same_work():
    jax = pytest.importorskip("jax")
    left, right = np.ones((16, 32), np.float32), np.ones((32, 8), np.float32)
    compiled = jax.jit(lambda a, b: a @ b).lower(left, right).compile()
    [module] = compiled.runtime_executable().hlo_modules()
    proto = message("HloProto")()
    proto.hlo_module.ParseFromString(module.as_serialized_hlo_module_proto())
    made = read_program(proto.SerializeToString())
    flops = sum(made.instruction(name.decode()).flops for name in _entry(proto.hlo_module))
    assert flops == compiled.cost_analysis()["flops"] == 2 * 16 * 32 * 8


def _entry(module):
    return [each.name for each in max(module.computations, key=lambda each: each.id).instructions]
