"""The table against the installed PyTorch: schemas, names, and every form run in eager."""

from __future__ import annotations

import builtins
from collections import defaultdict
from itertools import count

import pytest
import torch
from support import forms

from rextio_torch.ops.model import REQUIRED, Operator, ShapeError
from rextio_torch.ops.table import BY_ID, OPERATORS
from rextio_torch.ops.tensor_types import TensorType

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)
#: ATen says `self` where PyTorch's Python functions say `input`.
PYTHON_NAMES = {"self": "input"}
#: Arguments of schemas that no row offers: only their defaults are meant.
LEFT_OUT = {"alpha", "dtype"}


def _schema(operator: Operator) -> torch._C.FunctionSchema:
    name, _, overload = operator.schema.partition("(")[0].partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")._schema


@by_operator
def test_schema_is_real(operator: Operator) -> None:
    assert str(torch._C.parse_schema(f"aten::{operator.schema}")) == str(_schema(operator))


@by_operator
def test_parameters_are_those_of_the_schema(operator: Operator) -> None:
    arguments = {PYTHON_NAMES.get(a.name, a.name): a for a in _schema(operator).arguments}
    parameters = {parameter.name: parameter for parameter in operator.parameters}
    assert set(arguments) - set(parameters) <= LEFT_OUT
    assert list(parameters) == [name for name in arguments if name in parameters]
    for name, parameter in parameters.items():
        argument = arguments[name]
        is_tensor = argument.type.isSubtypeOf(torch._C.OptionalType(torch._C.TensorType.get()))
        assert parameter.is_tensor == is_tensor
        assert parameter.optional == isinstance(argument.type, torch._C.OptionalType) or (
            not parameter.is_tensor
        )
        if not parameter.is_tensor:
            assert parameter.positional != argument.kwarg_only
            assert parameter.dimension == (name == "dim")
            assert parameter.several == ("List[int]" in str(argument.type))
            # A row may demand an option that PyTorch has a default for, never the reverse.
            if parameter.default is not REQUIRED:
                assert argument.has_default_value()
                assert parameter.default == argument.default_value


def test_a_wrong_schema_is_noticed() -> None:
    """The check above can fail."""
    wrong = BY_ID["mean"].schema.replace("keepdim=False", "keepdim=True")
    assert str(torch._C.parse_schema(f"aten::{wrong}")) != str(_schema(BY_ID["mean"]))


# Every form in eager PyTorch

_DTYPES = {"float32": torch.float32, "int64": torch.int64}


def _tensor(shape: tuple[int, ...], numbers: count) -> torch.Tensor:
    """Different positive values, so that no two operands or orders give the same result."""
    generator = torch.Generator().manual_seed(next(numbers))
    return torch.rand(shape, generator=generator) + 0.5


def _is(tensor: torch.Tensor, expected: TensorType) -> bool:
    return (
        tensor.dtype is _DTYPES[expected.dtype]
        and tensor.device.type == expected.device
        and tensor.dim() == expected.rank
    )


def _call(form: forms.Form, tensors: list[torch.Tensor]) -> torch.Tensor:
    names: dict[str, object] = {}
    exec(compile(forms.module([form.function("f")]), form.expression, "exec"), names)
    return names["f"](*tensors)


def _forms_by_call(operator: Operator) -> dict[tuple[object, ...], list[forms.Form]]:
    """Group forms that are different spellings of the same call."""
    groups: dict[tuple[object, ...], list[forms.Form]] = defaultdict(list)
    for form in forms.accepted(operator):
        assert form.signature is not None
        groups[form.signature.operands, tuple(form.options.values())].append(form)
    return groups


@by_operator
def test_every_accepted_form_runs_in_eager(operator: Operator) -> None:
    """All spellings of a call give the same tensor, of the promised type and shape."""
    for group in _forms_by_call(operator).values():
        signature, options = group[0].signature, group[0].options
        samples = [s for s in operator.samples(signature) if {**options, **s.options} == options]
        assert samples
        for sample in samples:
            numbers = count()
            tensors = [_tensor(shape, numbers) for shape in sample.shapes if shape is not None]
            results = [_call(form, tensors) for form in group]
            expected = operator.shape_rule(operator.id, sample.shapes, options)
            for form, result in zip(group, results, strict=True):
                assert form.result is not None
                assert _is(result, form.result), form.expression
                assert tuple(result.shape) == expected, form.expression
                assert torch.equal(result, results[0]) or result.isnan().any(), form.expression


@by_operator
def test_error_samples_are_errors_of_eager(operator: Operator) -> None:
    for sample in operator.error_samples:
        with pytest.raises(ShapeError) as refused:
            operator.shape_rule(operator.id, sample.shapes, sample.options)
        ranks = tuple(None if shape is None else len(shape) for shape in sample.shapes)
        calls = [
            group[0]
            for group in _forms_by_call(operator).values()
            if group[0].signature.ranks == ranks
            and {**group[0].options, **sample.options} == group[0].options
        ]
        assert calls
        for form in calls:
            tensors = [torch.ones(shape) for shape in sample.shapes if shape is not None]
            with pytest.raises(getattr(builtins, refused.value.exception)) as raised:
                _call(form, tensors)
            assert type(raised.value).__name__ == refused.value.exception, form.expression
