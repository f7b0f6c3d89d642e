"""Where the time of a session went: by file of tests, for each stays on one worker."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol


class Timed(Protocol):
    """A report of pytest: of a test, or of what is made before it or undone after it."""

    nodeid: str
    when: str | None
    duration: float


def by_file(reports: Iterable[Timed], most: int = 20) -> list[str]:
    """A line for each of the files that took longest, fixtures included, and one for all others."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for each in reports:
        name = each.nodeid.split("::")[0]
        seconds[name] += each.duration  # type: ignore[assignment]
        tests[name] += each.when == "call"
    ordered = seconds.most_common()
    lines = [f"{took:7.1f} s  {tests[name]:4} tests  {name}" for name, took in ordered[:most]]
    rest = ordered[most:]
    if rest:
        count = sum(tests[name] for name, _ in rest)
        lines.append(f"{sum(took for _, took in rest):7.1f} s  {count:4} tests  {len(rest)} other files")
    return lines
