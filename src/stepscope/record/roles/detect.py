"""The one place that decides which process of a job this is.

Order: arguments, initialised runtimes, launcher environments, a single process. The first source is believed;
the claims of the others are kept for ``stepscope whoami`` and for warnings.

Runtimes are looked up among the modules that are loaded already; nothing is imported, nothing initialised and
nothing sent. ``jax.process_index()`` would start JAX's backend, after which ``jax.distributed.initialize``
fails, so JAX's own state is read instead. All of this is the code of others, and some of it is private: if it
raises, it says nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stepscope.errors import RoleError, UsageError
from stepscope.record.roles import launchers
from stepscope.record.roles.role import (
    CHIEF,
    EVALUATOR,
    PS,
    WORKER,
    Chief,
    Claim,
    Environ,
    EnvironmentReader,
    Role,
    chief_rank,
)
from stepscope.text import counted

RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


def detect(
    *,
    environ: Environ,
    modules: Mapping[str, Any] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    name: str | None = None,
    chief: Chief = "first",
) -> Role:
    """Find out which process of its job this is.

    Args:
        environ: The process environment.
        modules: ``sys.modules``, in which initialised runtimes are looked up; None leaves them out.
        rank: The rank, if the user said it; then nobody else is believed.
        world_size: Number of processes that train, if the user said it.
        name: "evaluator", "ps", or another name for this process.
        chief: Which rank writes the summaries.

    Raises:
        UsageError: An argument is out of range.
    """
    for label, given in (("rank", rank), ("world_size", world_size)):
        if given is not None and (not isinstance(given, int) or isinstance(given, bool)):
            raise UsageError(
                f"{label} must be an integer, got {given!r:.60}", hint="leave it out to detect it"
            )
    running = runtime_claim(modules or {})
    started, reader = launchers.claims(environ)
    others = ([running] if running else []) + started
    if rank is not None:
        size = rank + 1 if world_size is None else world_size
        others.insert(0, Claim("arguments", rank, size, (f"rank={rank}",)))
    if not others:
        size = 1 if world_size is None else world_size
        role = Role(0, size, problems=tuple(reader.problems), restarts=restarts_of(environ))
        return named(checked(role, "world_size="), name, None, chief)
    best = filled(others[0], others[1:])
    guessed = best.world_size if best.world_size is not None else max(best.rank + 1, 2)
    size = guessed if world_size is None else world_size
    unknown = () if best.world_size is not None or world_size is not None else ("the world size is unknown",)
    quarrels = () if rank is not None or running else contradictions(best, others[1:])
    role = Role(
        best.rank,
        size,
        source=best.source,
        local_rank=best.local_rank,
        local_size=best.local_size,
        node=best.node,
        restarts=restarts_of(environ),
        evidence=best.evidence + unknown,
        overruled=tuple(str(claim) for claim in others[1:] if not agree(best, claim)),
        problems=tuple(reader.problems) + quarrels,
        settled=rank is not None or running is not None,
    )
    return named(role if best.name == PS else checked(role, best.source), name, best.name, chief)


def checked(role: Role, source: str) -> Role:
    """Return a role after checking that its rank is within the world size.

    Raises:
        UsageError: It is not; only arguments can cause that.
    """
    if 0 <= role.rank < role.world_size:
        return role
    raise UsageError(
        f"rank must be from 0 to world_size - 1, got rank {role.rank} of {role.world_size} (from {source})",
        hint="pass rank= and world_size= as the launcher numbers them",
    )


def named(role: Role, wish: str | None, known: str | None, chief: Chief) -> Role:
    """Return a role with its name and its chief."""
    who, problem = chief_rank(chief, role.world_size)
    problems = role.problems if problem is None else (*role.problems, problem)
    usual = CHIEF if role.rank == who else WORKER
    name = wish or known or usual
    if name == CHIEF and usual != CHIEF:
        text = f'role="chief", but this is rank {role.rank} and rank {who} is the chief; it is a worker'
        problems = (*problems, RoleError(text, hint=f"choose the chief with chief={role.rank} on every rank"))
        name = WORKER
    return replace(role, name=name, chief_rank=who, problems=problems)


def filled(best: Claim, others: list[Claim]) -> Claim:
    """Return a claim, completed by the other claims about the host if they agree on rank and world size."""
    for other in others:
        if (other.rank, other.world_size, other.name) == (best.rank, best.world_size, best.name):
            best = replace(
                best,
                local_rank=other.local_rank if best.local_rank is None else best.local_rank,
                local_size=other.local_size if best.local_size is None else best.local_size,
                node=other.node if best.node is None else best.node,
            )
    return best


def contradictions(best: Claim, others: list[Claim]) -> tuple[RoleError, ...]:
    """Return the contradictions between launchers, as from a variable left behind in a shell."""
    contrary = [other for other in others if not other.outer and not agree(best, other)]
    contrary = [other for other in contrary if not (nested(best, other) or nested(other, best))]
    return tuple(
        RoleError(
            f"{best} contradicts {other}; the first is believed",
            hint="unset the variables of the launcher that is not used, or pass rank= and world_size= to Run",
        )
        for other in contrary
    )


def agree(one: Claim, other: Claim) -> bool:
    """Return whether two sources name the same process."""
    same_kind = (one.name in (PS, EVALUATOR)) == (other.name in (PS, EVALUATOR))
    sizes = {one.world_size, other.world_size} - {None}
    return same_kind and one.rank == other.rank and len(sizes) < 2


def nested(inner: Claim, outer: Claim) -> bool:
    """Return whether each process of the outer launcher may have started equally many of the inner one's."""
    if not inner.world_size or not outer.world_size or inner.world_size % outer.world_size:
        return False
    return inner.rank // (inner.world_size // outer.world_size) == outer.rank


