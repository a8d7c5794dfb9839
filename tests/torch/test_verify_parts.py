"""What `rextio-torch verify` is made of: shapes, cases, expectations, bundles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from rextio_torch.ops.tensor_types import F32_1D, F32_2D, I64_1D, TensorType
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D
from rextio_torch.verify import bundle
from rextio_torch.verify import record as record_module
from rextio_torch.verify.cases import Case, Request, cases_of
from rextio_torch.verify.check import run_case
from rextio_torch.verify.function import SourceFunction
from rextio_torch.verify.oracle import expect, only_operator
from rextio_torch.verify.parameters import Parameter, parameters_of
from rextio_torch.verify.problems import VerifyError
from rextio_torch.verify.record import Inputs, read_inputs, record
from rextio_torch.verify.shapes import Solution, solve

Eager = Callable[..., Any]


def tensors(**types: TensorType) -> list[Parameter]:
    return [Parameter(name, tensor_type, None) for name, tensor_type in types.items()]


def groups(solution: Solution) -> set[frozenset[str]]:
    return {frozenset(f"{name}{axis}" for name, axis in group) for group in solution.groups}


def layers(x, w1, b1, w2, b2):  # type: ignore[no-untyped-def]
    h = F.linear(x, w1, b1).relu()
    for _ in range(2):
        h = h + x
    return F.linear(h, w2, b2).softmax(dim=1)


@pytest.mark.parametrize(
    ("function", "parameters", "expected"),
    [
        (
            layers,
            tensors(x=F32_2D, w1=F32_2D, b1=F32_1D, w2=F32_2D, b2=F32_1D),
            {"x0", "x1 w10 w11 b10 w21", "w20 b20"},
        ),
        (lambda x, y: x @ y, tensors(x=F32_2D, y=F32_2D), {"x0", "x1 y0", "y1"}),
        (lambda x, y: x @ y, tensors(x=F32_1D, y=F32_2D), {"x0 y0", "y1"}),
        (lambda x: x @ x, tensors(x=F32_2D), {"x0 x1"}),
        (lambda x, y: x + y, tensors(x=F32_2D, y=F32_2D), {"x0 y0", "x1 y1"}),
        (lambda x, y: y - x, tensors(x=F32_2D, y=F32_1D), {"x0", "x1 y0"}),
        (lambda x: x - x.mean(dim=1, keepdim=True), tensors(x=F32_2D), {"x0", "x1"}),
        (lambda x, y: x.sum(dim=0) * y, tensors(x=F32_2D, y=F32_1D), {"x0", "x1 y0"}),
        (lambda x, y: x.relu(), tensors(x=F32_2D, y=I64_1D), {"x0", "x1", "y0"}),
        (
            lambda q, k, v: torch.softmax(F.linear(q, k), dim=1) @ v,
            tensors(q=F32_2D, k=F32_2D, v=F32_2D),
            {"q0", "q1 k1", "k0 v0", "v1"},
        ),
    ],
)
def test_sizes_follow_from_operations(
    function: Eager, parameters: list[Parameter], expected: set[str]
) -> None:
    found = groups(solve(function, "f", parameters, {}, {}))
    assert found == {frozenset(group.split()) for group in expected}


def test_a_size_that_an_operation_needs_is_fixed() -> None:
    parameters = tensors(x=F32_2D, y=F32_2D)
    found = solve(lambda x, y: x.sum(dim=1, keepdim=True) @ y, "f", parameters, {}, {})
    assert found.fixed == {("y", 0): 1}
    found = solve(lambda x, y: x + y, "f", parameters, {}, {("x", 0): 4})
    assert found.fixed == {("x", 0): 4, ("y", 0): 4}
    assert found.shapes(parameters, [7]) == {"x": (4, 7), "y": (4, 7)}


def test_branches_are_solved_as_they_are_taken() -> None:
    def f(x, y, n):  # type: ignore[no-untyped-def]
        return x.exp() if n == 0 else x @ y

    parameters = [*tensors(x=F32_2D, y=F32_2D), Parameter("n", None, "int")]
    assert len(solve(f, "f", parameters, {"n": 0}, {}).groups) == 4
    assert len(solve(f, "f", parameters, {"n": 1}, {}).groups) == 3


def test_what_does_not_follow_must_be_given() -> None:
    parameters = tensors(x=F32_2D)
    with pytest.raises(VerifyError, match="the sizes of x do not follow") as raised:
        solve(lambda x: x.reshape(3, -1) @ x, "f", parameters, {}, {})
    assert raised.value.repair is not None
    assert "--shape x=8x8" in raised.value.repair
    found = solve(
        lambda x: x.reshape(3, -1) @ x.reshape(-1, 3),
        "f", parameters, {}, {("x", 0): 6, ("x", 1): 2},
    )  # fmt: skip
    assert found.is_fixed
    with pytest.raises(VerifyError, match="do not fit together"):
        solve(lambda x: x @ x, "f", parameters, {}, {("x", 0): 6, ("x", 1): 2})


def f(x: TensorF32Cpu2D, y: TensorF32Cpu1D, n: int) -> TensorF32Cpu2D:
    h = x + y
    for _ in range(n):
        h = h.tanh()
    return h


def cases(function: Eager, request: Request | None = None) -> list[Case]:
    return list(cases_of(function, "f", parameters_of(function, "f"), request or Request()))


def test_cases_cover_layouts_values_sizes_and_broadcasting() -> None:
    found = cases(f)
    assert len({case.name for case in found}) == len(found)
    shapes = {tuple(case.arguments[0].shape) for case in found}
    assert {size for shape in shapes for size in shape} >= {0, 1, 7, 8, 9, 16, 17, 33, 65}
    assert {case.arguments[2] for case in found} == {0, 1, 2, 5}
    first = [case.arguments[0] for case in found]
    assert {tensor.is_contiguous() for tensor in first} == {True, False}
    assert any(0 in tensor.stride() and tensor.numel() > 1 for tensor in first)
    assert any(tensor.storage_offset() > 0 for tensor in first)
    assert any(bool(tensor.isnan().any()) for tensor in first)
    assert any(bool((tensor.isfinite() & (tensor.abs() < 1e-38)).any()) for tensor in first)
    # y has one value for all columns.
    assert any(case.arguments[1].shape[0] == 1 and case.arguments[0].shape[1] > 1 for case in found)
    # Equal sizes must not mean equal values.
    square = next(case for case in found if case.name.startswith("square8-"))
    assert not torch.equal(square.arguments[0][0], square.arguments[1])


def test_cases_are_the_same_each_time() -> None:
    for left, right in zip(cases(f), cases(f), strict=True):
        assert left.name == right.name
        assert all(
            torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) and a.stride() == b.stride()
            if isinstance(a, torch.Tensor)
            else a == b
            for a, b in zip(left.arguments, right.arguments, strict=True)
        )


def test_a_parameter_of_another_type_is_named() -> None:
    def wanting(x: TensorF32Cpu2D, options: dict) -> TensorF32Cpu2D:  # type: ignore[type-arg]
        return x

    with pytest.raises(VerifyError, match="parameter options"):
        parameters_of(wanting, "wanting")

    def naming(x: TensorF32Cpu2D, mode: str) -> TensorF32Cpu2D:
        return x

    with pytest.raises(VerifyError, match="parameter mode needs a value"):
        cases(naming)
    assert cases(naming, Request(values={"mode": "fast"}))


def test_recorded_inputs_keep_their_values_in_every_layout() -> None:
    def g(x: TensorF32Cpu2D, labels: TensorI64Cpu1D) -> TensorF32Cpu2D:
        return x.relu()

    x, labels = torch.randn(3, 4), torch.arange(5)
    found = cases(g, Request(recorded={"x": x, "labels": labels}))
    assert len(found) == 4
    for case in found:
        assert torch.equal(case.arguments[0], x)
        assert torch.equal(case.arguments[1], labels)
    assert not found[1].arguments[0].is_contiguous()
    with pytest.raises(VerifyError, match="do not fit parameter x"):
        cases(g, Request(recorded={"x": torch.randn(3), "labels": labels}))
    with pytest.raises(VerifyError, match="do not fit parameter x") as wrong:
        cases(g, Request(recorded={"x": x.double(), "labels": labels}))
    assert "float64" in wrong.value.found


@pytest.mark.parametrize("name", ["inputs.pt", "inputs.npz", "missing.pt"])
def test_files_that_hold_no_inputs(tmp_path: Path, name: str) -> None:
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(b"nothing")
    with pytest.raises(VerifyError, match="cannot be read"):
        read_inputs(tmp_path / name)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: F.gelu(x), "gelu"),
        (lambda x: x.softmax(dim=1), "softmax"),
        (lambda x: x + x, "add"),
        (lambda x: torch.negative(x), "neg"),
        (lambda x: x.exp().log(), None),
        (lambda x: torch.cos(x), None),
    ],
)
def test_the_only_operation_of_a_call(function: Eager, expected: str | None) -> None:
    operator = only_operator(function, [torch.randn(2, 3)])
    assert (operator.id if operator else None) == expected


def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (F.linear(x, w).sigmoid() * x.sum(dim=1, keepdim=True)).tanh()


def one(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w)


@pytest.mark.parametrize("function", [chain, one])
def test_an_expectation_accepts_roundings_and_refuses_more(function: Eager) -> None:
    arguments: list[object] = [torch.randn(9, 33), torch.randn(17, 33)]
    if function is chain:
        arguments[1] = torch.randn(33, 33)
    expectation = expect(function, arguments, only_operator(function, arguments))
    right = expectation.expected
    assert expectation.judge(right.clone(), exactly=True).problem is None
    near = torch.nextafter(right, torch.tensor(torch.inf))
    assert expectation.judge(near, exactly=False).problem is None
    assert not expectation.judge(near, exactly=False).bit_equal
    assert "bit by bit" in str(expectation.judge(near, exactly=True).problem)
    far = right.clone()
    far[3, 4] += 1e-4 * far.abs().max()
    assert "element [3, 4]" in str(expectation.judge(far, exactly=False).problem)
    assert "shape" in str(expectation.judge(right[1:], exactly=False).problem)
    assert "dtype" in str(expectation.judge(right.double(), exactly=False).problem)
    nan = right.clone()
    nan[0, 0] = torch.nan
    assert "nan" in str(expectation.judge(nan, exactly=False).problem)
    assert "requires grad" in str(
        expectation.judge(right.clone().requires_grad_(), exactly=False).problem
    )


def test_what_the_order_of_a_sum_decides_is_left_open() -> None:
    x = torch.tensor([[3e38, 3e38, -3e38, -3e38], [1.0, 2.0, 3.0, torch.nan]])

    def g(x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1).tanh()

    expectation = expect(g, [x])
    for value in (0.0, 1.0, -1.0, torch.nan):
        result = torch.tensor([value, torch.nan])
        assert expectation.judge(result, exactly=False).problem is None
    # A NaN operand is NaN in any order.
    assert expectation.judge(torch.tensor([0.0, 0.0]), exactly=False).problem is not None


def test_indices_may_differ_only_where_rounding_decides() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        return x.exp().argmax(dim=1)

    above = torch.nextafter(torch.tensor(0.5), torch.tensor(1.0)).item()
    x = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, above]])
    expectation = expect(g, [x])
    right = expectation.expected
    assert expectation.judge(torch.tensor([2, 1]), exactly=False).problem is None
    assert expectation.judge(torch.tensor([1, right[1].item()]), exactly=False).problem is not None


def test_a_call_is_compared_with_what_eager_raised() -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        raise IndexError("empty")

    x = torch.ones(2)
    call = bundle.Recorded("case", (x,), raises="IndexError")
    assert run_case(raising, call, exactly=True).problem is None
    call = bundle.Recorded("case", (x,), raises="RuntimeError")
    assert "eager raises RuntimeError" in str(run_case(raising, call, exactly=True).problem)
    assert "returns where" in str(run_case(torch.abs, call, exactly=True).problem)
    call = bundle.Recorded("case", (x,), tensor=expect(torch.abs, [x]))
    assert "where eager returns" in str(run_case(raising, call, exactly=True).problem)
    assert "changed an input" in str(run_case(lambda x: x.neg_().abs(), call, exactly=True).problem)


SOURCE = """
from rextio_torch.types import TensorF32Cpu2D, TensorI64Cpu1D


