"""The HTML report: one file, nothing loaded, nothing run, nothing unescaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepscope.analyze.advise import Facts
from stepscope.errors import UsageError
from stepscope.export import page
from stepscope.export.html import report, write_html
from stepscope.trace.model import Kind, Trace
from stepscope.trace.tfprof import Execution, Frame, Profile, ProfileNode

EVIL = "<script>alert(1)</script>\"'&\udcff"


class Strict(HTMLParser):
    """Collects tags and attributes; complains about tags that are not closed in order."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(html: str) -> Strict:
    parsed = Strict()
    parsed.feed(html)
    assert parsed.open == []
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & parsed.tags
    assert not [
        name for name, _ in parsed.attributes if name.startswith("on") or name in ("src", "href", "action")
    ]
    assert not re.search(r"https?:|//[a-z]|url\(|@import", html.replace("<!doctype html>", ""))
    assert "default-src &#x27;none&#x27;" in html or "default-src 'none'" in html
    return parsed


@pytest.fixture
def trace(make: SimpleNamespace) -> Trace:
    event = make.event
    return make.build(
        [
            event("ProfilerStep#0", Kind.STEP, 0, 1000, step=0),
            event(EVIL.replace("\udcff", ""), Kind.HOST_OP, 10, 400, scope="net"),
            event("cudaLaunchKernel", Kind.RUNTIME_CALL, 20, 10, correlation=1, scope="net"),
            event("gemm", Kind.KERNEL, 500, 70, lane="gpu", device=0, stream=7, correlation=1, scope="net"),
        ]
    )


def test_the_report_of_a_trace(trace: Trace) -> None:
    html = report(Facts(trace), title=EVIL)
    check(html)
    for heading in ("Advice", "Steps", "Scopes", "Calls", "Python code", "Operators", "Kernels", "Memory"):
        assert f"<h2>{heading}</h2>" in html
    assert "&lt;script&gt;" in html
    assert "cannot tell which line of code" in html  # not recorded is said, not left out


def test_the_report_of_a_tfprof_profile() -> None:
    node = ProfileNode(
        EVIL, op="MatMul", types={"MatMul"}, stack=[Frame("a.py", 3, EVIL, -1)],
        executions={0: Execution(1, 10, 2000, cpu={"/device:cpu:0": [(10, 1990)]})},
    )  # fmt: skip
    html = report(Facts(None, Profile(nodes={EVIL: node}, steps=[0], has_stacks=True)), title="t")
    check(html)
    assert "MatMul" in html
    assert "1.99 ms" in html


def test_a_file_that_cannot_be_written_is_said(trace: Trace, tmp_path: Path) -> None:
    write_html(Facts(trace), tmp_path / "r.html", title="t")
    check((tmp_path / "r.html").read_text())
    with pytest.raises(UsageError, match="cannot write the report"):
        write_html(Facts(trace), tmp_path / "no" / "r.html", title="t")


def test_secrets_do_not_leave(make: SimpleNamespace) -> None:
    trace = make.build([make.event("load /home/ann/data?token=abcdef123456", Kind.HOST_OP, 0, 10)])
    html = report(Facts(trace), title="/home/ann/trace.json")
    assert "ann" not in html.replace("annotation", "").replace("cannot", "")
    assert "abcdef123456" not in html


def test_trees_fold_in_order() -> None:
    branches = [page.PageRow(depth, 0.5, ["1"], f"n{i}") for i, depth in enumerate((0, 1, 2, 1, 2, 3, 0))]
    check(page.document("t", [page.tree(["x"], branches)]))


def test_charts_of_nothing() -> None:
    check(page.document("t", [page.stacked_bars([], [], unit="ms"), page.area([], [], caption="c")]))
    check(page.document("t", [page.stacked_bars(["a"], [("p", [0.0])], unit="ms")]))
    check(page.document("t", [page.area([5], [0], caption="c")]))
