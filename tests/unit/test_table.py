"""The operator table against itself, the Rust runtime and the marker types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.analysis import analyse

import rextio_torch.types
from rextio_torch.ops import shapes
from rextio_torch.ops.model import (
    F32_1D,
    F32_2D,
    REQUIRED,
    TENSOR_TYPES,
    Diagnostic,
    Operator,
    Sample,
    ShapeError,
    Signature,
    function,
    method,
    option,
    same_literal,
    tensor,
)
from rextio_torch.ops.table import BY_ID, BY_SPELLING, OPERATORS, check_table
from rextio_torch.runtime.loader import RUST_SOURCE

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)

#: Every form of the first surface, by row: spellings as documentation writes them.
SURFACE = {
    "linear": {"torch.nn.functional.linear"},
    "relu": {"torch.relu", "Tensor.relu", "torch.nn.functional.relu"},
    "sigmoid": {"torch.sigmoid", "Tensor.sigmoid"},
    "tanh": {"torch.tanh", "Tensor.tanh"},
    "abs": {"torch.abs", "Tensor.abs"},
    "neg": {"torch.neg", "torch.negative", "Tensor.neg", "Tensor.negative"},
    "square": {"torch.square", "Tensor.square"},
    "exp": {"torch.exp", "Tensor.exp"},
    "log": {"torch.log", "Tensor.log"},
    "sqrt": {"torch.sqrt", "Tensor.sqrt"},
    "gelu": {"torch.nn.functional.gelu"},
    "matmul": {"a @ b", "torch.matmul", "Tensor.matmul"},
    "add": {"a + b", "torch.add"},
    "sub": {"a - b", "torch.sub"},
    "mul": {"a * b", "torch.mul"},
    "div": {"a / b", "torch.div"},
    "mean": {"Tensor.mean", "torch.mean"},
    "sum": {"Tensor.sum", "torch.sum"},
    "softmax": {"Tensor.softmax", "torch.softmax", "torch.nn.functional.softmax"},
    "argmax": {"Tensor.argmax", "torch.argmax"},
}

#: Diagnostic codes that have been published: never changed, never given to another row.
CODES = {
    "relu": 1,
    "sigmoid": 2,
    "tanh": 3,
    "abs": 4,
    "neg": 5,
    "square": 6,
    "exp": 7,
    "log": 8,
    "sqrt": 9,
    "gelu": 10,
    "linear": 11,
    "matmul": 12,
    "add": 13,
    "sub": 14,
    "mul": 15,
    "div": 16,
    "mean": 17,
    "sum": 18,
    "softmax": 19,
    "argmax": 20,
}


def test_surface() -> None:
    """The promised spellings are there; a new row is added here as well."""
    written = {
        operator.id: {spelling.label for spelling in operator.spellings} for operator in OPERATORS
    }
    assert written == SURFACE


def test_codes_are_stable() -> None:
    written = {operator.id: operator.diagnostic.code for operator in OPERATORS}
    assert written == {name: f"RXTP-TORCH-{number:03}" for name, number in CODES.items()}


def test_nothing_is_there_twice() -> None:
    check_table(OPERATORS)
    spellings = [(s.kind, s.target) for operator in OPERATORS for s in operator.spellings]
    assert len(set(spellings)) == len(spellings) == len(BY_SPELLING)
    assert len({operator.id for operator in OPERATORS}) == len(OPERATORS) == len(BY_ID)
    assert len({operator.diagnostic.code for operator in OPERATORS}) == len(OPERATORS)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"id": "tanh"}, "id 'tanh'"),
        (
            {"diagnostic": replace(BY_ID["relu"].diagnostic, code="RXTP-TORCH-003")},
            "diagnostic code 'RXTP-TORCH-003'",
        ),
        ({"spellings": (method("tanh"),)}, r"spelling \('method', 'tanh'\)"),
    ],
)
def test_duplicates_are_refused(change: dict[str, object], what: str) -> None:
    changed = replace(BY_ID["relu"], **change)
    with pytest.raises(ValueError, match=f"2 operator rows have the {what}"):
        check_table((changed, *(row for row in OPERATORS if row.id != "relu")))


@by_operator
def test_signatures_are_distinct(operator: Operator) -> None:
    """No call fits two signatures, so that the order of signatures means nothing."""
    calls = [
        (signature.operands, tuple(map(repr, options.values())))
        for signature in operator.signatures
        for options in operator.option_choices(signature)
    ]
    assert len(set(calls)) == len(calls)


@by_operator
def test_texts_are_filled(operator: Operator) -> None:
    diagnostic = operator.diagnostic
    texts = [diagnostic.why, diagnostic.example, diagnostic.instead]
    texts += [operator.numerics.nan, operator.numerics.signed_zero, operator.numerics.ties]
    assert all(text.strip() == text and text for text in texts)
    assert diagnostic.why.startswith(f"{operator.id} is native ")
    assert diagnostic.why.endswith(".")
    assert diagnostic.example != diagnostic.instead


# Contradictions that a row refuses

_ROW = BY_ID["softmax"]
_SIGNATURE = _ROW.signatures[0]
_CONTRADICTIONS: dict[str, tuple[dict[str, object], str]] = {
    "no spelling": ({"spellings": ()}, "needs a spelling"),
    "no signature": ({"signatures": ()}, "needs a signature"),
    "schema without a result": ({"schema": "softmax(Tensor self)"}, "ATen schema"),
    "schema without arguments": ({"schema": "softmax -> Tensor"}, "ATen schema"),
    "kernel with a path": ({"kernel": "ops::softmax"}, "Rust name"),
    "kernel in camel case": ({"kernel": "softMax"}, "Rust name"),
    "code of two digits": (
        {"diagnostic": replace(_ROW.diagnostic, code="RXTP-TORCH-19")},
        "RXTP-TORCH-NNN",
    ),
    "code of another plugin": (
        {"diagnostic": replace(_ROW.diagnostic, code="RXTP-NUMPY-019")},
        "RXTP-TORCH-NNN",
    ),
    "parameter twice": ({"parameters": (tensor("input"), option("input"))}, "named twice"),
    "option before tensor": (
        {"parameters": (option("dim"), tensor("input"))},
        "tensor parameters come before options",
    ),
    "two operands for one parameter": (
        {"signatures": (replace(_SIGNATURE, operands=(F32_2D, F32_2D)),)},
        "another arity",
    ),
    "no operand": ({"signatures": (replace(_SIGNATURE, operands=()),)}, "another arity"),
    "required tensor left out": (
        {"signatures": (replace(_SIGNATURE, operands=(None,)),)},
        "leaves out a required tensor",
    ),
    "unknown option": (
        {"signatures": (replace(_SIGNATURE, options={"dim": (0,), "axis": (0,)}),)},
        "unknown option",
    ),
    "required option without a value": (
        {"signatures": (replace(_SIGNATURE, options={}),)},
        "no value of 'dim'",
    ),
    "option with no accepted value": (
        {"signatures": (replace(_SIGNATURE, options={"dim": ()}),)},
        "no value of 'dim'",
    ),
    "result of another rank": (
        {"signatures": (replace(_SIGNATURE, result=F32_1D),)},
        "shape rule gives rank 2",
    ),
    "no sample": ({"samples": lambda signature: ()}, "needs a sample"),
    "error sample without an error": (
        {"error_samples": (Sample(((2, 3),), {"dim": 0}),)},
        "is accepted by the shape rule",
    ),
}


@pytest.mark.parametrize("name", _CONTRADICTIONS)
def test_contradictions_are_refused(name: str) -> None:
    change, message = _CONTRADICTIONS[name]
    with pytest.raises(ValueError, match=f"operator row 'softmax': .*{message}"):
        replace(_ROW, **change)


def test_a_row_without_contradiction_is_accepted() -> None:
    assert replace(_ROW) == _ROW


# The Rust runtime


@dataclass(frozen=True)
class Kernel:
    """A function that generated code may call: the types of its parameters and of its result."""

    parameters: tuple[str, ...]
    result: str


_FUNCTION = re.compile(r"pub fn (\$?\w+)(?:<[^>]*>)?\(([^)]*)\) -> ([^{]+) \{")


def _functions(text: str) -> Iterator[tuple[str, Kernel]]:
    for name, parameters, result in _FUNCTION.findall(text):
        types = [item.partition(":")[2].strip() for item in parameters.split(",") if item.strip()]
        yield name, Kernel(tuple(types), result)


def _kernels(text: str) -> dict[str, Kernel]:
    """Return the public functions of a Rust file, those that its macros make included."""
    kernels: dict[str, Kernel] = {}
    macro = re.compile(r"^macro_rules! (\w+) \{\n(.*?)^\}", re.M | re.S)
    for name, body in macro.findall(text):
        templates = dict(_functions(body))
        if not templates:
            continue
        (kernel,) = templates.values()
        for entries in re.findall(rf"^{name}! \{{\n(.*?)^\}}", text, re.M | re.S):
            kernels |= dict.fromkeys(re.findall(r"^\s*(\w+) =>", entries, re.M), kernel)
    return kernels | dict(_functions(macro.sub("", text)))


OPS_FILE = RUST_SOURCE / "rxt_torch" / "ops.rs"


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    return _kernels(OPS_FILE.read_text(encoding="utf-8"))


_RUST_OPTIONS = {bool: "bool", int: "usize"}


@by_operator
def test_kernel(operator: Operator, kernels: dict[str, Kernel]) -> None:
    """The kernel takes the scope, the operands, then each option that has a choice."""
    expected = ["Scope"]
    expected += [
        "Option<&Tensor>" if parameter.optional else "&Tensor"
        for parameter in operator.tensor_parameters
    ]
    for parameter in operator.kernel_options:
        (type_,) = {
            type(value)
            for signature in operator.signatures
            for value in operator.accepted(signature, parameter)
        }
        expected.append(_RUST_OPTIONS[type_])
    assert kernels[operator.kernel] == Kernel(tuple(expected), "Result<Tensor>")


def test_every_kernel_is_in_the_table(kernels: dict[str, Kernel]) -> None:
    """No dead operation travels into generated crates."""
    assert set(kernels) == {operator.kernel for operator in OPERATORS}


def test_macros_are_read() -> None:
    text = """\
