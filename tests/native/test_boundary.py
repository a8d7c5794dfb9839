"""What comes in and what is refused; results as ordinary tensors; modes of the caller."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from support.engines import assert_agrees
from support.inputs import assert_same
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from rextio_torch import engine

pytestmark = pytest.mark.usefixtures("variant")

X = torch.tensor([[1.0, -2.0, float("nan")], [-0.0, 5.0, float("-inf")]])


class Tagged(torch.Tensor):
    """A subclass that overrides nothing by itself; its results would still be `Tagged`."""


class TaggedParameter(torch.nn.Parameter):
    """A subclass of an accepted class."""


@pytest.fixture
def matrix(native_project):
    return native_project.pair("boundary.matrix")[0]


@pytest.mark.parametrize(
    "value",
    [None, 1, 1.5, "x", [[1.0]], np.ones((2, 2), np.float32), torch.Size([2, 2]), object()],
    ids=lambda value: type(value).__name__,
)
def test_not_a_tensor_is_a_type_error_naming_the_parameter(matrix, value) -> None:
    with pytest.raises(TypeError, match=r"parameter 'x' must be .*float32.*rank 2.*got \S+"):
        matrix(value)


@pytest.mark.parametrize("kind", [Tagged, TaggedParameter], ids=lambda kind: kind.__name__)
def test_a_subclass_is_a_type_error_naming_it(matrix, kind) -> None:
    value = X.clone().as_subclass(Tagged) if kind is Tagged else TaggedParameter(X.clone())
    assert type(value) is kind
    with pytest.raises(TypeError, match=rf"parameter 'x' .*subclass .*{kind.__name__}"):
        matrix(value)


def test_a_masked_tensor_is_refused(matrix) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        masked = torch.masked.masked_tensor(torch.ones(2, 2), torch.eye(2) > 0)
    with pytest.raises(TypeError, match="MaskedTensor"):
        matrix(masked)


WRONG = {
    "float64": (lambda: X.double(), r"got torch\.float64; convert it with \.to\(torch\.float32\)"),
    "float16": (lambda: X.half(), r"got torch\.float16"),
    "bfloat16": (lambda: X.bfloat16(), r"got torch\.bfloat16"),
    "int64": (lambda: torch.ones(2, 2, dtype=torch.int64), r"got torch\.int64"),
    "bool": (lambda: X > 0, r"got torch\.bool"),
    "complex64": (lambda: X.to(torch.complex64), r"got torch\.complex64"),
    "conjugate": (lambda: X.to(torch.complex64).conj(), r"got torch\.complex64"),
    "rank 0": (lambda: torch.tensor(1.0), r"got rank 0; reshape"),
    "rank 1": (lambda: torch.ones(3), r"got rank 1; reshape"),
    "rank 3": (lambda: torch.ones(1, 2, 3), r"got rank 3; reshape"),
    "meta": (lambda: X.to("meta"), r"got a tensor on meta"),
    "coo": (lambda: X.to_sparse(), r"got layout torch\.sparse_coo; .*to_dense"),
    "csr": (lambda: X.to_sparse_csr(), r"got layout torch\.sparse_csr"),
    "csc": (lambda: X.to_sparse_csc(), r"got layout torch\.sparse_csc"),
    "bsr": (lambda: torch.ones(4, 4).to_sparse_bsr((2, 2)), r"got layout torch\.sparse_bsr"),
    "bsc": (lambda: torch.ones(4, 4).to_sparse_bsc((2, 2)), r"got layout torch\.sparse_bsc"),
    "mkldnn": (lambda: torch.ones(2, 2).to_mkldnn(), r"got layout torch\._mkldnn"),
    "quantised": (
        lambda: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8),
        r"got torch\.qint8",
    ),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        r"parameter 'x'",
    ),
    "functionalised": (lambda: torch._to_functional_tensor(X), r"call the Python function"),
    "named": (lambda: torch.ones(2, 2, names=("a", "b")), r"parameter 'x'"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore")
def test_the_wrong_tensor_is_a_value_error_with_advice(matrix, name) -> None:
    make, message = WRONG[name]
    value = make()
    with pytest.raises(ValueError, match=message) as caught:
        matrix(value)
    assert "parameter 'x' must be a CPU tensor of dtype float32 and rank 2" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fake_tensor_is_refused(matrix) -> None:
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(2, 2))
    with pytest.raises(TypeError, match="FakeTensor"):
        matrix(fake)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.grad(lambda x: f(x).sum()),
        lambda f: torch.vmap(lambda x: f(x.unsqueeze(0))),
        lambda f: lambda x: torch.func.jvp(f, (x,), (x,)),
        lambda f: lambda x: torch.func.vjp(f, x),
        lambda f: torch.func.functionalize(f),
        lambda f: torch.func.jacrev(f),
        lambda f: torch.func.hessian(lambda x: f(x).sum()),
    ],
    ids=["grad", "vmap", "jvp", "vjp", "functionalize", "jacrev", "hessian"],
)
def test_function_transforms_are_an_error_not_zero_gradients(matrix, transform) -> None:
    with pytest.raises(ValueError, match=r"parameter 'x'.*call the Python function"):
        transform(matrix)(torch.ones(2, 2))


def test_a_dual_tensor_is_an_error_not_a_lost_tangent(matrix) -> None:
    primal = torch.ones(2, 2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(primal, torch.ones(2, 2))
        copied = torch.zeros(2, 2)
        copied.copy_(dual)
        for value in (dual, copied):
            with pytest.raises(ValueError, match=r"parameter 'x' .*tangent"):
                matrix(value)
        assert_same(matrix(primal), primal)
    assert_same(matrix(primal), primal)


class Unseen(TorchDispatchMode):
    """A mode that gives each operation another result."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return torch.full((3, 3), 7.0)


