"""Who a process is, by everything that may say so."""

import json
from types import SimpleNamespace

import pytest

from stepscope.errors import UsageError
from stepscope.record.roles import detect

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RUN_ID": "job",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_NAME": "train",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
}
PMI = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
MVAPICH = {
    "MV2_COMM_WORLD_RANK": "2",
    "MV2_COMM_WORLD_SIZE": "4",
    "MV2_COMM_WORLD_LOCAL_RANK": "0",
    "MV2_COMM_WORLD_LOCAL_SIZE": "2",
}
LSF = {"JSM_NAMESPACE_RANK": "2", "JSM_NAMESPACE_SIZE": "4", "JSM_NAMESPACE_LOCAL_RANK": "0"}
HOROVOD = {
    "HOROVOD_RANK": "2",
    "HOROVOD_SIZE": "4",
    "HOROVOD_LOCAL_RANK": "0",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_CROSS_RANK": "1",
}
POD = {"RANK": "2", "WORLD_SIZE": "4", "PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "1"}
PODS_OF_EIGHT = {"RANK": "1", "WORLD_SIZE": "16", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "8"}
TPU = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b,c,d"}
SLICES = {**TPU, "MEGASCALE_NUM_SLICES": "2", "MEGASCALE_SLICE_ID": "1"}
INDEXED = {"JOB_COMPLETION_INDEX": "2", "JAX_COORDINATOR_ADDRESS": "job-0.svc", "JAX_NUM_PROCESSES": "4"}
LIGHTNING = {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2"}


def found(environ, **options):
    """Rank, world size, source, local rank, node."""
    role = detect(environ=environ, **options)
    assert not role.problems
    return role.rank, role.world_size, role.source, role.local_rank, role.node


def test_a_single_process_is_the_chief():
    role = detect(environ={})
    assert (role.rank, role.world_size, role.name, role.chief, role.writes) == (0, 1, "chief", True, True)
    assert role.alone
    assert str(role) == "chief, rank 0 of 1 (single process)"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (TORCHRUN, (3, 8, "torchrun", 1, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8, "RANK and WORLD_SIZE", None, None)),
        (SLURM, (5, 8, "Slurm", 1, 2)),
        (OPEN_MPI, (3, 4, "Open MPI", 1, None)),
        (PMI, (2, 4, "PMI", 0, None)),
        ({"PMIX_RANK": "2", "SLURM_STEP_NUM_TASKS": "4"}, (2, 4, "PMIx", None, None)),
        (MVAPICH, (2, 4, "MVAPICH", 0, None)),
        (LSF, (2, 4, "LSF", 0, None)),
        (HOROVOD, (2, 4, "Horovod", 0, 1)),
        (POD, (2, 4, "Kubeflow", None, 2)),
        (PODS_OF_EIGHT, (1, 2, "Kubeflow, which counts pods and not processes", None, 1)),
        ({**PODS_OF_EIGHT, **TORCHRUN}, (3, 8, "torchrun", 1, 1)),
        ({"PET_NNODES": "1:4", "PET_NODE_RANK": "3"}, (3, 4, "Kubeflow", None, 3)),
        (TPU, (1, 4, "TPU pod", None, 1)),
        (SLICES, (5, 8, "TPU pod", None, 5)),
        (INDEXED, (2, 4, "indexed Job", None, 2)),
        (LIGHTNING, (1, 2, "LOCAL_RANK and WORLD_SIZE", 1, 0)),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "CROSS_RANK": "0", "CROSS_SIZE": "1"},
            (1, 2, "DeepSpeed", None, 0),
        ),
    ],
    ids=lambda value: value[2] if isinstance(value, tuple) else "",
)
def test_each_launcher(environ, expected):
    assert found(environ) == expected
    role = detect(environ=environ)
    assert (role.name, role.writes, role.telemetry) == ("worker", False, True)
    assert role.evidence


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({**SLURM, **TORCHRUN}, (3, 8)),  # torchrun inside srun
        ({**SLURM, **OPEN_MPI}, (3, 4)),  # mpirun's daemons are started by srun and leave its variables
        ({**OPEN_MPI, **HOROVOD, "HOROVOD_RANK": "3"}, (3, 4)),
        ({**TPU, **INDEXED}, (1, 4)),
        ({**SLURM, "TF_CONFIG": '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker"}}'}, (0, 2)),
    ],
)
def test_the_inner_launcher_is_believed_without_a_warning(environ, place):
    assert found(environ)[:2] == place


