"""Cases from public reports about other systems that do this job, as small inputs.

Each test names the reports it comes from. The oracle is eager PyTorch at the same input, and where
the right answer is a fixed one, that answer too.
"""

from __future__ import annotations

import math
import os
import signal
import time

import pytest
import torch
from support.engines import assert_agrees
from support.inputs import LAYOUTS, assert_same, contiguous
from support.programs import find

from rextio_torch import engine
from rextio_torch.ops import pointwise
from rextio_torch.ops.table import BY_ID

pytestmark = pytest.mark.usefixtures("variant")

NAN = math.nan
INF = math.inf
#: On both sides of every SIMD width.
LENGTHS = (1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 1024)

UNARY = tuple(operator.id for operator in pointwise.ROWS)


def unary(name: str, rank: int) -> str:
    return find(name, rank)


def reduction(name: str, dim: int, keepdim: bool = False, rank: int = 2) -> str:
    return find(name, rank, dim=dim, keepdim=keepdim)


def softmax(dim: int) -> str:
    return find("softmax", 2, dim=dim)


MATMUL = find("matmul", 2, 2)
LINEAR = find("linear", 2, 2, 1)
LINEAR_NO_BIAS = find("linear", 2, 2, None)
ADD = find("add", 2, 2)
DIV_1D = find("div", 1, 1)


def check(native_project, name: str, *arguments: torch.Tensor) -> torch.Tensor:
    """Assert that a native function equals eager, and return its result."""
    native, eager = native_project.pair(name)
    result = native(*arguments)
    operator = BY_ID[name.removeprefix("surface.").split("__")[0]]
    assert_agrees(result, eager, list(arguments), operator, (name, arguments))
    return result


class TestNanZerosExtremes:
    @pytest.mark.parametrize("length", LENGTHS)
    def test_relu_keeps_nan_at_every_length(self, native_project, length) -> None:
        # burn #5716, burn #5609, onnxruntime #11010
        x = torch.full((length,), 2.0)
        x[0] = x[-1] = NAN
        result = check(native_project, unary("relu", 1), x)
        assert result[0].isnan()
        assert result[-1].isnan()
        assert not result[1:-1].isnan().any()

    @pytest.mark.parametrize("length", LENGTHS)
    def test_relu_keeps_the_sign_of_zero(self, native_project, length) -> None:
        result = check(native_project, unary("relu", 1), torch.full((length,), -0.0))
        assert torch.signbit(result).all()

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([[NAN, 4.6151]], [0]),
            ([[1.0, NAN], [3.0, 2.0]], [1, 0]),
            ([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]], [1, 0]),
            ([[-0.0, 0.0]], [0]),
            ([[-INF, -INF, -INF]], [0]),
            ([[1.0, NAN, 5.0, NAN]], [1]),
        ],
    )
    def test_argmax_of_nan_and_ties(self, native_project, rows, expected) -> None:
        # pytorch #118266
        result = check(native_project, reduction("argmax", 1), torch.tensor(rows))
        assert result.tolist() == expected
        check(native_project, reduction("argmax", 0), torch.tensor(rows).t())
        check(native_project, reduction("argmax", 0, True, 1), torch.tensor(rows[0]))

    @pytest.mark.parametrize("length", LENGTHS)
    def test_argmax_finds_nan_and_the_first_tie_at_every_length(
        self, native_project, length
    ) -> None:
        for position in {0, length // 2, length - 1}:
            x = torch.zeros(2, length)
            x[0, position:] = 1.0
            x[1, position] = NAN
            assert check(native_project, reduction("argmax", 1), x).tolist() == [position, position]

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            ([-INF, -INF], [NAN, NAN]),
            ([0.0, INF], [NAN, NAN]),
            ([1.0, NAN], [NAN, NAN]),
            ([0.0, -INF], [1.0, 0.0]),
        ],
    )
    def test_softmax_of_infinities(self, native_project, row, expected) -> None:
        # pytorch #25110
        result = check(native_project, softmax(1), torch.tensor([row]))
        assert torch.equal(result.nan_to_num(7.0), torch.tensor([expected]).nan_to_num(7.0))
        check(native_project, softmax(0), torch.tensor([row]).t())

    @pytest.mark.parametrize("name", UNARY)
    def test_no_panic_on_any_special_value(self, native_project, name) -> None:
        # burn #5717: clamp panics on a NaN bound
        check(native_project, unary(name, 2), contiguous((19, 19), "special"))

    def test_arithmetic_edges(self, native_project) -> None:
        product = check(
            native_project, MATMUL, torch.tensor([[NAN, 1.0]]), torch.tensor([[0.0], [1.0]])
        )
        assert product.isnan().all()
        quotient = check(
            native_project, DIV_1D, torch.tensor([1.0, 0.0, -1.0]), torch.tensor([0.0, 0.0, -0.0])
        )
        assert quotient[0] == INF
        assert quotient[1].isnan()
        assert quotient[2] == INF
        root = check(native_project, unary("sqrt", 1), torch.tensor([-0.0]))
        assert torch.signbit(root).all()
        assert (
            check(native_project, unary("exp", 1), torch.tensor([-103.0])).item()
            == 1.401298464324817e-45
        )

    @pytest.mark.parametrize("length", LENGTHS)
    def test_gelu_of_infinities(self, native_project, length) -> None:
        # Eager gives inf at length 1 and NaN from some length on, and the libtorch engine with it;
        # the fused engine gives at every length what eager gives for one element.
        for value in (INF, -INF):
            check(native_project, unary("gelu", 1), torch.full((length,), value))


