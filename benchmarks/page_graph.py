"""The Graph page on a graph of 10,000 operations: how soon it is drawn, opens scopes, searches and pans.

``python benchmarks/page_graph.py [--trace BLOCKS]``. The graph has 116 blocks alike in nested scopes, a scope
of 300 scopes that differ, and a flat scope of 1,400 operations of 240 kinds: what folds, what does not, and
what no folding helps. Beside it, in the same log, a graph of ten operations. ``--trace`` takes a PyTorch
transformer of so many blocks instead, as ``stepscope.integrations.torch.graph`` traces it. Times are taken
inside the page, from the action to the second animation frame after its drawing stands in the page, which is
when it has been painted. Panning and scrolling are measured from frame to frame.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from page_first_charts import FLAGS, TWO_FRAMES, await_port, chromium, free_port, process, script
from playwright.sync_api import Browser, Page, sync_playwright

import stepscope as ss
from stepscope.events.kinds.graph import Node, NodeCost

PATIENCE_MS = 120_000
ROUNDS = 3
BLOCKS, CELLS, FLAT = 116, 300, 1_400
PARTS = (
    "ln_1",
    "attn/q",
    "attn/k",
    "attn/v",
    "attn/score",
    "attn/out",
    "ln_2",
    "mlp/up",
    "mlp/act",
    "mlp/down",
)
OPS = ("Parameter", "MatMul", "Add", "Mul", "Softmax", "Reshape")
WORDS = ("norm", "matmul", "h.57", "cell_29", "kind_7", "nothing of that name")
DRAWN = "document.querySelector('.area[data-boxes]:not([data-boxes=\"0\"])')"
"""The drawing, once it has boxes."""
OPEN_MS = """async ([hash, label]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame();
  const start = performance.now();
  location.hash = hash;
  while (document.querySelector('.area[data-boxes]')?.getAttribute('aria-label') !== label) await frame();
  await frame();
  const area = document.querySelector('.area[data-boxes]');
  return [performance.now() - start, Number(area.dataset.boxes), Number(area.dataset.edges)];
}"""
SEARCH_MS = """async (text) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const field = document.querySelector('.find input');
  await frame();
  const start = performance.now();
  field.value = text;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  await frame();
  await frame();
  return performance.now() - start;
}"""
FRAMES = """async ([where, count, smaller]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const area = document.querySelector(where);
  for (let at = 0; at < smaller; at += 1) document.querySelector('[aria-label="Smaller"]').click();
  for (let at = 0; at < 10; at += 1) await frame();
  const times = [];
  let before = await frame();
  for (let at = 0; at < count; at += 1) {
    const way = at % 60 < 30 ? 1 : -1;
    area.scrollLeft += 40 * way;
    area.scrollTop += 30 * way;
    const now = await frame();
    times.push(now - before);
    before = now;
  }
  return times;
}"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trace", type=int, metavar="BLOCKS", help="a PyTorch transformer of so many blocks")
    arguments = parser.parse_args()
    port = free_port()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
        nodes = traced(arguments.trace) if arguments.trace else made()
        logdir = Path(directory) / "runs"
        for name, graph in (("graph", nodes), ("small", nodes[:10])):
            with ss.Run(logdir / name) as run:
                run.graph(graph, costs=costs_of(graph))
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        command = [script("stepscope"), "serve", str(logdir), "--port", str(port), "--no-token"]
        with process(command, XDG_CACHE_HOME=f"{directory}/cache"):
            await_port(port)
            found = {"operations": len(nodes), **measure(browser, port, widest(nodes))}
        browser.close()
    for name, value in found.items():
        print(f"{name}: {value:.1f}" if isinstance(value, float) else f"{name}: {value}")
    print(json.dumps(found))


