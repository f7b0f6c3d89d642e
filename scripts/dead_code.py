"""Fails where ``src`` defines something that nothing in ``src`` names: ``python scripts/dead_code.py``.

Vulture finds functions, classes, methods, properties, imports, constants and code behind a return. Fields of
records are not asked about: they are read by name from JSON, from tables and by the page. What others call is
listed in ``dead_code_allowed.txt``; an entry there that allows nothing any more fails, too.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = Path(__file__).with_name("dead_code_allowed.txt")
FIELDS = ("variable", "attribute")
HANDLERS = ["@get", "@post", "@routes.get", "@question"]
"""Decorators of the functions that answer an address of the server or a question."""


def main() -> int:
    """Print what is dead, and the entries that are."""
    finder = Vulture(ignore_decorators=HANDLERS)
    finder.scavenge([str(ROOT / "src")])
    allowed = [line.split("#")[0].strip() for line in ALLOWED.read_text().splitlines()]
    unused_entries = set(filter(None, allowed))
    dead = 0
    for item in finder.get_unused_code(min_confidence=60):
        if item.typ in FIELDS and not item.name.isupper():
            continue
        path = Path(item.filename).relative_to(ROOT / "src" / "stepscope").as_posix()
        name = f"{path}:{item.name}"
        entries = [entry for entry in allowed if entry and fnmatch(name, entry)]
        unused_entries.difference_update(entries)
        if not entries:
            dead += 1
            print(f"src/stepscope/{path}:{item.first_lineno}: unused {item.typ} {item.name}")
    for entry in sorted(unused_entries):
        print(f"{ALLOWED.name}: nothing is unused that {entry!r} allows; delete the line")
    return 1 if dead or unused_entries else 0


if __name__ == "__main__":
    sys.exit(main())
