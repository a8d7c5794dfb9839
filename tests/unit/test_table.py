"""The operator table against itself, the Rust runtime and the marker types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.analysis import analyse
from support.forms import HEADER

import rextio_torch.types
from rextio_torch.ops import pointwise, shapes
from rextio_torch.ops.model import (
    REQUIRED,
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
from rextio_torch.ops.table import BY_ID, OPERATORS, check_table
from rextio_torch.ops.tensor_types import ALL_TYPES, F32_1D, F32_2D, TENSOR_TYPES
from rextio_torch.runtime.loader import RUST_SOURCE

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)

#: The ledger of diagnostic codes, and the only place where a row is registered. An entry is never
#: changed or deleted, not even with its row, so that no code ever means something else.
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
    "add_": 21,
    "sub_": 22,
    "mul_": 23,
    "div_": 24,
}


def test_codes_are_stable() -> None:
    assert len(set(CODES.values())) == len(CODES)
    for operator in OPERATORS:
        assert operator.id in CODES, f"enter {operator.id} into the ledger, with the next free code"
        assert operator.diagnostic.code == f"RXTP-TORCH-{CODES[operator.id]:03}"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"id": "tanh"}, "id 'tanh'"),
        (
            {"diagnostic": replace(BY_ID["relu"].diagnostic, code="RXTP-TORCH-003")},
            "diagnostic code 'RXTP-TORCH-003'",
        ),
        ({"spellings": (method("tanh"),), "cuda": None}, r"spelling \('method', 'tanh'\)"),
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
    texts += [operator.numerics.nan, operator.numerics.signed_zero]
    texts += [operator.numerics.ties] if operator.numerics.ties is not None else []
    assert all(text.strip() == text and text for text in texts)
    assert diagnostic.why.startswith(f"{operator.id} is native ")
    assert diagnostic.why.endswith(".")
    assert diagnostic.example != diagnostic.instead


@pytest.mark.parametrize("field", ["in_place", "transposed"])
def test_a_row_that_is_named_must_be_there(field: str) -> None:
    changed = replace(BY_ID["relu"], **{field: "relu_"})
    with pytest.raises(ValueError, match="operator row 'relu': names 'relu_', which is no row"):
        check_table((changed, *(row for row in OPERATORS if row.id != "relu")))


# Contradictions that a row refuses

_ROW = BY_ID["softmax"]
_SIGNATURE = _ROW.signatures[0]
_CONTRADICTIONS: dict[str, tuple[dict[str, object], str]] = {
    "no spelling": ({"spellings": ()}, "needs a spelling"),
    "no signature": ({"signatures": ()}, "needs a signature"),
    "schema without a result": ({"schema": "softmax(Tensor self)"}, "ATen schema"),
    "schema without arguments": ({"schema": "softmax -> Tensor"}, "ATen schema"),
    "schema that writes to an operand and gives another tensor": (
        {"schema": "softmax.int(Tensor(a!) self, int dim) -> Tensor"},
        "ATen schema",
    ),
    "schema that gives an operand it does not write to": (
        {"schema": "softmax.int(Tensor self, int dim) -> Tensor(a!)"},
        "ATen schema",
    ),
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


@pytest.mark.parametrize("name", ["ops::softmax", "softMax", "3d", ""])
def test_an_id_that_is_no_rust_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="id is not a Rust name"):
        replace(_ROW, id=name)


# The Rust runtime


@dataclass(frozen=True)
class RuntimeFunction:
    """A function that generated code may call: the types of its parameters and of its result."""

    parameters: tuple[str, ...]
    result: str


_FUNCTION = re.compile(r"pub fn (\$?\w+)(?:<[^>]*>)?\(([^)]*)\) -> ([^{]+) \{")


def _functions(text: str) -> Iterator[tuple[str, RuntimeFunction]]:
    for name, parameters, result in _FUNCTION.findall(text):
        types = [item.partition(":")[2].strip() for item in parameters.split(",") if item.strip()]
        yield name, RuntimeFunction(tuple(types), result)


def _runtime_functions(text: str) -> dict[str, RuntimeFunction]:
    """Return the public functions of a Rust file, those that its macros make included."""
    found: dict[str, RuntimeFunction] = {}
    macro = re.compile(r"^macro_rules! (\w+) \{\n(.*?)^\}", re.M | re.S)
    for name, body in macro.findall(text):
        templates = dict(_functions(body))
        if not templates:
            continue
        (template,) = templates.values()
        for entries in re.findall(rf"^{name}! \{{\n(.*?)^\}}", text, re.M | re.S):
            found |= dict.fromkeys(re.findall(r"^\s*(\w+) =>", entries, re.M), template)
    return found | dict(_functions(macro.sub("", text)))


OPS_FILE = RUST_SOURCE / "rxt_torch" / "ops.rs"


@pytest.fixture(scope="module")
def runtime_functions() -> dict[str, RuntimeFunction]:
    return _runtime_functions(OPS_FILE.read_text(encoding="utf-8"))


_RUST_OPTIONS = {bool: "bool", int: "usize", str: "&str"}


@by_operator
def test_runtime_function(
    operator: Operator, runtime_functions: dict[str, RuntimeFunction]
) -> None:
    """The runtime function takes the scope, the operands, then each option that has a choice."""
    expected = ["Scope"]
    expected += [
        "Option<&Tensor>" if parameter.optional else "&Tensor"
        for parameter in operator.tensor_parameters
    ]
    for parameter in operator.runtime_options:
        (type_,) = {
            type(value)
            for signature in operator.signatures
            for value in operator.accepted(signature, parameter)
        }
        expected.append(_RUST_OPTIONS[type_])
    assert runtime_functions[operator.id] == RuntimeFunction(tuple(expected), "Result<Tensor>")


def test_every_runtime_function_is_in_the_table(
    runtime_functions: dict[str, RuntimeFunction],
) -> None:
    """No dead operation travels into generated crates."""
    assert set(runtime_functions) == {operator.id for operator in OPERATORS}


@pytest.mark.parametrize("operator", pointwise.ROWS, ids=lambda operator: operator.id)
def test_kernels_are_held_to_the_bound_of_their_row(operator: Operator) -> None:
    """What the crate's own tests allow a kernel; what is bit-equal to eager is rounded once."""
    text = (RUST_SOURCE.parent / "tests" / "common" / "reference.rs").read_text(encoding="utf-8")
    arms = text[text.index("pub fn bound(") :]
    name = operator.id.capitalize()
    (bound,) = re.findall(rf"Unary::{name}\b.* => ([\d.]+),", arms)
    ulp = operator.numerics.ulp
    assert float(bound) == ulp or (ulp == 0 and float(bound) <= 0.5)


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
    unary = RuntimeFunction(("Scope", "&Tensor"), "Result<Tensor>")
    assert _runtime_functions(text) == {
        "relu": unary,
        "tanh": unary,
        "sum": RuntimeFunction(("Scope", "usize"), "Result<Tensor>"),
    }


