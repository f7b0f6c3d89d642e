"""Numbers, sizes and durations as people read them, in every command, message and report.

A quantity has three significant digits and its unit. A value in a sentence has four, since a reader compares
it with another. Sizes are in powers of 1,024 (KiB, MiB), rates and counts in powers of ten, as vendors state
them.
"""

from __future__ import annotations

import math

_TIMES = ((86400e9, "d"), (3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES = ((2.0**50, "Pi"), (2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))
_COUNTS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_ROUNDS_UP = 0.9995
"""The part of a unit from which three digits would print as 1000 of the unit below."""
_MANY = 2
"""Minutes, hours and days are used from two of them on: 90 s say more than 1.50 min."""

_POWERS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SMALLEST, _LARGEST = 1e-4, 1e9
"""Limits between which a number is written out."""


def number(value: float) -> str:
    """Return a number for sentences: four significant digits, separators, powers of ten as on the page."""
    magnitude = abs(value)
    if not magnitude < math.inf:
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if 999.95 <= magnitude < _LARGEST:
        return f"{value:,.0f}"
    if magnitude == 0 or _SMALLEST <= magnitude < _LARGEST:
        return f"{value:.4g}"
    digits, _, power = f"{value:.3e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}\u00d710{str(int(power)).translate(_POWERS)}"


def time(ns: float) -> str:
    """Format a duration given in nanoseconds, up to days."""
    if not math.isfinite(ns):
        return "-"
    factor, unit = next(
        (
            (factor, unit)
            for factor, unit in _TIMES
            if abs(ns) >= factor * (_MANY if factor > 1e9 else _ROUNDS_UP)
        ),
        (1.0, "ns"),
    )
    return f"{_number(ns, factor)} {unit}"


def duration(seconds: float | None) -> str:
    """Format a duration given in seconds; a dash if it was not recorded."""
    return "-" if seconds is None else time(seconds * 1e9)


def size(count: float | None) -> str:
    """Format bytes, up to PiB; a dash if they were not recorded."""
    return "-" if count is None else _scaled(count, "B", _SIZES)


def quantity(count: float) -> str:
    """Format a count: whole below a thousand, then k, M, G."""
    if not math.isfinite(count):
        return "-"
    if abs(count) < 1000:
        return f"{count:.0f}" if float(count).is_integer() else _digits(count)
    return _scaled(count, "").replace(" ", "")


def often(count: float) -> str:
    """Format how many times something happens on average, whole where it is."""
    times = f"{count:,.0f}" if round(count, 1) == round(count) else f"{count:,.1f}"
    return f"{times} time{'s' * (times != '1')}"


def flops(count: float) -> str:
    """Format floating point operations."""
    return _scaled(count, "FLOP")


def flop_rate(per_second: float) -> str:
    """Format an achieved rate of floating point operations."""
    return _scaled(per_second, "FLOP/s")


def byte_rate(per_second: float) -> str:
    """Format an achieved bandwidth in powers of ten, the unit of the peak that it is compared with."""
    return _scaled(per_second, "B/s")


def share(ratio: float | None) -> str:
    """Format a ratio as percent; a dash if it is not known."""
    return "-" if ratio is None or not math.isfinite(ratio) else f"{100 * ratio:.1f} %"


def most(ratio: float) -> str:
    """Format a part of a whole as whole percent; only the whole is ever 100 %."""
    return "over 99%" if 0.995 <= ratio < 1 else f"{ratio:.0%}"


def readable(name: str, value: object) -> str:
    """Format a number by the unit in its name, as in ``host_wait_ratio`` or ``total_ns``."""
    label = name
    for suffix, formatted in (("_ns", time), ("_ratio", share), ("_bytes", size)):
        if name.endswith(suffix):
            label = name.removesuffix(suffix)
            if isinstance(value, (int, float)):
                return f"{label.replace('_', ' ')} {formatted(value)}"
    if isinstance(value, float):
        return f"{label.replace('_', ' ')} {quantity(value)}"
    return f"{label.replace('_', ' ')} {'not recorded' if value is None else value}"


def _scaled(value: float, unit: str, prefixes: tuple[tuple[float, str], ...] = _COUNTS) -> str:
    if not math.isfinite(value):
        return "-"
    factor, prefix = next(
        ((factor, prefix) for factor, prefix in prefixes if abs(value) >= factor * _ROUNDS_UP), (1.0, "")
    )
    return f"{_number(value, factor)} {prefix}{unit}".rstrip()


def _number(value: float, factor: float) -> str:
    """Format a value in a unit; a whole number of the base unit stays whole: nothing below was measured."""
    return f"{value:.0f}" if factor == 1 and float(value).is_integer() else _digits(value / factor)


def _digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    return f"{value:.0f}" if magnitude >= 99.95 else f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"
