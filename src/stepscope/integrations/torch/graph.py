"""The graph of a PyTorch module and the cost of each operation, for ``run.graph``.

``torch.export`` gives every operation with its module. A module that cannot be exported, because its control
flow depends on data, is called once and observed through hooks: one node per module that contains no other.

    traced = trace(model, batch)
    run.graph(traced.nodes, costs=traced.costs)
"""

from __future__ import annotations

import importlib
import io
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils.flop_counter import FlopCounterMode

from stepscope.errors import UsageError
from stepscope.events.kinds.graph import Node, NodeCost, node_name
from stepscope.integrations.torch.calls import take_off
from stepscope.record import messages

TALKATIVE = ("torch.fx.experimental.symbolic_shapes", "torch.export", "torch._export")
"""Loggers that print a whole model if it cannot be exported, which is expected here."""
NO_GRAPH = "Error occurs, No graph saved\n"
"""Text that torch's own writer prints before it raises."""
REPEATS = 3
"""Number of runs of which the shortest is an operation's time; the first one warms up."""


@dataclass(frozen=True)
class TracedModule:
    """A graph and the costs of its nodes.

    Attributes:
        nodes: In the order in which they run.
        costs: Time and memory of their outputs; empty if the module was not called.
        exported: Every operation is there; otherwise one node per module.
    """

    nodes: list[Node] = field(default_factory=list)
    costs: list[NodeCost] = field(default_factory=list)
    exported: bool = True


def trace(model: torch.nn.Module, inputs: Any = None, *, measure: bool = True) -> TracedModule:
    """Return the graph of a module.

    It is called a few times without gradients; its buffers and the random generators are left as they were.

    Args:
        model: The module, in the mode in which it is to be seen.
        inputs: Its arguments: a tensor, a tuple of arguments or a mapping of named ones. None gives
            the tree of its modules only.
        measure: Also time its operations.

    Raises:
        UsageError: It is not a module.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"a graph needs a torch.nn.Module, got {type(model).__name__}", hint="pass the model"
        )
    if inputs is None:
        return TracedModule(modules_of(model), exported=False)
    args, kwargs = arguments(inputs)
    with undisturbed(model):
        program = exported(model, args, kwargs)
        if program is None:
            return through_hooks(model, args, kwargs)
        costs, flops = costs_of(program, args, kwargs) if measure else ([], {})
        nodes = nodes_of(program, flops)
    return TracedModule(nodes, costs)


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a module's arguments as positional and named ones."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)), {}


@contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Restore buffers and random generators afterwards."""
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    try:
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            yield
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in buffers:
                    buffer.copy_(buffers[name])