def restarts_of(environ: Environ) -> int:
    """Return how often the launcher has started the job again."""
    return EnvironmentReader(environ).integer(*RESTARTS) or 0


class RuntimeWatch:
    """Waits for a runtime to be initialised, which knows better than the environment did.

    Args:
        role: The role found when the run was made.
        again: Finds it out again.
    """

    def __init__(self, role: Role, again: Callable[[], Role]) -> None:
        self.role, self._again = role, again
        self._settled = role.settled

    def look(self) -> Role | None:
        """Return the role if it has turned out to be another one, else None. Costs some microseconds."""
        if self._settled or runtime_claim(sys.modules) is None:
            return None
        self._settled = True
        try:
            role = self._again()
        except UsageError:  # the arguments do not fit what the runtime says; they were believed before
            return None
        before, self.role = self.role, role
        return None if role.same_place(before) else role


def lost_chief(role: Role, points: int) -> RoleError:
    """Return the error of a run that began to write and then learnt that another rank is the chief."""
    return RoleError(
        f"this run was created before {role.source} was initialised, and wrote {counted(points, 'point')} "
        f"as if it were alone; it is rank {role.rank} of {role.world_size}, so from now on rank "
        f"{role.chief_rank} writes",
        hint="create the Run after initialising, or pass rank= and world_size=",
    )


def new_chief(role: Role) -> RoleError:
    """Return the error of a run that wrote nothing and then learnt that it is the chief."""
    return RoleError(
        f"this run was created before {role.source} was initialised and took itself for another rank; it is "
        f"the chief, rank {role.rank} of {role.world_size}, and what was logged before is not recorded",
        hint="create the Run after initialising, or pass rank= and world_size=",
    )


# --- runtimes that are initialised ------------------------------------------------------------------


Modules = Mapping[str, Any]


def runtime_claim(modules: Modules) -> Claim | None:
    """Return the claim of the initialised runtimes; of several the first that knows of more than one process.

    Args:
        modules: ``sys.modules``.
    """
    claims = [claim for runtime in RUNTIMES if (claim := ask(runtime, modules)) is not None]
    return next((claim for claim in claims if (claim.world_size or 0) > 1), claims[0] if claims else None)


def ask(runtime: Callable[[Modules], Claim | None], modules: Modules) -> Claim | None:
    """Return the claim of a runtime, if it makes sense."""
    try:
        claim = runtime(modules)
    except Exception:  # noqa: BLE001  another version of it, or a state that we do not know
        return None
    if claim is None or claim.world_size is None:
        return None
    return claim if claim.name == "ps" or 0 <= claim.rank < claim.world_size else None


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
    """MPI by mpi4py, if it has started."""
    mpi = modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized() or mpi.COMM_WORLD.Get_size() < 2:
        return None
    world = mpi.COMM_WORLD
    return Claim("mpi4py", int(world.Get_rank()), int(world.Get_size()), ("MPI.COMM_WORLD.Get_rank()",))


RUNTIMES = (torch, jax, horovod, deepspeed, tensorflow, accelerate, ray, mpi4py)
"""In the order in which they are believed."""
