"""Pages of the documentation site that are not in ``docs/``: docstrings, rules, commands, the changelog.

MkDocs calls the functions below by their names (``hooks`` in ``mkdocs.yml``). Commands and names are those of
the installed package: a checkout need not be compiled.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IN_REPOSITORY = re.compile(
    r"\]\((?:\.\./)+((?:src|tests|web|benchmarks|examples|scripts)/[^)]*|[A-Z]+\.md[^)]*)\)"
)
FIXED_WIDTH = 100
HTTP_HEAD = """
# Addresses and messages

Every address of the server with its parameters, and every message with its fields. [The HTTP
interface](http-api.md) says how to use them. This page is made from the server's OpenAPI document.
"""
METRICS_HEAD = """
# Metrics

What Prometheus and OpenTelemetry collectors get, from a running job or from the server
([monitoring](../guides/monitoring.md)). This page is made from the metrics themselves.
"""
RULES_HEAD = """
# Rules

Every rule that judges a run ([health](../guides/health.md)) or a profile ([advice](../guides/advise.md)).
This page is made from the rules themselves.
"""
HEALTH_HEAD = """
A *point* is a recorded value of a series. A *sample* is a point of a series that is recorded only now and
then, such as those of layers. MAD is the median absolute deviation. Set a threshold by
`rules={"loss-spike": {"ratio": 2}}` or `--set loss-spike.ratio=2`. *High* is the severity for which a
person would stop a run. Gradients are judged by ratios only, so no rule depends on a loss scale or a width.
"""
ADVICE_HEAD = """
U(S) is the union of the intervals of a set of events. *Dry* is the time of the steps in which no device
works: all of it if no device was recorded. *T* is the thread that runs the steps. A *gain without S* comes
from replaying the steps without S. Every rule also needs a gain of 3 % of the step, unless it says
otherwise. What to do depends on the framework that was recorded; the finding says it.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    from mkdocs.structure.files import File

    for name, text in made().items():
        files.append(File.generated(config, name, content=text))
    known = paths_in(config["nav"])
    rest = [file for file in files.documentation_pages() if file.src_uri not in known]
    if rest:  # a page that nobody has put into the navigation yet is still found
        config["nav"].append({"More": [file.src_uri for file in rest]})
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Show links to files of the repository as their names: they are not pages of the site."""
    return re.sub(r"\[([^\]]*)" + IN_REPOSITORY.pattern, r"\1 (`\2`)", markdown)


def paths_in(nav: Any) -> set[str]:
    """Return all pages of a navigation."""
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*(paths_in(part) for part in parts))


def made() -> dict[str, str]:
    """Return the made pages: path and Markdown."""
    return {
        "reference/python.md": python_page(),
        "reference/rules.md": rules_page(),
        "reference/commands.md": commands_page(),
        "reference/http.md": http_page(),
        "reference/metrics.md": metrics_page(),
        "reference/changes.md": (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](../"),
    }


def python_page() -> str:
    """Return the public names, each with its docstring."""
    import stepscope

    lines = ["# Python", "", "Every public name. Times are in the unit that a name ends with."]
    for name in sorted(set(stepscope.__all__) - {"__version__", "integrations", "load_ipython_extension"}):
        home = getattr(stepscope, name).__module__
        lines += ["", f"::: {home}.{name}"]
        if name == "Run":  # what is logged most is in its base classes
            lines += ["    options:", "      inherited_members: true"]
    for package, homes in integrations().items():
        lines += ["", f"## {package}"]
        for name, home in homes.items():
            lines += ["", f"::: {home}.{name}", "    options:", "      heading_level: 3"]
    return "\n".join(lines) + "\n"


def integrations() -> dict[str, dict[str, str]]:
    """Return what each integration offers: by package, the module that holds each name.

    Read from the source: no framework is imported.
    """
    rows = {}
    folder = ROOT / "src" / "stepscope" / "integrations"
    for path in sorted([*folder.glob("*/__init__.py"), *folder.glob("*.py")]):
        values = assigned(path)
        parts = path.relative_to(folder.parents[1]).with_suffix("").parts
        package = ".".join(part for part in parts if part != "__init__")
        homes = values.get("_HOMES", {})
        if names := values.get("__all__", homes):  # where names load on first use, their homes are the list
            rows[package] = {name: f"{package}.{homes[name]}" if name in homes else package for name in names}
    return rows


def assigned(path: Path) -> dict[str, Any]:
    """Return the literals that a module gives to its names."""
    values = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue  # no literal
    return values


def rules_page() -> str:
    """Return every rule of health and of advice, with formula, limits and source."""
    from stepscope.analyze import advise
    from stepscope.health import RULES
    from stepscope.names.roles import ROLES

    lines = [RULES_HEAD.strip(), "", "## Rules of health", "", HEALTH_HEAD.strip()]
    for rule in RULES.values():
        said = said_by(rule)
        rows = {
            "severity": rule.severity,
            "formula": said["formula"],
            "thresholds": ", ".join(f"`{name}` {value:g}" for name, value in rule.defaults.items()) or "none",
            "fires": said["fires"],
            "chance of a false alarm": said.get("chance", "none from noise"),
            "needs": rule.fewest,
            "looks at": ", ".join(f"`{role}`" for role in rule.roles),
            "not judged in training that is": ", ".join(rule.unfit),
            "what to do": rule.action,
            "source": said["source"],
        }
        lines += ["", f"### {rule.id}", "", f"{rule.title}.", *table(rows)]
    lines += ["", "## Roles of series", "", "| role | what it is |", "|---|---|"]
    lines += [f"| `{role}` | {text} |" for role, text in ROLES.items()]
    lines += ["", "## Rules of advice", "", ADVICE_HEAD.strip()]
    for part in Path(advise.__file__).with_name("rules.md").read_text().split("### ")[1:]:
        name, _, text = part.partition("\n")
        lines += ["", f"### {name}", *table(said_in(text))]
    return "\n".join(lines) + "\n"


SAID = re.compile(r"^(Formula|Fires|Chance|Source): (.*(?:\n +.*)*)", re.MULTILINE)
"""A part of what is said of a rule: its heading, and the text below it."""


def said_in(text: str) -> dict[str, str]:
    """Return what a text says of a rule, by heading."""
    return {name.lower(): " ".join(words.split()) for name, words in SAID.findall(text)}


def said_by(rule: type) -> dict[str, str]:
    """Return what the docstring of a rule, or of a class that it extends, says, by heading."""
    said: dict[str, str] = {}
    for kind in reversed(rule.__mro__):
        said |= said_in(inspect.getdoc(kind) or "")
    return said


def metrics_page() -> str:
    """Return every metric with its labels."""
    from stepscope.metrics import METRICS

    lines = [METRICS_HEAD.strip(), "", "| metric | labels | meaning |", "|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
        lines.append(f"| `{metric.name}` | {labels} | {metric.about} |")
    return "\n".join(lines) + "\n"


def http_page() -> str:
    """Return every address of the server and every message, from the OpenAPI document."""
    from stepscope.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["openapi"])
    whole = json.loads(printed.getvalue())
    lines = [HTTP_HEAD.strip()]
    for path, operations in sorted(whole["paths"].items()):
        for method, operation in operations.items():
            lines += ["", f"## {method.upper()} {path.lstrip('/')}", "", sentence(operation["summary"])]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            asked = {
                f"`{parameter['name']}`": parameter.get("description", "")
                for parameter in operation["parameters"]
            }
            answers = {
                kind: schema_name(content.get("x-frame-header") or content.get("schema", {}))
                for kind, content in operation["responses"].get("200", {}).get("content", {}).items()
            }
            asked |= {"body": schema_name(body["schema"])} if body else {}
            asked["answer"] = ", ".join(
                kind if name in ("", "string") else f"{name} (`{kind}`)" for kind, name in answers.items()
            )
            lines += table(asked)
    lines += ["", "## Messages"]
    for name, schema in sorted(whole["components"]["schemas"].items()):
        fields = schema.get("properties", {})
        lines += ["", f"### {name}", "", sentence(schema.get("description", ""))]
        lines += ["", *[f"- `{field}`: {schema_name(kind)}" for field, kind in fields.items()]]
    return "\n".join(lines) + "\n"


def sentence(text: str) -> str:
    """Return a summary without the address that it repeats."""
    words = re.sub(r"^.*?(?:GET|POST) [^:]*[.:] ?", "", text.replace("``", "`"))
    return words[:1].upper() + words[1:]


def schema_name(schema: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(schema_name, parts))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {schema_name(schema.get('items', {}))}"
    return str(schema.get("type", ""))


def table(rows: dict[str, str]) -> list[str]:
    """Return a table of two columns, without its empty rows."""
    cells = [f"| {name} | {text.replace('|', chr(92) + '|')} |" for name, text in rows.items() if text]
    return ["", "| | |", "|---|---|", *cells]


def parts_of(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands within a command."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def commands_page() -> str:
    """Return what each command says of itself."""
    from stepscope.cli import COMMANDS, build_parser

    parser = build_parser(only="*")
    (commands,) = [action.choices for action in parser._actions if action.dest == "command"]
    lines = ["# Commands", "", "What `stepscope COMMAND --help` prints."]
    for name in COMMANDS:
        command = commands[name]
        command.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=FIXED_WIDTH)
        lines += ["", f"## stepscope {name}", "", "```text", command.format_help().strip(), "```"]
        for part, inner in parts_of(command).items():
            lines += ["", f"### stepscope {name} {part}", "", "```text", inner.format_help().strip(), "```"]
    return "\n".join(lines) + "\n"
