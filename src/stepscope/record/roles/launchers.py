"""Environment variables that the launchers of jobs set for each process.

Innermost first: torchrun runs inside Slurm or a pod and ``mpirun`` inside a Slurm job, where the variables of
the outer one are still there and number hosts, not ranks. Slurm, Kubernetes and TPU pods therefore come last,
and that they do not agree with another is not a contradiction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepscope.record.roles.role import Claim, Environ, EnvironmentReader

INTERACTIVE = ("bash", "interactive", "sh", "zsh")
"""Names of interactive Slurm jobs."""


def claims(environ: Environ) -> tuple[list[Claim], EnvironmentReader]:
    """Return the claims of the environment, the most trusted first, and their errors."""
    reader = EnvironmentReader(environ)
    made = [claim for source in SOURCES if (claim := source(reader)) is not None]
    return made, reader


def rank_variables(reader: EnvironmentReader) -> Claim | None:
    """torchrun, DeepSpeed, Accelerate and whoever follows them: ``RANK`` and ``WORLD_SIZE``.

    One of the two alone is ignored: ``RANK`` is a word that scripts use for other things. So is the rank of a
    pod in which several processes run.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    if "RANK" not in reader.environ or "WORLD_SIZE" not in reader.environ or pod_counts_nodes(reader):
        return None
    return reader.claim(
        rank_source(reader.environ),
        reader.integer("RANK"),
        reader.integer("WORLD_SIZE"),
        reader.said(*names),
        local_rank=reader.integer("LOCAL_RANK"),
        local_size=reader.integer("LOCAL_WORLD_SIZE"),
        node=reader.integer("GROUP_RANK", "NODE_RANK", "CROSS_RANK", "PET_NODE_RANK"),
    )


def rank_source(environ: Environ) -> str:
    """Return who set ``RANK``, as far as other variables show it."""
    if "TORCHELASTIC_RUN_ID" in environ:
        return "torchrun"
    if "PET_NNODES" in environ or "PET_NODE_RANK" in environ:
        return "Kubeflow"
    return "DeepSpeed" if "CROSS_RANK" in environ and "CROSS_SIZE" in environ else "RANK and WORLD_SIZE"


def local_variables(reader: EnvironmentReader) -> Claim | None:
    """Lightning's own launcher, which sets no ``RANK``: ``LOCAL_RANK``, ``NODE_RANK`` and ``WORLD_SIZE``."""
    if "RANK" in reader.environ or "LOCAL_RANK" not in reader.environ or "WORLD_SIZE" not in reader.environ:
        return None
    local, size = reader.integer("LOCAL_RANK"), reader.integer("WORLD_SIZE")
    node = reader.integer("NODE_RANK", "GROUP_RANK")
    many = reader.integer("LOCAL_WORLD_SIZE") or (size if not node else None)
    if local is None or many is None:
        return None  # how many ranks the hosts before this one have is not known
    rank = (node or 0) * many + local
    facts = {"local_rank": local, "local_size": many, "node": node}
    evidence = reader.said("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE")
    return reader.claim("LOCAL_RANK and WORLD_SIZE", rank, size, evidence, **facts)


def simple(
    source: str,
    rank: str,
    size: str,
    *,
    local: tuple[str, ...] = (),
    of: tuple[str, ...] = (),
    node: str = "",
) -> Callable[[EnvironmentReader], Claim | None]:
    """Return a launcher that sets one variable for each fact.

    Args:
        source: Its name.
        rank: The variable of the rank.
        size: Of the world size.
        local: Of the rank on the host.
        of: Of the number of ranks on the host.
        node: Of the number of the host.
    """

    def claim(reader: EnvironmentReader) -> Claim | None:
        if rank not in reader.environ or size not in reader.environ:
            return None
        number, many, evidence = reader.integer(rank), reader.integer(size), (rank, size, *local, *of, node)
        return reader.claim(
            source, number, many, reader.said(*evidence),
            local_rank=reader.integer(*local), local_size=reader.integer(*of),
            node=reader.integer(node) if node else None,
        )  # fmt: skip

    return claim


