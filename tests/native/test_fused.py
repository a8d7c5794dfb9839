"""The fused engine: random programs, accuracy of sums and products, threads, memory."""

from __future__ import annotations

import itertools
import math
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from functools import cache, partial

import pytest
import torch
from support import random_programs
from support.inputs import LAYOUTS, contiguous
from support.native import RANDOM_PROGRAMS, run
from support.programs import find

import rextio_torch
from rextio_torch.runtime.native import configure, engine

pytestmark = pytest.mark.usefixtures("variant")


def _fused() -> bool:
    return engine().engine == "fused"


# What eager gives is the same for every engine and instruction set: computed once.
Eager = Callable[..., torch.Tensor]


@cache
def _program_reference(
    eager: Eager, m: int, n: int, layout: str, count: int
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor, float]:
    """Return arguments, eager's result, float64's, and the largest error allowed."""
    arguments = []
    for name, sizes in random_programs.PARAMETERS.items():
        shape = random_programs.concrete(sizes, m, n)
        values = LAYOUTS[layout](shape, "normal").tanh()
        arguments.append(values if name != "square" else values.contiguous())
    expected = eager(*arguments, count)
    exact = eager(*(argument.double() for argument in arguments), count)
    eagers = (expected.double() - exact).abs().nan_to_num(0.0)
    scale = float(exact.abs().nan_to_num(0.0).max()) if exact.numel() else 0.0
    # Both are roundings of the same program: neither may be far off.
    limit = 8 * float(eagers.max() if eagers.numel() else 0.0) + 2e-5 * max(scale, 1.0)
    return arguments, expected, exact, limit


@pytest.mark.parametrize("index", range(RANDOM_PROGRAMS))
def test_random_programs(native_project, index) -> None:
    """Fused or not, a program is as near to float64 as eager is, up to a small factor."""
    native, eager = native_project.pair(f"random_programs.program_{index}")
    layouts = itertools.cycle(LAYOUTS)
    for m, n in (*random_programs.SIZES, (1, 1), (16, 16), (0, 4), (2, 0)):
        for layout in itertools.islice(layouts, 3):
            for count in (0, 3):
                arguments, expected, exact, limit = _program_reference(eager, m, n, layout, count)
                result = native(*arguments, count)
                what = (index, (m, n), layout, count)
                assert result.shape == expected.shape, what
                assert torch.equal(result.isnan(), expected.isnan()), what
                error = (result.double() - exact).abs().nan_to_num(0.0)
                assert not error.numel() or float(error.max()) <= limit, (what, error.max(), limit)


@cache
def _hard_inputs(rows: int, columns: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    normal = torch.randn(rows, columns, generator=generator)
    wide = normal * torch.exp(4 * torch.randn(rows, columns, generator=generator))
    cancelling = torch.cat([normal, -normal + 1e-3 * normal.roll(1, 1)], 1)[:, :columns]
    return {
        "normal": normal,
        "positive": normal.abs(),
        "wide": wide,
        "cancelling": cancelling,
        "sorted": normal.abs().sort(1).values,
        "constant": torch.full((rows, columns), 0.1),
        "one and tiny": torch.cat([torch.ones(rows, 1), torch.full((rows, columns - 1), 1e-8)], 1),
    }


@cache
def _sum_reference(
    eager: Eager, columns: int, kind: str, dim: int, contiguous_rows: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return an argument, float64's sums, eager's largest error, and one unit."""
    rows = _hard_inputs(16, columns)[kind]
    argument = rows if dim == 1 else rows.t()
    argument = argument.contiguous() if contiguous_rows else argument
    exact = eager(argument.double())
    eagers = (eager(argument).double() - exact).abs().max()
    return argument, exact, eagers, exact.abs().max() * 2**-23


@pytest.mark.parametrize("columns", [33, 1000, 20_000])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_are_no_worse_than_twice_eagers(native_project, name, columns) -> None:
    for dim in (0, 1):
        native, eager = native_project.pair(find(name, 2, dim=dim, keepdim=False))
        for kind in _hard_inputs(16, columns):
            for contiguous_rows in (False, True):
                argument, exact, eagers, unit = _sum_reference(
                    eager, columns, kind, dim, contiguous_rows
                )
                error = (native(argument).double() - exact).abs().max()
                assert error <= 2 * eagers + unit, (kind, dim, float(error), float(eagers))


@cache
def _product_reference(
    eager: Eager, name: str, kind: str, sizes: tuple[int, int, int], seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return operands, float64's product, eager's mean square error, and one unit's square."""
    m, k, n = sizes
    left = _hard_inputs(m, k)[kind]
    right = torch.randn(n, k, generator=torch.Generator().manual_seed(seed))
    right = right if name == "linear" else right.t().contiguous()
    exact = eager(left.double(), right.double())
    terms = eager(left.double().abs(), right.double().abs())
    eagers = (eager(left, right).double() - exact).square().mean()
    return left, right, exact, eagers, (terms * 2**-24).square().mean()


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1000, 16), (8, 700, 9), (40, 1000, 40), (3, 20_000, 5)]
)
@pytest.mark.parametrize("name", ["matmul", "linear"])
def test_products_are_no_worse_than_twice_eagers(native_project, name, m, k, n) -> None:
    function = find("matmul", 2, 2) if name == "matmul" else find("linear", 2, 2, None)
    native, eager = native_project.pair(function)
    for kind in _hard_inputs(m, k):
        errors, eagers, units = [], [], []
        # Which engine rounds luckier depends on the values: compare over several draws.
        for seed in range(12):
            left, right, exact, of_eager, unit = _product_reference(
                eager, name, kind, (m, k, n), seed
            )
            errors.append((native(left, right).double() - exact).square().mean())
            eagers.append(of_eager)
            units.append(unit)
        error, eagers_error, unit = (
            float(torch.stack(values).mean().sqrt()) for values in (errors, eagers, units)
        )
        # One rounding of the result costs half a unit, however lucky eager is.
        assert error <= 2 * eagers_error + unit, (kind, error, eagers_error, unit)