macro_rules! unary {
    ($($name:ident => $call:ident;)*) => {$(
        pub fn $name(scope: Scope, input: &Tensor) -> Result<Tensor> {
        }
    )*};
}

unary! {
    relu => f_relu;
    tanh => f_tanh;
}

pub fn sum(
    scope: Scope,
    dim: usize,
) -> Result<Tensor> {
}

fn private() {
}
"""
    unary = Kernel(("Scope", "&Tensor"), "Result<Tensor>")
    assert _kernels(text) == {
        "relu": unary,
        "tanh": unary,
        "sum": Kernel(("Scope", "usize"), "Result<Tensor>"),
    }


# Marker types


def test_marker_types_are_the_tensor_types() -> None:
    markers = {tensor_type.marker for tensor_type in TENSOR_TYPES}
    assert set(rextio_torch.types.__all__) == markers
    assert len(markers) == len(TENSOR_TYPES) == len({t.key for t in TENSOR_TYPES})
    classes = {name for name, value in vars(rextio_torch.types).items() if isinstance(value, type)}
    assert classes == markers


@pytest.mark.parametrize("tensor_type", TENSOR_TYPES, ids=lambda item: item.marker)
def test_marker_docstrings(tensor_type: object) -> None:
    documentation = getattr(rextio_torch.types, tensor_type.marker).__doc__
    assert f"`torch.{tensor_type.dtype}`" in documentation
    assert f"rank {tensor_type.rank}" in documentation
    assert tensor_type.device.upper() in documentation


def test_keys_and_markers_are_spelled_as_promised() -> None:
    assert {(t.key, t.marker) for t in TENSOR_TYPES} == {
        ("rextio-torch/tensor-f32-cpu-2d", "TensorF32Cpu2D"),
        ("rextio-torch/tensor-f32-cpu-1d", "TensorF32Cpu1D"),
        ("rextio-torch/tensor-i64-cpu-1d", "TensorI64Cpu1D"),
    }


# Diagnostics say true things

_VARIABLES = {
    "x": "TensorF32Cpu2D",
    "weight": "TensorF32Cpu2D",
    "bias": "TensorF32Cpu1D",
    "factors": "TensorF32Cpu1D",
    "labels": "TensorI64Cpu1D",
    "u": "TensorF32Cpu1D",
    "v": "TensorF32Cpu1D",
}


def _as_functions(name: str, text: str) -> str:
    """Return a function of an example for each result type; the last statement is returned."""
    *before, last = text.partition("#")[0].strip().split("; ")
    parameters = ", ".join(f"{variable}: {marker}" for variable, marker in _VARIABLES.items())
    body = "".join(f"    {line}\n" for line in [*before, f"return {last}"])
    return "\n".join(
        f"def {name}_{tensor_type.marker}({parameters}) -> {tensor_type.marker}:\n{body}"
        for tensor_type in TENSOR_TYPES
    )


def test_examples_of_diagnostics(tmp_path: Path) -> None:
    """The example is rejected with that code; what to write instead is native."""
    header = (
        "import torch\nimport torch.nn.functional as F\n"
        "from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D\n\n"
    )
    modules = {
        operator.id: header
        + _as_functions("example", operator.diagnostic.example)
        + _as_functions("instead", operator.diagnostic.instead)
        for operator in OPERATORS
    }
    analysis = analyse(tmp_path, modules)
    for operator in OPERATORS:
        results = [tensor_type.marker for tensor_type in TENSOR_TYPES]
        for result in results:
            codes = analysis.codes(f"{operator.id}.example_{result}")
            assert codes == [operator.diagnostic.code], operator.diagnostic.example
        native = [
            result for result in results if analysis.native(f"{operator.id}.instead_{result}")
        ]
        assert len(native) == 1, operator.diagnostic.instead


def test_variables_are_named_in_the_comments() -> None:
    """An example that needs another type than the usual rank 2 says so."""
    for operator in OPERATORS:
        for text in (operator.diagnostic.example, operator.diagnostic.instead):
            code, _, comment = text.partition("#")
            for variable in ("labels", "factors"):
                if variable in code:
                    assert f"{variable}: {_VARIABLES[variable]}" in comment


# Shape rules

_SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=2).map(tuple)


@given(_SIZES, _SIZES)
def test_broadcast_agrees_with_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    try:
        expected = numpy.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(ShapeError, match="cannot be broadcast") as error:
            shapes.broadcast("add", (left, right), {})
        assert error.value.exception == "RuntimeError"
    else:
        assert shapes.broadcast("add", (left, right), {}) == expected


@given(_SIZES, _SIZES)
def test_matmul_agrees_with_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    try:
        expected = numpy.matmul(numpy.zeros(left), numpy.zeros(right)).shape
    except ValueError:
        with pytest.raises(ShapeError, match="cannot be multiplied"):
            shapes.matmul("matmul", (left, right), {})
    else:
        assert shapes.matmul("matmul", (left, right), {}) == expected


@given(_SIZES, st.integers(0, 1), st.booleans())
def test_reductions_agree_with_numpy(shape: tuple[int, ...], dim: int, keepdim: bool) -> None:
    if dim >= len(shape):
        return
    options = {"dim": dim, "keepdim": keepdim}
    expected = numpy.zeros(shape).sum(axis=dim, keepdims=keepdim).shape
    assert shapes.reduce("sum", (shape,), options) == expected
    if shape[dim]:
        assert shapes.reduce_nonempty("argmax", (shape,), options) == expected
    else:
        with pytest.raises(ShapeError, match="is empty") as error:
            shapes.reduce_nonempty("argmax", (shape,), options)
        assert error.value.exception == "IndexError"


@given(st.tuples(*[st.integers(0, 4)] * 4), st.one_of(st.none(), st.integers(0, 4)))
def test_linear_agrees_with_numpy(sizes: tuple[int, int, int, int], bias: int | None) -> None:
    rows, inputs, outputs, weight_inputs = sizes
    operands = ((rows, inputs), (outputs, weight_inputs), None if bias is None else (bias,))
    if inputs != weight_inputs or bias not in (None, outputs, 1):
        with pytest.raises(ShapeError, match="fit"):
            shapes.linear("linear", operands, {})
    else:
        assert shapes.linear("linear", operands, {}) == (rows, outputs)


@by_operator
def test_samples(operator: Operator) -> None:
    """Every signature has an empty sample or one beyond a SIMD width, of the operands' ranks."""
    for signature in operator.signatures:
        samples = operator.samples(signature)
        for sample in samples:
            ranks = tuple(None if shape is None else len(shape) for shape in sample.shapes)
            assert ranks == tuple(
                None if item is None else item.rank for item in signature.operands
            )
        sizes = [size for s in samples for shape in s.shapes if shape for size in shape]
        assert 0 in sizes or operator.shape_rule is shapes.reduce_nonempty
        assert max(sizes) > 16


