"""Questions: each is declared once, by a decorator on the function that answers it.

The command line, ``ss.ask``, the HTTP interface and the MCP server read its parameters and its description
from here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

import msgspec

from stepscope.errors import UsageError
from stepscope.serve.questions.answer import BUDGET, Answer, Written, as_text, fitted
from stepscope.serve.questions.desk import Desk, translated
from stepscope.store.nearest import hint_nearest

HOMES = {
    "runs": "runs",
    "run": "runs",
    "findings": "runs",
    "text": "runs",
    "changes": "changed",
    "series": "curves",
    "image": "curves",
    "explain_step": "steps",
    "operations": "steps",
    "profile": "steps",
    "compare": "groups",
    "ranks": "job",
    "sql": "sql",
}
"""The module of each question; it is imported when its question is asked."""
QUESTIONS: dict[str, Question] = {}
"""By name, of the modules imported so far."""
LACKING, PLACE = re.compile(r"missing required field `(\w+)`"), re.compile(r"at `\$\.(\w+)")
KINDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "a text",
         "array": "names, separated by commas"}  # fmt: skip
"""Types of parameters in words."""
Handler = TypeVar("Handler", bound=Callable[..., Answer])


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: As users type it.
        about: One line.
        handler: Answers; its first argument is the desk.
        parameters: A struct with a field for each further argument.
    """

    name: str
    about: str
    handler: Callable[..., Answer]
    parameters: type[msgspec.Struct]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the parameters."""
        schema = msgspec.json.schema(self.parameters)
        definition: dict[str, Any] = schema["$defs"][self.parameters.__name__]
        return {
            "type": "object",
            **{name: definition[name] for name in ("properties", "required") if definition.get(name)},
        }

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments for the handler.

        Args:
            given: Values or texts by name; a text for several is separated by commas.

        Raises:
            UsageError: One is unknown, missing or wrong.
        """
        properties = self.schema["properties"]
        for name in given:
            if name not in properties:
                raise UsageError(
                    f"{self.name} has no parameter {name!r:.60}",
                    hint=hint_nearest(name, list(properties), "its parameters"),
                )
        values = {
            name: _several(value) if properties[name].get("type") == "array" else value
            for name, value in given.items()
            if value is not None
        }
        try:
            made = msgspec.convert(values, self.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise self._wrong(str(error), values) from None
        return msgspec.structs.asdict(made)

    def _wrong(self, error: str, values: Mapping[str, Any]) -> UsageError:
        """Return the error about a parameter that is missing, or has a wrong value."""
        if lacking := LACKING.search(error):
            return UsageError(f"{self.name} needs {lacking[1]}", hint=self._wanted(lacking[1]))
        place = PLACE.search(error)
        name = place[1] if place else ""
        if name not in values:
            return UsageError(f"{self.name}: {error}", hint=f"stepscope ask {self.name} --help")
        return UsageError(f"{name} is {values[name]!r:.60}", hint=self._wanted(name))

    def _wanted(self, name: str) -> str:
        """Return the values that a parameter takes, in words."""
        schema = self.schema["properties"][name]
        kind = next((kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"), schema)
        if choices := kind.get("enum"):
            kinds = f"one of {', '.join(map(str, choices))}"
        else:
            kinds = KINDS.get(str(kind.get("type")), "another value")
        low, high = kind.get("minimum"), kind.get("maximum")
        bounds = (
            f" from {low:,} to {high:,}"
            if low is not None and high is not None
            else f", {low:,} or more"
            if low is not None
            else ""
        )
        about = str(schema.get("description", ""))
        return f"expected {kinds}{bounds}" + (f": {about}" if about else "")


def _several(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return [value]
    return [part for part in value.split(",") if part]


def declared(handler: Callable[..., Answer]) -> Question:
    """Return the question of a function: its name, the first line of its docstring, its arguments."""
    hints = get_type_hints(handler, include_extras=True)
    _, *arguments = inspect.signature(handler).parameters.values()
    fields = [
        (argument.name, hints[argument.name])
        if argument.default is inspect.Parameter.empty
        else (argument.name, hints[argument.name], argument.default)
        for argument in arguments
    ]
    name = handler.__name__
    struct = msgspec.defstruct(name.title().replace("_", ""), fields, frozen=True, kw_only=True)
    about = (handler.__doc__ or "").strip().partition("\n")[0]
    return Question(name, about, handler, struct)


def question(handler: Handler) -> Handler:
    """Declare a question by its function."""
    QUESTIONS[handler.__name__] = declared(handler)
    return handler


def all_questions() -> dict[str, Question]:
    """Return every question by its name."""
    return {name: question_of(name) for name in HOMES}


def question_of(name: str) -> Question:
    """Return a question by its name.

    Raises:
        UsageError: There is none.
    """
    if name not in HOMES:
        raise UsageError(f"no question {name!r:.60}", hint=hint_nearest(name, list(HOMES), "the questions"))
    import_module(f"stepscope.serve.questions.{HOMES[name]}")
    return QUESTIONS[name]


def answered(
    name: str, desk: Desk, given: Mapping[str, Any], budget: int = BUDGET, written: Written = as_text
) -> Answer:
    """Answer a question within a budget of the form in which the answer is written.

    Raises:
        StepscopeError: It cannot be answered.
    """
    asked = question_of(name)
    values = asked.read(given)
    desk.follow()  # the handler reads the runs if it needs them
    with translated():
        return fitted(asked.handler(desk, **values), budget, written)
