"""Runs native functions on recorded calls and compares what they give."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from rextio_torch.runtime.native import EngineInfo, configure, engine, native
from rextio_torch.runtime.source_mark import NO_SOURCE_ID, marked_source_ids, shortened
from rextio_torch.verify.bundle import Bundle, Origin, Recorded, RecordedFunction
from rextio_torch.verify.events import Say
from rextio_torch.verify.inputs import storage_bits
from rextio_torch.verify.judgement import Judgement
from rextio_torch.verify.problems import VerifyError

LIBTORCH = "libtorch"
#: How many failures of a function on one engine are told.
MOST_TOLD = 5
_INSTALL = "install the wheel, beside the torch that it was built for"


@dataclass
class Tally:
    """How the calls of a function went on one engine."""

    function: str
    engine: str
    cases: int = 0
    bit_equal: int = 0
    within: int = 0
    failed: int = 0
    worst_ulp: int = 0
    #: Calls in which both raised an exception of the same class; they count as bit-equal.
    raised: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)

    def add(self, case: str, judgement: Judgement) -> None:
        """Count one call."""
        self.cases += 1
        if judgement.problem is not None:
            self.failed += 1
            if len(self.failures) < MOST_TOLD:
                self.failures.append({"case": case, "problem": judgement.problem})
            return
        self.worst_ulp = max(self.worst_ulp, judgement.ulp)
        if judgement.bit_equal:
            self.bit_equal += 1
        else:
            self.within += 1


def check(
    bundle: Bundle,
    *,
    path: str | None,
    engines: Sequence[str],
    functions: Sequence[str],
    case: str | None,
    say: Say,
) -> None:
    """Run the recorded calls on each engine and say how each function went.

    Raises `VerifyError` if the native module does not load or is not that of the bundle's source.
    """
    module = load_native(path) if path is not None else load_installed(bundle.functions[0].name)
    marks = marked_source_ids(Path(module))
    if marks == [NO_SOURCE_ID]:
        say({"event": "note", "text": f"{module} does not say which source it was built from"})
    elif marks != [bundle.source_id]:
        raise VerifyError(
            "the native module was not built from the source that the calls were recorded from",
            expected=f"a module of source {bundle.source_id[:12]}",
            found=f"{module} of source {shortened(marks)}",
            repair="build again from that source, or record again with rextio-torch verify",
        )
    wanted = [item for item in bundle.functions if not functions or item.name in functions]
    if not wanted:
        raise VerifyError(
            f"no recorded function is named {', '.join(functions)}",
            expected=", ".join(item.name for item in bundle.functions),
            found=", ".join(functions),
        )
    found = [(item, import_function(item.name)) for item in wanted]
    info = _engine()
    say({"event": "engine", "module": str(module), **asdict(info)})
    strictly = bundle.origin == Origin.here()
    if not strictly:
        text = "recorded on another machine: results of libtorch may differ in their last digits"
        say({"event": "note", "text": text})
    for variant in variants(info, engines):
        name, _, simd = variant.partition("-")
        configure(name, simd or info.available_simd[0])
        for item, function in found:
            say({"event": "checking", "function": item.name, "engine": variant})
            tally = _run(item, function, variant, case, say, exactly=strictly and name == LIBTORCH)
            say({"event": "tally", **asdict(tally)})


def variants(info: EngineInfo, wanted: Sequence[str]) -> list[str]:
    """Return the engines to run, by name; raises `VerifyError` for one that is not here."""
    every = [LIBTORCH, *(f"fused-{simd}" for simd in info.available_simd)]
    chosen = [
        name for name in every if not wanted or name in wanted or name.partition("-")[0] in wanted
    ]
    unknown = [name for name in wanted if name not in every and name != "fused"]
    if unknown:
        raise VerifyError(
            f"this machine has no engine {', '.join(unknown)}",
            expected=", ".join(["fused", *every]),
            found=", ".join(unknown),
            repair="correct --engine",
        )
    return chosen


def load_native(path: str | None) -> str:
    """Load the native module, as a wrapper would; return its file or raise `VerifyError`."""
    # A wrapper would otherwise run Python where there is no native function.
    os.environ["REXTIO_NATIVE_MODE"] = "native"
    if path is not None:
        sys.path.insert(0, path)
    try:
        module = importlib.import_module("_rextio_native")
    # What a loader, or a module's own initialisation, raises.
    except Exception as error:
        raise VerifyError(
            "the native module does not load: every function would run in Python",
            expected=f"_rextio_native in {path or 'the installed packages'}",
            found=f"{type(error).__name__}: {error}",
            repair="rextio-torch doctor, then rextio-torch build" if path else _INSTALL,
        ) from error
    file = str(module.__file__)
    if path is not None and Path(path).resolve() not in Path(file).resolve().parents:
        raise VerifyError(
            "another native module is loaded",
            expected=f"that of {path}",
            found=file,
            repair="take the other one off PYTHONPATH, or uninstall it",
        )
    return file


def load_installed(name: str) -> str:
    """Load the native module of an installed function, and return its file.

    Each wheel of `rextio-torch wheel` has its own, which the function's module knows.
    Raises `VerifyError` if it does not load.
    """
    os.environ["REXTIO_NATIVE_MODE"] = "native"
    module, _, attribute = name.rpartition(".")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    # A module may raise anything when it is imported.
    except Exception as error:
        raise VerifyError(
            "the native module does not load: every function would run in Python",
            expected=f"{name}, installed",
            found=f"{type(error).__name__}: {error}",
            repair=_INSTALL,
        ) from error
    try:
        return str(sys.modules[native(function).__module__].__file__)
    except (RuntimeError, TypeError):
        # The wrapper found none: what loading it says is the reason.
        return load_native(None)


def _engine() -> EngineInfo:
    try:
        return engine()
    except (RuntimeError, ValueError) as error:
        raise VerifyError(
            "the native module has no engine to run on",
            expected="a module with functions of rextio-torch",
            found=str(error),
            repair="unset REXTIO_TORCH_ENGINE and REXTIO_TORCH_SIMD, or build again",
        ) from error


def import_function(name: str) -> Callable[..., Any]:
    """Import a function of a built module that has a native form, or raise `VerifyError`."""
    module, _, attribute = name.rpartition(".")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        native(function)
    # A module may raise anything when it is imported.
    except Exception as error:
        raise VerifyError(
            f"{name} has no native form here: it would run in Python",
            expected="a function of a built module",
            found=f"{type(error).__name__}: {error}",
            repair="rextio-torch build, and look at its list",
        ) from error
    return function


def _run(
    item: RecordedFunction,
    function: Callable[..., Any],
    variant: str,
    case: str | None,
    say: Say,
    *,
    exactly: bool,
) -> Tally:
    tally = Tally(item.name, variant)
    for call in _chosen(item, case):
        # If the process ends in it, this is what it ended in.
        say({"event": "case", "case": call.case})
        torch.set_num_threads(call.threads)
        tally.raised += call.raises is not None
        tally.add(call.case, run_case(function, call, exactly=exactly))
    return tally


def _chosen(item: RecordedFunction, case: str | None) -> Iterator[Recorded]:
    chosen = [call for call in item.calls if case is None or call.case == case]
    if not chosen:
        raise VerifyError(f"{item.name} has no case {case}", found=str(case))
    yield from chosen


def run_case(function: Callable[..., Any], call: Recorded, *, exactly: bool) -> Judgement:
    """Run a native function on a recorded call and compare."""
    tensors = [value for value in call.arguments if isinstance(value, torch.Tensor)]
    before = [storage_bits(tensor) for tensor in tensors]
    try:
        result = function(*call.arguments)
    # Whatever native code raises is its result.
    except Exception as error:
        judgement = _raised(error, call)
    else:
        judgement = _returned(result, call, exactly=exactly)
    changed = any(
        not torch.equal(storage_bits(tensor), bits)
        for tensor, bits in zip(tensors, before, strict=True)
    )
    return Judgement(False, 0, "it changed an input") if changed else judgement


def _raised(error: Exception, call: Recorded) -> Judgement:
    name = type(error).__name__
    if call.raises == name:
        return Judgement(True, 0)
    eager = f"eager raises {call.raises}" if call.raises else "eager returns"
    text = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
    return Judgement(False, 0, f"{name}: {text}, where {eager}")


def _returned(result: object, call: Recorded, *, exactly: bool) -> Judgement:
    if call.raises is not None:
        return Judgement(False, 0, f"it returns where eager raises {call.raises}")
    if call.tensor is not None:
        return call.tensor.judge(result, exactly=exactly)
    same = type(result) is type(call.value) and (
        result == call.value or (result != result and call.value != call.value)
    )
    problem = None if same else f"{result!r} instead of {call.value!r}"
    return Judgement(same, 0, problem)
