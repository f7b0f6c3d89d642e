"""Claims of the distributed runtimes that are initialised in this process.

Each is looked up among the modules that are loaded already; nothing is imported, nothing initialised and
nothing sent. ``jax.process_index()`` would start JAX's backend, after which ``jax.distributed.initialize``
fails, so JAX's own state is read instead. All of this is the code of others, and some of it is private: if it
raises, it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepscope.record.roles.role import Claim

Modules = Mapping[str, Any]


def claim(modules: Modules) -> Claim | None:
    """Return what the initialised runtimes say; of several the first that knows of more than one process.

    Args:
        modules: ``sys.modules``.
    """
    found = [each for runtime in RUNTIMES if (each := ask(runtime, modules)) is not None]
    return next((each for each in found if (each.world_size or 0) > 1), found[0] if found else None)


def ask(runtime: Callable[[Modules], Claim | None], modules: Modules) -> Claim | None:
    """Return what a runtime says, if that makes sense."""
    try:
        found = runtime(modules)
    except Exception:  # noqa: BLE001  another version of it, or a state that we do not know
        return None
    if found is None or found.world_size is None:
        return None
    return found if found.name == "ps" or 0 <= found.rank < found.world_size else None


def torch(modules: Modules) -> Claim | None:
    """``torch.distributed``, and with it DDP, FSDP, Accelerate, Lightning and DeepSpeed."""
    dist = modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    rank, size = int(dist.get_rank()), int(dist.get_world_size())
    return Claim("torch.distributed", rank, size, ("torch.distributed.get_rank()",))


def jax(modules: Modules) -> Claim | None:
    """``jax.distributed``; without it a backend that is started and spans several processes, as on TPUs."""
    state = getattr(modules.get("jax._src.distributed"), "global_state", None)
    if state is not None and state.client is not None:
        return Claim(
            "jax.distributed", int(state.process_id), int(state.num_processes), ("its global state",)
        )
    started = getattr(modules.get("jax._src.xla_bridge"), "_backends", None) or {}
    for name, backend in dict(started).items():
        size = int(backend.process_count())
        if size > 1:
            return Claim("JAX", int(backend.process_index()), size, (f"its started backend {name}",))
    return None


def horovod(modules: Modules) -> Claim | None:
    """Horovod, whichever framework it serves."""
    for name in ("torch", "tensorflow", "keras", "mxnet"):
        hvd = modules.get(f"horovod.{name}")
        if hvd is not None and hvd.is_initialized() and hvd.size() > 1:
            places = int(hvd.local_rank()), int(hvd.local_size()), int(hvd.cross_rank())
            return Claim("Horovod", int(hvd.rank()), int(hvd.size()), ("hvd.rank()",), None, *places)
    return None


def deepspeed(modules: Modules) -> Claim | None:
    """DeepSpeed on its own back end; on ``torch.distributed``, that has answered already."""
    comm = modules.get("deepspeed.comm")
    if comm is None or not comm.is_initialized():
        return None
    return Claim(
        "DeepSpeed", int(comm.get_rank()), int(comm.get_world_size()), ("deepspeed.comm.get_rank()",)
    )


def tensorflow(modules: Modules) -> Claim | None:
    """The strategy in whose scope this is, by its cluster resolver."""
    library = modules.get("tensorflow.python.distribute.distribute_lib")
    if library is None or not library.has_strategy():
        return None
    strategy = library.get_strategy()
    resolver = strategy.cluster_resolver
    if resolver is None or resolver.task_type is None:
        return None
    jobs = {job: len(hosts) for job, hosts in resolver.cluster_spec().as_dict().items()}
    kind, index = str(resolver.task_type), int(resolver.task_id or 0)
    chiefs = jobs.get("chief", 0) + jobs.get("master", 0)
    size = chiefs + jobs.get("worker", 0)
    evidence = (f"{type(strategy).__name__}: task {kind} {index}",)
    if kind == "evaluator":
        return Claim("tf.distribute", 0, 1, evidence, "evaluator")
    name = "ps" if kind == "ps" else None
    rank = index + chiefs if kind == "worker" else index
    return Claim("tf.distribute", rank, size, evidence, name) if size else None


def accelerate(modules: Modules) -> Claim | None:
    """Accelerate's state, for the back ends that are not ``torch.distributed``."""
    state = getattr(modules.get("accelerate.state"), "PartialState", None)
    facts = state._shared_state if state is not None else {}
    if facts.get("num_processes", 1) < 2:
        return None
    place = int(facts["process_index"]), int(facts["num_processes"])
    return Claim(
        "Accelerate", *place, ("PartialState().process_index",), None, facts.get("local_process_index")
    )


def ray(modules: Modules) -> Claim | None:
    """Ray Train, in a worker's training function; elsewhere it has no rank and raises."""
    train = modules.get("ray.train")
    if train is None:
        return None
    context = train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    if rank is None or size is None:
        return None
    local, many, node = context.get_local_rank(), context.get_local_world_size(), context.get_node_rank()
    evidence = ("ray.train.get_context().get_world_rank()",)
    return Claim("Ray Train", int(rank), int(size), evidence, None, local, many, node)


def mpi4py(modules: Modules) -> Claim | None:
    """MPI by mpi4py, where it has started."""
    mpi = modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized() or mpi.COMM_WORLD.Get_size() < 2:
        return None
    world = mpi.COMM_WORLD
    return Claim("mpi4py", int(world.Get_rank()), int(world.Get_size()), ("MPI.COMM_WORLD.Get_rank()",))


RUNTIMES = (torch, jax, horovod, deepspeed, tensorflow, accelerate, ray, mpi4py)
"""In the order in which they are believed."""