@pytest.mark.parametrize("size", [2, 200], ids=["small", "large"])
@pytest.mark.parametrize(
    "intercept",
    [
        lambda f, x: torch.jit.trace(f, (x, x), check_trace=False),
        lambda f, x: make_fx(f)(x, x),
        lambda f, x: make_fx(f, pre_dispatch=True)(x, x),
        lambda f, x: _inside(FakeTensorMode(allow_non_fake_inputs=True), f, x),
        lambda f, x: _inside(Unseen(), f, x),
    ],
    ids=["jit.trace", "make_fx", "pre-dispatch", "fake mode", "dispatch mode"],
)
@pytest.mark.filterwarnings("ignore")
def test_intercepted_operations_are_an_error_not_constants(native_project, intercept, size) -> None:
    native, eager = native_project.pair("boundary.matmul")
    value = torch.randn(size, size)
    with pytest.raises(ValueError, match=r"parameter 'x' .*call the Python function"):
        intercept(native, value)
    assert_agrees(native(value, value), eager, [value, value])


def _inside(mode, function, value):
    with mode:
        return function(value, value)


def _sliced() -> torch.Tensor:
    return torch.ones(9, 9)[1:, 1:]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(8, 8),
        _sliced,
        lambda: _sliced().t(),
        lambda: torch._neg_view(_sliced()),
        lambda: torch.nn.Parameter(_sliced()),
        lambda: torch.ones(8, 1)[3:].expand(5, 8),
    ],
    ids=["whole", "sliced", "transposed", "negative", "parameter", "expanded"],
)
@pytest.mark.parametrize("left", [0, 4, 60])
def test_a_storage_that_was_freed_or_shrunk_is_an_error(matrix, make, left) -> None:
    value = make()
    if value.untyped_storage().nbytes() <= left:
        left = 0
    value.untyped_storage().resize_(left)
    with pytest.raises(ValueError, match=r"parameter 'x' has more elements than its storage"):
        matrix(value)