def made() -> list[Node]:
    """Return the graph: each operation reads the one before it and some earlier one of its scope."""
    rng = random.Random(0)
    nodes: list[Node] = [Node("tokens", "Input", shapes=[(8, 128)])]

    def add(name: str, op: str, *inputs: str) -> str:
        nodes.append(Node(name, op, inputs=[*dict.fromkeys(inputs)], shapes=[(8, 128, 512)]))
        return name

    last = "tokens"
    for block in range(BLOCKS):
        start = last
        for part in PARTS:
            begin = last
            for number, op in enumerate(OPS):
                name = f"encoder/h.{block}/{part}/{op.lower()}_{number}"
                last = add(name, op) if op == "Parameter" else add(name, op, last, begin)
        last = add(f"encoder/h.{block}/residual", "Add", last, start)
    cells = [last]
    for cell in range(CELLS):
        name, inputs = f"search/cell_{cell}", [cells[-1], rng.choice(cells[-8:])]
        for number in range(rng.randint(2, 8)):
            inputs = [add(f"{name}/{rng.choice('abcdefgh')}_{number}", f"Kind{rng.randrange(40)}", *inputs)]
        cells.append(inputs[0])
    flat = [cells[-1]]
    for number in range(FLAT):
        earlier = rng.choice(flat[-40:])
        flat.append(add(f"unrolled/kind_{number}", f"Op{rng.randrange(240)}", flat[-1], earlier))
    return nodes


def traced(blocks: int) -> list[Node]:
    """Return the graph of a transformer as it is traced."""
    import torch

    from stepscope.integrations.torch.graph import trace

    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False).train()
    return trace(model, torch.zeros(1, 4, 32), measure=False).nodes


def costs_of(nodes: list[Node]) -> list[NodeCost]:
    """Return a time for each operation."""
    rng = random.Random(1)
    return [NodeCost(node.name, 0, rng.randrange(1, 500), memory_bytes=4096) for node in nodes]


def widest(nodes: list[Node]) -> list[str]:
    """Return the scopes to open: of each depth that of most children, and all directly below the root."""
    children: dict[str, set[str]] = {}
    for node in nodes:
        parts = node.name.split("/")
        for depth in range(1, len(parts)):
            children.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    found = {path for path in children if "/" not in path}
    for depth in range(1, 6):
        level = [path for path in children if path.count("/") == depth]
        if level:
            found.add(max(level, key=lambda path: (len(children[path]), path)))
    return sorted(found)


def measure(browser: Browser, port: int, scopes: list[str]) -> dict[str, Any]:
    """Open the page of a server that has just started and return every figure of it."""
    found: dict[str, Any] = {}
    for name in ("small", "graph"):
        times = []
        for _ in range(ROUNDS):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            start = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}/#/graph?q=run:{name}", wait_until="commit")
            page.wait_for_function(f"() => {DRAWN}", timeout=PATIENCE_MS)
            page.evaluate(TWO_FRAMES)
            times.append(time.perf_counter() - start)
        found[f"{name}: first_paint_s"] = statistics.median(times)
    for scope in scopes:
        found |= opened(page, scope, scope)
    folds = "encoder/h.0" if any(scope == "encoder" for scope in scopes) else "layers/0"
    outer = folds.split("/")[0]
    found |= opened(page, outer, f"{outer}, each block drawn", f"&unfold={folds}…")
    for scope in scopes:
        page.evaluate(OPEN_MS, [f"#/graph?q=run:graph&in={scope}", f"Graph of {scope}"])
        found |= frames(page, f"{scope}: pan", ".area[data-boxes]", smaller=4)
    found["search_ms"] = [page.evaluate(SEARCH_MS, word) for word in WORDS]
    page.evaluate("() => { location.hash = '#/graph?q=run:graph&rows=1' }")
    page.locator("[role=treegrid]").wait_for(timeout=PATIENCE_MS)
    found |= frames(page, "table: scroll", "[role=treegrid]", smaller=0)
    return found


def opened(page: Page, scope: str, name: str, more: str = "") -> dict[str, Any]:
    """Open a scope from the whole graph and return how long that took, and what is drawn."""
    page.evaluate(OPEN_MS, ["#/graph?q=run:graph", "Graph of the whole"])
    took, boxes, edges = page.evaluate(
        OPEN_MS, [f"#/graph?q=run:graph&in={scope}{more}", f"Graph of {scope}"]
    )
    return {f"{name}: open_ms": took, f"{name}: boxes and edges": [boxes, edges]}


def frames(page: Page, name: str, where: str, smaller: int) -> dict[str, float]:
    """Return the middle, the 95th percentile and the longest of the frames while it is moved."""
    times = sorted(page.evaluate(FRAMES, [where, 120, smaller]))
    return {
        f"{name}_frame_ms": statistics.median(times),
        f"{name}_frame_p95_ms": times[int(len(times) * 0.95)],
        f"{name}_frame_longest_ms": times[-1],
    }


if __name__ == "__main__":
    main()
