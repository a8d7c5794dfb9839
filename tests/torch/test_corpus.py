"""The corpus in eager Python: its table is complete, and every function runs on every input."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest
import torch
from support.corpus import CASES, INLINED, NATIVE, Case, written_functions

from rextio_torch.explain.forms.table import BY_ID

RESULT_DTYPES = (torch.float32, torch.int64)


def test_table_lists_every_function_once() -> None:
    listed = Counter(case.name for case in CASES)
    assert set(listed) == written_functions()
    assert set(listed.values()) == {1}


def test_outcomes_are_known() -> None:
    assert {case.outcome for case in CASES} - {NATIVE, INLINED} <= set(BY_ID)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_runs_in_eager(case: Case) -> None:
    parameters = inspect.signature(case.function).parameters
    computed = 0
    for arguments in case.inputs():
        assert len(arguments) == len(parameters)
        result = case.function(*arguments)
        results = result if isinstance(result, tuple) else (result,)
        assert all(tensor.dtype in RESULT_DTYPES for tensor in results)
        assert all(tensor.dim() in (1, 2) for tensor in results)
        tensors = [part for part in arguments if isinstance(part, torch.Tensor)]
        # A mean over no rows is NaN; with rows every result is a number.
        if all(tensor.numel() for tensor in tensors):
            assert all(tensor.isfinite().all() for tensor in results)
            computed += 1
    assert computed
