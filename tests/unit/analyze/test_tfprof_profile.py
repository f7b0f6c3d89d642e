"""tfprof's views on graphs made by hand, where the answer can be worked out on paper."""

import pytest

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.advise import advise, utilizations
from stepscope.analyze.tfprof.grow import forward_name, frame_name
from stepscope.analyze.tfprof.report import memory, micros, number, profile
from stepscope.errors import EmptyTraceError, UsageError
from stepscope.trace.tfprof import Execution, Frame, Profile, ProfileNode, counts_as_cpu_time

CPU = "/job:localhost/replica:0/task:0/device:cpu:0"
GPU = "/job:localhost/replica:0/task:0/device:gpu:0"


def node(
    name: str, op: str = "Op", *, inputs: tuple[str, ...] = (), micros: int = 0, device: str = CPU
) -> ProfileNode:
    ran = Execution(run_count=1, start_micros=10, end_micros=10 + micros, cpu={device: [(10, micros)]})
    return ProfileNode(
        name,
        op=op,
        types={op},
        inputs=dict(enumerate(inputs)),
        canonical_device=device,
        executions={0: ran} if micros else {},
    )


def source(*nodes: ProfileNode) -> Profile:
    return Profile(nodes={one.name: one for one in sorted(nodes, key=lambda one: one.name)}, steps=[0])


def lines(view: str, source: Profile, **options: object) -> list[str]:
    text = profile(view, source, ViewOptions(select=("cpu_micros",), **options)).text  # type: ignore[arg-type]
    return text.split("cpu execution time\n")[-1].splitlines()


@pytest.mark.parametrize(
    ("format_", "value", "text"),
    [
        (number, 999, "999"), (number, 1000, "1.00k"), (number, 1_000_000, "1.00m"),
        (number, 2_500_000_000, "2.50b"),
        (micros, 999, "999us"), (micros, 999_999, "1000.00ms"), (micros, 1_000_000, "1.00sec"),
        (micros, 10**9, "1000.00sec"),
        (memory, 999, "999B"), (memory, 1000, "1.00KB"), (memory, 120_356_380_000, "120356.38MB"),
    ],
)  # fmt: skip
def test_units(format_, value, text) -> None:
    assert format_(value) == text


def test_a_scope_holds_what_is_below_it() -> None:
    shown = lines("scope", source(node("a", micros=1), node("a/b/c", micros=2), node("d", micros=4)))
    assert shown == [
        "_TFProfRoot (--/7us)",
        "  a (1us/3us)",
        "    a/b (0us/2us)",
        "      a/b/c (2us/2us)",
        "  d (4us/4us)",
    ]


def test_a_hidden_scope_hands_its_children_up() -> None:
    nodes = source(node("a/b/c", micros=2))
    assert lines("scope", nodes, hide_name_regexes=("a/b",)) == [
        "_TFProfRoot (--/2us)",
        "  a (0us/2us)",
        "    a/b/c (2us/2us)",
    ]


def test_a_graph_node_counts_once_under_its_first_consumer() -> None:
    shared = node("x", micros=1)
    shown = lines(
        "graph", source(shared, node("b", inputs=("x",), micros=2), node("c", inputs=("x",), micros=4))
    )
    assert shown == ["_TFProfRoot (--/7us)", "  b (2us/3us)", "    x (1us/1us)", "  c (4us/4us)"]


def test_a_loop_in_the_graph_ends() -> None:
    nodes = source(
        node("out", inputs=("merge",)), node("merge", inputs=("next",)), node("next", inputs=("merge",))
    )
    assert [line.strip().split()[0] for line in lines("graph", nodes)] == [
        "_TFProfRoot",
        "out",
        "merge",
        "next",
    ]