def largest(x: TensorF32Cpu2D, n: int) -> TensorI64Cpu1D:
    return x.argmax(dim=1)
"""


def test_a_bundle_comes_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recorded_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    threads = torch.get_num_threads()
    events: list[Any] = []
    wanted = [SourceFunction("recorded_module", "largest", tmp_path / "recorded_module.py")]
    inputs = Inputs.read({}, {"n": "3"}, None)
    try:
        made = record(wanted, "a" * 64, inputs, None, events.append)
    finally:
        torch.set_num_threads(threads)
    assert events == [{"event": "recording", "function": "recorded_module.largest", "number": 0}]
    path = tmp_path / "bundle.pt"
    made.save(path)
    found = bundle.load(path)
    assert found.source_id == made.source_id
    assert found.origin == bundle.Origin.here()
    (before,), (after,) = made.functions, found.functions
    assert before.name == after.name
    assert any(call.raises == "IndexError" for call in after.calls)
    for left, right in zip(before.calls, after.calls, strict=True):
        assert (left.case, left.raises, left.threads) == (right.case, right.raises, right.threads)
        assert right.arguments[1] == 3
        tensor, other = left.arguments[0], right.arguments[0]
        assert isinstance(tensor, torch.Tensor)
        assert isinstance(other, torch.Tensor)
        assert tensor.stride() == other.stride()
        assert torch.equal(tensor.nan_to_num(7.0), other.nan_to_num(7.0))
        if left.tensor is not None and right.tensor is not None:
            assert left.tensor.to_dict().keys() == right.tensor.to_dict().keys()


@pytest.mark.parametrize("content", [b"", b"not a bundle"])
def test_what_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bundle.pt"
    path.write_bytes(content)
    with pytest.raises(VerifyError, match="not a bundle"):
        bundle.load(path)


def test_a_bundle_runs_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"format": 1, "functions": Evil()}, tmp_path / "bundle.pt")
    with pytest.raises(VerifyError, match="not a bundle"):
        bundle.load(tmp_path / "bundle.pt")
    assert not (tmp_path / "ran").exists()


def test_what_is_said_of_inputs_must_concern_a_function() -> None:
    known = {"f": parameters_of(f, "f")}
    with pytest.raises(VerifyError, match="--shape"):
        Inputs({"z": (1,)}, {}, {}).check(known)
    with pytest.raises(VerifyError, match="fit no function"):
        Inputs({}, {}, {"x": torch.ones(2, 2)}).check(known)
    with pytest.raises(VerifyError, match="--value n=two"):
        Inputs({}, {"n": "two"}, {}).request("f", known["f"])
    with pytest.raises(VerifyError, match="of rank 1"):
        cases(f, Request(shapes={"x": (4,)}))


UNVERIFIED = """
from rextio_torch.types import TensorF32Cpu2D