@by_operator
def test_error_messages_name_the_operation_and_the_shapes(operator: Operator) -> None:
    for sample in operator.error_samples:
        with pytest.raises(ShapeError) as error:
            operator.shape_rule(operator.id, sample.shapes, sample.options)
        message = str(error.value)
        assert message.startswith(f"{operator.id}: ")
        named = [str(list(shape)) for shape in sample.shapes if shape is not None]
        assert sum(text in message for text in named) >= min(2, len(named))
        assert error.value.exception in {"RuntimeError", "IndexError"}


def test_rows_that_can_fail_have_error_samples() -> None:
    never = {shapes.same, shapes.reduce}
    for operator in OPERATORS:
        assert bool(operator.error_samples) == (operator.shape_rule not in never)
    assert {operator.shape_rule for operator in OPERATORS} == set(shapes.RULES)


# Small parts of the model


def test_literals_are_compared_by_type() -> None:
    assert same_literal(1, 1)
    assert same_literal(None, None)
    assert same_literal((0, 1), (0, 1))
    assert not same_literal(True, 1)
    assert not same_literal(0, False)
    assert not same_literal("1", 1)
    assert not same_literal(None, False)


def test_match() -> None:
    mean = BY_ID["mean"]
    kept = mean.match((F32_1D,), {"dim": 0, "keepdim": True})
    assert kept is not None
    assert kept.result == F32_1D
    assert mean.match((F32_1D,), {"dim": 0, "keepdim": False}) is None
    assert mean.match((F32_2D,), {"dim": True, "keepdim": False}) is None
    assert mean.match((F32_2D, F32_2D), {"dim": 0, "keepdim": False}) is None


def test_an_option_not_named_accepts_its_default() -> None:
    gelu = BY_ID["gelu"]
    (parameter,) = gelu.options
    assert parameter.default is not REQUIRED
    assert gelu.accepted(gelu.signatures[0], parameter) == ("none",)
    assert gelu.kernel_options == ()
    assert [p.name for p in BY_ID["argmax"].kernel_options] == ["dim", "keepdim"]


def test_labels() -> None:
    assert function("torch.relu").label == "torch.relu"
    assert method("relu").label == "Tensor.relu"
    assert str(F32_2D) == "float32 rank 2"


def test_signature_and_diagnostic_are_plain_data() -> None:
    assert Signature((F32_2D,), F32_2D) == Signature((F32_2D,), F32_2D)
    assert Diagnostic("a", "b", "c", "d").instead == "d"
