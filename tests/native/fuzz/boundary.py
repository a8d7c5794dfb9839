"""Random objects given to native functions: each is refused as documented, or gives eager's result.

    python tests/native/fuzz/boundary.py BUILT SOURCES LOG ENGINE EXAMPLES

A case is a line of Python, written to LOG before it runs: if the process ends, it is the last one.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from rextio_torch.runtime.native import configure
from rextio_torch.runtime.native import engine as running
from rextio_torch.verify.inputs import storage_bits
from rextio_torch.verify.oracle import expect

#: The tensor parameters of the functions in sources/boundary.py: name, dtype and rank.
MATRIX, VECTOR = (torch.float32, 2), (torch.float32, 1)
FUNCTIONS = {
    "matrix": {"x": MATRIX},
    "vector": {"x": VECTOR},
    "both": {"x": MATRIX, "y": VECTOR},
    "classes": {"labels": (torch.int64, 1), "x": MATRIX},
    "matmul": {"x": MATRIX, "y": MATRIX},
    "linear_chain": {"x": MATRIX, "w": MATRIX, "b": VECTOR},
}


class Sub(torch.Tensor):
    """A subclass that overrides nothing."""


def tensor(dtype: torch.dtype, sizes: tuple[int, ...], *, requires_grad: bool = False) -> Any:
    """Values with NaN, infinities and zeros among them."""
    count = int(np.prod(sizes))
    special = torch.tensor([1.5, -2.0, float("nan"), 0.25, float("inf"), -0.0, 3.0, -0.5])
    values = special.repeat(count // 8 + 1)[:count].reshape(sizes)
    if not dtype.is_floating_point and not dtype.is_complex:
        values = values.nan_to_num(1.0, 2.0, -2.0).abs()
    return values.to(dtype).requires_grad_(requires_grad and dtype.is_floating_point)


def has_memory(value: torch.Tensor) -> bool:
    """Whether a storage is more than a size; PyTorch makes others, from zero tensors."""
    try:
        return not torch._is_zerotensor(value) and value.untyped_storage().data_ptr() != 0
    except RuntimeError:
        return False


def stored(value: Any) -> Any:
    """The tensor, if PyTorch survives a change of its storage: one with memory of its own."""
    if not has_memory(value) or value.is_shared():
        raise ValueError("no memory of its own")
    return value


def freed(value: Any, left: int) -> Any:
    """The tensor after its storage was given another size."""
    stored(value).untyped_storage().resize_(left)
    return value


def unaligned(sizes: tuple[int, int], by: int) -> Any:
    """A tensor at an odd address."""
    memory = bytearray(4 * sizes[0] * sizes[1] + by)
    return torch.frombuffer(memory, dtype=torch.float32, offset=by)[: sizes[0] * sizes[1]].view(
        sizes
    )


def inference(value: Any) -> Any:
    """A tensor made in inference mode."""
    with torch.inference_mode():
        return value.clone()


def dual(value: Any) -> Any:
    """A tensor with a tangent; outside a level PyTorch refuses to make one."""
    return forward_ad.make_dual(value, torch.ones_like(value))


def fake(value: Any) -> Any:
    """A tensor without values."""
    with FakeTensorMode() as mode:
        return mode.from_tensor(value)


_SIZE = st.integers(0, 5)
_OTHER_DTYPES = ("float64", "float16", "bfloat16", "int32", "bool", "uint8", "complex64", "uint16")
_DTYPES = st.sampled_from(
    [
        *["torch.float32"] * 12,
        *["torch.int64"] * 3,
        *(f"torch.{name}" for name in (*_OTHER_DTYPES, "complex128", "float8_e4m3fn")),
    ]
)
_SIZES = st.one_of(
    *[st.tuples(_SIZE, _SIZE).map(str)] * 6,
    *[st.tuples(_SIZE).map(str)] * 4,
    st.just("()"),
    st.tuples(_SIZE, _SIZE, _SIZE).map(str),
    st.just("(2, 1, 1, 1, 1, 1, 1)"),
    st.just("(300, 200)"),
)
_ODD = (
    "None",
    "3",
    "1.5",
    "True",
    "'x'",
    "[[1.0]]",
    "np.ones((2, 2), np.float32)",
    "object()",
    "np.float32(1)",
    "torch.float32",
    "torch.Tensor",
    "torch.Size((2, 2))",
    "torch.nn.ReLU()",
    "torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])",
    "10**400",
    "lambda x: x",
    "torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)",
    "iter(())",
    "{}",
    "torch.nn.UninitializedParameter()",
    "torch.Tensor()",
    "torch.ones(1).untyped_storage()",
)
_USUAL_CHANGES = (
    "{}.t()",
    "{}[::2]",
    "{}[1:]",
    "{}[..., ::3]",
    "{}.contiguous()",
    "{}.detach()",
    "{}[:0]",
    "{}.unsqueeze(0)",
    "{}.squeeze()",
    "{}.reshape(-1)",
    "{}.clone()",
    "torch.nn.Parameter({})",
    "torch._neg_view({})",
    "{} * 1",
    "{}.requires_grad_()",
    "{}.expand(4, -1)",
    "{}[:, :1].expand(-1, 3)",
    "{}.to(torch.float32)",
    "{}[0]",
)
_RARE_CHANGES = (
    "{}.conj()",
    "{}.conj().imag",
    "{}.imag",
    "{}.real",
    "{}.view(torch.int32)",
    "{}.half()",
    "{}.to_sparse()",
    "{}.to_sparse_csr()",
    "{}.to_sparse_bsr((1, 1))",
    "{}.to_mkldnn()",
    "{}.to('meta')",
    "{}.as_subclass(Sub)",
    "Sub({})",
    "inference({})",
    "dual({})",
    "fake({})",
    "torch._to_functional_tensor({})",
    "stored({}).share_memory_()",
    "{}.numpy()",
    "{}.tolist()",
    "torch.quantize_per_tensor({}, 0.1, 0, torch.qint8)",
    "{}.int()",
    "{}.untyped_storage()",
    "torch.masked.masked_tensor({0}, {0} > 0)",
    "torch.nn.Buffer({})",
    "{}.storage()",
    "torch.utils.dlpack.from_dlpack(stored({}))",
    "{}.rename('a', 'b')",
)
_BASES = st.one_of(
    *[st.tuples(_DTYPES, _SIZES, st.booleans()).map(
        lambda p: f"tensor({p[0]}, {p[1]}, requires_grad={p[2]})"
    )] * 6,
    st.builds("unaligned(({}, {}), {})".format, _SIZE, st.integers(1, 5), st.integers(1, 7)),
    st.builds("torch._efficientzerotensor(({}, {}))".format, _SIZE, _SIZE),
    st.builds("torch.from_numpy(np.ones((3, {}), np.float32)[::2])".format, _SIZE),
    st.builds("torch.empty(({}, {}), device='meta')".format, _SIZE, _SIZE),
    st.builds("torch.ones(2, 2, names=('{}', None))".format, st.sampled_from("ab")),
    st.sampled_from(_ODD),
)  # fmt: skip
_CHANGES = st.one_of(
    *[st.sampled_from(_USUAL_CHANGES)] * 3,
    st.sampled_from(_RARE_CHANGES),
    st.builds(
        "{{}}.as_strided({}, {}, {})".format,
        st.tuples(_SIZE, _SIZE),
        st.tuples(st.integers(0, 4), st.integers(0, 4)),
        st.integers(0, 3),
    ),
)


@st.composite
def _object(draw: st.DrawFn) -> str:
    text = draw(_BASES)
    for change in draw(st.lists(_CHANGES, max_size=3)):
        text = change.format(text if text.isidentifier() else f"({text})")
    # At the end: PyTorch would read what is no longer there.
    if draw(st.integers(0, 9)) == 0:
        text = f"freed({text}, {draw(st.integers(0, 40))})"
    return text


def _fitting(dtype: torch.dtype, rank: int) -> st.SearchStrategy[str]:
    """What the annotation asks for, of sizes that often fit others."""
    sizes = st.tuples(*[st.sampled_from([2, 2, 3, 3, 3, 0])] * rank)
    return st.builds("tensor({}, {})".format, st.just(str(dtype)), sizes.map(str))


@st.composite
def _case(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    # One object at random; the others are mostly right, so that it is the one that decides.
    parameters = FUNCTIONS[name]
    odd = draw(st.sampled_from(sorted(parameters)))
    arguments = [
        draw(_object() if parameter == odd or draw(st.integers(0, 4)) == 0 else _fitting(*wanted))
        for parameter, wanted in parameters.items()
    ]
    context = draw(st.sampled_from(["plain"] * 6 + sorted(CONTEXTS)))
    return f"case({name!r}, {context!r}, lambda: ({', '.join(arguments)},))"


CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "dual_level": forward_ad.dual_level,
    "fake mode": lambda: FakeTensorMode(allow_non_fake_inputs=True),
}


def _is_plain(value: Any, dtype: torch.dtype, rank: int) -> bool:
    """Whether a value is one that must be accepted."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return False
    plain = value.layout is torch.strided and value.device.type == "cpu" and value.dtype is dtype
    if not plain or value.dim() != rank or value.is_nested or torch._is_functional_tensor(value):
        return False
    # A view of a named tensor keeps this key, also where it has no names.
    if "Named" in str(torch._C._dispatch_keys(value)) or value.is_quantized:
        return False
    if torch._is_zerotensor(value):
        return True
    last = sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))
    bytes_needed = (value.storage_offset() + last + 1) * value.element_size()
    enough = bytes_needed <= value.untyped_storage().nbytes()
    return value.numel() == 0 or (enough and has_memory(value))


