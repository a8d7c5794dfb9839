"""The node tests of the `onnx` package, for the operators of the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from onnx.backend.test.loader import load_model_tests

from external.calls import Case
from rextio_torch.ops.table import BY_ID


@dataclass(frozen=True)
class Node:
    """How an ONNX operator is written in PyTorch.

    `attributes` gives the option for an attribute and a function for its value, `defaults` what
    ONNX means without one. `inputs` are the names of inputs that are options in PyTorch.
    `prepare` changes the tensors by attributes that PyTorch leaves to the caller, and takes those
    attributes away.
    """

    operator: str
    attributes: Mapping[str, tuple[str, Callable[[Any], object]]] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[list[Any], dict[str, Any]], list[Any]] | None = None


def _gemm(tensors: list[Any], attributes: dict[str, Any]) -> list[Any]:
    """Return the operands as `linear` takes them: its weight is transposed."""
    left, right, *bias = tensors
    left = left.T if attributes.pop("transA", 0) else left
    right = right if attributes.pop("transB", 0) else right.T
    return [left, right, *bias]


_AXIS = {"axis": ("dim", int)}
_KEEPDIMS = {"keepdims": ("keepdim", bool)}
NODES = {
    "Abs": Node("abs"),
    "Add": Node("add"),
    "ArgMax": Node("argmax", {**_AXIS, **_KEEPDIMS}, {"axis": 0, "keepdims": 1}),
    "Div": Node("div"),
    "Exp": Node("exp"),
    "Gelu": Node("gelu", {"approximate": ("approximate", bytes.decode)}),
    "Gemm": Node("linear", prepare=_gemm),
    "Log": Node("log"),
    "MatMul": Node("matmul"),
    "Mul": Node("mul"),
    "Neg": Node("neg"),
    "ReduceMean": Node("mean", _KEEPDIMS, {"keepdims": 1}, {"axes": "dim"}),
    "ReduceSum": Node("sum", _KEEPDIMS, {"keepdims": 1}, {"axes": "dim"}),
    "Relu": Node("relu"),
    "Sigmoid": Node("sigmoid"),
    "Softmax": Node("softmax", _AXIS, {"axis": -1}),
    "Sqrt": Node("sqrt"),
    "Sub": Node("sub"),
    "Tanh": Node("tanh"),
}


def cases() -> Iterator[Case]:
    """Yield every node test that consists of one of these operators."""
    with warnings.catch_warnings():
        # Making the cases of other operators overflows and divides by zero, on purpose.
        warnings.simplefilter("ignore", RuntimeWarning)
        tests = load_model_tests(kind="node")
    for test in tests:
        if len(test.model.graph.node) == 1 and test.model.graph.node[0].op_type in NODES:
            yield from _cases(test)


def _cases(test: Any) -> Iterator[Case]:
    (written,) = test.model.graph.node
    node = NODES[written.op_type]
    given = {item.name: onnx.helper.get_attribute_value(item) for item in written.attribute}
    for inputs, (output,) in test.data_sets:
        attributes = {**node.defaults, **given}
        keywords: dict[str, object] = {}
        tensors = []
        for name, value in zip(filter(None, written.input), inputs, strict=True):
            if name in node.inputs:
                axes = tuple(int(axis) for axis in np.asarray(value))
                if axes:
                    keywords[node.inputs[name]] = axes[0] if len(axes) == 1 else axes
            else:
                tensors.append(torch.from_numpy(np.array(value)))
        if node.prepare is not None:
            tensors = node.prepare(tensors, attributes)
        unknown = sorted(set(attributes) - set(node.attributes))
        for name in set(attributes) & set(node.attributes):
            option, convert = node.attributes[name]
            keywords[option] = convert(attributes[name])
        yield Case(
            test.name,
            BY_ID[node.operator],
            tuple(tensors),
            dict(sorted(keywords.items())),
            torch.from_numpy(np.array(output)),
            (test.rtol, test.atol),
            f"PyTorch's operator has no `{unknown[0]}`" if unknown else None,
        )