# Marker types

MARKED_TYPES = [tensor_type for tensor_type in ALL_TYPES if tensor_type.after is None]


def test_marker_types_are_the_tensor_types() -> None:
    markers = {tensor_type.marker for tensor_type in MARKED_TYPES}
    assert set(rextio_torch.types.__all__) == markers
    assert len(markers) == len(MARKED_TYPES)
    assert len(ALL_TYPES) == len({t.key for t in ALL_TYPES}) == len({t.label for t in ALL_TYPES})
    classes = {name for name, value in vars(rextio_torch.types).items() if isinstance(value, type)}
    assert classes == markers


@pytest.mark.parametrize("tensor_type", MARKED_TYPES, ids=lambda item: item.marker)
def test_marker_docstrings(tensor_type: object) -> None:
    documentation = getattr(rextio_torch.types, tensor_type.marker).__doc__
    assert f"`torch.{tensor_type.dtype}`" in documentation
    assert f"rank {tensor_type.rank}" in documentation
    assert {"cpu": "the CPU", "cuda0": "`cuda:0`"}[tensor_type.device] in documentation


def test_keys_and_markers_are_spelled_as_promised() -> None:
    assert {(t.key, t.marker) for t in MARKED_TYPES} == {
        ("rextio-torch/tensor-f32-cuda0-1d", "TensorF32Cuda0_1D"),
        ("rextio-torch/tensor-f32-cuda0-2d", "TensorF32Cuda0_2D"),
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
    header = f"{HEADER}import torch.nn.functional as F\n\n"
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
def test_broadcast_in_place_agrees_with_numpy(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    result = numpy.zeros(left)
    try:
        result += numpy.zeros(right)
    except ValueError:
        with pytest.raises(ShapeError, match=r"cannot be broadcast|in-place") as error:
            shapes.broadcast_in_place("add_", (left, right), {})
        assert error.value.exception == "RuntimeError"
    else:
        assert shapes.broadcast_in_place("add_", (left, right), {}) == left


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
    assume(dim < len(shape))
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


def _ranks(sample: Sample) -> tuple[int | None, ...]:
    return tuple(None if shape is None else len(shape) for shape in sample.shapes)


@by_operator
def test_samples(operator: Operator) -> None:
    """Every signature has samples of its ranks: one beyond a SIMD width, and an empty one.

    Where an empty tensor has no result, it is among the error samples.
    """
    for signature in operator.signatures:
        samples = operator.samples(signature)
        for sample in samples:
            assert _ranks(sample) == signature.ranks
        sizes = [size for s in samples for shape in s.shapes if shape for size in shape]
        refused = [s for s in operator.error_samples if _ranks(s) == signature.ranks]
        empty = [shape for s in (*samples, *refused) for shape in s.shapes if shape and 0 in shape]
        assert empty
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


@by_operator
def test_what_can_fail_has_error_samples(operator: Operator) -> None:
    """Whether a rule can fail is tried, with every small size of every operand."""

    def fails(signature: Signature) -> bool:
        shapes = [
            [None] if rank is None else list(product(range(3), repeat=rank))
            for rank in signature.ranks
        ]
        for options, operands in product(operator.option_choices(signature), product(*shapes)):
            try:
                operator.shape_rule(operator.id, operands, options)
            except ShapeError:
                return True
        return False

    covered = {_ranks(sample) for sample in operator.error_samples}
    assert covered == {s.ranks for s in operator.signatures if fails(s)}


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
    assert gelu.runtime_options == ()
    assert [p.name for p in BY_ID["argmax"].runtime_options] == ["dim", "keepdim"]


def test_labels() -> None:
    assert function("torch.relu").label == "torch.relu"
    assert method("relu").label == "Tensor.relu"
