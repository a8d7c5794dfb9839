"""The samples of PyTorch's own operator tests, `op_db`, for the operators of the table."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from external.calls import Case
from rextio_torch.ops.model import Operator
from rextio_torch.ops.table import OPERATORS


def infos(operator: Operator) -> list[OpInfo]:
    """Return PyTorch's entries for an operator: those with the ATen name of its schema.

    An in-place operator has no entry of its own; its name ends with an underscore.
    """
    name = operator.schema.partition("(")[0].partition(".")[0].removesuffix("_")
    return [info for info in op_db if (info.aten_name or info.name) == name]


def _eagers(
    operator: Operator, info: OpInfo, sample: SampleInput
) -> torch.Tensor | type[Exception]:
    """Return what PyTorch gives for a sample, or the class of what it raises in place."""
    if not operator.schema.endswith("(a!)"):
        return info(sample.input, *sample.args, **sample.kwargs)
    if not isinstance(sample.input, torch.Tensor):
        return TypeError
    try:
        return info.inplace_variant(sample.input.clone(), *sample.args, **sample.kwargs)
    except RuntimeError:
        # The result has another shape or dtype than the tensor it should be written to.
        return RuntimeError


def cases() -> Iterator[Case]:
    """Yield the samples of all operators.

    float32: sample, reference and error inputs, as they are and with gaps in memory; the sample
    inputs of every other dtype that eager supports.
    """
    for operator in OPERATORS:
        for info in infos(operator):
            # Values come from PyTorch's global generator.
            torch.manual_seed(0)
            for dtype in sorted(info.supported_dtypes("cpu"), key=str):
                single = dtype == torch.float32
                samples = info.reference_inputs if single else info.sample_inputs
                for number, sample in enumerate(samples("cpu", dtype)):
                    name = f"{info.formatted_name} {dtype} {number}"
                    yield _case(operator, info, name, sample)
                    if single:
                        yield _case(operator, info, f"{name} with gaps", sample.noncontiguous())
            if info.error_inputs_func is not None:
                for number, error in enumerate(info.error_inputs("cpu")):
                    yield _case(
                        operator,
                        info,
                        f"{info.formatted_name} error {number}",
                        error.sample_input,
                        error.error_type,
                    )


def _case(
    operator: Operator,
    info: OpInfo,
    name: str,
    sample: SampleInput,
    error: type[BaseException] | None = None,
) -> Case:
    expected = error or _eagers(operator, info, sample)
    return Case(name, operator, (sample.input, *sample.args), dict(sample.kwargs), expected)
