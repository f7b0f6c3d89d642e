"""Changes that an agent may make if the user allows them: ask a job for a profile, and write a note."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from stepscope.errors import UsageError
from stepscope.serve.questions.answer import Answer
from stepscope.serve.questions.declare import declared
from stepscope.serve.questions.desk import Desk
from stepscope.store.captures import MOST_STEPS, ask

Name = Annotated[str, Meta(description="name of a run")]


@declared
def capture(
    desk: Desk,
    run: Name,
    steps: Annotated[int, Meta(ge=0, le=MOST_STEPS, description="0: as many as the run's hook records")] = 0,
    memory: bool = False,
    stacks: bool = False,
) -> Answer:
    """Ask a running job for a profile of its next steps."""
    stored = desk.run(run)
    _check_here(desk)
    request = ask(
        desk.directory(stored), ranks="chief", num_steps=steps, memory=memory, stacks=stacks, by="an agent"
    )
    line = f"asked {stored.name} for a profile (request {request})"
    return Answer("capture", (line, "operations and explain_step show it once it is taken"))


@declared
def annotate(
    desk: Desk,
    run: Name,
    note: Annotated[str, Meta(max_length=10_000, description="Markdown; it takes the place of the note")],
    step: Annotated[int | None, Meta(description="a note on this step alone")] = None,
) -> Answer:
    """Write a note on a run, or on one of its steps."""
    stored = desk.run(run)
    _check_here(desk)
    if step is not None:
        desk.notes.note_step(stored.name, step, note)
        return Answer("annotate", (f"noted at step {step:,} of {stored.name}",))
    desk.notes.change(stored.name, note=note)
    return Answer("annotate", (f"noted on {stored.name}",))


def _check_here(desk: Desk) -> None:
    if desk.log.is_remote:
        raise UsageError(
            "a directory that is read over the network cannot be changed from here",
            hint="start the server on the machine that holds the directory",
        )