class TestLayout:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize(
        "name",
        [unary(name, 2) for name in UNARY]
        + [reduction(name, dim) for name in ("sum", "mean", "argmax") for dim in (0, 1)]
        + [softmax(0), softmax(1)],
    )
    def test_a_view_gives_what_its_contiguous_copy_gives(
        self, native_project, layout, name
    ) -> None:
        # burn #5290: reductions over views read outside the view.
        view = LAYOUTS[layout]((9, 20), "normal")
        result = check(native_project, name, view)
        # The order of summation, and eager's gelu, depend on the layout.
        torch.testing.assert_close(
            result,
            check(native_project, name, view.contiguous()),
            rtol=1e-5,
            atol=1e-6,
            equal_nan=True,
        )

    def test_output_strides_are_eagers(self, native_project) -> None:
        # pytorch #183771
        native, eager = native_project.pair(unary("relu", 2))
        for view, strides in (
            (torch.arange(12.0).view(3, 4).t(), (1, 4)),
            (torch.ones(3, 1).expand(3, 4), (4, 1)),
        ):
            assert native(view).stride() == eager(view).stride() == strides

    def test_a_slice_and_a_fresh_tensor_of_its_shape_both_run(self, native_project) -> None:
        # pytorch #153992
        x = torch.randn(4, 12)
        for value in (x[:, 0:9], torch.randn(4, 9)):
            check(native_project, LINEAR, value, torch.randn(5, 9), torch.randn(5))


class TestEmptyAndErrors:
    def test_products_with_a_size_of_zero(self, native_project) -> None:
        # pytorch #104937
        bias = torch.tensor([1.0, 2.0, 3.0])
        result = check(native_project, LINEAR, torch.ones(2, 0), torch.ones(3, 0), bias)
        assert result.tolist() == [[1.0, 2.0, 3.0]] * 2
        assert (
            check(native_project, MATMUL, torch.ones(2, 0), torch.ones(0, 3)).tolist()
            == [[0.0] * 3] * 2
        )
        assert check(native_project, LINEAR_NO_BIAS, torch.ones(0, 4), torch.ones(3, 4)).shape == (
            0,
            3,
        )

    def test_reductions_of_nothing(self, native_project) -> None:
        empty = torch.empty(2, 0)
        assert check(native_project, reduction("mean", 1), empty).isnan().all()
        assert check(native_project, reduction("sum", 1), empty).tolist() == [0.0, 0.0]
        assert check(native_project, softmax(1), empty).shape == (2, 0)
        native, _ = native_project.pair(reduction("argmax", 1))
        with pytest.raises(IndexError, match="argmax: dimension 1"):
            native(empty)
        none = check(native_project, reduction("argmax", 1), torch.empty(0, 3))
        assert none.dtype == torch.int64
        assert none.shape == (0,)

    @pytest.mark.parametrize(
        ("name", "shapes", "message"),
        [
            (LINEAR_NO_BIAS, [(3, 1), (1, 2)], r"linear: .*\[3, 1\].*\[1, 2\]"),
            (ADD, [(2, 3), (2, 4)], r"add: .*\[2, 3\].*\[2, 4\]"),
            (LINEAR, [(2, 5), (3, 5), (4,)], r"linear: .*\[4\].*\[3, 5\]"),
        ],
    )
    def test_shape_checks_are_not_lost(self, native_project, name, shapes, message) -> None:
        # pytorch #141115, pytorch #197554
        native, eager = native_project.pair(name)
        arguments = [torch.ones(shape) for shape in shapes]
        with pytest.raises(RuntimeError):
            eager(*arguments)
        with pytest.raises(RuntimeError, match=message) as caught:
            native(*arguments)
        assert "\n" not in str(caught.value)

    def test_no_silent_promotion(self, native_project) -> None:
        # pytorch #177630
        native, _ = native_project.pair(LINEAR_NO_BIAS)
        with pytest.raises(ValueError, match=r"parameter 'p0'.*float64"):
            native(torch.ones(2, 3, dtype=torch.float64), torch.ones(4, 3))
        native, _ = native_project.pair(reduction("mean", 1))
        with pytest.raises(ValueError, match=r"parameter 'p0'.*int64"):
            native(torch.ones(2, 3, dtype=torch.int64))


