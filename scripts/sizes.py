"""Print how many lines the source, the page and the tests have, and two words of its prose: ``make sizes``.

A line of code of Python holds more than a docstring, a comment or nothing. Only files that git knows count,
so what a build makes does not. The words "what" and "where" are counted because they begin the clauses that a
noun or "if" would say more plainly; messages are the texts of the source that hold a space.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EMPTY = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
WORD = re.compile(r"[a-z']+")
PAGE = (".ts", ".svelte", ".css", ".js", ".html")
"""Kinds of files of the page that are written by hand."""


def code_lines(text: str) -> int:
    """Return the number of lines that hold code; texts that are statements of their own are docstrings."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in EMPTY:
            code |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def texts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind, docstring or message, of each text for people, and the text."""
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield "docstrings" if id(node) in docstrings else "messages", node.value


def part_of(path: str) -> str | None:
    """Return the row that a file counts to: its package, its folder of tests, or the page."""
    parts = path.split("/")
    if path.startswith(("src/", "tests/")) and path.endswith(".py"):
        return "/".join(parts[: 3 if parts[0] == "src" else 2])
    return "web" if path.startswith("web/") and path.endswith(PAGE) and parts[-1] != "api.ts" else None


def main() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "src", "tests", "web"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for path in listed.stdout.splitlines():
        part = part_of(path)
        if part is None or not (ROOT / path).is_file():
            continue
        text = (ROOT / path).read_text()
        code = code_lines(text) if path.endswith(".py") else 0
        if part.startswith("src/"):
            for kind, prose in texts(text):
                words[kind].update(WORD.findall(prose.lower()))
        for row in {part, part.split("/")[0]}:
            sums[row] = [a + b for a, b in zip(sums[row], (1, text.count("\n"), code), strict=True)]
    print(f"{'':<36}{'files':>6}{'lines':>9}{'code':>9}")
    for row, (files, lines, code) in sorted(sums.items()):
        print(f"{row:<36}{files:>6}{lines:>9,}{f'{code:,}' if code else '':>9}")
    print(f"\n{'of 1,000 words':<36}{'words':>9}{'what':>9}{'where':>9}")
    for kind, counts in sorted(words.items()):
        total = counts.total()
        shares = "".join(f"{1000 * counts[word] / total:>9.1f}" for word in ("what", "where"))
        print(f"{kind:<36}{total:>9,}{shares}")


if __name__ == "__main__":
    main()
