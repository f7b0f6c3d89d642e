"""Which device work communicates, by its name, and which operation it is."""

import pytest

from stepscope.trace.communication import communicates, operation

COMMUNICATES = {
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_reduce",
    "void ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclWorkElem)": "reduce_scatter",
    "ncclSymDevKernel_AllGather_ST(ncclSymDevArgs)": "all_gather",
    "void (anonymous namespace)::two_shot_all_reduce_kernel<float, 8>(float**)": "all_reduce",
    "void vllm::cross_device_reduce_1stage<__half, 8>(RankData*)": "all_reduce",
    "void deep_ep::intranode::dispatch<8, 768>(int4*)": "all_to_all",
    "multimem_all_gather_kernel<16>": "all_gather",
    "RcclOneShotAllreduce": "all_reduce",
    "all-reduce-start.3": "all_reduce",
    "Reduce-Scatter": "reduce_scatter",
    "ragged-all-to-all.1": "all_to_all",
}
OTHERS = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
    "hipify_me", "my_nccl_like_gemm", "all-reduce_fusion", "reduce", "fusion.all-reduce", "void  nccl", "",
]  # fmt: skip


@pytest.mark.parametrize("name", COMMUNICATES)
def test_work_that_communicates(name):
    assert communicates(name)
    assert operation(name) == COMMUNICATES[name]


@pytest.mark.parametrize("name", OTHERS)
def test_work_that_does_not(name):
    assert not communicates(name)
