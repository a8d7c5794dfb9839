"""A native function inside what PyTorch does to functions: docs/compatibility.md, row by row."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import BuiltinFunctionType, ModuleType
from typing import Any

import pytest
import torch
from support.inputs import assert_same
from support.native import REPOSITORY
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.autograd.gradcheck import GradcheckError
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

Function = Callable[[torch.Tensor], torch.Tensor]

X = torch.tensor([[1.5, -2.0, 3.0], [-0.5, 5.0, -1.0]])
PAGE = REPOSITORY / "docs" / "compatibility.md"
REFUSED = r"parameter 'x' .*call the Python function"
CHECKS: dict[str, Callable[[Function], None]] = {}


def row(context: str) -> Callable[[Callable[[Function], None]], Callable[[Function], None]]:
    """Enter a check for the row of the page that names a context."""

    def enter(check: Callable[[Function], None]) -> Callable[[Function], None]:
        assert context not in CHECKS
        CHECKS[context] = check
        return check

    return enter


@pytest.fixture(params=["wrapper", "function"])
def native(request, native_project) -> Function:
    """Return relu: Rextio's wrapper of the native function, and that function itself."""
    wrapper = native_project.native("boundary").matrix
    if request.param == "wrapper":
        return wrapper
    return __import__("_rextio_native").boundary__matrix


