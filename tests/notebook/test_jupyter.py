"""Charts in JupyterLab and in a kernel alone: live while it trains, and what the saved notebook keeps."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from PIL import Image
from support.notebooks import TRAIN, await_points

PICTURES = {"text/plain", "image/svg+xml", "image/png"}
CHART = ".jp-OutputArea img"
SHOW = "import stepscope as ss\nrun = ss.Run('runs/first')\nss.chart(run, 'train/loss')"
PROFILE = next((Path(__file__).parents[1] / "data" / "traces" / "kineto").glob("*.json*"))
CARDS = f"""
import stepscope as ss
from IPython.display import display
from stepscope.store.findings import WrittenFinding
with ss.Run("runs/first") as run:
    run.scalar("train/loss", 1.0, 0)
display(ss.open("runs").runs()[0])
display(WrittenFinding(
    rule="nan", severity="high", title="NaN in the loss", summary="The loss is NaN.", tag="train/loss",
    layer=None, rank=None, first_step=9, step=1200, wall=0.0, action="Lower the rate.", closed_step=1300,
))
display(ss.load_trace({str(PROFILE)!r}, cache=False))
display(ss.table("", "runs", columns=["train/loss"]))
print("all", "done")
"""
CONTRASTS = """selector => {
  const parsed = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(part => part / 255)
    .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const texts = [...document.querySelectorAll(`${selector} *`)]
    .filter(each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
  return texts.map(each => {
    let opacity = 1, ground = null;
    for (let at = each; at && !ground; at = at.parentElement) {
      const style = getComputedStyle(at), colour = parsed(style.backgroundColor);
      opacity *= Number(style.opacity);
      if (colour[3] !== 0) ground = colour;
    }
    const ink = parsed(getComputedStyle(each).color).slice(0, 3)
      .map((part, at) => opacity * part + (1 - opacity) * ground[at]);
    const [more, less] = [light(ink), light(ground)].sort((a, b) => b - a);
    return (more + 0.05) / (less + 0.05);
  });
}"""
"""The contrast of each text with its ground, by the formula of WCAG 2."""
THREADS = "import threading\nprint([each.name for each in threading.enumerate()])"


def notebook(*cells):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    return made


def executed(home, *cells):
    """Return the notebook after its cells were run in a kernel, without a page."""
    made = notebook(*cells)
    NotebookClient(made, timeout=120, resources={"metadata": {"path": str(home)}}).execute()
    return made


def run_all(page):
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()


def saved(page, home, name):
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    with page.expect_response(
        lambda answer: answer.request.method == "PUT" and name in answer.url and answer.ok
    ):
        page.keyboard.press("Control+s")
    return nbformat.read(home / name, 4)


def test_a_chart_follows_the_training_and_stays_in_the_saved_notebook(home, lab, page):
    nbformat.write(notebook(SHOW, TRAIN, "run.close()", "print('all', 'done')"), home / "a.ipynb")
    lab("a.ipynb")
    run_all(page)
    for part in range(3):
        await_points(page, CHART, 20 * (part + 1))
        assert page.locator(".jp-RenderedSVG").count() == 0, "a widget while it trains"
        (home / f"go{part}").touch()
    page.get_by_text("all done").wait_for()
    page.locator(".jp-RenderedSVG img").wait_for()
    await_points(page, CHART, 60)
    kept = saved(page, home, "a.ipynb")
    [output] = kept.cells[0].outputs
    assert set(output.data) == PICTURES
    assert "widgets" not in kept.metadata
    assert len(Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))).getcolors(1 << 20)) > 3


def test_a_notebook_of_somebody_else_shows_the_chart_without_being_trusted(home, lab, page):
    made = executed(home, SHOW, "run.scalar('train/loss', 1.0, 0)\nrun.scalar('train/loss', 0.5, 9)")
    assert set(made.cells[0].outputs[0].data) == PICTURES, "the run is not closed, and the chart is a picture"
    made.cells[0].source += "\n# changed"
    nbformat.write(made, home / "b.ipynb")
    lab("b.ipynb")
    page.locator(".jp-OutputArea img[src^='data:image/png']").wait_for()
    assert page.evaluate("document.querySelector('.jp-OutputArea img').naturalWidth") == 800


def test_a_page_made_of_the_notebook_needs_no_script(home, chromium):
    made = executed(home, SHOW, "run.scalar('train/loss', 1.0, 0)\nrun.scalar('train/loss', 0.5, 9)")
    html, _ = HTMLExporter().from_notebook_node(made)
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.set_content(html)
    assert page.locator(".jp-RenderedSVG img, .jp-RenderedSVG svg").bounding_box()["width"] > 400
    page.context.close()


def test_the_thread_ends_with_the_run(home):
    made = executed(home, SHOW, THREADS, "run.close()", THREADS)
    during, after = (made.cells[at].outputs[0].text for at in (1, 3))
    assert "stepscope-charts" in during
    assert "stepscope-charts" not in after


def test_a_cell_that_runs_again_leaves_no_second_chart_to_be_drawn(home, lab, page):
    count = "from stepscope.serve.questions.cell_chart import READER\nprint('drawn:', len(READER._charts))"
    first = "import stepscope as ss\nrun = globals().get('run') or ss.Run('runs/first')"
    nbformat.write(notebook(first, "ss.chart(run, 'train/loss')", count), home / "c.ipynb")
    lab("c.ipynb")
    for turn in range(1, 4):
        run_all(page)
        page.get_by_text(f"[{3 * turn}]:", exact=True).wait_for()
        page.get_by_text("drawn: 1").wait_for()


def test_without_anywidget_the_chart_is_that_of_the_moment(home):
    made = executed(
        home,
        "import sys\nsys.modules['anywidget'] = None\nimport stepscope as ss\nrun = ss.Run('runs/first')\n"
        "run.scalar('train/loss', 1.0, 0)\nrun.scalar('train/loss', 0.5, 9)",
        "ss.chart(run, 'train/loss')",
        "run.scalar('train/loss', 0.2, 99)\nrun.flush()",
    )
    [output] = made.cells[1].outputs
    assert set(output.data) == PICTURES
    assert ">99<" not in output.data["image/svg+xml"]
    assert 'points="' in output.data["image/svg+xml"]


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_cards_and_tables_are_read_in_both_themes(home, lab, page, theme):
    nbformat.write(notebook(CARDS), home / "d.ipynb")
    lab("d.ipynb")
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_text("Theme", exact=True).hover()
    page.get_by_text(theme, exact=True).click()
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
    run_all(page)
    page.get_by_text("all done").wait_for()
    shown = page.locator(".jp-OutputArea .jp-RenderedHTMLCommon").all_inner_texts()
    words = ("finished", "high: NaN in the loss", "kineto profile", "train/loss")
    assert [word in text for word, text in zip(words, shown, strict=True)] == [True] * 4, shown
    contrasts = page.evaluate(CONTRASTS, ".jp-OutputArea .jp-RenderedHTMLCommon")
    assert len(contrasts) > 20, "texts that were measured"
    assert min(contrasts) >= 4.5, contrasts


TRAINS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for (x,) in DataLoader(TensorDataset(torch.randn(160, 10)), 8):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_notebook_that_a_command_executes_is_recorded(home):
    """The kernel is a process of its own; the card comes from the command that started all."""
    pytest.importorskip("torch")
    nbformat.write(notebook(TRAINS), home / "train.ipynb")
    words = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "train.ipynb"]
    ended = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", "--name", "a", "--", *words],
        cwd=home, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "\nsteps    20 · " in ended.stderr
    assert "\nstate    finished after" in ended.stderr
