"""Text: numbers, sizes and durations as people read them, without secrets, and as valid UTF-8.

A quantity has three significant digits and its unit, and so has a value in a sentence; two values that are
compared have as many as show by how much they differ. Sizes are in powers of 1,024 (KiB, MiB), rates and
counts in powers of ten, as vendors state them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence

CONTROLS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
"""Sequences by which a terminal changes colours and moves."""
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_LONG_TIMES = ((86400, "d", 3600, "h", 60), (3600, "h", 60, "min", 1), (60, "min", 1, "s", 0.1))
"""Seconds of the two units of a longer time, the largest first, and of the least that a shorter one shows."""
_SIZES = ((2.0**50, "Pi"), (2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))
_COUNTS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_ROUNDS_UP = 0.9995
"""The part of a unit from which three digits would print as 1000 of the unit below."""

_POWERS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SMALLEST, _LARGEST = 1e-4 * (1 - 1e-6), 1e6
"""Limits between which a number is written out; 0.0001 in single precision is a little less."""
_MILLIONS = ((1e12, "T"), (1e9, "B"), (1e6, "M"))
_MOST_SHORT, _MOST_COUNTED = 1e15, 1e7
"""From here on a number has a power of ten, and a count is no longer written out."""
_ALL_DIGITS = 17
"""Significant digits with which no two numbers read alike."""


def number(value: float, digits: int = 3) -> str:
    """Return a number for sentences: significant digits, separators, powers of ten as on the page.

    Args:
        value: Any number.
        digits: Significant digits, at least; a number from 1,000 to a million keeps all before its point.
    """
    magnitude = abs(value)
    if not magnitude < math.inf:
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if round(magnitude) < _LARGEST:
        whole = len(str(round(magnitude)))
        if whole > 3 and magnitude >= 1000 - 0.5 * 10.0 ** (3 - digits):  # rounds to 1,000 or more
            return f"{value:,.{max(digits - whole, 0)}f}"
        if magnitude == 0 or magnitude >= _SMALLEST:
            return f"{value:.{digits}g}"
    elif magnitude < _MOST_SHORT:
        factor, letter = next(scale for scale in _MILLIONS if magnitude >= scale[0] * _ROUNDS_UP)
        return f"{value / factor:.{digits}g} {letter}"
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}\u00d710{str(int(power)).translate(_POWERS)}"


def not_finite(value: float) -> str:
    """Return a value that is not finite in words."""
    return "NaN" if value != value else "infinite" if value > 0 else "minus infinite"


def levels(before: float, after: float) -> tuple[str, str]:
    """Return two numbers of a sentence with as many digits as show by how much they differ, to a tenth."""
    apart = abs(after - before)
    digits = 3
    if 0 < apart < math.inf:
        while (
            digits < _ALL_DIGITS
            and abs(abs(_rounded(after, digits) - _rounded(before, digits)) - apart) > apart / 10
        ):
            digits += 1
    return number(before, digits), number(after, digits)


def _rounded(value: float, digits: int) -> float:
    """Return the number that :func:`number` shows."""
    whole = len(str(round(abs(value)))) if abs(value) < _LARGEST else 0
    return round(value, max(digits - whole, 0)) if whole > 3 else float(f"{value:.{digits - 1}e}")


def time(ns: float) -> str:
    """Format a duration given in nanoseconds: from a minute on in its two largest units, as 3 min 20 s."""
    if not math.isfinite(ns):
        return "-"
    seconds = abs(ns) / 1e9
    for large, name, small, smaller, least in _LONG_TIMES:
        if round(seconds / least) * least >= large:
            whole, rest = divmod(round(seconds / small), large // small)
            shown = f"{whole:,} {name}" + (f" {rest} {smaller}" if rest else "")
            return f"-{shown}" if ns < 0 else shown
    factor, unit = next(
        ((factor, unit) for factor, unit in _TIMES if abs(ns) >= factor * _ROUNDS_UP), (1.0, "ns")
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


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number and its noun, in the singular or the plural."""
    shown = f"{count:,}" if count < _MOST_COUNTED else number(count)
    return f"{shown} {one if count == 1 else many or one + 's'}"


def often(count: float) -> str:
    """Format how many times something happens on average, whole if it is."""
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


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of numbers flush right, and a name last, which may be long."""
    *numbers, _ = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in numbers]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)), name])
        for *cells, name in rows
    ]


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


# --- secrets, and bytes that are not text ----------------------------------------------------------------

SCRUBBED = "[scrubbed]"

_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_HEADER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_SURROGATES = re.compile("[\ud800-\udfff]")


def utf8(text: str) -> bytes:
    """Return any text as UTF-8.

    File names, arguments and texts of exceptions may hold lone surrogates, which stand for bytes that were
    not UTF-8; each becomes U+FFFD.
    """
    return _SURROGATES.sub("\ufffd", text).encode()


def printable(text: str) -> str:
    r"""Return a file's name as text that can be sent: bytes that are not UTF-8 are written as ``\xff``."""
    if not _SURROGATES.search(text):
        return text
    return os.fsencode(text).decode("utf-8", "backslashreplace")


