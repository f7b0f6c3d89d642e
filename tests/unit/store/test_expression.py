"""Expressions as they are read; a wrong one says where."""

import pytest

from stepscope.errors import ExpressionError
from stepscope.store.expression import Call, Number, Tag, parse, tags_of


def shape(node):
    """The tree as nested lists."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Tag):
        return node.name
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
        ("ema(layers.0.weight, 1e-1)", ["ema", "layers.0.weight", 0.1]),
        ('"grad-norm/layer 1" * step', ["*", "grad-norm/layer 1", "step"]),
        (r'"a \"b\" \\c"', r'a "b" \c'),
        ("max(a, b, .5)", ["max", "a", "b", 0.5]),
        ("verlust_ä", "verlust_ä"),
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
        ("ema(loss)", "ema(loss)", "ema with 1 arguments"),
        ("loss; import os", ";", "unexpected ';'"),
        ("1loss", "1loss", "unexpected '1loss'"),
        ('"loss', '"loss', "quotes that do not end"),
        ("__import__(os)", "__import__", "no function '__import__'"),
        ("2 * 3", "2 * 3", "no tag in the expression"),
        ("", "", "expected a tag, a number or (, found the end"),
        ("loss < script", "<", "unexpected '<'"),
    ],
)
def test_the_wrong_part_is_named(text, wrong, said):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert text[caught.value.start : caught.value.end] == wrong
    assert caught.value.message.startswith(said)


def test_a_near_name_is_offered():
    with pytest.raises(ExpressionError) as caught:
        parse("cumsam(loss)")
    assert "'cumsum'" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "a", "-" * 999 + "a", "((((" * 50 + "a" + "))))" * 50, "a+" * 600]
)
def test_no_text_exhausts_the_reader(text):
    with pytest.raises(ExpressionError):
        parse(text)
