"""Work by shapes, of XLA; cases.txt has that of PyTorch."""

from stepscope.analyze.shapes import shape_table

SMALL, LARGE = [[64, 64], [64, 64]], [[4096, 4096], [4096, 4096]]
RECORDED = {"timeline", "steps", "device", "launches", "shapes"}


def test_an_instruction_of_xla_stands_with_all_its_kernels(make):
    e, K = make.event, make.Kind
    kernel = {"device": 0, "stream": 7}
    trace = make.build(
        [
            e("im2col", K.KERNEL, 0, 100, flops=-1, **kernel),
            e("gemm", K.KERNEL, 100, 300, flops=-1, **kernel),
            e("im2col", K.KERNEL, 500, 100, flops=-1, **kernel),
            e("gemm", K.KERNEL, 600, 300, flops=-1, **kernel),
        ],
        tables={
            "instructions": {
                "row": [0, 1, 2, 3], "calls": [1, 0, 1, 0], "label": ["jit_f/conv.1"] * 4,
                "instruction": ["conv.1"] * 4, "module": ["jit_f"] * 4, "opcode": ["custom-call"] * 4,
                "framework": ["jit(f)/conv"] * 4, "line": [""] * 4, "shapes": ["bf16[2] -> bf16[2]"] * 4,
                "number_format": ["bf16"] * 4, "bytes": [50] * 4,
            }
        },
        recorded={"timeline", "device", "flops"},
    )  # fmt: skip
    trace.flops[[0, 2]] = 1000
    (row,) = shape_table(trace).rows
    assert (row.name, row.kind, row.calls, row.total_ns) == ("jit_f/conv.1", "convolution", 2, 800)
    assert (row.flops, row.bytes, row.number_format) == (1000, 50, "bfloat16")
