"""What tfprof takes and prints, in its own form, to be held beside ours."""

from collections.abc import Mapping
from typing import Any

from stepscope.analyze.options import ViewOptions


def options_of(values: Mapping[str, Any]) -> ViewOptions:
    """Options from a dict as Python code passes it to tfprof, lists and all."""
    return ViewOptions(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    )


def advice_text(advice: Mapping[str, list[str]]) -> str:
    """Advice as the text form of tfprof's ``AdviceProto``."""
    lines = []
    for checker, reports in advice.items():
        lines += ["checkers {", f'  key: "{checker}"', "  value {"]
        lines += [f'    reports: "{_escaped(report)}"' for report in reports]
        lines += ["  }", "}"]
    return "".join(f"{line}\n" for line in lines)


def _escaped(report: str) -> str:
    table = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}
    return "".join(table.get(letter, letter) for letter in report)
