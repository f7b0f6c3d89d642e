"""The options of the four views: tfprof's names, defaults and meaning, for every source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from stepscope.errors import UsageError
from stepscope.patterns import Pattern, compile_pattern

VIEWS = ("scope", "graph", "op", "code")

SELECTS = (
    "bytes", "micros", "params", "float_ops", "tensor_value", "device", "op_types", "occurrence",
    "input_shapes", "accelerator_micros", "cpu_micros", "peak_bytes", "residual_bytes", "output_bytes",
)  # fmt: skip

OUTPUTS = ("stdout", "file", "timeline", "pprof", "none")

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """The options of a view; the defaults are those of tfprof's command line.

    Attributes:
        max_depth: Deepest level shown; the root is level 1. In the op view, the last row's index.
        min_bytes: Like the other ``min_`` options: hide nodes that have less; in microseconds or bytes, as
            named.
        step: The step shown; -1 is the average over the steps in which a node ran.
        order_by: Siblings are sorted by this, descending, names ascending.
        account_type_regexes: Only nodes of these types count. An expression must match the whole type.
        start_name_regexes: Show from the first match on each branch.
        trim_name_regexes: Do not descend below a match.
        show_name_regexes: Show matches only.
        hide_name_regexes: Do not show matches.
        account_displayed_op_only: Totals count only shown nodes.
        select: The columns.
        output: ``stdout``, ``none``, or ``file:``, ``timeline:``, ``pprof:`` followed by ``outfile=PATH``.
    """

    max_depth: int = 10
    min_bytes: int = 0
    min_peak_bytes: int = 0
    min_residual_bytes: int = 0
    min_output_bytes: int = 0
    min_micros: int = 0
    min_accelerator_micros: int = 0
    min_cpu_micros: int = 0
    min_params: int = 0
    min_float_ops: int = 0
    min_occurrence: int = 0
    step: int = -1
    order_by: str = "name"
    account_type_regexes: tuple[str, ...] = (".*",)
    start_name_regexes: tuple[str, ...] = (".*",)
    trim_name_regexes: tuple[str, ...] = ()
    show_name_regexes: tuple[str, ...] = (".*",)
    hide_name_regexes: tuple[str, ...] = ()
    account_displayed_op_only: bool = False
    select: tuple[str, ...] = ("micros",)
    output: str = "stdout"

    def __post_init__(self) -> None:
        for name in REGEX_OPTIONS:
            for pattern in getattr(self, name):
                compiled(pattern)
        if self.order_by not in ORDERS:
            raise _invalid("order_by", self.order_by, ORDERS)
        for column in self.select:
            if column not in SELECTS:
                raise _invalid("select", column, SELECTS)
        parse_output(self.output)

    def changed(self, values: Mapping[str, str]) -> ViewOptions:
        """Return these options with some replaced by text as typed on a command line."""
        return replace(self, **{name: _parse(name, value) for name, value in values.items()})


OPTIONS = tuple(option.name for option in fields(ViewOptions))
REGEX_OPTIONS = tuple(name for name in OPTIONS if name.endswith("_regexes"))
METRICS = tuple(name.removeprefix("min_") for name in OPTIONS if name.startswith("min_"))
ORDERS = ("name", *METRICS)
_LISTS = (*REGEX_OPTIONS, "select")


def parse_words(words: Sequence[str], base: ViewOptions | None = None) -> tuple[ViewOptions, list[str]]:
    """Read options in tfprof's spelling out of words.

    ``-max_depth 4``, ``--max-depth 4``, ``-max_depth=4`` are one. ``-account_displayed_op_only`` may stand
    alone.

    Args:
        words: The typed words.
        base: The options that the words change; by default the defaults.

    Returns:
        The options, and the words that are not options.

    Raises:
        UsageError: An unknown option, a missing or an impossible value.
    """
    values: dict[str, str] = {}
    rest: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if not is_option(word):
            rest.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if name not in OPTIONS:
            raise _unknown_option(word)
        if not equals:
            value = _value(name, queue)
        values[name] = value
    return (base or ViewOptions()).changed(values), rest


def is_option(word: str) -> bool:
    """Return whether a word is an option's name rather than a value such as ``-1``."""
    return bool(re.match(r"--?[A-Za-z]", word))


def _value(name: str, queue: list[str]) -> str:
    if name == "account_displayed_op_only" and (not queue or queue[0].lower() not in _TRUE + _FALSE):
        return "true"
    if not queue:
        raise UsageError(f"option -{name} needs a value", hint=f"-{name} {_EXAMPLES.get(name, 'VALUE')}")
    return queue.pop(0)


_EXAMPLES = {"select": "micros,bytes", "order_by": "micros", "output": "file:outfile=view.txt", "step": "-1"}


def _parse(name: str, value: str) -> Any:
    if name in _LISTS:
        return tuple(part for part in value.strip("\"'").split(",") if part)
    if name == "account_displayed_op_only":
        if value.lower() not in _TRUE + _FALSE:
            raise _invalid(name, value, ("true", "false"))
        return value.lower() in _TRUE
    if name in ("order_by", "output"):
        return value
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
        raise UsageError(
            f"option -{name} is {value!r}: expected a whole number", hint=f"write it in digits: -{name} 10"
        )
    return int(value)


def parse_output(output: str) -> tuple[str, str]:
    """Split ``-output`` into its kind and its file; the file is empty for ``stdout`` and ``none``.

    Raises:
        UsageError: An unknown kind, or a kind that needs a file without one.
    """
    kind, _, rest = output.partition(":")
    kind = kind or "stdout"
    if kind not in OUTPUTS:
        raise _invalid("output", kind, OUTPUTS)
    settings = dict(part.split("=", 1) for part in rest.split(",") if "=" in part)
    if kind in ("file", "timeline", "pprof") and not settings.get("outfile"):
        raise UsageError(f"option -output {output!r} names no file", hint=f"-output {kind}:outfile=PATH")
    return kind, settings.get("outfile", "")


def _invalid(name: str, value: str, valid: Sequence[str]) -> UsageError:
    return UsageError(f"option -{name} is {value!r}: expected {', '.join(valid)}", hint=near(value, valid))


def _unknown_option(word: str) -> UsageError:
    suggestion = near(word.lstrip("-").replace("-", "_"), OPTIONS)
    return UsageError(f"unknown option {word!r}", hint=suggestion or "options: -" + " -".join(OPTIONS))


def near(word: str, valid: Sequence[str]) -> str:
    """Return ``did you mean …?`` if something valid has a similar spelling, otherwise nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, valid, n=1)
    return f"did you mean {close[0]!r}?" if close else ""


# --- expressions --------------------------------------------------------------------------------------


def compiled(expression: str) -> Pattern:
    """Compile an expression in RE2's syntax, which tfprof uses, for whole-name matching.

    Raises:
        UsageError: It is not a regular expression.
    """
    try:
        return compile_pattern(expression, "expression")
    except UsageError as error:
        hint = f"{error.hint}; the expression must match the whole name, as '.*conv.*' does"
        raise UsageError(error.message, hint=hint) from None


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a whole name is matched by any of the expressions."""
    if patterns == (".*",):
        return True
    return any(pattern == ".*" or compiled(pattern).fullmatch(name) for pattern in patterns)
