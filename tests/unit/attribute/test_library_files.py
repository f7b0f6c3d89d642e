"""Which names of files are those of libraries, where a recorder gives no directories."""

from __future__ import annotations

import pytest

from stepscope.attribute.source_lines import is_own


@pytest.mark.parametrize(
    "frame",
    [
        "$gen_dataset_ops.py:3008 iterator_get_next",
        "$math_ops.py:944 cast",
        "$function_type.py:188 __init__",
        "$tracing_compilation.py:188 _maybe_define_function",
        "$array_creation.py:98 ones",
        "$pjit.py:211 _cpp_pjit",
        "$optimizer.py:227 _update_step",
        "$context.py:2293 executing_eagerly",
        "$fromnumeric.py:2080 _shape_dispatcher",
    ],
)
def test_a_file_of_a_library_is_not_the_users(frame: str) -> None:
    assert not is_own(frame)


@pytest.mark.parametrize(
    "file", ["train", "model", "data", "utils", "losses", "my_ops_test", "layers", "main"]
)
def test_a_name_that_programs_use_is_the_users(file: str) -> None:
    assert is_own(f"${file}.py:7 step")


def test_with_its_directory_a_file_is_judged_by_that() -> None:
    assert is_own("/home/ann/nets/math_ops.py(9): cast")
    assert is_own("/home/ann/context.py(9): step")


@pytest.mark.parametrize("file", ["<stdin>", "<string>", "<python-input-3>", "<ipython-input-4-0f3a>"])
def test_code_that_was_typed_is_the_users(file):
    assert is_own(f"{file}(8): slow_loader")
    assert is_own(f"{file}(2): <module>")
    assert not is_own(f"{file}(2): __init__"), "dataclasses write methods into such files"


@pytest.mark.parametrize(
    "file", ["<frozen importlib._bootstrap>", "<attrs generated init train.Config>", "<built-in>"]
)
def test_code_that_nobody_typed_is_not(file):
    assert not is_own(f"{file}(8): load")
