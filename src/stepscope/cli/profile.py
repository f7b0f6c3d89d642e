"""``stepscope profile``: tfprof's views and more, of any profile, at a prompt or in one shot."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.analyze.options import OPTIONS, ORDERS, SELECTS, VIEWS, ViewOptions, near, parse_words
from stepscope.cli.arguments import add_cache, budget_of
from stepscope.cli.budget import within
from stepscope.cli.output import complain, put
from stepscope.cli.session import COMMANDS, ProfileSession
from stepscope.cli.source import open_source
from stepscope.errors import UsageError

_OWN = ("--json", "--cache", "--no-cache")
_PATHS = {
    "profile_path": "the profile, in place of PATH: what ProfileContext or another profiler wrote",
    "graph_path": "GraphDef, in place of PATH, to which the two following belong",
}
_FILES = {
    **_PATHS,
    "run_meta_path": "RunMetadata files, joined by commas, where PATH is a GraphDef",
    "op_log_path": "OpLogProto file (tfprof_log), likewise",
    "checkpoint_path": "accepted, as tfprof's scripts give it, and not read: tfprof shows no values either",
    "steps": "steps that count, such as 3-5,9 (default: all)",
    "budget": "tokens of four characters that the answer may take; 0: no limit (default: no limit)",
}
_METAVARS = {"steps": "STEPS", "budget": "TOKENS"}
_WHOLE = "; regular expressions that match whole names, joined by commas"
_ABOUT = {
    "max_depth": "deepest level to show, the root being 1; in op and kernel, the number of the last row",
    "min_bytes": "hide what requests less memory, in bytes",
    "min_peak_bytes": "hide what has a lower peak of memory, in bytes",
    "min_residual_bytes": "hide what leaves less memory allocated, in bytes",
    "min_output_bytes": "hide what has smaller outputs, in bytes",
    "min_micros": "hide what takes less time, in microseconds",
    "min_accelerator_micros": "hide what takes less time on accelerators, in microseconds",
    "min_cpu_micros": "hide what takes less time on CPUs, in microseconds",
    "min_params": "hide what has fewer parameters",
    "min_float_ops": "hide what has fewer floating-point operations",
    "min_occurrence": "hide what occurs less often",
    "step": "step to show; -1 is the average over all steps",
    "order_by": f"sort by one of {', '.join(ORDERS)}",
    "account_type_regexes": "count only these types of operations" + _WHOLE,
    "start_name_regexes": "show from the first match on each branch" + _WHOLE,
    "trim_name_regexes": "do not descend below a match" + _WHOLE,
    "show_name_regexes": "show only matches" + _WHOLE,
    "hide_name_regexes": "hide matches" + _WHOLE,
    "account_displayed_op_only": "count only what is shown towards totals",
    "select": "columns, joined by commas: " + ", ".join(SELECTS),
    "output": "stdout, none, or file:, timeline:, pprof: followed by outfile=PATH",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments.

    All of tfprof's options are listed for help and completion, but the words are read by
    :func:`stepscope.analyze.options.parse_words`, at the prompt as well as here, so that options may stand
    before, between and after the command and the path.
    """
    parser.usage = "stepscope profile [COMMAND] PATH [-option value …] [--json]"
    parser.description = (
        "Answer tfprof's questions about any profile. Without a command, a prompt opens. Commands: "
        + ", ".join(name for name in COMMANDS if name not in ("set", "help", "quit"))
        + "."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_cache(parser, "keep the trace's columns in a cache file")
    for name, line in _FILES.items():
        parser.add_argument(*_spellings(name), dest=name, metavar=_METAVARS.get(name, "FILE"), help=line)
    group = parser.add_argument_group("options of the views, in tfprof's spelling")
    for name in OPTIONS:
        more: dict[str, Any] = {"nargs": "?", "const": "true"} if name == "account_displayed_op_only" else {}
        group.add_argument(*_spellings(name), dest=name, metavar="VALUE", help=_help(name), **more)
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND PATH",
        help="the view, then the profile or its run",
    )


def _check(command: str | None, path: str, rest: list[str]) -> None:
    """Refuse misspelt words before anything is read."""
    if command in (*VIEWS, "kernel", None):
        _, extra = parse_words(rest)
        if extra and command is None:
            raise UsageError(
                f"unknown command {path!r}: expected {', '.join(COMMANDS)}", hint=near(path, list(COMMANDS))
            )
        if extra:
            raise UsageError(
                f"{command} takes one profile and options, not {extra[0]!r}",
                hint="options begin with a dash: -max_depth 10; stepscope diff compares two profiles",
            )


