"""The table of planted programs and their sources agree."""

import ast
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from planted import CASES, planted_lines, planted_loop


@pytest.mark.parametrize("file", sorted({case.file for case in CASES}))
def test_each_cause_is_marked_once_and_each_training_is_there(file):
    cases = [case for case in CASES if case.file == file]
    text = cases[0].path.read_text()
    marks = re.findall(r"# PLANTED (\w+)", text)
    assert len(marks) == len(set(marks))
    assert set(marks) <= {case.program for case in cases if case.rules}
    defined = {
        node.name for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    for case in cases:
        assert case.training in defined
        if case.training in {"script", "trainer"} and case.group != "programs":
            assert case.program in defined
    assert len({(case.training, case.program) for case in cases}) == len(cases)


def test_the_line_its_function_and_its_loop_are_found():
    case = next(case for case in CASES if case.program == "clip_item")
    function, lines = planted_lines(case)
    text = case.path.read_text().splitlines()
    assert function == "clip"
    assert text[lines.start - 1].endswith("# PLANTED clip_item")
    assert text[planted_loop(case).start - 1].lstrip().startswith("for row in ")