def pmix(reader: EnvironmentReader) -> Claim | None:
    """PMIx tells the rank and leaves the size to others; it is taken if one of them gives it."""
    rank = reader.integer("PMIX_RANK")
    size = reader.integer("PMIX_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
    return reader.claim("PMIx", rank, size, reader.said("PMIX_RANK", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS"))


def slurm(reader: EnvironmentReader) -> Claim | None:
    """Slurm, for processes that ``srun`` started.

    In a batch script or a shell inside an allocation, ``SLURM_NTASKS`` is the requested number and the
    process is the only one. ``srun`` is known by the variables of its step.
    """
    environ = reader.environ
    rank, size = reader.integer("SLURM_PROCID"), reader.integer("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID")
    if slurm_is_alone(environ):
        return None
    local, node = reader.integer("SLURM_LOCALID"), reader.integer("SLURM_NODEID")
    evidence = reader.said(*names)
    return reader.claim("Slurm", rank, size, evidence, local_rank=local, node=node, outer=True)


def slurm_is_alone(environ: Environ) -> bool:
    """Return whether this is the one process of a batch script or shell, and not one that srun began."""
    if environ.get("SLURM_JOB_NAME") in INTERACTIVE:
        return True
    in_step = any(name.startswith("SLURM_STEP_") for name in environ)
    return "SLURM_JOB_ID" in environ and not in_step and environ.get("SLURM_PROCID") == "0"


COORDINATED = (
    "MASTER_ADDR",
    "JAX_COORDINATOR_ADDRESS",
    "COORDINATOR_ADDRESS",
    "PET_MASTER_ADDR",
    "JOBSET_NAME",
)
"""Variables that show that the pods of a Job work together; the pods of many Jobs do not."""


def pod_counts_nodes(reader: EnvironmentReader) -> bool:
    """Return whether ``RANK`` numbers pods of several processes each, as Kubeflow's does.

    It is then this pod's number, and torchrun, once started in it, sets another beside ``LOCAL_RANK``.
    """
    if "LOCAL_RANK" in reader.environ or "PET_NNODES" not in reader.environ:
        return False
    return not one_process_per_pod(reader)


def one_process_per_pod(reader: EnvironmentReader) -> bool:
    """Return whether Kubeflow says that a pod runs one process; "auto", "gpu" and "cpu" may be any number."""
    return reader.environ.get("PET_NPROC_PER_NODE", "1") == "1"


def kubeflow_node(reader: EnvironmentReader) -> Claim | None:
    """A pod of Kubeflow before torchrun runs in it; exact if it runs a single process."""
    node, nodes = reader.integer("PET_NODE_RANK", "RANK"), elastic_count(reader)
    evidence = reader.said("PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE")
    if "PET_NNODES" not in reader.environ or "LOCAL_RANK" in reader.environ:
        return None
    source = "Kubeflow" if one_process_per_pod(reader) else "Kubeflow, which counts pods and not processes"
    return reader.claim(source, node, nodes, evidence, node=node, outer=True)


def elastic_count(reader: EnvironmentReader) -> int | None:
    """Return the number of pods; an elastic job gives a range, of which the end bounds the rank."""
    text = reader.environ.get("PET_NNODES", "").rpartition(":")[2]
    return int(text) if text.isascii() and text.isdigit() else None


def tpu_pod(reader: EnvironmentReader) -> Claim | None:
    """A host of a TPU slice, or of several slices; one process runs on each.

    As JAX counts: hosts within the slice, and slices before it.
    """
    hosts = reader.environ.get("TPU_PROCESS_ADDRESSES") or reader.environ.get("TPU_WORKER_HOSTNAMES")
    worker = reader.integer("TPU_WORKER_ID", "CLOUD_TPU_TASK_ID")
    if not hosts or worker is None:
        return None
    many = len([host for host in hosts.split(",") if host.strip()])
    slices, slice_id = reader.integer("MEGASCALE_NUM_SLICES") or 1, reader.integer("MEGASCALE_SLICE_ID") or 0
    evidence = reader.said("TPU_WORKER_ID", "CLOUD_TPU_TASK_ID", "MEGASCALE_SLICE_ID", "MEGASCALE_NUM_SLICES")
    evidence += (f"{many} hosts in the slice",)
    parts = (
        reader.claim("TPU pod", worker, many, evidence),
        reader.claim("TPU slices", slice_id, slices, evidence),
    )
    rank = worker + slice_id * many
    return Claim("TPU pod", rank, many * slices, evidence, node=rank, outer=True) if all(parts) else None


def indexed_job(reader: EnvironmentReader) -> Claim | None:
    """A pod of an indexed Job of Kubernetes, if the environment says that its pods work together.

    Without that the pods may as well be independent, each a run of its own; the index then says nothing.
    """
    index = reader.integer("JOB_COMPLETION_INDEX")
    if index is None:
        return None
    size = reader.integer("JAX_NUM_PROCESSES", "NUM_PROCESSES", "WORLD_SIZE")
    together = size is not None or any(name in reader.environ for name in COORDINATED)
    if not together or (size is not None and index >= size):
        return None
    evidence = reader.said("JOB_COMPLETION_INDEX", "JAX_NUM_PROCESSES", "NUM_PROCESSES", *COORDINATED)
    return Claim("indexed Job", index, size, evidence, node=index, outer=True)


CHIEFS = ("chief", "master")
HINT = (
    "see docs/guides/ranks.md; "
    'e.g. {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
)


class ConfigError(ValueError):
    """A mistake in a TF_CONFIG, in words for the end of a sentence."""


def tf_config(reader: EnvironmentReader) -> Claim | None:
    """Return the claim of TF_CONFIG; None if it is not set, names no cluster, or is refused."""
    text = reader.environ.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        return parse(text)
    except ConfigError as error:
        reader.refuse(f"TF_CONFIG {error}", hint=HINT)
        return None


class Task(msgspec.Struct):
    """The task of a TF_CONFIG; some operators write the index as text."""

    type: str = ""
    index: Annotated[int, Meta(ge=0)] = 0


class Config(msgspec.Struct):
    """A TF_CONFIG; hosts are a list, or an object of hosts by index."""

    cluster: dict[str, list[Any] | dict[str, Any]] | None = None
    task: Task | None = None


def parse(text: str) -> Claim | None:
    """Return the claim of a TF_CONFIG, None if it names no cluster.

    Raises:
        ConfigError: It contradicts itself or is not a TF_CONFIG.
    """
    try:
        config = msgspec.json.decode(text.encode(errors="replace"), type=Config, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"is not as TensorFlow reads it: {error}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"is not JSON: {error}") from None
    task = config.task or Task()
    if not config.cluster:
        return alone(task)
    jobs = {name: len(hosts) for name, hosts in config.cluster.items()}
    if all(name in jobs for name in CHIEFS):
        raise ConfigError("has both a chief and a master in its cluster; only one may be there")
    if not task.type:
        raise ConfigError("has a cluster but no task.type")
    return place(jobs, task.type, task.index)


def place(jobs: dict[str, int], kind: str, index: int) -> Claim:
    """Return the rank of a task; the chief comes first, then the workers.

    Raises:
        ConfigError: The cluster has no such task.
    """
    evidence = (f"TF_CONFIG task {kind} {index}", ", ".join(f"{many} {name}" for name, many in jobs.items()))
    chiefs = sum(jobs.get(name, 0) for name in CHIEFS)
    size = chiefs + jobs.get("worker", 0)
    if kind == "evaluator":
        return Claim("TF_CONFIG", 0, 1, evidence, "evaluator")
    if kind not in jobs:
        raise ConfigError(f"gives this task the type {kind!r:.40}, which is not in its cluster")
    if index >= jobs[kind]:
        raise ConfigError(f"gives this task the index {index}, but the cluster has {jobs[kind]} {kind}")
    if kind == "ps":
        return Claim("TF_CONFIG", index, size, evidence, "ps")
    if kind not in (*CHIEFS, "worker"):
        raise ConfigError(f"gives this task the type {kind!r:.40}; chief, worker, ps and evaluator are known")
    if chiefs > 1:
        raise ConfigError(f"has {chiefs} {kind}s in its cluster; only one may be there")
    return Claim("TF_CONFIG", index + chiefs if kind == "worker" else 0, size, evidence)


def alone(task: Task) -> Claim | None:
    """Return the role of a task without a cluster: none in particular, or an evaluator.

    Raises:
        ConfigError: It is a task that needs a cluster.
    """
    kind = task.type or "worker"
    if kind == "evaluator":
        return Claim("TF_CONFIG", 0, 1, ("TF_CONFIG task evaluator 0",), "evaluator")
    if kind not in (*CHIEFS, "worker") or task.index:
        raise ConfigError(f"gives this task as {kind:.40} {task.index} but names no cluster")
    return None


SOURCES: tuple[Callable[[EnvironmentReader], Claim | None], ...] = (
    rank_variables,
    tf_config,
    local_variables,
    simple(
        "Horovod",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        local=("HOROVOD_LOCAL_RANK",),
        of=("HOROVOD_LOCAL_SIZE",),
        node="HOROVOD_CROSS_RANK",
    ),
    # OMPI_COMM_WORLD_NODE_RANK is the rank on the node, not the number of the node.
    simple(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        local=("OMPI_COMM_WORLD_LOCAL_RANK",),
        of=("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    simple("PMI", "PMI_RANK", "PMI_SIZE", local=("MPI_LOCALRANKID",), of=("MPI_LOCALNRANKS",)),
    pmix,
    simple(
        "MVAPICH",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        local=("MV2_COMM_WORLD_LOCAL_RANK",),
        of=("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    simple("LSF", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", local=("JSM_NAMESPACE_LOCAL_RANK",)),
    slurm,
    kubeflow_node,
    tpu_pod,
    indexed_job,
)
"""Every launcher, in the order in which they are believed."""
