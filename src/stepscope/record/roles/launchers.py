"""What the launchers of jobs put into the environment of each process.

Innermost first: torchrun runs inside Slurm or a pod and ``mpirun`` inside a Slurm job, where the variables of
the outer one are still there and number hosts, not ranks. Slurm, Kubernetes and TPU pods therefore come last,
and that they do not agree with another is no contradiction.
"""

from __future__ import annotations

from collections.abc import Callable

from stepscope.record.roles.claim import Claim, Environ, Reader
from stepscope.record.roles.pods import indexed_job, kubeflow_node, pod_counts_nodes, tpu_pod
from stepscope.record.roles.tf_config import tf_config

INTERACTIVE = ("bash", "interactive", "sh", "zsh")
"""Names of Slurm jobs in which a person types."""


def claims(environ: Environ) -> tuple[list[Claim], Reader]:
    """Return what the environment says, the most trusted first, and what in it cannot be right."""
    reader = Reader(environ)
    found = [claim for source in SOURCES if (claim := source(reader)) is not None]
    return found, reader


def rank_variables(reader: Reader) -> Claim | None:
    """torchrun, DeepSpeed, Accelerate and whoever follows them: ``RANK`` and ``WORLD_SIZE``.

    One of the two alone is ignored: ``RANK`` is a word that scripts use for other things. So is the rank of a
    pod in which several processes run.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    if "RANK" not in reader.environ or "WORLD_SIZE" not in reader.environ or pod_counts_nodes(reader):
        return None
    rank, size = reader.integer("RANK"), reader.integer("WORLD_SIZE")
    source = rank_source(reader.environ)
    if not reader.pair(source, rank, size, reader.said("RANK", "WORLD_SIZE")):
        return None
    assert rank is not None
    node = reader.integer("GROUP_RANK", "NODE_RANK", "CROSS_RANK", "PET_NODE_RANK")
    local, many = reader.integer("LOCAL_RANK"), reader.integer("LOCAL_WORLD_SIZE")
    return Claim(source, rank, size, reader.said(*names), None, local, many, node)


def rank_source(environ: Environ) -> str:
    """Say who set ``RANK``, as far as other variables give it away."""
    if "TORCHELASTIC_RUN_ID" in environ:
        return "torchrun"
    if "PET_NNODES" in environ or "PET_NODE_RANK" in environ:
        return "Kubeflow"
    return "DeepSpeed" if "CROSS_RANK" in environ and "CROSS_SIZE" in environ else "RANK and WORLD_SIZE"


def local_variables(reader: Reader) -> Claim | None:
    """Lightning's own launcher, which sets no ``RANK``: ``LOCAL_RANK``, ``NODE_RANK`` and ``WORLD_SIZE``."""
    if "RANK" in reader.environ or "LOCAL_RANK" not in reader.environ or "WORLD_SIZE" not in reader.environ:
        return None
    local, size = reader.integer("LOCAL_RANK"), reader.integer("WORLD_SIZE")
    node = reader.integer("NODE_RANK", "GROUP_RANK")
    many = reader.integer("LOCAL_WORLD_SIZE") or (size if not node else None)
    if local is None or many is None:
        return None  # how many ranks the hosts before this one have is not known
    rank = (node or 0) * many + local
    evidence = reader.said("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE")
    if not reader.pair("LOCAL_RANK", rank, size, evidence):
        return None
    return Claim("LOCAL_RANK and WORLD_SIZE", rank, size, evidence, None, local, many, node)


def simple(
    source: str,
    rank: str,
    size: str,
    *,
    local: tuple[str, ...] = (),
    of: tuple[str, ...] = (),
    node: str = "",
) -> Callable[[Reader], Claim | None]:
    """Return a launcher that sets one variable for each fact.

    Args:
        source: Its name.
        rank: The variable of the rank.
        size: Of the world size.
        local: Of the rank on the host.
        of: Of the number of ranks on the host.
        node: Of the number of the host.
    """

    def claim(reader: Reader) -> Claim | None:
        if rank not in reader.environ or size not in reader.environ:
            return None
        evidence = reader.said(rank, size, *local, *of, node)
        number, many = reader.integer(rank), reader.integer(size)
        if not reader.pair(source, number, many, reader.said(rank, size)):
            return None
        assert number is not None
        where = reader.integer(node) if node else None
        return Claim(source, number, many, evidence, None, reader.integer(*local), reader.integer(*of), where)

    return claim


def pmix(reader: Reader) -> Claim | None:
    """PMIx tells the rank and leaves the size to others; it is taken where one of them says it."""
    rank = reader.integer("PMIX_RANK")
    size = reader.integer("PMIX_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
    evidence = reader.said("PMIX_RANK", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS")
    if not reader.pair("PMIx", rank, size, evidence):
        return None
    assert rank is not None
    return Claim("PMIx", rank, size, evidence)


def slurm(reader: Reader) -> Claim | None:
    """Slurm, for processes that ``srun`` started.

    In a batch script or a shell inside an allocation, ``SLURM_NTASKS`` is what was asked for and the process
    is the only one. ``srun`` is known by the variables of its step.
    """
    environ = reader.environ
    rank, size = reader.integer("SLURM_PROCID"), reader.integer("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID")
    if rank is None or size is None or slurm_is_alone(environ):
        return None
    if not reader.pair("Slurm", rank, size, reader.said(*names[:3])):
        return None
    local, node = reader.integer("SLURM_LOCALID"), reader.integer("SLURM_NODEID")
    return Claim("Slurm", rank, size, reader.said(*names), None, local, None, node, outer=True)


def slurm_is_alone(environ: Environ) -> bool:
    """Whether this is the one process of a batch script, or a person's shell, and not one that srun began."""
    if environ.get("SLURM_JOB_NAME") in INTERACTIVE:
        return True
    in_step = any(name.startswith("SLURM_STEP_") for name in environ)
    return "SLURM_JOB_ID" in environ and not in_step and environ.get("SLURM_PROCID") == "0"


SOURCES: tuple[Callable[[Reader], Claim | None], ...] = (
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
