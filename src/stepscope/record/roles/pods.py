"""Pods and hosts that an orchestrator numbers: Kubeflow, TPU slices, indexed Jobs of Kubernetes.

What they number are pods or hosts; that is the rank only where each runs one process.
"""

from __future__ import annotations

from stepscope.record.roles.claim import Claim, Reader

COORDINATED = (
    "MASTER_ADDR",
    "JAX_COORDINATOR_ADDRESS",
    "COORDINATOR_ADDRESS",
    "PET_MASTER_ADDR",
    "JOBSET_NAME",
)
"""Variables that tell that the pods of a Job work together; pods of many a Job do not."""


def pod_counts_nodes(reader: Reader) -> bool:
    """Whether ``RANK`` numbers pods of several processes each, as Kubeflow's does.

    It is then this pod's number, and torchrun, once started in it, sets another beside ``LOCAL_RANK``.
    """
    if "LOCAL_RANK" in reader.environ or "PET_NNODES" not in reader.environ:
        return False
    return not one_process_per_pod(reader)


def one_process_per_pod(reader: Reader) -> bool:
    """Whether Kubeflow says that a pod runs one process; "auto", "gpu" and "cpu" may be any number."""
    return reader.environ.get("PET_NPROC_PER_NODE", "1") == "1"


def kubeflow_node(reader: Reader) -> Claim | None:
    """A pod of Kubeflow before torchrun runs in it; exact where it runs a single process."""
    node, nodes = reader.integer("PET_NODE_RANK", "RANK"), elastic_count(reader)
    evidence = reader.said("PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE")
    if "PET_NNODES" not in reader.environ or "LOCAL_RANK" in reader.environ:
        return None
    if not reader.pair("Kubeflow", node, nodes, evidence):
        return None
    assert node is not None
    source = "Kubeflow" if one_process_per_pod(reader) else "Kubeflow, which counts pods and not processes"
    return Claim(source, node, nodes, evidence, node=node, outer=True)


def elastic_count(reader: Reader) -> int | None:
    """Return the number of pods; an elastic job gives a range, of which the end bounds the rank."""
    text = reader.environ.get("PET_NNODES", "").rpartition(":")[2]
    return int(text) if text.isascii() and text.isdigit() else None


def tpu_pod(reader: Reader) -> Claim | None:
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
    if not reader.pair("TPU pod", worker, many, evidence) or not reader.pair(
        "TPU slices", slice_id, slices, evidence
    ):
        return None
    rank = worker + slice_id * many
    return Claim("TPU pod", rank, many * slices, evidence, node=rank, outer=True)


def indexed_job(reader: Reader) -> Claim | None:
    """A pod of an indexed Job of Kubernetes, where something says that its pods work together.

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