def first(x: TensorF32Cpu2D, sizes: list[int]) -> TensorF32Cpu2D:
    return x.relu()

def second(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()

def third(x: TensorF32Cpu2D, mode: str) -> TensorF32Cpu2D:
    return x.relu()
"""


def test_a_function_without_inputs_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "unverified_source.py").write_text(UNVERIFIED)
    wanted = [
        SourceFunction("unverified_source", name, tmp_path / "unverified_source.py")
        for name in ("first", "second", "third")
    ]
    told: list[Any] = []
    found = record(wanted, "id", Inputs({}, {}, {}), None, told.append)
    assert [function.name for function in found.functions] == ["unverified_source.second"]
    missed = {event["function"]: event for event in told if event["event"] == "unverified"}
    assert list(missed) == ["unverified_source.first", "unverified_source.third"]
    assert "parameter sizes" in missed["unverified_source.first"]["message"]
    assert "--value mode=" in missed["unverified_source.third"]["repair"]
    # Alone it is an error.
    with pytest.raises(VerifyError, match="parameter sizes"):
        record(wanted[:1], "id", Inputs({}, {}, {}), None, told.append)


def test_a_function_that_does_not_end_is_unverified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endless_module.py").write_text(
        "from rextio_torch.types import TensorF32Cpu1D\n\n\n"
        "def ends(x: TensorF32Cpu1D) -> TensorF32Cpu1D:\n    return x.relu()\n\n\n"
        "def halves(x: TensorF32Cpu1D, least: float) -> TensorF32Cpu1D:\n"
        "    rest = 1.0\n    while rest > least:\n        rest = rest * 0.5\n    return x.relu()\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(record_module, "LONGEST_SECONDS", 0.5)
    wanted = [
        SourceFunction("endless_module", name, tmp_path / "endless_module.py")
        for name in ("ends", "halves")
    ]
    events: list[dict[str, Any]] = []
    bundle = record(wanted, "0" * 64, Inputs({}, {}, {}), None, events.append)
    assert [function.name for function in bundle.functions] == ["endless_module.ends"]
    (told,) = [event for event in events if event["event"] == "unverified"]
    assert told["function"] == "endless_module.halves"
    assert "does not end" in told["message"]