_IN_LINE, _IN_TEXT = re.compile(r"[^ -~]+"), re.compile(r"[^\n\t -~]+")
"""Stretches in which something may be hidden; of texts, and of JSON's layout, lines and tabs are kept."""
_BYTES = "".join(map(chr, range(0xDC80, 0xDD00)))
"""Halves of characters that stand for bytes that are no text (PEP 383)."""
_HIDDEN = frozenset(("Cc", "Cf", "Cn", "Cs", "Zl", "Zp"))
"""Categories of Unicode whose characters show nothing by themselves: they move a cursor, recolour or reorder
a terminal, join, end lines, are halves of others, or are none yet."""
_VIRAMA = 9
"""The combining class of marks that join two consonants."""


def _escaping(text: str, within: re.Pattern[str], escape: Callable[[str], str], plain: str = "") -> str:
    """Return a text with the hidden characters of some stretches escaped, but for those that are plain."""

    def escaped(match: re.Match[str]) -> str:
        run = match[0]
        if run.isprintable():
            return run
        return "".join(
            escape(letter) if _is_hidden(run, at) and letter not in plain else letter
            for at, letter in enumerate(run)
        )

    return within.sub(escaped, text)


def _is_hidden(run: str, at: int) -> bool:
    from unicodedata import category

    kind = category(run[at])
    return kind in _HIDDEN and not (kind == "Cf" and _joins(run, at))


def _joins(run: str, at: int) -> bool:
    """Return whether a joiner changes how its neighbours look: emoji, letters of Arabic, Indic consonants.

    Elsewhere it only makes a name that looks like another one. RFC 5892, appendices A.1 and A.2, has the
    rule for letters; a joiner of emoji stands between symbols, the first perhaps with a colour of skin.
    """
    from unicodedata import bidirectional, category, combining

    joiner, before, after = run[at], run[at - 1 : at], run[at + 1 : at + 2]
    if joiner not in "\u200c\u200d" or not before or not after:
        return False
    if combining(before) == _VIRAMA:
        return True
    if bidirectional(before) == bidirectional(after) == "AL":
        return True
    symbols = category(before)[0] == "S" or before == "\ufe0f", category(after)[0] == "S"
    return joiner == "\u200d" and all(symbols)


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The first characters by which a spreadsheet recognises a formula."""
_QUOTED = frozenset(',"\r\n')
"""Characters for which a cell of CSV is quoted."""


def terminal_text(text: str) -> str:
    """Return foreign lines so that nothing in them controls a terminal.

    Bytes that are not text stay as they are: names of files leave as they came.
    """
    return _escaping(text, _IN_TEXT, _escaped, plain=_BYTES)


def terminal_line(text: str) -> str:
    """Return a name so that a terminal shows it on one line and nothing in it controls the terminal."""
    return _escaping(text, _IN_LINE, _escaped)


def terminal_json(text: str) -> str:
    """Return JSON so that nothing in its texts controls a terminal; it means the same."""
    return _escaping(text, _IN_TEXT, _escaped_in_json)


def plain_line(text: str) -> str:
    """Return foreign text as one line that can be sent, without characters that control what shows it."""
    return terminal_line(printable(text))


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _escaped_in_json(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def cell_text(text: str) -> str:
    """Return a text in a form that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def csv_cell(text: str) -> str:
    """Return a text as a cell of CSV that a spreadsheet does not take for a formula."""
    text = cell_text(text)
    return '"{}"'.format(text.replace('"', '""')) if _QUOTED.intersection(text) else text


def scrub_text(text: str) -> str:
    """Return the text without anything that has the shape of a secret."""
    text = _SHAPES.sub(SCRUBBED, text)
    text = _URL_PASSWORD.sub(SCRUBBED, text)
    return _HEADER.sub(rf"\1 {SCRUBBED}", text)


def scrub_source(text: str) -> str:
    """Return lines of source without secrets, nor texts that are given to a name of secrets."""
    return _GIVEN.sub(_without_given, scrub_text(text))


def _without_given(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{SCRUBBED}" if is_secret(match[1]) else match[0]


_GIVEN = re.compile(r"""\b(\w+)(["']?\]?\s*[=:,]\s*)[rbuf]{0,2}(?:"[^"\n]*"|'[^'\n]*')""")

# fmt: off
_LAST = frozenset(("key", "token", "auth", "sas", "pat", "pwd"))
# Before one of _LAST these words mean a vocabulary's token or a table's key.
_VOCABULARY = frozenset((
    "pad", "eos", "bos", "sos", "unk", "mask", "sep", "cls", "special", "image", "audio", "video", "start",
    "end", "stop", "begin", "prompt", "decoder", "encoder", "sort", "primary", "foreign", "metric", "monitor",
    "dict", "state", "cache", "group", "index", "column", "batch", "input", "output", "label",
))
# fmt: on
_SECRET = re.compile(
    r"(?i)passw|passphrase|credential|secret(?!ar)|authorization|cookie|bearer"
    r"|(?:api|access|private)[_-]?key|(?:auth|access)[_-]?token"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_secret(key: str) -> bool:
    """Return whether a key's name says that its value is a secret."""
    if _SECRET.search(key):
        return True
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words:
        return False
    return words[-1] in _LAST and (len(words) == 1 or words[-2] not in _VOCABULARY)
