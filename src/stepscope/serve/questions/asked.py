"""Asking a question, wherever the data lies: a directory, a store, or a server that follows one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from stepscope.errors import ServeError, StepscopeError
from stepscope.serve.questions.answer import BUDGET, Answer, Written, as_text, fitted
from stepscope.serve.questions.declare import answered, question_of
from stepscope.serve.questions.desk import Desk
from stepscope.serve.reply import refusing
from stepscope.serve.routes import post as posted

ANSWER_S = 120.0
"""Seconds that a server is given for an answer: it may have to read a large profile first."""


class AskRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/ask``."""

    question: str
    parameters: dict[str, Any] = {}
    budget: int = BUDGET
    """Tokens of four characters that the answer may take; 0: no limit."""


@posted("ask", reads=True)
def answer_of(desk: Desk, body: AskRequest) -> Answer:
    """Answer a question within a budget of tokens."""
    with refusing({StepscopeError: 422}):
        return answered(body.question, desk, body.parameters, body.budget)


def ask(
    question: str, place: str | os.PathLike[str] = ".", *, budget: int = BUDGET, **parameters: Any
) -> Answer:
    """Answer a question about runs and profiles.

    The answer prints as text; its ``lines`` and ``tables`` hold the same for programs.

    Args:
        question: ``runs``, ``run``, ``series``, ``findings``, ``explain_step``, ``operations``, ``ranks``,
            ``compare``, ``changes``, ``profile``, ``text``, ``image`` or ``sql``.
        place: A log directory, its URL in a store, a profile, or the address of a running server.
        budget: Tokens of four characters that the answer may take; 0 for no limit.
        parameters: Of the question; ``stepscope ask QUESTION --help`` lists them.

    Raises:
        UsageError: No such question, or a wrong parameter.
        UnknownRunError: No such run.
        UnknownTagError: No such tag.
        LogDirectoryError: Nothing can be read there.
        ServeError: The server does not answer, or refuses.
    """
    return answer_at(question, os.fspath(place), parameters, budget)


def sql(query: str = "", place: str | os.PathLike[str] = ".", *, profile: str = "") -> Answer:
    """Answer SQL over runs, settings, series, findings, ranks and the events of a profile.

    The answer prints as text; ``tables[0].columns`` and ``tables[0].rows`` hold the same for programs.

    Args:
        query: One SELECT in DuckDB's SQL; "" lists the tables.
        place: A log directory, its URL in a store, a profile, or the address of a running server.
        profile: Whose events the table ``events`` holds; "": the newest one's.

    Raises:
        UsageError: The query is wrong, or it does more than read the tables.
        MissingPackageError: ``stepscope[sql]`` is not installed.
        LogDirectoryError: Nothing can be read there.
        ServeError: The server does not answer, or refuses.
    """
    return answer_at("sql", os.fspath(place), {"query": query, "profile": profile}, 0)


def table(
    query: str = "",
    place: str | os.PathLike[str] = ".",
    *,
    columns: Sequence[str] = (),
    sort: str = "-updated",
    limit: int = 100,
) -> Answer:
    """List runs; a notebook shows them as a table, which stays in the saved notebook.

    Args:
        query: Words in names, ``state:running``, ``lr>1e-4``, ``loss<0.5``, ``-tag:debug``; "": all runs.
        place: A log directory, its URL in a store, or the address of a running server.
        columns: Facts, keys of the configuration, or tags to show.
        sort: A fact, a key or a tag; ``-KEY`` puts the largest first.
        limit: The most runs that are listed.

    Raises:
        UsageError: No such column, or a wrong query.
        LogDirectoryError: Nothing can be read there.
        ServeError: The server does not answer, or refuses.
    """  # fmt: skip
    given = {"query": query, "columns": tuple(columns), "sort": sort, "limit": limit}
    return answer_at("runs", os.fspath(place), given, 0)


def answer_at(
    question: str,
    place: str,
    given: dict[str, Any],
    budget: int,
    *,
    cache: bool = True,
    written: Written = as_text,
) -> Answer:
    """Answer a question about what lies at a place.

    Raises:
        StepscopeError: It cannot be answered.
    """
    if is_server(place):
        if written is as_text:
            return asked_of_server(place, question, given, budget)
        return fitted(asked_of_server(place, question, given, 0), budget, written)
    desk = Desk(place, cache=cache)
    try:
        return answered(question, desk, given, budget, written)
    finally:
        desk.close()


def is_server(place: str) -> bool:
    """Return whether a place is the address of a running server."""
    return place.startswith(("http://", "https://"))


def asked_of_server(address: str, question: str, parameters: dict[str, Any], budget: int) -> Answer:
    """Have a server answer a question.

    Raises:
        ServeError: It does not answer, or refuses.
    """
    from stepscope.serve.client import post

    given = question_of(question).read(parameters)
    message = {"question": question, "parameters": given, "budget": budget}
    try:
        return msgspec.convert(post(address, "ask", message, timeout_s=ANSWER_S), Answer)
    except msgspec.ValidationError as error:
        raise ServeError(
            f"the server answers in another form: {error}", hint="it may be of another version of Stepscope"
        ) from None