def test_a_storage_that_just_holds_the_elements_is_enough(native_project) -> None:
    native, eager = native_project.pair("boundary.matrix")
    memory = torch.randn(100)
    memory.untyped_storage().resize_(4 * 50)
    for size, stride, offset in [
        ((5, 10), (10, 1), 0),
        ((7, 7), (7, 1), 1),
        ((3, 4), (20, 3), 0),
        ((4, 3), (3, 20), 0),
        ((9, 9), (0, 0), 49),
        ((0, 9), (9, 1), 49),
    ]:
        value = memory.as_strided(size, stride, offset)
        assert_agrees(native(value), eager, [value])
    empty = torch.ones(4, 4)[:, 4:]
    empty.untyped_storage().resize_(0)
    assert native(empty).shape == (4, 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("offset", [1, 2, 3, 4])
def test_memory_at_any_address_is_read(native_project, offset) -> None:
    memory = bytearray(4 * 100 + offset)
    value = torch.frombuffer(memory, dtype=torch.float32, offset=offset).view(10, 10)
    # Of one sign: sums do not cancel.
    value.copy_(torch.rand(10, 10))
    for name, arguments in (
        ("matrix", [value]),
        ("vector", [value[3]]),
        ("both", [value, value[1]]),
        ("matmul", [value, value.t()]),
        ("classes", [torch.tensor([1]), value]),
    ):
        native, eager = native_project.pair(f"boundary.{name}")
        assert_agrees(native(*arguments), eager, arguments)


def _free(value: torch.Tensor) -> None:
    value.data = torch.full((64, 64), 2.0)


def _shrink(value: torch.Tensor) -> None:
    value.data = torch.ones(2, 2)


def _reshape(value: torch.Tensor) -> None:
    value.resize_(32, 128)


def _transpose(value: torch.Tensor) -> None:
    value.t_()


@pytest.mark.parametrize("change", [_free, _shrink, _reshape, _transpose])
def test_a_callback_that_replaces_an_arguments_memory(native_project, change) -> None:
    native, eager = native_project.pair("callbacks.with_hook")
    value, same = torch.randn(64, 64), torch.randn(64, 64)
    same.copy_(value)
    hooks = (native_project.native("callbacks").HOOKS, native_project.eager("callbacks").HOOKS)
    hooks[0].append(lambda: change(value))
    hooks[1].append(lambda: change(same))
    try:
        if engine().engine == "fused":
            with pytest.raises(RuntimeError, match="parameter was given other memory"):
                native(value, 1)
            return
        try:
            expected = eager(same, 1)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                native(value, 1)
        else:
            assert_same(native(value, 1), expected)
    finally:
        hooks[0].clear()
        hooks[1].clear()


def test_a_callback_may_change_values_in_place(native_project) -> None:
    native, _ = native_project.pair("callbacks.with_hook")
    value = torch.randn(64, 64)
    expected = value.relu() + (value + 1)
    hooks = native_project.native("callbacks").HOOKS
    hooks.append(lambda: value.add_(1))
    try:
        assert_same(native(value, 1), expected)
    finally:
        hooks.clear()


def test_results_without_memory_are_an_error_as_in_eager(native_project) -> None:
    native, eager = native_project.pair("boundary.both")
    one = torch.ones(1)
    for rows in (2**40, 2**60, 2**61):
        huge = torch.ones(1, 1).expand(rows, 1)
        for function in (native, eager):
            with pytest.raises((RuntimeError, ValueError)) as caught:
                function(huge, one)
            assert "panick" not in str(caught.value)
    assert_agrees(native(torch.ones(2, 2), one), eager, [torch.ones(2, 2), one])


def test_nothing_is_computed_when_an_argument_is_refused(native_project) -> None:
    native, _ = native_project.pair("boundary.both")
    with pytest.raises(ValueError, match="parameter 'y'"):
        native(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"parameter 'x'"):
        native(torch.ones(7), torch.ones(9, 9))


def test_a_parameter_named_like_a_rust_keyword_keeps_its_name(native_project) -> None:
    native, _ = native_project.pair("control_flow.keyword_names")
    with pytest.raises(TypeError, match="parameter 'type'"):
        native(X, 3)
    with pytest.raises(TypeError, match="parameter 'match'"):
        native(3, X)


def test_int64_input_and_result(native_project) -> None:
    native, eager = native_project.pair("boundary.classes")
    labels = torch.tensor([3, 1])
    assert_agrees(native(labels, X), eager, [labels, X])
    for wrong in (labels.int(), labels.float()):
        with pytest.raises(
            ValueError, match=r"parameter 'labels' must be a CPU tensor of dtype int64 and rank 1"
        ):
            native(wrong, X)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Parameter(X.clone()),
        lambda: X.clone().requires_grad_(),
        lambda: X.clone().requires_grad_() * 1,
        lambda: torch._neg_view(X.clone()),
        lambda: torch.ones(2, 3, dtype=torch.complex64).conj().imag,
        lambda: torch._efficientzerotensor((2, 3)),
        lambda: torch.zeros(2, 3),
    ],
    ids=["parameter", "requires_grad", "non-leaf", "negative view", "conj imag", "zero", "plain"],
)
@pytest.mark.parametrize("function", ["matrix", "both", "matmul"])
def test_lazy_and_grad_inputs_give_eagers_values(native_project, make, function) -> None:
    native, eager = native_project.pair(f"boundary.{function}")
    value = make()
    others = {"matrix": (), "both": (torch.ones(value.shape[1]),), "matmul": (value.t(),)}[function]
    result = native(value, *others)
    assert_agrees(result, eager, [value, *others])
    assert not result.requires_grad


