"""Numbers for people: three significant digits and a unit."""

from __future__ import annotations

import math

_TIMES = ((60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_COUNTS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def time(ns: float) -> str:
    """Format a duration given in nanoseconds, up to minutes."""
    if not math.isfinite(ns):
        return "-"
    # 0.9995 of a unit would print as 1000 of the one below it
    factor, unit = next(
        ((factor, unit) for factor, unit in _TIMES if abs(ns) >= factor * 0.9995), (1.0, "ns")
    )
    if unit == "min" and abs(ns) < 120e9:
        factor, unit = 1e9, "s"
    return f"{_number(ns, factor)} {unit}"


def size(count: float) -> str:
    """Format bytes in powers of ten, up to petabytes."""
    return _scaled(count, "B")


def quantity(count: float) -> str:
    """Format a count: whole below a thousand, then k, M, G."""
    if not math.isfinite(count):
        return "-"
    if abs(count) < 1000:
        return f"{count:.0f}" if float(count).is_integer() else _digits(count)
    return _scaled(count, "").replace(" ", "")


def often(count: float) -> str:
    """Format how many times something happens on average, whole where it is."""
    shown = f"{count:,.0f}" if round(count, 1) == round(count) else f"{count:,.1f}"
    return f"{shown} time{'s' * (shown != '1')}"


def flops(count: float) -> str:
    """Format floating point operations."""
    return _scaled(count, "FLOP")


def flop_rate(per_second: float) -> str:
    """Format an achieved rate of floating point operations."""
    return _scaled(per_second, "FLOP/s")


def byte_rate(per_second: float) -> str:
    """Format an achieved bandwidth."""
    return _scaled(per_second, "B/s")


def share(ratio: float) -> str:
    """Format a ratio as percent."""
    return f"{100 * ratio:.1f} %" if math.isfinite(ratio) else "-"


def most(ratio: float) -> str:
    """Format a part of a whole as whole percent; only the whole is ever 100 %."""
    return "over 99%" if 0.995 <= ratio < 1 else f"{ratio:.0%}"


def _scaled(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return "-"
    factor, prefix = next(((f, p) for f, p in _COUNTS if abs(value) >= f * 0.9995), (1.0, ""))
    return f"{_number(value, factor)} {prefix}{unit}".rstrip()


def _number(value: float, factor: float) -> str:
    """Nothing below the base unit was measured, so a whole number of it stays whole."""
    return f"{value:.0f}" if factor == 1 and float(value).is_integer() else _digits(value / factor)


def _digits(value: float) -> str:
    size = abs(value)
    if size == 0:
        return "0"
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def readable(name: str, value: object) -> str:
    """Format a number by the unit in its name, as in ``host_wait_ratio`` or ``total_ns``."""
    label = name
    for suffix, text in (("_ns", time), ("_ratio", share), ("_bytes", size)):
        if name.endswith(suffix):
            label = name.removesuffix(suffix)
            if isinstance(value, (int, float)):
                return f"{label.replace('_', ' ')} {text(value)}"
    if isinstance(value, float):
        return f"{label.replace('_', ' ')} {quantity(value)}"
    return f"{label.replace('_', ' ')} {'not recorded' if value is None else value}"
