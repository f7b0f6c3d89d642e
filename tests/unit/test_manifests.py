"""The manifests under examples/cluster are what their readers take.

Pods and the Deployment are checked against Kubernetes' own schemas (package ``kubernetes-validate``), the
JobSet against the models of its API that Kubeflow's trainer publishes (``kubeflow-trainer-api``). The other
kinds around pods are in no package that the suite needs; their fields are written down below, from Kubeflow's
training operator v1 (compared with the models in ``kubeflow-training`` 1.9.4) and KubeRay v1
(ray-project.github.io/kuberay/reference/api). Unknown fields are refused, as their API servers do.
"""

import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "examples" / "cluster"
VERSION = "1.33"
META = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 40}
    },
}
POD = {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}}


def kind(api: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {"apiVersion": {"const": api}, "kind": {"const": name}, "metadata": META, "spec": spec},
    }


def fields(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


COUNT = {"type": "integer", "minimum": 0}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
REPLICA = fields(
    ["template"],
    replicas=COUNT,
    restartPolicy={"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
    template=POD,
)
SCHEMAS = {
    "jobset.yaml": kind(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        fields(
            ["replicatedJobs"],
            replicatedJobs={
                "type": "array",
                "minItems": 1,
                "items": fields(["name", "template"], name={"type": "string"}, replicas=COUNT, template=POD),
            },
            network=fields(
                [], enableDNSHostnames={"type": "boolean"}, subdomain={"type": "string"},
                publishNotReadyAddresses={"type": "boolean"},
            ),
            successPolicy={"type": "object"},
            failurePolicy=fields([], maxRestarts=COUNT, rules={"type": "array"}),
            startupPolicy={"type": "object"},
            suspend={"type": "boolean"},
            ttlSecondsAfterFinished=COUNT,
        ),
    ),
    "pytorchjob.yaml": kind(
        "kubeflow.org/v1",
        "PyTorchJob",
        fields(
            ["pytorchReplicaSpecs"],
            runPolicy=fields(
                [], cleanPodPolicy={"enum": ["None", "Running", "All"]}, backoffLimit=COUNT,
                ttlSecondsAfterFinished=COUNT, activeDeadlineSeconds=COUNT, suspend={"type": "boolean"},
            ),
            elasticPolicy={"type": "object"},
            nprocPerNode={"type": "string"},
            pytorchReplicaSpecs=fields(["Master"], Master=REPLICA, Worker=REPLICA),
        ),
    ),
    "rayjob.yaml": kind(
        "ray.io/v1",
        "RayJob",
        fields(
            ["entrypoint", "rayClusterSpec"],
            entrypoint={"type": "string"},
            shutdownAfterJobFinishes={"type": "boolean"},
            ttlSecondsAfterFinished=COUNT,
            runtimeEnvYAML={"type": "string"},
            submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
            rayClusterSpec=fields(
                ["headGroupSpec"],
                rayVersion={"type": "string"},
                enableInTreeAutoscaling={"type": "boolean"},
                headGroupSpec=fields(["template"], rayStartParams=TEXTS, template=POD),
                workerGroupSpecs={
                    "type": "array",
                    "items": fields(
                        ["groupName", "template"], groupName={"type": "string"}, replicas=COUNT,
                        minReplicas=COUNT, maxReplicas=COUNT, rayStartParams=TEXTS, template=POD,
                    ),
                },
            ),
        ),
    ),
}  # fmt: skip
MANIFESTS = sorted(CLUSTER.glob("*.yaml"))


def read(path: Path) -> Any:
    return pytest.importorskip("yaml", reason="reads the manifests").safe_load(path.read_text())


def templates(node: Any) -> list[dict[str, Any]]:
    """Every pod template of a manifest, as the specification of a pod."""
    if isinstance(node, list):
        return [found for each in node for found in templates(each)]
    if not isinstance(node, dict):
        return []
    own = [node["template"]["spec"]] if "containers" in (node.get("template") or {}).get("spec", {}) else []
    return own + [found for each in node.values() for found in templates(each)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_kinds_that_kubernetes_does_not_bring_have_only_fields_that_they_know(name):
    jsonschema = pytest.importorskip("jsonschema", reason="checks the manifests")
    jsonschema.validate(read(CLUSTER / name), SCHEMAS[name])
    wrong = read(CLUSTER / name)
    wrong["spec"]["replica"] = 3
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        jsonschema.validate(wrong, SCHEMAS[name])


def unknown(kind: Any, node: Any, place: str = "") -> list[str]:
    """Return the places of a manifest that a pydantic model, or those of its fields, does not know."""
    if isinstance(node, list):
        return [found for each in node for found in unknown(kind, each, f"{place}[]")]
    nested = (kind, *get_args(kind), *(inner for each in get_args(kind) for inner in get_args(each)))
    model = next((each for each in nested if hasattr(each, "model_fields")), None)
    if model is None or not isinstance(node, dict):
        return []
    known = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    wrong = [f"{place}.{name}" for name in node if name not in known]
    inside = [unknown(known[name], node[name], f"{place}.{name}") for name in node if name in known]
    return wrong + [found for each in inside for found in each]


@pytest.mark.slow
def test_the_jobset_is_one_for_its_own_api():
    name = "kubeflow_trainer_api.models.jobset_v1alpha2_job_set"
    models = pytest.importorskip(name, reason="holds the models of JobSet's API")
    manifest = read(CLUSTER / "jobset.yaml")
    pod = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    del pod["containers"][0]["resources"]  # the models take no quantities such as 4Gi; the test of pods does
    assert unknown(models.JobsetV1alpha2JobSet, manifest) == []
    models.JobsetV1alpha2JobSet.model_validate(manifest)
    pod["containers"][0]["images"] = ""
    manifest["spec"]["failurePolicy"]["maxRestart"] = 3
    assert len(unknown(models.JobsetV1alpha2JobSet, manifest)) == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_pods_are_what_kubernetes_takes(path):
    validate = pytest.importorskip("kubernetes_validate", reason="holds Kubernetes' schemas")
    found = templates(read(path))
    assert found
    for spec in found:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        validate.validate(pod, VERSION, strict=True)
    job = read(path)["spec"].get("replicatedJobs", [{}])[0].get("template")
    if job:
        whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, **job}
        validate.validate(whole, VERSION, strict=True)
    if path.name == "serve.yaml":
        validate.validate(read(path), VERSION, strict=True)


@pytest.mark.parametrize("path", sorted(CLUSTER.iterdir()), ids=lambda path: path.name)
def test_what_they_start_is_there_and_logs_outlive_the_job(path):
    text = path.read_text()
    programs = re.findall(r"examples/[\w/]+\.py", text)
    assert all((ROOT / name).is_file() for name in programs)
    assert programs or "stepscope" in text
    assert "/shared/runs" in text


def test_the_batch_script_is_one_for_bash_and_asks_only_for_what_slurm_knows():
    path = CLUSTER / "slurm.sbatch"
    subprocess.run(["bash", "-n", str(path)], check=True)
    known = {  # man sbatch
        "job-name", "nodes", "ntasks-per-node", "cpus-per-task", "time", "requeue", "signal", "output",
    }  # fmt: skip
    asked = re.findall(r"^#SBATCH --([\w-]+)", path.read_text(), re.MULTILINE)
    assert asked
    assert set(asked) <= known
    assert path.read_text().splitlines()[0] == "#!/bin/bash"