class TestAutogradAndTypes:
    def test_no_grad_then_requires_grad(self, native_project) -> None:
        # pytorch #100977
        native, eager = native_project.pair(LINEAR)
        arguments = [torch.randn(2, 3), torch.randn(4, 3), torch.randn(4)]
        with torch.no_grad():
            assert_agrees(native(*arguments), eager, arguments, BY_ID["linear"])
        tracked = [argument.clone().requires_grad_() for argument in arguments]
        result = native(*tracked)
        assert_agrees(result, eager, arguments, BY_ID["linear"])
        assert not result.requires_grad
        assert torch.is_grad_enabled()

    def test_a_subclass_is_refused_by_name_and_a_parameter_allowed(self, native_project) -> None:
        # pytorch #176679
        class Labelled(torch.Tensor):
            pass

        native, _ = native_project.pair(unary("exp", 2))
        with pytest.raises(TypeError, match="Labelled"):
            native(torch.ones(2, 2).as_subclass(Labelled))
        assert_same(native(torch.nn.Parameter(torch.zeros(2, 2))), torch.ones(2, 2))


class TestNumerics:
    def test_batch_sizes_of_one_row_each_equal_eager(self, native_project) -> None:
        # pytorch #136338: eager itself differs between batch 1 and batch 2 at K = 1000.
        row, weight, bias = torch.randn(1, 1000), torch.randn(7, 1000), torch.randn(7)
        for batch in (1, 2):
            check(native_project, LINEAR, row.expand(batch, 1000), weight, bias)

    @pytest.mark.parametrize("batch", [0, 1, 2, 7])
    def test_one_build_serves_every_batch(self, native_project, batch) -> None:
        # pytorch #133653
        check(native_project, LINEAR, torch.randn(batch, 5), torch.randn(3, 5), torch.randn(3))


def test_memory_does_not_grow_with_calls_or_errors(native_project, variant) -> None:
    """10^5 good and 10^5 failing calls leave the process as large as it was."""
    if variant in ("fused-avx2", "fused-portable"):
        return  # The same code around other kernels, which own no memory.
    native, _ = native_project.pair("boundary.linear_chain")
    good = (torch.randn(4, 16), torch.randn(8, 16), torch.randn(8))
    bad = (torch.randn(4, 16), torch.randn(8, 15), torch.randn(8))

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def calls(count: int) -> None:
        for _ in range(count):
            native(*good)
            try:
                native(*bad)
            except RuntimeError:
                pass
            else:
                raise AssertionError("the wrong shapes were accepted")

    calls(2_000)
    before = resident()
    calls(100_000)
    assert resident() - before < 8 * 2**20


def test_a_forked_child_works(native_project) -> None:
    """Also for large tensors, after the parent used its threads: eager would wait for ever."""
    native, eager = native_project.pair("boundary.linear_chain")
    sizes = [(4, 16, 8)] if engine().engine == "libtorch" else [(4, 16, 8), (600, 400, 500)]
    for rows, inputs, outputs in sizes:
        arguments = (torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs))
        expected = eager(*arguments)
        native(*arguments)
        child = os.fork()
        if child == 0:
            right = torch.allclose(native(*arguments), expected, rtol=1e-4, atol=1e-4)
            os._exit(0 if right else 1)
        deadline = time.monotonic() + 60
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if done == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"the child hangs for sizes {rows, inputs, outputs}")
        assert done[1] == 0
