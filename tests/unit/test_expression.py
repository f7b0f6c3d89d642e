"""Expressions as they are read; a wrong one says where."""

import pytest

from stepscope.errors import ExpressionError
from stepscope.expression import Call, Number, Tag, Window, parse, parse_condition, readings_of, tags_of


def shape(node):
    """The tree as nested lists."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Tag):
        return node.name
    if isinstance(node, Window):
        return [node.name, shape(node.argument), node.points]
    return [node.name, *map(shape, node.arguments)]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("loss - eval/loss", ["-", "loss", "eval/loss"]),
        ("loss / 2", ["/", "loss", 2.0]),
        ("loss /2", ["/", "loss", 2.0]),
        ("(a)/(b)", ["/", "a", "b"]),
        ("a - b - c", ["-", ["-", "a", "b"], "c"]),
        ("a + b * c ** 2 ** 3", ["+", "a", ["*", "b", ["**", "c", ["**", 2.0, 3.0]]]]),
        ("-a ** 2", ["negative", ["**", "a", 2.0]]),
        ("a ** -1", ["**", "a", ["negative", 1.0]]),
        ("ema(layers.0.weight, 1e1)", ["ema", "layers.0.weight", 10]),
        ("min(a - b) < max(a, 3)", ["<", ["min", ["-", "a", "b"], 0], ["max", "a", 3]]),
        (
            "not a > 1 or b == 2 and c < 3",
            ["or", ["not", [">", "a", 1.0]], ["and", ["==", "b", 2.0], ["<", "c", 3.0]]],
        ),
        ('"grad-norm/layer 1" * step', ["*", "grad-norm/layer 1", "step"]),
        (r'"a \"b\" \\c"', r'a "b" \c'),
        ("greatest(a, b, .5)", ["greatest", "a", "b", 0.5]),
        ("verlust_ä", "verlust_ä"),
        ("at(1000, eval/loss) < 0.35", ["<", ["at", "eval/loss", 1000], 0.35]),
        ("at(0, at(3, a))", ["at", ["at", "a", 3], 0]),
    ],
)
def test_what_is_read(text, tree):
    assert shape(parse(text)) == tree


def test_a_quoted_axis_is_a_tag():
    assert [tag.name for tag in tags_of(parse('"step" + step + elapsed'))] == ["step"]
    assert isinstance(parse("loss * step"), Call)


@pytest.mark.parametrize(
    ("text", "wrong", "said"),
    [
        ("loss - ", "", "expected a tag, a number or (, found the end"),
        ("loss + * 2", "*", "expected a tag, a number or (, found '*'"),
        ("loss 2", "2", "expected an operator or the end, found '2'"),
        ("(loss", "", "expected an operator or ), found the end"),
        ("loss)", ")", "expected an operator or the end, found ')'"),
        ("emma(loss, 0.9)", "emma", "no function 'emma'"),
        ("ema(loss)", ")", "ema needs a number of points"),
        ("cumsum(loss, 3)", "cumsum(loss, 3)", "cumsum with 2 arguments"),
        ("ema(loss, 0.9)", "0.9", "ema over 0.9: a whole number from 1 to 100,000"),
        ("mean(3, 5) + loss", "3", "mean of no tag"),
        ("at(loss, 1000)", "1000", "at of no tag"),
        ("at(-1, loss)", "-", "at over -: a whole number from 0"),
        ("loss + (loss > 3)", "+", "'+' works on numbers, not on conditions"),
        ("loss; import os", ";", "unexpected ';'"),
        ("1loss", "1loss", "unexpected '1loss'"),
        ('"loss', '"loss', "quotes that do not end"),
        ("__import__(os)", "__import__", "no function '__import__'"),
        ("2 * 3", "2 * 3", "no tag in the expression"),
        ("", "", "expected a tag, a number or (, found the end"),
    ],
)
def test_the_wrong_part_is_named(text, wrong, said):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert text[caught.value.start : caught.value.end] == wrong
    assert caught.value.message.startswith(said)


def test_all_functions_are_offered():
    with pytest.raises(ExpressionError) as caught:
        parse("cumsam(loss)")
    assert "cumsum" in caught.value.hint
    assert "greatest" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "a", "-" * 999 + "a", "((((" * 50 + "a" + "))))" * 50, "a+" * 600]
)
def test_no_text_exhausts_the_reader(text):
    with pytest.raises(ExpressionError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("a > ", 5, "quotes"),
        ("ema(a) > 1", 6, "ema(x, n)"),
        ("foo(a, 1) > 2", 1, "the functions: ema"),
        ("a + 1", 1, "compare it"),
        ("a > 1 > 2", 7, "a < b and b < c"),
        ("(a > 1) + 2 > 1", 9, "and, or"),
        ("a > 1 and b", 7, "a > 1 and b < 2"),
        ("mean(a, 0.5) > 1", 9, "mean(x, n)"),
        ("mean(a, 100001) > 1", 9, "mean(x, n)"),
        ("std(a, 1) > 1", 8, "std(x, n)"),
        ("mean(3, 5) > 1", 6, "mean(x, n)"),
        ("1 > 0", 1, "name one"),
        ('"x > 2', 1, "close the quotes"),
        ("a $ b", 3, "in quotes"),
        ("__import__('os') > 1", 12, "quote"),
        ("(" * 50 + "a > 1" + ")" * 50, 41, "apart"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_column(text, column, hint):
    with pytest.raises(ExpressionError) as caught:
        parse_condition(text)
    assert f"column {column}" in str(caught.value)
    assert hint in caught.value.hint


def test_a_reading_is_named_as_it_is_written():
    texts = ["a", "last(a, 2)", "count(a)", "min(a)", "max(a, 3)", "delta(a, 1)", 'mean("a b", 2)']
    assert [str(reading) for text in texts for reading in readings_of(parse(text))] == texts


def test_the_least_and_the_most_points_are_allowed():
    assert parse("mean(a, 100000)").points == 100_000
    assert parse("ema(a, 1)").points == 1
