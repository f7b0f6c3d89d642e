"""Events of made traces as tables of cases write them."""

from typing import Any

from stepscope.trace.model import Kind

KINDS = {
    "op": Kind.HOST_OP, "frame": Kind.PYTHON_FRAME, "ann": Kind.ANNOTATION, "load": Kind.DATA_LOADING,
    "rt": Kind.RUNTIME_CALL, "coll": Kind.COLLECTIVE, "sendrecv": Kind.SEND_RECV, "module": Kind.MODULE_SCOPE,
    "over": Kind.OVERHEAD,
}  # fmt: skip
GPU = {"lane": "gpu", "device": 0, "stream": 7}


def kind_named(word: str) -> Kind:
    return KINDS[word] if word in KINDS else Kind[word.upper()]


def events_of_line(line: str, known: dict[str, Any]) -> list[Any]:
    """Return the events of a line ``| name | kind | start | duration | more | for …``.

    ``ev`` of the known names makes one; name and kind may hold names in braces.
    """
    name, kind, start, duration, more, loops = (*map(str.strip, line[2:].split("|")), "", "")[:6]
    loops = loops or "for _ in (0,)"
    return eval(f"[ev(f{name!r}, f{kind!r}, {start}, {duration}, {more}) {loops}]", known)
