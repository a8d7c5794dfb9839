"""The programs as ONNX graphs, made by hand: one node per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import numpy.typing
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.cases import Case, Program
from benchmarks.contender import UnavailableError

RESULT = "result"
#: The first opset with Gelu.
_OPSET = 20
_IR_VERSION = 10

Array = numpy.typing.NDArray[Any]


@dataclass
class Graph:
    """A graph that grows node by node; each node's value has a name."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, kind: str, *operands: str, **attributes: Any) -> str:
        """Append a node and return the name of its value."""
        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, operands, [name], **attributes))
        return name

    def integers(self, *values: int) -> str:
        """Return the name of a constant vector of integers."""
        name = f"constant{len(self.constants)}"
        array = numpy.array(values, dtype=numpy.int64)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def linear(self, x: str, weight: str, *bias: str) -> str:
        """Append `x @ weight.T + bias`."""
        return self.add("Gemm", x, weight, *bias, transB=1)


Writer = Callable[[Graph], str]

_UNARY: Mapping[str, str] = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "abs": "Abs",
    "neg": "Neg",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "gelu": "Gelu",
}
_BINARY: Mapping[str, str] = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}


def _unary(kind: str) -> Writer:
    return lambda graph: graph.add(kind, "x")


def _binary(kind: str) -> Writer:
    return lambda graph: graph.add(kind, "a", "b")


def _reduction(name: str, form: str) -> Writer:
    axis = 1 if form == "rows" else 0
    keep = int(form == "vector")

    def write(graph: Graph) -> str:
        if name == "softmax":
            return graph.add("Softmax", "x", axis=axis)
        if name == "argmax":
            return graph.add("ArgMax", "x", axis=axis, keepdims=keep)
        kind = {"sum": "ReduceSum", "mean": "ReduceMean"}[name]
        return graph.add(kind, "x", graph.integers(axis), keepdims=keep)

    return write


def _linear_relu_mean(graph: Graph) -> str:
    hidden = graph.add("Relu", graph.linear("x", "weight", "bias"))
    return graph.add("ReduceMean", hidden, graph.integers(1), keepdims=0)


def _mlp(graph: Graph) -> str:
    first = graph.add("Relu", graph.linear("x", "weight1", "bias1"))
    second = graph.add("Relu", graph.linear(first, "weight2", "bias2"))
    return graph.linear(second, "weight3", "bias3")


def _attention(graph: Graph) -> str:
    scores = graph.add("Softmax", graph.linear("q", "k"), axis=1)
    return graph.add("MatMul", scores, "v")


def _chain(graph: Graph) -> str:
    product = graph.add("Mul", graph.add("Add", "a", "b"), "a")
    power = graph.add("Exp", graph.add("Tanh", product))
    gate = graph.add("Sigmoid", graph.add("Sub", power, "b"))
    return graph.add("Mul", gate, "a")


WRITERS: Mapping[str, Writer] = {
    **{name: _unary(kind) for name, kind in _UNARY.items()},
    "square": lambda graph: graph.add("Mul", "x", "x"),
    **{name: _binary(kind) for name, kind in _BINARY.items()},
    **{
        f"{name}-{form}": _reduction(name, form)
        for name in ("softmax", "sum", "mean", "argmax")
        for form in ("vector", "rows", "columns")
    },
    "matmul": lambda graph: graph.add("MatMul", "a", "b"),
    "linear": lambda graph: graph.linear("x", "weight", "bias"),
    "linear-relu-mean": _linear_relu_mean,
    "classifier": lambda graph: graph.add(
        "ArgMax", graph.linear("x", "weight", "bias"), axis=1, keepdims=0
    ),
    "mlp": _mlp,
    "attention": _attention,
    "chain": _chain,
}


def result_type(program: Program) -> int:
    """Return ONNX's element type of the program's result."""
    return int(TensorProto.INT64 if program.integer_result else TensorProto.FLOAT)


def make_model(case: Case, held: Mapping[str, Array]) -> bytes:
    """Return the model of a case at its fixed sizes; `held` are weights that become constants."""
    program = case.program
    writer = WRITERS.get(program.name)
    if writer is None:
        raise UnavailableError("no ONNX graph is written for this program")
    graph = Graph()
    value = writer(graph)
    graph.nodes[-1].output[0] = RESULT
    assert value not in {name for node in graph.nodes for name in node.input}
    inputs = [
        helper.make_tensor_value_info(p.name, TensorProto.FLOAT, case.shape(p.dims))
        for p in program.parameters
        if p.name not in held
    ]
    output = helper.make_tensor_value_info(RESULT, result_type(program), case.shape(program.result))
    constants = [numpy_helper.from_array(array, name) for name, array in held.items()]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes, program.name, inputs, [output], [*graph.constants, *constants]
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