def test_a_loop_of_thousands_of_operations(native_project) -> None:
    native, eager = native_project.pair("control_flow.repeat")
    x = torch.randn(3, 4)
    torch.testing.assert_close(native(x, 5000), eager(x, 5000), rtol=1e-4, atol=1e-5)
    # Recursion over the graph would need a stack as deep.
    native(torch.randn(1, 1), 200_000)


def test_another_thread_runs_during_a_long_call(native_project) -> None:
    native, _ = native_project.pair("boundary.matmul")
    square = torch.randn(1500, 1500)
    progress = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal progress
        while not stop.is_set():
            progress += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        native(square, square)
        before = progress
        native(square, square)
        after = progress
    finally:
        stop.set()
        thread.join()
    if _fused():
        assert after > before + 10


def test_large_work_is_split_over_threads_with_equal_results(native_project) -> None:
    before = torch.get_num_threads()
    # The same values each time: where a long sum is nearly zero, no relative bound holds for what
    # libtorch's float32 gives on one thread and on two.
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(1))
    large = draw(700, 900)
    calls = [
        ("boundary.matrix", (large,)),
        (find("tanh", 2), (large.t(),)),
        (find("softmax", 2, dim=1), (large,)),
        (find("softmax", 2, dim=0), (large,)),
        (find("sum", 2, dim=1, keepdim=False), (large,)),
        (find("softmax", 1), (large.flatten(),)),
        (find("softmax", 2, dim=0), (large.reshape(-1, 3),)),
        (find("sum", 1, dim=0, keepdim=True), (large.flatten(),)),
        (find("sum", 2, dim=0, keepdim=False), (large.reshape(-1, 3),)),
        (find("mean", 2, dim=0, keepdim=False), (large,)),
        (find("argmax", 2, dim=1, keepdim=False), (large,)),
        (find("argmax", 2, dim=0, keepdim=False), (large.reshape(-1, 3),)),
        (find("argmax", 1, dim=0, keepdim=True), (large.flatten(),)),
        (find("add", 2, 1), (large, large[0])),
        (find("matmul", 1, 2), (large[0], draw(900, 1100))),
        (find("linear", 2, 2, 1), (large[:2], draw(3000, 900), draw(3000))),
        ("control_flow.attention", (large[:300], large, large)),
    ]
    try:
        for name, arguments in calls:
            native, _ = native_project.pair(name)
            torch.set_num_threads(1)
            alone = native(*arguments)
            torch.set_num_threads(2)
            together = native(*arguments)
            assert engine().threads == 2
            torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5, equal_nan=True)
    finally:
        torch.set_num_threads(before)


def test_many_python_threads_at_once_between_operations_of_pytorch(native_project) -> None:
    """Each Python thread has a team of its own, in PyTorch's loops as in ours."""
    native, eager = native_project.pair(find("tanh", 1))
    before = torch.get_num_threads()
    x = torch.randn(1 << 18)
    expected = eager(x)
    wrong: list[float] = []

    def work() -> None:
        torch.set_num_threads(2)
        for _ in range(20):
            error = (native(x) - expected).abs().max()
            if not error < 1e-6:
                wrong.append(float(error))

    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        torch.set_num_threads(before)
    assert not wrong


