"""Scalar control flow around claimed operations, and functions that call back into Python."""

from __future__ import annotations

import pytest
import torch
from support.engines import assert_agrees

pytestmark = pytest.mark.usefixtures("variant")


@pytest.mark.parametrize("n", [0, 1, 2, 7, 500])
@pytest.mark.parametrize("function", ["repeat", "while_loop"])
def test_loops(native_project, function, n) -> None:
    native, eager = native_project.pair(f"control_flow.{function}")
    x = torch.randn(3, 4)
    assert_agrees(native(x, n), eager, [x, n])


def test_a_negative_range_runs_no_iteration(native_project) -> None:
    native, eager = native_project.pair("control_flow.repeat")
    x = torch.randn(2, 2)
    assert_agrees(native(x, -3), eager, [x, -3])


@pytest.mark.parametrize("flag", [True, False])
def test_branch(native_project, flag) -> None:
    native, eager = native_project.pair("control_flow.branch")
    x = torch.randn(3, 4)
    assert_agrees(native(x, flag), eager, [x, flag])


@pytest.mark.parametrize("n", [0, 2, 3])
@pytest.mark.parametrize("function", ["if_else", "early_return"])
def test_returns_in_branches(native_project, function, n) -> None:
    native, eager = native_project.pair(f"control_flow.{function}")
    x = torch.randn(3, 3)
    arguments = (x, n) if function == "if_else" else (x, x, n)
    assert_agrees(native(*arguments), eager, [*arguments])


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (1, 3), (4, 2)])
def test_nested_loops(native_project, rows, columns) -> None:
    native, eager = native_project.pair("control_flow.nested")
    x = torch.randn(2, 5)
    assert_agrees(native(x, rows, columns), eager, [x, rows, columns])


@pytest.mark.parametrize("batch", [0, 1, 2, 7])
def test_programs_of_several_operations(native_project, batch) -> None:
    native, eager = native_project.pair("control_flow.two_layers")
    arguments = [
        torch.randn(batch, 6), torch.randn(9, 6), torch.randn(9), torch.randn(4, 9), torch.randn(4)
    ]  # fmt: skip
    assert_agrees(native(*arguments), eager, [*arguments])
    native, eager = native_project.pair("control_flow.attention")
    arguments = [torch.randn(batch, 8), torch.randn(5, 8), torch.randn(5, 3)]
    assert_agrees(native(*arguments), eager, [*arguments])


def test_an_alias_reads_the_same_tensor(native_project) -> None:
    native, eager = native_project.pair("control_flow.alias")
    x = torch.randn(3, 4)
    assert_agrees(native(x), eager, [x])


def test_an_unused_result_still_raises(native_project) -> None:
    native, eager = native_project.pair("control_flow.unused_result")
    x, y = torch.ones(2, 3), torch.ones(2, 4)
    with pytest.raises(RuntimeError):
        eager(x, y)
    with pytest.raises(RuntimeError, match=r"add: shapes \[2, 3\] and \[2, 4\]"):
        native(x, y)


class TestCallback:
    """A function that calls Python in between: each operation guards itself."""

    @pytest.mark.parametrize("n", [0, 5])
    def test_result(self, native_project, n) -> None:
        native, eager = native_project.pair("callbacks.with_callback")
        x = torch.randn(3, 3)
        assert_agrees(native(x, n), eager, [x, n])
        assert not native(x.clone().requires_grad_(), n).requires_grad

    @pytest.mark.parametrize("grad", [True, False])
    @pytest.mark.parametrize("autocast", [True, False])
    def test_the_callback_sees_the_callers_modes(self, native_project, grad, autocast) -> None:
        module = native_project.native("callbacks")
        module.SEEN.clear()
        with torch.set_grad_enabled(grad), torch.autocast("cpu", enabled=autocast):
            result = module.with_callback(torch.randn(2, 2), 3)
            assert torch.is_grad_enabled() is grad
        assert result.dtype == torch.float32
        assert [(3, grad, autocast)] == module.SEEN

    def test_an_exception_of_the_callback_arrives_as_it_is(self, native_project) -> None:
        module = native_project.native("callbacks")
        with pytest.raises(LookupError, match="negative"):
            module.with_callback(torch.randn(2, 2), -1)
        assert torch.is_grad_enabled()