def _spellings(name: str) -> list[str]:
    return list(dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}", f"-{name}"]))


def _help(name: str) -> str:
    """Return the meaning of an option, and tfprof's default."""
    value = getattr(ViewOptions(), name)
    shown = ",".join(value) if isinstance(value, tuple) else str(value).lower()
    return _ABOUT[name] + (f" (default: {shown})" if shown else "")


def run(arguments: argparse.Namespace) -> int:
    try:
        flags, files, words = _words(arguments)
        command, path, rest = _command(words)
        _check(command, path, rest)
    except UsageError as error:
        complain(error)
        return 2
    more: dict[str, Any] = {"cache": "--no-cache" not in flags}
    if files.get("run_meta_path"):
        more["run_metadata"] = tuple(Path(part) for part in files["run_meta_path"].split(",") if part)
    if files.get("op_log_path"):
        more["op_log"] = Path(files["op_log_path"])
    if files.get("steps"):
        more["steps"] = files["steps"]
    if "profile_path" in files and more.keys() & {"run_metadata", "op_log"}:
        complain(
            "a profile holds all that belongs to it: --run_meta_path and --op_log_path need --graph_path"
        )
        return 2
    if "checkpoint_path" in files:
        complain("--checkpoint_path is not read: values of variables are not shown")
    budget = budget_of(files.get("budget", "0"))
    session = ProfileSession(open_source(path, **more))
    as_json = "--json" in flags
    if command is not None:
        put(within(session.run([command, *rest]), budget), as_json=as_json)
        return 0
    session.set(rest)
    from stepscope.cli.prompt import prompt

    return prompt(session, as_json=as_json)


def _words(arguments: argparse.Namespace) -> tuple[set[str], dict[str, str], list[str]]:
    """Merge argparse's words with the words that it left."""
    values = vars(arguments)
    flags = {
        flag for flag, given in (("--json", arguments.json), ("--no-cache", not arguments.cache)) if given
    }
    files = {name: values[name] for name in _FILES if values[name] is not None}
    words: list[str] = []
    for name in OPTIONS:
        if values[name] is not None:
            words += [f"-{name}", str(values[name])]
    queue = list(arguments.words)
    while queue:
        word = queue.pop(0)
        name, given, value = word.partition("=")
        name = name.lstrip("-").replace("-", "_")
        if word in _OWN:
            flags.add(word)
        elif word.startswith("-") and name in _FILES and (given or queue):
            files[name] = value if given else queue.pop(0)
        else:
            words.append(word)
    return flags, files, [*words, *_named(files)]


def _named(files: dict[str, str]) -> list[str]:
    """Return the profile that an option names, as tfprof's own command took it; it takes PATH's place.

    Raises:
        UsageError: Two of them, or an empty path.
    """
    named = [name for name in _PATHS if name in files]
    if len(named) > 1:
        raise UsageError(
            "--profile_path and --graph_path exclude each other",
            hint="a profile holds its graph; a GraphDef has its metadata in --run_meta_path",
        )
    if named and not files[named[0]]:
        raise UsageError(f"--{named[0]} names no file", hint=f"--{named[0]}=FILE")
    return [files[name] for name in named]


def _command(words: list[str]) -> tuple[str | None, str, list[str]]:
    """Separate the command, the path and the rest; options keep their place in the rest."""
    command, path, rest = None, None, []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.startswith("-") and word.lstrip("-").split("=")[0].replace("-", "_") in OPTIONS:
            rest.append(word)
            takes_value = "=" not in word
            if takes_value and index < len(words) and not _ends_flag(word, words[index]):
                rest.append(words[index])
                index += 1
        elif command is None and word in COMMANDS and (path is None or not Path(word).exists()):
            command = word
        elif path is None and not word.startswith("-"):
            path = word
        else:
            rest.append(word)
    if path is None and command is None:
        raise UsageError(
            "no profile given", hint="stepscope profile scope PATH, or stepscope profile PATH for a prompt"
        )
    if command == "help" and path is None:
        path = "."
    if path is None:
        raise UsageError(f"no profile given to {command}", hint=f"stepscope profile {command} PATH")
    return command, path, rest


def _ends_flag(word: str, following: str) -> bool:
    """Return whether a word after ``-account_displayed_op_only`` is not its value."""
    is_flag = word.lstrip("-").replace("-", "_") == "account_displayed_op_only"
    return is_flag and following.lower() not in ("true", "t", "yes", "y", "1", "false", "f", "no", "n", "0")