def test_what_is_overruled_is_kept():
    (line,) = detect(environ={**SLURM, **TORCHRUN}).overruled
    assert line.startswith("Slurm: rank 5 of 8 (SLURM_PROCID=5, SLURM_STEP_NUM_TASKS=8")
    assert detect(environ={**HOROVOD, **PMI}).overruled == ()  # they agree


class TestTraps:
    @pytest.mark.parametrize(
        "environ",
        [
            {"RANK": "16"},  # a script's own word
            {"WORLD_SIZE": "4"},
            {"SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"},  # a shell on the login node of an allocation
            {**SLURM, "SLURM_JOB_NAME": "bash"},
            {**SLURM, "SLURM_JOB_NAME": "interactive"},
            {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_JOB_NAME": "x"},  # sbatch
            {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},  # srun of one task in it
            {"JOB_COMPLETION_INDEX": "2"},  # pods of a Job may be independent
            {"JOB_COMPLETION_INDEX": "5", "JAX_NUM_PROCESSES": "4"},
            {"PMIX_RANK": "1"},
            {"LOCAL_RANK": "1", "NODE_RANK": "1", "WORLD_SIZE": "4"},  # ranks of the first host are unknown
            {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"},
            {"TF_CONFIG": ""},
            {"RANK": "", "WORLD_SIZE": ""},
        ],
        ids=str,
    )
    def test_a_process_that_is_alone(self, environ):
        assert found(environ)[:2] == (0, 1)

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            ({"RANK": "x", "WORLD_SIZE": "8"}, "RANK must be a number from 0, got 'x'"),
            ({"RANK": "-1", "WORLD_SIZE": "8"}, "RANK must be a number from 0, got '-1'"),
            ({"RANK": "5", "WORLD_SIZE": "4"}, "rank 5 is not below the world size 4"),
            ({"RANK": "1", "WORLD_SIZE": "0"}, "rank 1 is not below the world size 0"),
            ({"OMPI_COMM_WORLD_RANK": "9" * 40, "OMPI_COMM_WORLD_SIZE": "2"}, "must be a number from 0"),
            ({**TPU, "TPU_WORKER_ID": "7"}, "rank 7 is not below the world size 4"),
            ({"TF_CONFIG": "{"}, "TF_CONFIG is not JSON"),
        ],
    )
    def test_what_cannot_be_right_is_not_used(self, environ, message):
        role = detect(environ=environ)
        assert (role.rank, role.world_size) == (0, 1)
        assert len(role.problems) == 1
        assert message in str(role.problems[0])
        assert "hint:" in str(role.problems[0])

    def test_what_cannot_be_right_leaves_the_next_to_be_believed(self):
        role = detect(environ={**OPEN_MPI, "RANK": "4", "WORLD_SIZE": "4"})
        assert (role.source, role.rank, len(role.problems)) == ("Open MPI", 3, 1)

    def test_variables_left_behind_in_a_shell_are_a_contradiction(self):
        role = detect(environ={**OPEN_MPI, "RANK": "0", "WORLD_SIZE": "2"})
        assert (role.source, role.rank) == ("RANK and WORLD_SIZE", 0)
        assert "contradicts Open MPI: rank 3 of 4" in str(role.problems[0])

    def test_torchrun_on_every_rank_of_mpi_is_none(self):
        assert found({**OPEN_MPI, "RANK": "7", "WORLD_SIZE": "8"})[:2] == (7, 8)


class TestArguments:
    def test_they_win(self):
        role = detect(environ=TORCHRUN, rank=1, world_size=2, name="trainer")
        assert (role.rank, role.world_size, role.name, role.source) == (1, 2, "trainer", "arguments")
        assert role.settled
        assert not role.problems
        assert role.overruled[0].startswith("torchrun: rank 3 of 8")

    def test_a_rank_alone_is_of_as_many_as_it_implies(self):
        assert detect(environ={}, rank=2).world_size == 3

    def test_a_world_size_alone_leaves_the_rank_to_others(self):
        assert detect(environ=TORCHRUN, world_size=16).world_size == 16

    @pytest.mark.parametrize(
        "arguments",
        [
            {"rank": -1, "world_size": 4},
            {"rank": 4, "world_size": 4},
            {"world_size": 0},
            {"rank": 0, "world_size": 0},
        ],
    )
    def test_a_rank_outside_its_world_is_refused(self, arguments):
        with pytest.raises(UsageError, match="rank must be from 0"):
            detect(environ={}, **arguments)

    @pytest.mark.parametrize("arguments", [{"rank": "1"}, {"rank": True}, {"rank": 0, "world_size": 2.0}])
    def test_what_is_no_integer_is_refused(self, arguments):
        with pytest.raises(UsageError, match="must be an integer"):
            detect(environ={}, **arguments)

    def test_an_environment_outside_the_given_world_is_refused(self):
        with pytest.raises(UsageError, match="rank must be from 0 to world_size - 1, got rank 3 of 2"):
            detect(environ=TORCHRUN, world_size=2)