def _memory(arguments: tuple[Any, ...]) -> list[torch.Tensor]:
    return [storage_bits(value.detach()) for value in arguments if has_memory(value)]


def _references(arguments: tuple[Any, ...]) -> list[int]:
    # Others count the references to None and small numbers up and down.
    return [sys.getrefcount(value) for value in arguments if isinstance(value, torch.Tensor)]


class Fuzz:
    """The functions, and what happened so far."""

    def __init__(self, built: str, sources: str, engine: str) -> None:
        sys.path.insert(0, built)
        self.native: ModuleType = importlib.import_module("boundary")
        spec = importlib.util.spec_from_file_location("eager", Path(sources) / "boundary.py")
        assert spec is not None
        assert spec.loader is not None
        self.eager = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.eager)
        self.native.vector(torch.zeros(1))
        configure(engine, running().available_simd[0])
        self.engine = engine
        self.outcomes = {"impossible": 0, "refused": 0, "raised as eager": 0, "equal": 0}

    def case(self, name: str, context: str, make: Callable[[], tuple[Any, ...]]) -> None:
        """Call a function and judge what comes."""
        parameters = FUNCTIONS[name]
        with CONTEXTS[context]():
            try:
                arguments = make()
            except Exception:
                # There is no such object.
                self.outcomes["impossible"] += 1
                return
            kinds = zip(arguments, parameters.values(), strict=True)
            plain = all(_is_plain(value, *wanted) for value, wanted in kinds)
            before = _memory(arguments) if plain else []
            counts = _references(arguments)
            result, error = None, None
            try:
                result = getattr(self.native, name)(*arguments)
            except Exception as caught:
                error = caught
        intercepted = context == "fake mode"
        tangent = context == "dual_level"
        if isinstance(error, (TypeError, ValueError)):
            message = str(error)
            assert type(error) in (TypeError, ValueError), repr(error)
            named = re.match(r"parameter '(\w+)'", message)
            assert named, repr(error)
            assert named[1] in parameters, repr(error)
            assert "\n" not in message, repr(error)
            assert not plain or intercepted or tangent, f"refused a plain tensor: {error!r}"
            self.outcomes["refused"] += 1
        else:
            assert plain, f"accepted what is no plain tensor: {result!r} {error!r}"
            assert not intercepted, "computed in a mode that intercepts operations"
            self._judge(name, arguments, result, error)
            assert all(map(torch.equal, before, _memory(arguments))), "wrote to an argument"
        del result, error
        assert _references(arguments) == counts, "kept an argument"

    def _judge(
        self, name: str, arguments: tuple[Any, ...], result: Any, error: Exception | None
    ) -> None:
        eager = getattr(self.eager, name)
        copies = [
            torch.empty(value.shape, dtype=value.dtype).copy_(value.detach()) for value in arguments
        ]
        if error is not None:
            try:
                eager(*copies)
            except type(error):
                self.outcomes["raised as eager"] += 1
                return
            raise AssertionError(f"eager computes it: {error!r}")
        assert type(result) is torch.Tensor
        assert not result.requires_grad
        judgement = expect(eager, copies).judge(result, exactly=self.engine == "libtorch")
        assert judgement.problem is None, judgement.problem
        self.outcomes["equal"] += 1


def main(built: str, sources: str, log: str, engine: str, examples: str) -> None:
    """Draw and run cases."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable()
    fuzz = Fuzz(built, sources, engine)
    names = {**globals(), "case": fuzz.case}
    with open(log, "w", buffering=1, encoding="utf-8") as file:

        @settings(
            max_examples=int(examples),
            deadline=None,
            database=None,
            # The usual run is the same one each time; a longer one draws others.
            derandomize="REXTIO_TORCH_FUZZ_TIMES" not in os.environ,
            suppress_health_check=list(HealthCheck),
        )
        @given(_case())
        def run(text: str) -> None:
            print(text, file=file)
            eval(text, names)

        run()
    gc.collect()
    print(fuzz.outcomes)
    assert min(fuzz.outcomes.values()) > 0, "nothing of one kind"


if __name__ == "__main__":
    main(*sys.argv[1:])