def test_inference_tensors_are_accepted(matrix) -> None:
    with torch.inference_mode():
        value = X.clone()
        inside = matrix(value)
        assert torch.is_inference_mode_enabled()
    outside = matrix(value)
    assert_same(inside, torch.relu(X))
    assert_same(outside, torch.relu(X))
    assert not outside.is_inference()


def test_autocast_does_not_change_the_annotated_dtype(native_project) -> None:
    native, eager = native_project.pair("boundary.matmul")
    a, b = torch.randn(4, 5), torch.randn(5, 6)
    expected = eager(a, b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert eager(a, b).dtype == torch.bfloat16
        result = native(a, b)
        assert result.dtype == torch.float32
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
        assert torch.is_autocast_enabled("cpu")
        with pytest.raises(RuntimeError):
            native(a, a)
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_callers_autocast_on_cuda_is_restored(native_project, enabled) -> None:
    """A flag of the thread, which is there without a GPU."""
    matmul, _ = native_project.pair("boundary.matmul")
    torch.set_autocast_enabled("cuda", enabled)
    try:
        matmul(torch.randn(2, 3), torch.randn(3, 4))
        assert torch.is_autocast_enabled("cuda") is enabled
        with pytest.raises(RuntimeError):
            matmul(torch.randn(2, 3), torch.randn(4, 3))
        assert torch.is_autocast_enabled("cuda") is enabled
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_the_callers_grad_mode_is_restored(native_project) -> None:
    native, _ = native_project.pair("control_flow.early_return")
    square = torch.ones(2, 2)
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            for n in (0, 1):  # early return, normal return
                native(square, square, n)
                assert torch.is_grad_enabled() is enabled
            with pytest.raises(RuntimeError):
                native(square, torch.ones(3, 3), 1)
            assert torch.is_grad_enabled() is enabled
            with pytest.raises(TypeError):
                native(square, 3, 1)
            assert torch.is_grad_enabled() is enabled


def test_results_are_ordinary_tensors(matrix, tmp_path) -> None:
    value = torch.randn(3, 4)

    def fresh() -> torch.Tensor:
        return matrix(value)

    expected = torch.relu(value)
    weight = torch.ones(4, 2, requires_grad=True)
    (fresh() @ weight).sum().backward()
    assert weight.grad is not None
    assert_same(fresh().requires_grad_().detach(), expected)
    assert_same(fresh().add_(1), expected + 1)
    out = fresh()
    assert torch.add(value, value, out=out) is out
    assert_same(pickle.loads(pickle.dumps(fresh())), expected)
    assert_same(copy.deepcopy(fresh()), expected)
    assert np.array_equal(fresh().numpy(), expected.numpy())
    assert_same(torch.from_dlpack(fresh()), expected)
    torch.save(fresh(), tmp_path / "t.pt")
    assert_same(torch.load(tmp_path / "t.pt"), expected)
    assert_same(fresh().resize_(4, 3), expected.reshape(4, 3))
    if engine().engine == "libtorch":
        assert fresh().resize_(5, 5).shape == (5, 5)
    else:
        # Memory of the native engine cannot grow; PyTorch says so and leaves the tensor alone.
        with pytest.raises(RuntimeError, match="not resizable"):
            fresh().resize_(5, 5)
    assert fresh().data_ptr() % 64 == 0
    assert fresh().is_leaf


def test_a_result_outlives_its_inputs(matrix) -> None:
    result = matrix(torch.full((64, 64), 3.0))
    gc.collect()
    assert_same(result, torch.full((64, 64), 3.0))


def test_inputs_are_not_kept_alive(matrix) -> None:
    import weakref

    value = torch.ones(8, 8)
    reference = weakref.ref(value)
    matrix(value)
    del value
    gc.collect()
    assert reference() is None


def test_modes_and_defaults_are_left_alone(native_project) -> None:
    native, _ = native_project.pair("boundary.linear_chain")
    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled())
    native(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
    assert (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()) == before


def test_many_threads_get_right_results(native_project) -> None:
    native, eager = native_project.pair("control_flow.attention")
    inputs = [[torch.randn(5 + i, 8) for _ in range(3)] for i in range(4)]
    inputs = [[q, k, v] for q, k, v in inputs]
    expected = [eager(*arguments) for arguments in inputs]
    failures: list[object] = []

    def work(index: int) -> None:
        for _ in range(200):
            result = native(*inputs[index])
            if not torch.allclose(result, expected[index], rtol=1e-4, atol=1e-5):
                failures.append((index, result))
        with torch.no_grad():
            native(*inputs[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert torch.is_grad_enabled()
