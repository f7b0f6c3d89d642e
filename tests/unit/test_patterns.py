"""Expressions of users: none takes long, and what is not known is said."""

import pytest

from stepscope.errors import UsageError
from stepscope.patterns import compile_pattern, escape


@pytest.mark.parametrize("expression", ["(a|aa|a)*b", "(a+)+b", "(.*)*b", "(a|a)*?b"])
def test_no_expression_takes_long(expression):
    """Python's own engine would not come back from the first of these within a human's life."""
    assert compile_pattern(expression, "tags").fullmatch("a" * 50_000) is None


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("(?!a)b", "look-around and references"),
        (r"(a)\1", "look-around and references"),
        ("*conv*", r"use '\.\*conv\*'"),
        ("loss[", "to match it literally"),
        ("(x{1000}){1000}", "to match it literally"),
    ],
)
def test_what_cannot_be_used_is_said(expression, hint):
    with pytest.raises(UsageError, match=hint):
        compile_pattern(expression, "tags")


def test_names_that_are_no_text():
    assert compile_pattern("a.c", "tags").fullmatch("a\udc80c")


def test_a_quoted_text_matches_itself():
    assert compile_pattern(escape("conv(2d)[0]"), "tags").fullmatch("conv(2d)[0]")


def test_tfprofs_syntax():
    assert compile_pattern(r".*\Q(2d)\E[[:digit:]]+\z", "tags").fullmatch("conv(2d)12")
