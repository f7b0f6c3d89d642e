"""Graph: scopes and operations are boxes, what is alike is one, and costs are those that were recorded."""

import shutil
from random import Random

import pytest
from support.recordings import estimator

import stepscope as ss
from stepscope.events.kinds.graph import Node, NodeCost

BLOCKS = 6
TINTS = ("time", "memory", "flops", "parameters", "gradient", "op")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A model of blocks that are alike, the third of which takes longest."""
    log_dir = tmp_path_factory.mktemp("graph")
    nodes = [Node("x", "Input", shapes=[(2, 8)])]
    costs = []
    last = "x"
    for block in range(BLOCKS):
        weight, linear, relu = (
            f"h/{block}/{name}" for name in ("weight", f"linear_{block}", f"relu_{block}")
        )
        nodes += [
            Node(weight, "Parameter", shapes=[(8, 8)]),
            Node(linear, "linear", [last, weight], [(2, 8)], "cpu", {"dtype": "float32"}),
            Node(relu, "relu", [linear], [(2, 8)]),
        ]
        costs.append(NodeCost(linear, 0, 900 if block == 2 else 100, 256))
        last = relu
    nodes.append(Node("<img src=x onerror=alert(1)>/out", "Output", [last], [(2, 8)]))
    with ss.Run(log_dir / "a") as run:
        run.graph(nodes, costs=costs, tag="step 1", step=0)
    return log_dir


def test_blocks_alike_are_one_box_until_each_is_asked_for(opened):
    page = opened("#/graph?in=")
    page.get_by_role("button", name="h, 18 operations, compute time 1.40 ms").dblclick()
    fold = page.get_by_role("button", name="0 … 5 \N{MULTIPLICATION SIGN}6, 6 folded")
    fold.click()
    panel = page.get_by_role("complementary", name="Selected in the graph")
    assert "100 µs to 900 µs, median 100 µs" in panel.inner_text().replace("\N{NO-BREAK SPACE}", " ")
    page.get_by_role("button", name="Draw each").click()
    drawn = page.get_by_role("group", name="Graph of h", exact=True)
    drawn.get_by_role("button", name="2, 3 operations, compute time 900 µs").wait_for()
    assert drawn.get_attribute("data-boxes") == str(BLOCKS + 2)  # and where it comes from and goes
    page.wait("() => location.hash.includes('unfold=')")
    page.reload()
    drawn.get_by_role("button", name="5, 3 operations").wait_for()
    page.get_by_role("button", name="Fold everything like h/0").click()
    fold.wait_for()


def test_the_keyboard_alone_goes_in_and_out(opened):
    page = opened("#/graph?in=h&unfold=h/0…")
    page.get_by_role("button", name="1, 3 operations").focus()
    page.keyboard.press("ArrowDown")
    has_focus(page, "2, 3 operations")
    page.keyboard.press("Enter")
    page.wait("() => location.hash.includes('in=h/2')")
    has_focus(page, "weight, Parameter")
    page.keyboard.press("ArrowDown")
    has_focus(page, "linear_2, linear, compute time 900")
    page.keyboard.press("Escape")
    has_focus(page, "2, 3 operations")
    page.keyboard.press("Escape")
    has_focus(page, "h, 18 operations")
    page.wait("() => /in=(&|$)/.test(location.hash)")


def has_focus(watched, name):
    label = "(document.activeElement?.getAttribute('aria-label') ?? '').replaceAll('\\u00a0', ' ')"
    watched.wait(f"name => {label}.startsWith(name)", name)


def test_what_is_searched_is_shown_with_all_that_is_known_of_it(opened):
    page = opened("#/graph")
    find = page.get_by_role("combobox", name="Find scope or operation")
    find.fill("linear_2")
    page.get_by_role("option", name="h/2/linear_2").wait_for()
    find.press("Enter")
    panel = page.get_by_role("complementary", name="Selected in the graph")
    panel.get_by_text("64.3 % of the graph").wait_for()
    words = panel.inner_text().replace("\N{NO-BREAK SPACE}", " ")
    for fact in (
        "900 µs",
        "64.3 % of the graph",
        "256 B",
        "2 \N{MULTIPLICATION SIGN} 8",
        "/device:CPU:0",
        "float32",
        "h/1/relu_1",
    ):
        assert fact in words
    page.wait("() => location.hash.includes('in=h/2') && location.hash.includes('node=h/2/linear_2')")


def test_the_table_says_the_same(opened):
    watched = opened("#/graph?rows=1&node=h/2/linear_2")
    table = watched.page.get_by_role("treegrid", name="Scopes and operations")
    row = table.get_by_role("row", name="linear_2")
    row.wait_for()
    cells = [text.strip(" ") for text in row.get_by_role("gridcell").all_inner_texts()[1:4]]
    assert cells == ["900\xa0µs", "64.3\xa0%", "256\xa0B"]
    table.focus()
    watched.page.keyboard.press("ArrowDown")
    watched.wait("() => location.hash.includes('node=h/2/relu_2')")


@pytest.mark.parametrize("broken", [True, False])
def test_the_place_where_gradients_break_is_marked(tmp_path, serve, watch, broken):
    """The gradients of the first two of eight layers vanish; or all of them shrink together."""
    nodes = [Node(f"h/{at // 2}/l{at}/weight", "Parameter", shapes=[(4, 4)]) for at in range(16)]
    nodes += [Node("loss", "loss", [node.name for node in nodes])]
    random = Random(0)
    with ss.Run(tmp_path / "log" / "a") as run:
        run.graph(nodes)
        for step in range(0, 200, 5):
            for at in range(16):
                gone = step >= 100 and (at < 6 or not broken)
                level = random.lognormvariate(0, 0.1) * (1e-6 if gone else 1)
                run.scalar(f"gradients/h.{at // 2}.l{at}.weight/norm", level, step)
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/graph")
    layers = page.get_by_role("treegrid", name="Scopes and operations")
    layers.get_by_role("columnheader", name="Step 195").wait_for()
    assert "÷" in layers.get_by_role("row", name="l3", exact=False).first.inner_text()
    words = page.get_by_text("Gradients break between h.2 and h.3: at step 96 to 100 those of 6 of 6 layers")
    if broken:
        words.wait_for()
        assert "of the 10 after it none did" in words.inner_text()
        page.get_by_role("button", name="Show it").click()
        page.wait("() => location.hash.includes('node=h/2')")
    else:
        assert page.get_by_text("Gradients break").count() == 0


def test_the_graph_of_an_estimator_is_shown_with_its_run_metadata(tmp_path, serve, watch):
    [events] = (estimator() / "single").glob("events*")
    (tmp_path / "log").mkdir()
    shutil.copy(events, tmp_path / "log")
    watched = watch(serve(tmp_path / "log", "--no-cache"))
    page = watched.open("#/graph?node=dnn/hiddenlayer_0/Relu&in=dnn/hiddenlayer_0")
    panel = page.get_by_role("complementary", name="Selected in the graph")
    panel.get_by_text("dnn/hiddenlayer_0/Relu", exact=True).wait_for()
    words = panel.inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "16.0 µs" in words
    assert "? \N{MULTIPLICATION SIGN} 64" in words
    assert page.get_by_role("combobox", name="Costs").locator("option").all_inner_texts() == [
        "Costs: step_400", "Costs: step_800", "Costs: step_1200"
    ]  # fmt: skip


def test_it_opens_on_the_model_beside_its_layers_and_is_laid_out_by_a_worker(opened):
    page = opened("#/graph")
    whole = page.get_by_role("group", name="Graph of the whole")
    whole.get_by_role("button", name="h, 18 operations").wait_for()  # not one box for all blocks
    assert any("places.worker" in worker.url for worker in page.workers)
    layers = page.get_by_role("treegrid", name="Scopes and operations")
    assert layers.get_by_role("row", name="linear_2").is_visible()
    assert page.get_by_role("button", name="Compute time", exact=True).get_attribute("aria-pressed") == "true"
    whole.get_by_role("button", name="h, 18 operations").dblclick()
    drawn = page.get_by_role("group", name="Graph of h", exact=True)
    drawn.get_by_role("button", name="0 … 5 \N{MULTIPLICATION SIGN}6, 6 folded").wait_for()
    page.get_by_role("navigation", name="Scope").get_by_role("button", name="Whole graph").click()
    whole.get_by_role("button", name="h, 18 operations").wait_for()
    page.reload()
    whole.get_by_role("button", name="h, 18 operations").wait_for()


def test_without_costs_it_is_coloured_by_what_there_is_and_never_hatched_all_over(tmp_path, serve, watch):
    with ss.Run(tmp_path / "log" / "a") as run:
        run.graph([Node("a/x", "Input"), Node("a/y", "relu", ["a/x"]), Node("b/z", "tanh", ["a/y"])])
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/graph")
    page.get_by_role("button", name="a, 2 operations").wait_for()
    assert page.get_by_role("button", name="Operation", exact=True).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Compute time", exact=True).click()
    page.get_by_text("Compute time: nothing recorded here").wait_for()
    assert page.locator(".box.hatched").count() == 0


@pytest.mark.slow
def test_axe_finds_nothing(opened, axe):
    page = opened("#/graph")
    places = {
        "graph?in=h&unfold=h/0…&node=h/2": ("group", "Graph of h"),
        **{f"graph?in=h/2&tint={tint}&node=h/2/linear_2": ("group", "Graph of h/2") for tint in TINTS},
        "graph?rows=1&node=h/2": ("treegrid", None),
    }
    for hash_, (role, name) in places.items():
        page.open(f"#/{hash_}")
        page.get_by_role(role, name=name).first.wait_for()
        axe(page, hash_)
    page.get_by_label("Find scope or operation").fill("linear")
    page.get_by_role("listbox", name="Found").wait_for()
    axe(page, "search")