def test_a_deep_graph_needs_no_deep_stack() -> None:
    depth = 5000
    chain = [
        node(f"n{i:05}", inputs=(f"n{i + 1:05}",) if i + 1 < depth else (), micros=1) for i in range(depth)
    ]
    shown = lines("graph", source(*chain), max_depth=100_000)
    assert len(shown) == depth + 1
    assert shown[1] == f"  n00000 (1us/{micros(depth)})"


def test_a_deep_stack_of_python_needs_no_deep_stack() -> None:
    one = node("a", micros=1)
    one.stack = [Frame("f.py", line, "g", -1) for line in range(3000)]
    nodes = source(one)
    nodes.has_stacks = True
    assert len(lines("code", nodes, max_depth=10_000)) == 3001


def test_operations_run_down_to_their_last() -> None:
    shown = lines("op", source(node("a", "MatMul", micros=3), node("b", "Add", micros=1)), order_by="micros")
    assert [" ".join(line.split()) for line in shown] == [
        "MatMul 3us (100.00%, 75.00%)",
        "Add 1us (25.00%, 25.00%)",
    ]


def test_a_node_that_two_types_match_counts_twice_in_the_op_view_as_in_tfprof() -> None:
    shown = lines("op", source(node("a", "MatMul", micros=3)), account_type_regexes=("MatMul", "Mat.*"))
    assert shown[0].split()[1] == "6us"


def test_the_average_is_over_the_steps_in_which_a_node_ran() -> None:
    nodes = source(node("a", micros=4), node("b", micros=3))
    nodes.nodes["b"].executions[1] = Execution(run_count=1, cpu={CPU: [(1, 6)]})
    nodes.steps = [0, 1]
    assert lines("scope", nodes) == ["_TFProfRoot (--/8us)", "  a (4us/4us)", "  b (4us/4us)"]
    assert lines("scope", nodes, step=1) == ["_TFProfRoot (--/6us)", "  a (0us/0us)", "  b (6us/6us)"]
    assert lines("scope", nodes, step=0) == ["_TFProfRoot (--/7us)", "  a (4us/4us)", "  b (3us/3us)"]


@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("gradients/conv/Conv2D_grad/Mul", "conv/Conv2D"),
        ("tower/gradients/x_grad/y", "x"),
        ("gradients/_grad/y", None),
        ("gradients/x", None),
        ("x_grad/y/gradients/z", "z"),
    ],
)
def test_forward_names(name: str, forward: str | None) -> None:
    assert forward_name(name) == forward


def test_a_long_function_is_shortened() -> None:
    assert frame_name(Frame("/a/b.py", 3, "f" * 19, -1)) == f"b.py:3:{'f' * 19}"
    assert frame_name(Frame("/a/b.py", 3, "f" * 20, -1)) == f"b.py:3:{'f' * 17}..."


def test_what_cannot_be_shown_is_said() -> None:
    nodes = source(node("a", micros=1))
    with pytest.raises(UsageError, match="step 7 was not profiled"):
        profile("scope", nodes, ViewOptions(step=7))
    with pytest.raises(UsageError, match="did you mean 'scope'"):
        profile("scop", nodes)
    with pytest.raises(EmptyTraceError, match="no code trace"):
        profile("code", nodes)


@pytest.mark.parametrize(
    ("device", "counts"),
    [
        (CPU, True),
        (GPU, True),
        (f"{GPU}/stream:all", False),
        ("/gpu:0", True),
        ("/device:tpu:0", False),
        ("cpu:0", False),
    ],
)
def test_which_devices_are_host_time(device: str, counts: bool) -> None:
    assert counts_as_cpu_time(device) is counts


def test_utilization_is_of_the_last_step() -> None:
    one = node("a", micros=100, device=GPU)
    one.executions[1] = Execution(1, 10, 210, accelerator={f"{GPU}/stream:all": [(10, 50)]})
    nodes = source(one)
    assert utilizations(nodes) == {GPU: 0.25}
    assert advise(nodes)["AcceleratorUtilizationChecker"] == [f"device: {GPU} low utilization: 0.25"]
