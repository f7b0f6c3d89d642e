"""The commands of ``stepscope profile``: from typed words to text or JSON, at the prompt and in one shot."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.analyze.options import OPTIONS, VIEWS, ViewOptions, is_option, near, parse_output, parse_words
from stepscope.cli.output import Output
from stepscope.cli.source import ProfileSource, open_source
from stepscope.errors import UsageError
from stepscope.files import writing

if TYPE_CHECKING:
    pass

COMMANDS = {
    "scope": "time, memory and more by module or name scope",
    "graph": "by what called or consumed what",
    "op": "by operation",
    "code": "by the Python lines that created or called it",
    "kernel": "by device kernel",
    "advise": "what is slow, with evidence and what to do",
    "shapes": "products, convolutions and attention by shapes: rates, what bounds them, utilisation",
    "steps": "the profiled steps",
    "timeline": "write a Chrome/Perfetto trace: timeline FILE",
    "report": "write a self-contained HTML report: report FILE",
    "memory": "memory over time, and who held it at the peak",
    "diff": "compare with another profile: diff PATH",
    "sql": "ask the trace's tables: sql SELECT …; sql alone lists them",
    "set": "keep options for the commands that follow: set -max_depth 4",
    "help": "list the commands, or explain one",
    "quit": "leave",
}


@dataclass
class ProfileSession:
    """A profile and the options kept for it."""

    source: ProfileSource
    options: ViewOptions = field(default_factory=ViewOptions)

    def run(self, words: list[str]) -> Output:
        """Run one command.

        Raises:
            UsageError: No such command or option.
            TraceError: The profile cannot be read, or lacks the answer.
        """
        command, *rest = words
        if command not in COMMANDS:
            raise UsageError(
                f"unknown command {command!r}: expected {', '.join(COMMANDS)}",
                hint=near(command, list(COMMANDS)),
            )
        if command in (*VIEWS, "kernel"):
            return self.view(command, rest)
        done: Output = getattr(self, command)(rest)  # each of the others is a method
        return done

    def view(self, name: str, words: list[str]) -> Output:
        """Show a view; on tfprof's own data as tfprof does, except if a kernel table is asked for."""
        options, extra = parse_words(words, self.options)
        if extra:
            raise UsageError(
                f"{name} takes only options, not {extra[0]!r}", hint="lists are joined by commas"
            )
        from stepscope.analyze.tfprof.report import show

        answer = show(name, self.source.profile, lambda: self.source.trace, options)
        kind, path = parse_output(options.output)
        if kind in ("stdout", "none"):
            return Output(answer.text if kind == "stdout" else "", answer.as_dict())
        if kind == "file":
            with writing("the file", path):
                Path(path).write_bytes(answer.text.encode("utf-8", "surrogateescape"))
        elif kind == "pprof":
            from stepscope.export.pprof import write_pprof

            write_pprof(answer, path)
        else:
            return self.timeline([path])
        return Output("", {"written": path}, (f"written to {path}",))

    def advise(self, words: list[str]) -> Output:
        """Advise on the profile."""
        _no_words("advise", words)
        from stepscope.cli.advise import advise_source

        return advise_source(self.source)

    def steps(self, words: list[str]) -> Output:
        """List the profiled steps."""
        _no_words("steps", words)
        from stepscope.analyze.views.steps import steps_of

        table = steps_of(self.source.profile, lambda: self.source.trace)
        return Output(table.text, table.as_dicts())

    def shapes(self, words: list[str]) -> Output:
        """Show products, convolutions and attention by their shapes."""
        _no_words("shapes", words)
        from stepscope.analyze.shapes import shape_table

        table = shape_table(self.source.trace)
        return Output(table.text, table.as_dict())

    def timeline(self, words: list[str]) -> Output:
        """Write the timeline."""
        from stepscope.cli.timeline import format_of, write_timeline_file

        if len(words) != 1:
            raise UsageError("timeline needs the file to write", hint="timeline out.json.gz")
        return write_timeline_file(self.source, words[0], format_of(words[0]))

    def report(self, words: list[str]) -> Output:
        """Write the HTML report."""
        from stepscope.cli.advise import write_report

        if len(words) != 1:
            raise UsageError("report needs the file to write", hint="report report.html")
        return write_report(self.source, words[0])

    def memory(self, words: list[str]) -> Output:
        """Show memory over time."""
        _no_words("memory", words)
        from stepscope.analyze.views.memory import memory_report

        report = memory_report(self.source.trace)
        return Output(report.text, report.as_dict())

    def diff(self, words: list[str]) -> Output:
        """Compare with another profile."""
        from stepscope.cli.diff import diff_sources

        if len(words) != 1:
            raise UsageError("diff needs one other profile", hint="diff PATH")
        return diff_sources(self.source, open_source(words[0], cache=self.source.cache))

    def sql(self, words: list[str]) -> Output:
        """Ask the tables."""
        from stepscope.cli.query import ask_sql

        return ask_sql(self.source, " ".join(words))

    def set(self, words: list[str]) -> Output:
        """Keep options; alone, show them."""
        self.options, extra = parse_words(words, self.options)
        if extra:
            raise UsageError(
                f"set takes only options, not {extra[0]!r}", hint="set -max_depth 4 -select micros,bytes"
            )
        return self.show_options()

    def show_options(self) -> Output:
        """Show the options in force, as tfprof lists them."""
        values = {name: getattr(self.options, name) for name in OPTIONS}
        return Output("".join(f"{f'-{name}':<28}{_shown(value)}\n" for name, value in values.items()), values)

    def help(self, words: list[str]) -> Output:
        """Explain the commands, or one."""
        names = words or list(COMMANDS)
        unknown = next((name for name in names if name not in COMMANDS), None)
        if unknown is not None:
            raise UsageError(f"no help on {unknown!r}", hint=near(unknown, list(COMMANDS)) or "help")
        text = "".join(f"{name:<10}{COMMANDS[name]}\n" for name in names)
        if any(name in VIEWS for name in names):
            text += "options of the views: " + " ".join(f"-{name}" for name in OPTIONS) + "\n"
        return Output(text, {name: COMMANDS[name] for name in names})

    def quit(self, words: list[str]) -> Output:
        """Do nothing: the prompt leaves by itself."""
        return Output("", None)


def _no_words(command: str, words: list[str]) -> None:
    if words:
        kind = "option" if is_option(words[0]) else "word"
        raise UsageError(f"{command} takes no {kind} {words[0]!r}", hint="help lists what each command takes")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
