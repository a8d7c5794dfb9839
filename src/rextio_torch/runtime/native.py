"""What runs natively in this process: the function under a wrapper, and the engine behind it."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, takewhile
from types import BuiltinFunctionType, FunctionType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: The last part of its name: a wheel of `rextio-torch wheel` has it in a package of its own.
_NATIVE_MODULE = "_rextio_native"


@dataclass(frozen=True)
class EngineInfo:
    """What native functions run on.

    `engine` is `fused` or `libtorch`; `simd` the instruction set of the fused engine's kernels
    (`avx512`, `avx2` or `portable`), `available_simd` what this machine has, best first; `threads`
    what `torch.get_num_threads()` says.
    """

    engine: str
    simd: str
    available_simd: tuple[str, ...]
    threads: int


def native(function: Callable[P, R]) -> Callable[P, R]:
    """Return the native function under Rextio's Python wrapper, which costs about a microsecond.

    `REXTIO_NATIVE_MODE` counts as it is now, not at each call: with `fallback` the Python function
    is returned. Raises `TypeError` if `function` is not a function of a built module, and
    `RuntimeError` if it has no native form.
    """
    if isinstance(function, BuiltinFunctionType) and _is_native_module(function.__module__):
        return function
    if not isinstance(function, FunctionType):
        raise TypeError(f"expected a function of a built module, got {type(function).__name__}")
    name = f"{function.__module__}.{function.__qualname__}"
    # A program that is run is called `__main__`, and its native functions as its file.
    is_program = function.__module__ in ("__main__", "__mp_main__")
    symbol = _symbol(f".{function.__qualname__}" if is_program else name)
    captured = [cell.cell_contents for cell in function.__closure__ or ()]
    if os.environ.get("REXTIO_NATIVE_MODE", "").strip().lower() == "fallback":
        for value in captured:
            if isinstance(value, FunctionType) and value.__name__ == function.__name__:
                return value
    for value in captured:
        if isinstance(value, BuiltinFunctionType):
            found = value.__name__
            if found == symbol or (is_program and found.endswith(f"__{symbol}")):
                return value
    raise RuntimeError(
        f"{name} has no native function: expected a function that `rextio-torch build` lists as "
        "native, imported from .rextio/build/python after torch; check the build's list, and "
        "set REXTIO_NATIVE_MODE=native to see why a module does not load"
    )


def _symbol(name: str) -> str:
    return re.sub(r"[^0-9a-zA-Z_]+", "__", name).strip("_")


def engine() -> EngineInfo:
    """Return what native functions of the loaded native modules run on.

    Raises `RuntimeError` if no native module is loaded, and `ValueError` if `REXTIO_TORCH_ENGINE`
    or `REXTIO_TORCH_SIMD` names something that does not exist.
    """
    import ctypes

    describe = _libraries()[0].rextio_torch_describe
    describe.restype = ctypes.c_char_p
    text: str = describe().decode("utf-8")
    kind, _, rest = text.partition(";")
    if kind == "error":
        raise ValueError(rest)
    simd, available, threads = rest.split(";")
    return EngineInfo(kind, simd, tuple(available.split(",")), int(threads))


def configure(engine: str, simd: str) -> None:
    """Switch the engine of the loaded native modules: for tests and benchmarks.

    Not thread-safe; a running program chooses with `REXTIO_TORCH_ENGINE`. Raises `ValueError` if
    one of the names does not exist.
    """
    # Not `any` of a generator: each is to be told.
    failures = [
        library.rextio_torch_configure(engine.encode(), simd.encode()) for library in _libraries()
    ]
    if any(failures):
        raise ValueError(f"no engine {engine!r} with instruction set {simd!r} on this machine")


@contextmanager
def observed() -> Iterator[Callable[[], list[int]]]:
    """Give a function that returns how many operations the fused engine ran as one, each time.

    For tests; not thread-safe.
    """
    import ctypes

    libraries = _libraries()
    sizes = [library.rextio_torch_observed for library in libraries]
    for size, library in zip(sizes, libraries, strict=True):
        size.argtypes, size.restype = [ctypes.c_size_t], ctypes.c_size_t
        library.rextio_torch_observe(1)
    try:
        yield lambda: [run for size in sizes for run in takewhile(bool, map(size, count()))]
    finally:
        for library in libraries:
            library.rextio_torch_observe(0)


def _is_native_module(name: str | None) -> bool:
    return name is not None and name.rpartition(".")[2] == _NATIVE_MODULE


def _libraries() -> tuple[Any, ...]:
    """Return the loaded native modules that have functions of this plugin, at least one."""
    # By the end of the name first: there are thousands of modules.
    names = [name for name in list(sys.modules) if name.endswith(_NATIVE_MODULE)]
    modules = [sys.modules[name] for name in names if _is_native_module(name)]
    paths = tuple(str(it.__file__) for it in modules if getattr(it, "__file__", None) is not None)
    if not paths:
        raise RuntimeError(
            "no native module is loaded; import a module that `rextio-torch build` built first"
        )
    found = _with_functions(paths)
    if not found:
        raise RuntimeError(f"{', '.join(paths)} has no function of rextio-torch")
    return found


@functools.cache
def _with_functions(paths: tuple[str, ...]) -> tuple[Any, ...]:
    import ctypes

    loaded = [ctypes.CDLL(path) for path in paths]
    return tuple(library for library in loaded if hasattr(library, "rextio_torch_describe"))
