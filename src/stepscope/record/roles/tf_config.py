"""TF_CONFIG, by which TensorFlow's clusters say who is who.

``{"cluster": {"chief": [host], "worker": [host, …], "ps": […]}, "task": {"type": "worker", "index": 0}}``.
Parameter servers and the evaluator do not train: they have no part in the world size. The evaluator may be
left out of the cluster. "master" is the chief's older name.
"""

from __future__ import annotations

import json
from typing import Any

from stepscope.record.roles.claim import Claim, Reader

CHIEFS = ("chief", "master")
HINT = (
    'see docs/ranks.md; e.g. {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
)


class ConfigError(ValueError):
    """What is wrong with a TF_CONFIG, for the end of a sentence."""


def tf_config(reader: Reader) -> Claim | None:
    """Return what TF_CONFIG says; None where it is not set, names no cluster, or is refused."""
    text = reader.environ.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        return parse(text)
    except ConfigError as error:
        reader.refuse(f"TF_CONFIG {error}", hint=HINT)
        return None


def parse(text: str) -> Claim | None:
    """Return what a TF_CONFIG says, None where it names no cluster.

    Raises:
        ConfigError: It contradicts itself or is none.
    """
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"is no JSON: {error}") from None
    if not isinstance(config, dict):
        raise ConfigError(f"must be a JSON object, got {type(config).__name__}")
    cluster, task = part(config, "cluster"), part(config, "task")
    if not cluster:
        return alone(task)
    jobs = {str(name): host_count(str(name), hosts) for name, hosts in cluster.items()}
    if all(name in jobs for name in CHIEFS):
        raise ConfigError("has both a chief and a master in its cluster; only one may be there")
    if "type" not in task:
        raise ConfigError("has a cluster but no task.type")
    return place(jobs, str(task["type"]), index_of(task))


def place(jobs: dict[str, int], kind: str, index: int) -> Claim:
    """Return where in the world a task stands; the chief comes first, then the workers.

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


def alone(task: dict[str, Any]) -> Claim | None:
    """Return what a task without cluster is: nothing in particular, or an evaluator beside the cluster.

    Raises:
        ConfigError: It is a task that cannot be without.
    """
    kind = str(task.get("type", "worker"))
    if kind == "evaluator":
        return Claim("TF_CONFIG", 0, 1, ("TF_CONFIG task evaluator 0",), "evaluator")
    if kind not in (*CHIEFS, "worker") or index_of(task):
        raise ConfigError(f"gives this task as {kind} {task.get('index', 0)!r:.20} but names no cluster")
    return None


def part(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a part that is an object or missing.

    Raises:
        ConfigError: It is something else.
    """
    found = config.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"must have an object as {name}, got {type(found).__name__}")
    return found


def host_count(name: str, hosts: Any) -> int:
    """Return the number of hosts of a job: a list, or an object of hosts by index.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(hosts, list | dict):
        raise ConfigError(f"must list the hosts of {name!r:.40}, got {type(hosts).__name__}")
    return len(hosts)


def index_of(task: dict[str, Any]) -> int:
    """Return the index of a task; 0 where it is left out.

    Raises:
        ConfigError: It is no number from 0.
    """
    found = task.get("index", 0)
    if isinstance(found, str) and found.isascii() and found.isdigit():
        found = int(found)  # some operators write it as text
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ConfigError(f"must have a number from 0 as task.index, got {found!r:.40}")
    return found