def exported(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.GraphModule | None:
    """Return the module as a graph of operations, None if it cannot be exported."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        program: Any = torch.export.export(model, args, kwargs, strict=False)
        module_: fx.GraphModule = program.module()
    except Exception:  # noqa: BLE001  whatever the exporter or the model raises, hooks see it
        return None
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    return module_


# --- the graph of torch's own writer ------------------------------------------------------------------


def as_tensorboard(model: Any, inputs: Any, *, verbose: bool, strict: bool) -> tuple[Any, Any] | None:
    """Return GraphDef and RunMetadata of a module as torch's own writer makes them; None if it cannot.

    It is traced in evaluation mode. Its buffers, the mode of its modules and the random generators are left
    as they were.
    """
    try:
        original = importlib.import_module("torch.utils.tensorboard._pytorch_graph")
    except ImportError:
        return None
    output = io.StringIO()
    try:
        with left_alone(model), redirect_stdout(output):
            made: tuple[Any, Any] = original.graph(model, inputs, verbose, strict)
    except Exception:  # noqa: BLE001  whatever the tracer or the model raises, another one may do it
        return None
    finally:
        if messages.ready(sys.stdout):
            sys.stdout.write(output.getvalue().replace(NO_GRAPH, ""))
    return made


@contextmanager
def left_alone(model: Any) -> Iterator[None]:
    """Restore the mode of all modules, buffers and random generators afterwards."""
    if not isinstance(model, torch.nn.Module):
        yield
        return
    modes, gradients = [(module, module.training) for module in model.modules()], torch.is_grad_enabled()
    try:
        with undisturbed(model), torch.set_grad_enabled(gradients):
            yield
    finally:
        for module, training in modes:
            module.training = training


# --- a graph of operations ----------------------------------------------------------------------------


def nodes_of(program: fx.GraphModule, flops: Mapping[str, int]) -> list[Node]:
    """Return the nodes of an exported module: its inputs, parameters, operations and outputs.

    Args:
        program: The module.
        flops: Floating point operations of a call, by the names of nodes.
    """
    names = {node: name_of(node) for node in program.graph.nodes if is_shown(node)}
    graph_nodes = []
    for node, name in names.items():
        inputs = [names[source] for source in node.all_input_nodes if source in names]
        tensors = tensors_of(node.meta.get("val"))
        device = str(tensors[0].device) if tensors else ""
        attributes: dict[str, Any] = (
            {"dtype": str(tensors[0].dtype).removeprefix("torch.")} if tensors else {}
        )
        if name in flops:
            attributes["flops"] = flops[name]
        shapes = [sizes(tensor) for tensor in tensors]
        graph_nodes.append(Node(name, operation(node), inputs, shapes, device, attributes))
    return graph_nodes


def is_shown(node: fx.Node) -> bool:
    """Return whether a node is one of the user's: checks of the exporter are not."""
    return node.op != "call_module" and "_guards" not in str(node.target)


def name_of(node: fx.Node) -> str:
    """Return a node's name: the modules around it, then its own."""
    if node.op == "get_attr":
        return node_name(str(node.target).replace(".", "/"))
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    path = path.removeprefix("L['self']").strip(".").replace(".", "/")
    return node_name(f"{path}/{node.name}" if path else node.name)


def operation(node: fx.Node) -> str:
    """Return the operation of a node, as ``aten.linear``."""
    if node.op == "call_function":
        return str(node.target).removesuffix(".default")
    return {"placeholder": "Input", "get_attr": "Parameter", "output": "Output"}.get(node.op, node.op)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in an operation's result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_of(item)]
    if isinstance(value, Mapping):
        return [tensor for item in value.values() for tensor in tensors_of(item)]
    return []


def sizes(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return a shape, -1 if a size is not fixed."""
    return tuple(size if isinstance(size, int) else -1 for size in tensor.shape)


class Timed(fx.Interpreter):
    """Runs a graph operation by operation, waits for each, and notes its cost."""

    def __init__(self, program: fx.GraphModule) -> None:
        super().__init__(program)
        self.origin = time.perf_counter()
        self.costs: dict[fx.Node, NodeCost] = {}
        self.flops: dict[str, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run one operation."""
        counted = n.op == "call_function" and is_shown(n)
        if counted and name_of(n) not in self.flops:
            # A call of its own, not timed: counting takes longer than most operations.
            with FlopCounterMode(display=False) as counter:
                result = super().run_node(n)
            self.flops[name_of(n)] = int(counter.get_total_flops())
            return result
        settle()
        begun = time.perf_counter()
        result = super().run_node(n)
        settle()
        took = time.perf_counter() - begun
        if counted:
            tensors = tensors_of(result)
            known = self.costs.get(n)
            if known is None or took * 1e6 < known.duration_us:
                self.costs[n] = NodeCost(
                    name_of(n),
                    (begun - self.origin) * 1e6,
                    took * 1e6,
                    sum(tensor.numel() * tensor.element_size() for tensor in tensors),
                    [sizes(tensor) for tensor in tensors],
                    str(tensors[0].device) if tensors else "cpu",
                )
        return result


def settle() -> None:
    """Wait for the device."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def costs_of(
    program: fx.GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[NodeCost], dict[str, int]]:
    """Return the cost of each operation: the shortest of its times the bytes of its outputs, its FLOPs.

    Counted are matrix products, convolutions and attention, two for a multiplication with its addition, as
    ``torch.utils.flop_counter`` does; other operations are 0.
    """
    timed = Timed(program)
    flat = [*args, *kwargs.values()]
    for _ in range(1 + REPEATS):
        timed.run(*flat)
    return list(timed.costs.values()), timed.flops


# --- a graph of modules -------------------------------------------------------------------------------


def modules_of(model: torch.nn.Module) -> list[Node]:
    """Return the modules that have none in them, and the parameters, without their connections."""
    graph_nodes = [
        Node(node_name(name.replace(".", "/")), "Parameter", shapes=[tuple(value.shape)])
        for name, value in model.named_parameters()
    ]
    for name, module in model.named_modules():
        if not any(True for _ in module.children()):
            inputs = [node_name(f"{name}.{child}".strip(".").replace(".", "/")) for child in own(module)]
            graph_nodes.append(Node(leaf_name(name, module), type(module).__name__, inputs))
    return graph_nodes


def own(module: torch.nn.Module) -> list[str]:
    """Return the names of a module's own parameters."""
    return [name for name, _ in module.named_parameters(recurse=False)]


def leaf_name(name: str, module: torch.nn.Module) -> str:
    """Return the node of a module: within the scope of its name, together with its parameters."""
    return node_name("/".join([*name.split("."), type(module).__name__]).strip("/"))


def through_hooks(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedModule:
    """Call a module once; an edge leads from the module that made a tensor to the one that takes it."""
    calls = ModuleCalls()
    handles = []
    for name, module in model.named_modules():
        if not any(True for _ in module.children()):
            handles.append(module.register_forward_pre_hook(calls.begin, with_kwargs=True))
            handles.append(module.register_forward_hook(calls.ender(name), with_kwargs=True))
    try:
        model(*args, **kwargs)
    finally:
        take_off(handles)
    return TracedModule(calls.nodes, calls.costs, exported=False)


class ModuleCalls:
    """The calls of modules, as their hooks see them."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.costs: list[NodeCost] = []
        self._made: dict[int, str] = {}
        self._kept: list[torch.Tensor] = []  # so that no other tensor gets the identity of one
        self._begun: list[float] = []
        self._origin = time.perf_counter()

    def begin(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Note when a call begins."""
        settle()
        self._begun.append(time.perf_counter())

    def ender(self, name: str) -> Any:
        """Return the hook that notes the end of a module's calls."""

        def end(module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            settle()
            begun, now = self._begun.pop(), time.perf_counter()
            number = sum(node.name.startswith(leaf_name(name, module)) for node in self.nodes)
            node = leaf_name(name, module) + (f"_{number}" if number else "")
            taken = [*tensors_of(args), *tensors_of(kwargs)]
            inputs = [self._made[id(tensor)] for tensor in taken if id(tensor) in self._made]
            given = tensors_of(output)
            shapes = [sizes(tensor) for tensor in given]
            device = str(given[0].device) if given else "cpu"
            self.nodes.append(Node(node, type(module).__name__, inputs, shapes, device))
            memory = sum(tensor.numel() * tensor.element_size() for tensor in given)
            start, took = (begun - self._origin) * 1e6, (now - begun) * 1e6
            self.costs.append(NodeCost(node, start, took, memory, shapes, device))
            self._made.update({id(tensor): node for tensor in given})
            self._kept += given

        return end