def _in_a_process_of_its_own(native_project, script: str) -> list[int]:
    """Run a script on the fused engine and return the numbers that it prints."""
    built = native_project.path / ".rextio" / "build" / "python"
    done = run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=built,
        PYTHONPATH=str(built),
        REXTIO_TORCH_SIMD=None,
        REXTIO_TORCH_ENGINE=None,
    )
    return [int(number) for number in done.stdout.split()]


def test_the_threads_are_those_of_pytorch(native_project, variant) -> None:
    """A second pool would lose the cores to PyTorch's threads, which wait in a busy loop."""
    if variant != "fused-portable":
        return  # The threads are the same under every kernel.
    script = """\
        import boundary, os, torch

        def threads():
            return len(os.listdir("/proc/self/task"))

        x = torch.randn(1 << 22)
        torch.set_num_threads(2)
        before = threads()
        boundary.vector(x)
        ours = threads()
        torch.exp(x)
        print(before, ours, threads())
        """
    before, ours, both = _in_a_process_of_its_own(native_project, script)
    assert ours == before + 1
    assert both == ours


def test_freed_memory_does_not_pile_up(native_project, variant) -> None:
    """Results of many large sizes, freed again and again: the process does not keep them."""
    if variant != "fused-portable":
        return  # The memory is the same under every kernel, and libtorch's own on the other engine.
    script = """\
        import boundary, torch

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        def round_of_results():
            kept = [boundary.matrix(value) for value in inputs]
            del kept

        inputs = [torch.randn(size, 1024) for size in range(512, 8192, 512)]
        round_of_results()
        before = resident()
        for _ in range(12):
            round_of_results()
        print(resident() - before)
        """
    (grown,) = _in_a_process_of_its_own(native_project, script)
    # Each round frees 240 MB; the store's own bound (128 MiB) is reached in the first.
    assert grown < 16 << 20


def test_the_results_memory_is_not_shared(native_project) -> None:
    native, _ = native_project.pair("boundary.matrix")
    x = torch.randn(300, 300).abs()
    first = native(x)
    copy = first.clone()
    for _ in range(20):
        native(-x)
    assert torch.equal(first, copy)
    result = native(first)
    result.add_(1)
    assert torch.equal(first, copy)


class TestNative:
    def test_native_is_the_function_under_the_wrapper(self, native_project) -> None:
        wrapper, _ = native_project.pair("boundary.matrix")
        direct = rextio_torch.native(wrapper)
        assert type(direct).__name__ == "builtin_function_or_method"
        assert rextio_torch.native(direct) is direct
        x = torch.randn(2, 2)
        assert torch.equal(direct(x), wrapper(x))

    def test_fallback_mode_gives_the_python_function(self, native_project, monkeypatch) -> None:
        wrapper, eager = native_project.pair("boundary.matrix")
        monkeypatch.setenv("REXTIO_NATIVE_MODE", "fallback")
        python = rextio_torch.native(wrapper)
        assert python.__code__.co_code == eager.__code__.co_code

    def test_a_function_without_a_native_form_is_an_error(self, native_project) -> None:
        note, eager = native_project.pair("callbacks.note")
        for function in (note, eager):
            with pytest.raises(RuntimeError, match="has no native function"):
                rextio_torch.native(function)
        with pytest.raises(TypeError, match="expected a function of a built module, got int"):
            rextio_torch.native(3)  # type: ignore[arg-type]

    def test_engine_tells_what_runs(self, variant) -> None:
        info = rextio_torch.engine()
        name, _, simd = variant.partition("-")
        assert info.engine == name
        assert info.simd in info.available_simd
        assert not simd or info.simd == simd
        assert info.threads == torch.get_num_threads()

    def test_configure_refuses_what_does_not_exist(self) -> None:
        info = engine()
        for wrong in (("eager", info.simd), ("fused", "sse2")):
            with pytest.raises(ValueError, match="no engine"):
                configure(*wrong)
        assert engine() == info


def test_gelu_keeps_digits_in_its_negative_tail(native_project) -> None:
    """Eager loses everything below -5: its error function rounds to -1 there."""
    native, eager = native_project.pair(find("gelu", 1))
    x = torch.linspace(-9, -3, 4001)
    exact = torch.tensor([v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.double().tolist()])
    if _fused():
        error = ((native(x).double() - exact) / exact).abs().max()
        assert error < 2e-6
        assert error < ((eager(x).double() - exact) / exact).abs().max() / 100


def test_empty_and_single_elements_of_every_operation(native_project) -> None:
    native, _ = native_project.pair("control_flow.attention")
    assert native(torch.ones(0, 4), torch.ones(3, 4), torch.ones(3, 2)).shape == (0, 2)
    assert native(torch.ones(2, 0), torch.ones(3, 0), torch.ones(3, 2)).tolist() == [[1.0, 1.0]] * 2
    assert contiguous((1, 1), "normal").shape == (1, 1)
