import pytest

from stepscope.analyze.options import ViewOptions, compiled, matches, parse_output, parse_words
from stepscope.errors import UsageError


def test_the_defaults_are_those_of_tfprofs_command_line() -> None:
    options = ViewOptions()
    assert (options.max_depth, options.step, options.order_by, options.select) == (
        10,
        -1,
        "name",
        ("micros",),
    )
    assert options.account_type_regexes == options.start_name_regexes == options.show_name_regexes == (".*",)
    assert options.trim_name_regexes == options.hide_name_regexes == ()


@pytest.mark.parametrize(
    "words",
    [
        ["-max_depth", "4", "-select", "micros,bytes", "-step", "-1"],
        ["--max-depth", "4", "--select", "micros,bytes", "--step=-1"],
        ["--max_depth=4", "-select='micros,bytes'"],
    ],
)
def test_every_spelling_means_the_same(words: list[str]) -> None:
    options, rest = parse_words(words)
    assert (options.max_depth, options.select, options.step, rest) == (4, ("micros", "bytes"), -1, [])


@pytest.mark.parametrize(
    ("words", "shown", "rest"),
    [
        (["-account_displayed_op_only"], True, []),
        (["-account_displayed_op_only", "-max_depth", "3"], True, []),
        (["-account_displayed_op_only", "no"], False, []),
        (["-account_displayed_op_only", "T"], True, []),
        (["-account_displayed_op_only", "path"], True, ["path"]),
    ],
)
def test_the_flag_may_stand_alone(words: list[str], shown: bool, rest: list[str]) -> None:
    options, left = parse_words(words)
    assert (options.account_displayed_op_only, left) == (shown, rest)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-max_dept", "4"], "did you mean 'max_depth'"),
        (["-max_depth", "four"], "expected a whole number"),
        (["-max_depth"], "needs a value"),
        (["-order_by", "depth"], "expected name, bytes"),
        (["-select", "micro"], "did you mean 'micros'"),
        (["-show_name_regexes", "*conv"], "must match the whole name"),
        (["-output", "file:"], "names no file"),
        (["-output", "svg:outfile=a"], "expected stdout"),
        (["-account_displayed_op_only=perhaps"], "expected true, false"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("*", r"\*").replace(".", r"\.")):
        parse_words(words)


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("conv", "conv1", False),  # the whole name, not a part
        ("conv.", "conv1", True),
        ("[[:alpha:]]+[[:digit:]]", "conv1", True),
        (r"\Qa.b\E.*", "a.bc", True),
        (r"\Qa.b\E.*", "axbc", False),
        (r"a\z", "a", True),
        (r"\d", "٣", False),  # RE2's classes are ASCII
        (".", "\n", False),
    ],
)
def test_expressions_are_read_as_re2_reads_them(pattern: str, name: str, matched: bool) -> None:
    assert bool(compiled(pattern).fullmatch(name)) is matched
    assert matches(name, ("nothing", pattern)) is matched


def test_output_kinds() -> None:
    assert parse_output("") == parse_output("stdout") == ("stdout", "")
    assert parse_output("pprof:outfile=a.pb.gz") == ("pprof", "a.pb.gz")
    assert parse_output("file:outfile=a=b.txt") == ("file", "a=b.txt")
