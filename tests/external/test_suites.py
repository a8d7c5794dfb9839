"""PyTorch's operator samples and ONNX's node tests: nothing fails, and the scoreboard is fresh."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.native import REPOSITORY, NativeProject

from external import op_db
from external.calls import Case, Suite
from external.onnx_nodes import NODES
from external.page import page
from rextio_torch.ops.table import BY_ID, OPERATORS

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)


@by_operator
def test_op_db(op_db_outcomes, operator) -> None:
    outcomes = [outcome for case, outcome in op_db_outcomes if case.operator is operator]
    assert [outcome.detail for outcome in outcomes if outcome.kind == "failed"] == []
    assert {"passed", "boundary"} <= {outcome.kind for outcome in outcomes}


@pytest.mark.parametrize("name", NODES)
def test_onnx(onnx_outcomes, name) -> None:
    operator = BY_ID[NODES[name].operator]
    outcomes = [outcome for case, outcome in onnx_outcomes if case.operator is operator]
    assert outcomes
    assert [outcome.detail for outcome in outcomes if outcome.kind == "failed"] == []


@by_operator
def test_pytorch_has_samples(operator) -> None:
    assert op_db.infos(operator)


class ZerosProject(NativeProject):
    """A project whose native functions accept everything and return zeros."""

    def pair(self, name: str) -> tuple[Callable[..., object], Callable[..., object]]:
        return lambda *_: torch.zeros(3), super().pair(name)[1]


def test_mistakes_are_failures(native_project, tmp_path) -> None:
    """A wrong result, a wrong exception and a boundary that lets everything in."""
    ones = torch.ones(3)
    cases = [
        Case("result", BY_ID["exp"], (ones,), expected=ones.exp()),
        Case("exception", BY_ID["add"], (ones, torch.ones(2)), expected=RuntimeError),
        Case("rank", BY_ID["exp"], (torch.ones(1, 1, 1),)),
        Case("code", BY_ID["softmax"], (ones,), {"dim": -1}),
    ]
    right = Suite(native_project, cases, tmp_path / "right").outcomes()
    assert {(case.name, outcome.kind) for case, outcome in right} == {
        ("result", "passed"),
        ("exception", "passed"),
        ("rank", "boundary"),
        ("code", "refused"),
    }
    wrong = Suite(ZerosProject(native_project.path), cases, tmp_path / "wrong").outcomes()
    assert {(case.name, outcome.kind) for case, outcome in wrong} == {
        ("result", "failed"),
        ("exception", "failed"),
        ("rank", "failed"),
        ("code", "refused"),
    }


def test_scoreboard(op_db_outcomes, onnx_outcomes, request: pytest.FixtureRequest) -> None:
    written = REPOSITORY / "docs" / "external.md"
    text = page(op_db_outcomes, onnx_outcomes)
    if request.config.getoption("--write-scoreboards"):
        written.write_text(text, encoding="utf-8")
    assert written.read_text(encoding="utf-8") == text, "stale: run `make scoreboards`"
