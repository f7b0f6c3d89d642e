"""What initialised runtimes say; real ones in tests/e2e, here whatever a module may hold."""

from types import SimpleNamespace as Module

import pytest

from stepscope.record.roles.detect import accelerate, runtime_claim


def fails(*arguments):
    raise RuntimeError("another version")


def strategy(kind, index, jobs):
    spec = Module(as_dict=lambda: {job: ["h:1"] * many for job, many in jobs.items()})
    resolver = Module(task_type=kind, task_id=index, cluster_spec=lambda: spec)
    return Module(has_strategy=lambda: True, get_strategy=lambda: Module(cluster_resolver=resolver))


TORCH = Module(
    is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 4
)
JAX = Module(global_state=Module(client=object(), process_id=2, num_processes=3))
JAX_BACKEND = Module(_backends={"tpu": Module(process_count=lambda: 4, process_index=lambda: 3)})
HOROVOD = Module(
    is_initialized=lambda: True,
    rank=lambda: 1,
    size=lambda: 2,
    local_rank=lambda: 0,
    local_size=lambda: 1,
    cross_rank=lambda: 1,
)
DEEPSPEED = Module(is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 2)
ACCELERATE = Module(
    PartialState=Module(_shared_state={"process_index": 1, "num_processes": 2, "local_process_index": 0})
)
RAY = Module(
    get_context=lambda: Module(
        get_world_rank=lambda: 1,
        get_world_size=lambda: 2,
        get_local_rank=lambda: 0,
        get_local_world_size=lambda: 1,
        get_node_rank=lambda: 1,
    )
)
MPI = Module(
    Is_initialized=lambda: True,
    Is_finalized=lambda: False,
    COMM_WORLD=Module(Get_rank=lambda: 1, Get_size=lambda: 2),
)
TF = "tensorflow.python.distribute.distribute_lib"


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        ({"torch.distributed": TORCH}, ("torch.distributed", 1, 4)),
        ({"jax._src.distributed": JAX}, ("jax.distributed", 2, 3)),
        ({"jax._src.xla_bridge": JAX_BACKEND}, ("JAX", 3, 4)),
        ({"horovod.torch": HOROVOD}, ("Horovod", 1, 2)),
        ({"deepspeed.comm": DEEPSPEED}, ("DeepSpeed", 1, 2)),
        ({TF: strategy("worker", 1, {"worker": 2})}, ("tf.distribute", 1, 2)),
        ({TF: strategy("worker", 1, {"chief": 1, "worker": 2, "ps": 1})}, ("tf.distribute", 2, 3)),
        ({TF: strategy("ps", 1, {"chief": 1, "ps": 2})}, ("tf.distribute", 1, 1)),
        ({"accelerate.state": ACCELERATE}, ("Accelerate", 1, 2)),
        ({"ray.train": RAY}, ("Ray Train", 1, 2)),
        ({"mpi4py.MPI": MPI}, ("mpi4py", 1, 2)),
        ({"torch.distributed": TORCH, "ray.train": RAY}, ("torch.distributed", 1, 4)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_each_runtime(modules, expected):
    claim = runtime_claim(modules)
    assert (claim.source, claim.rank, claim.world_size) == expected
    assert claim.evidence


@pytest.mark.parametrize(
    "modules",
    [
        {},
        {"torch.distributed": Module(is_available=lambda: False)},
        {"torch.distributed": Module(is_available=lambda: True, is_initialized=lambda: False)},
        {"torch.distributed": Module(is_available=fails)},
        {"torch.distributed": None},
        {"jax._src.distributed": Module(global_state=Module(client=None, process_id=0, num_processes=1))},
        {"jax._src.distributed": Module()},
        {"jax._src.xla_bridge": Module(_backends={})},
        {"jax._src.xla_bridge": Module(_backends={"cpu": Module(process_count=lambda: 1)})},
        {"horovod.torch": Module(is_initialized=lambda: False)},
        {TF: Module(has_strategy=lambda: False)},
        {TF: Module(has_strategy=lambda: True, get_strategy=lambda: Module(cluster_resolver=None))},
        {"accelerate.state": Module(PartialState=Module(_shared_state={}))},
        {"ray.train": Module(get_context=fails)},
        {
            "ray.train": Module(
                get_context=lambda: Module(get_world_rank=lambda: None, get_world_size=lambda: None)
            )
        },
        {"mpi4py.MPI": Module(Is_initialized=lambda: False)},
    ],
)
def test_what_is_not_initialised_says_nothing(modules):
    assert runtime_claim(modules) is None


def test_of_several_the_one_that_knows_of_others_is_believed():
    alone = Module(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 0, get_world_size=lambda: 1
    )
    assert runtime_claim({"torch.distributed": alone}).world_size == 1
    assert runtime_claim({"torch.distributed": alone, "ray.train": RAY}).source == "Ray Train"


def test_accelerate_for_real():
    state = pytest.importorskip("accelerate.state")
    state.PartialState._reset_state()
    assert accelerate({"accelerate.state": state}) is None
    state.PartialState(cpu=True)
    assert accelerate({"accelerate.state": state}) is None  # one process
    state.PartialState._reset_state()