class TestRoles:
    @pytest.mark.parametrize(
        ("chief", "rank"), [("first", 0), ("last", 7), (3, 3), (lambda size: size // 2, 4)]
    )
    def test_the_chief_is_who_the_user_says(self, chief, rank):
        for each in range(8):
            role = detect(environ={}, rank=each, world_size=8, chief=chief)
            assert role.chief == role.writes == (each == rank)
            assert role.name == ("chief" if each == rank else "worker")
            assert role.telemetry

    def test_a_worker_that_is_called_chief_is_told(self):
        role = detect(environ={}, rank=1, world_size=2, name="chief")
        assert (role.name, role.writes) == ("worker", False)
        assert 'role="chief", but this is rank 1 and rank 0 is the chief' in str(role.problems[0])

    def test_an_evaluator_writes_and_has_no_telemetry(self):
        role = detect(environ=TORCHRUN, name="evaluator")
        assert (role.writes, role.chief, role.telemetry) == (True, False, False)
        assert role.label == "evaluator"

    def test_a_parameter_server_has_telemetry_only(self):
        config = {"cluster": {"chief": ["a"], "ps": ["b", "c"]}, "task": {"type": "ps", "index": 1}}
        role = detect(environ={"TF_CONFIG": json.dumps(config)})
        assert (role.rank, role.name, role.writes, role.telemetry, role.label) == (
            1,
            "ps",
            False,
            True,
            "ps 1",
        )
        assert not role.chief

    def test_restarts(self):
        assert detect(environ=TORCHRUN).restarts == 2
        assert detect(environ={**SLURM, "SLURM_RESTART_COUNT": "1"}).restarts == 1


def test_a_runtime_overrules_the_launcher_and_takes_the_host_from_it():
    dist = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 3,
        get_world_size=lambda: 8,
    )
    role = detect(environ=TORCHRUN, modules={"torch.distributed": dist})
    assert (role.source, role.rank, role.world_size, role.settled) == ("torch.distributed", 3, 8, True)
    assert (role.local_rank, role.local_size, role.node) == (1, 2, 1)
    other = detect(environ={**TORCHRUN, "RANK": "2"}, modules={"torch.distributed": dist})
    assert (other.rank, other.local_rank) == (3, None)
    assert not other.problems
    assert len(other.overruled) == 1


# --- what others make of the same variables -----------------------------------------------------------


@pytest.fixture
def only(monkeypatch):
    """A function that makes some variables the only ones of their kind."""

    def set_to(environ):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

    return set_to


@pytest.mark.parametrize(
    ("module", "cluster", "environ"),
    [
        ("slurm_cluster", "SlurmCluster", {**SLURM, "SLURM_STEP_NODELIST": "n[1-4]"}),
        ("ompi_cluster", "OmpiCluster", {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:1"}),
        ("cloud_tpu_cluster", "GkeTpuCluster", SLICES),
    ],
)
def test_jax_agrees(only, module, cluster, environ):
    home = pytest.importorskip(f"jax._src.clusters.{module}")
    only(environ)
    theirs = getattr(home, cluster)
    assert found(environ)[:2] == (theirs.get_process_id(), theirs.get_process_count())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "environ"),
    [("TorchElasticEnvironment", TORCHRUN), ("SLURMEnvironment", {**SLURM, "SLURM_NTASKS_PER_NODE": "2"})],
)
def test_lightning_agrees(only, name, environ):
    home = pytest.importorskip("lightning_fabric.plugins.environments")
    only(environ)
    theirs = getattr(home, name)()
    expected = theirs.global_rank(), theirs.world_size(), theirs.local_rank(), theirs.node_rank()
    rank, size, _, local, node = found(environ)
    assert (rank, size, local, node) == expected