def contexts() -> list[str]:
    """Return the first column of the page's table."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    return cells[2:]


def test_each_row_of_the_page_has_a_check() -> None:
    assert contexts() == list(CHECKS)


@pytest.mark.parametrize("context", CHECKS)
@pytest.mark.filterwarnings("ignore")
def test_context(native, context) -> None:
    torch._dynamo.reset()
    CHECKS[context](native)
    # Nothing is left behind.
    assert_same(native(X), X.relu())


def test_the_pages_example(native_project, monkeypatch) -> None:
    matmul = native_project.native("boundary").matmul
    module = ModuleType("model")
    module.scores = lambda x, weight: matmul(x, weight.t())
    monkeypatch.setitem(sys.modules, "model", module)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(example, names)
    x, weight = torch.randn(2, 3), torch.randn(4, 3)
    compiled = torch.compile(names["scores"], backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, weight), x @ weight.t())


class Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def around(function: Function) -> Function:
    return lambda x: function(x * 2) + 1


@row("`torch.compile`")
def _(native: Function) -> None:
    for backend in ("eager", "aot_eager"):
        compiled = torch.compile(around(native), backend=backend)
        assert_same(compiled(X), around(torch.relu)(X))
    explanation = torch._dynamo.explain(around(native))(X)
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    assert_same(torch.compile(native, backend="eager")(X), X.relu())


@row("`torch.compile(fullgraph=True)`, `torch.export` with `strict=True`")
def _(native: Function) -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported, match="boundary__matrix"):
        torch.compile(around(native), backend="eager", fullgraph=True)(X)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="boundary__matrix"):
        torch.export.export(Module(native), (X,), strict=True)


@row("`torch.export`, `FakeTensor` inputs")
def _(native: Function) -> None:
    with pytest.raises(TypeError, match=r"parameter 'x' .*FakeTensor"):
        torch.export.export(Module(native), (X,))
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(X)
    with pytest.raises(TypeError, match=r"parameter 'x' .*FakeTensor"):
        native(fake)


@row("a `torch.library.custom_op` that calls it, in any of these")
def _(native: Function) -> None:
    name = f"rextio_torch_tests::relu_{type(native).__name__}"
    operator = torch.library.custom_op(name, native, mutates_args=(), schema="(Tensor x) -> Tensor")
    operator.register_fake(torch.empty_like)
    compiled = torch.compile(around(operator), backend="aot_eager", fullgraph=True)
    assert_same(compiled(X), around(torch.relu)(X))
    for strict in (True, False):
        program = torch.export.export(Module(operator), (X,), strict=strict)
        assert_same(program.module()(X), X.relu())


@row("`torch.jit.trace`, `make_fx`")
def _(native: Function) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        torch.jit.trace(around(native), (X,), check_trace=False)
    with pytest.raises(ValueError, match=REFUSED):
        make_fx(around(native))(X)


@row("`torch.jit.script`")
def _(native: Function) -> None:
    # Of the wrapper TorchScript compiles the function that it stands for.
    with pytest.raises((RuntimeError, TypeError), match=r"TensorF32Cpu2D|not supported|builtin"):
        torch.jit.script(native)


@row("`torch.fx.symbolic_trace`")
def _(native: Function) -> None:
    with pytest.raises(TypeError, match=r"parameter 'x' .*got torch\.fx\.proxy\.Proxy"):
        torch.fx.symbolic_trace(Module(native))


@row("`vmap`, `func.grad`, `vjp`, `jvp`, `jacrev`, `hessian`, `functionalize`")
def _(native: Function) -> None:
    def scalar(x: torch.Tensor) -> torch.Tensor:
        return native(x).sum()

    for call in (
        lambda: torch.vmap(lambda x: native(x[None]))(X),
        lambda: torch.func.grad(scalar)(X),
        lambda: torch.func.vjp(native, X),
        lambda: torch.func.jvp(native, (X,), (X,)),
        lambda: torch.func.jacrev(native)(X),
        lambda: torch.func.hessian(scalar)(X),
        lambda: torch.func.functionalize(native)(X),
        lambda: torch.func.linearize(native, X),
    ):
        with pytest.raises(ValueError, match=REFUSED):
            call()


@row("a tensor from outside, inside one of those")
def _(native: Function) -> None:
    assert_same(torch.vmap(lambda x: native(X) + x)(X), torch.vmap(lambda x: X.relu() + x)(X))
    assert_same(torch.func.grad(lambda x: (native(X) * x).sum())(X), X.relu())
    assert_same(torch.func.jvp(lambda x: native(X) * x, (X,), (X,))[1], X.relu() * X)


@row("a dual tensor of forward-mode AD")
def _(native: Function) -> None:
    with forward_ad.dual_level():
        with pytest.raises(ValueError, match=r"parameter 'x' .*tangent"):
            native(forward_ad.make_dual(X, X))
        assert_same(native(X), X.relu())


@row("an input with `requires_grad`, `torch.autograd.grad`")
def _(native: Function) -> None:
    x = X.clone().requires_grad_()
    result = native(x)
    assert not result.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(result.sum(), x)
    (gradient,) = torch.autograd.grad((result * x).sum(), x)
    assert_same(gradient, X.relu())
    compiled = torch.compile(around(native), backend="aot_eager")
    assert not compiled(x).requires_grad


@row("`torch.autograd.functional.jacobian` and its like")
def _(native: Function) -> None:
    assert not torch.autograd.functional.jacobian(native, X).any()
    with pytest.raises(RuntimeError, match="does not require gradients"):
        torch.autograd.functional.jacobian(native, X, strict=True)
    with pytest.raises(GradcheckError):
        torch.autograd.gradcheck(native, X.clone().requires_grad_())


class PassingOn(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@row("`FakeTensorMode`, any `TorchDispatchMode`")
def _(native: Function) -> None:
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    for mode in (fake, FlopCounterMode(display=False), PassingOn()):
        with mode, pytest.raises(ValueError, match=REFUSED):
            native(X)


class Recording(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@row("a `TorchFunctionMode`")
def _(native: Function) -> None:
    with Recording() as mode:
        result = native(X)
    assert mode.seen == []
    assert_same(result, X.relu())


@row("`torch.device(...)` as context, `set_default_device`, `set_default_dtype`")
def _(native: Function) -> None:
    with torch.device("meta"):
        assert_same(native(X), X.relu())
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    try:
        result = native(X)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert_same(result, X.relu())


@row("`torch.no_grad`, `torch.inference_mode`")
def _(native: Function) -> None:
    with torch.no_grad():
        assert_same(native(X), X.relu())
    with torch.inference_mode():
        result = native(X.clone())
    assert result.is_inference()
    assert_same(result.clone(), X.relu())


@row("`torch.autocast`")
def _(native: Function) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same(native(X), X.relu())


@row("threads, also with one module each as `DataParallel` has")
def _(native: Function) -> None:
    def call(module: Module) -> torch.Tensor:
        with torch.no_grad():
            return module(X)

    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(call, [Module(native) for _ in range(100)]):
            assert_same(result, X.relu())


@row("`torch.profiler`")
def _(native: Function) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        native(X)
    assert "aten::relu" not in {event.key for event in profile.key_averages()}


@row("`REXTIO_NATIVE_MODE=fallback` around any of these")
def _(native: Function) -> None:
    if isinstance(native, BuiltinFunctionType):
        return  # the mode is the wrapper's
    before = os.environ["REXTIO_NATIVE_MODE"]
    os.environ["REXTIO_NATIVE_MODE"] = "fallback"
    try:
        expected = torch.func.grad(lambda x: x.relu().sum())(X)
        assert_same(torch.func.grad(lambda x: native(x).sum())(X), expected)
        compiled = torch.compile(around(native), backend="eager", fullgraph=True)
        assert_same(compiled(X), around(torch.relu)(X))
        traced = torch.jit.trace(native, (X,))
        program = torch.export.export(Module(native), (X,), strict=False)
    finally:
        os.environ["REXTIO_NATIVE_MODE"] = before
    assert_same(traced(-X), (-X).relu())
    assert_same(program.module()(-X), (-X).relu())
