"""Runs functions in eager PyTorch, from their source files, and records what they give."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rextio_torch.verify.bundle import Bundle, Origin, Recorded, RecordedFunction
from rextio_torch.verify.cases import Case, Request, cases_of
from rextio_torch.verify.events import Say
from rextio_torch.verify.function import SourceFunction
from rextio_torch.verify.oracle import expect, only_operator
from rextio_torch.verify.parameters import Parameter, Scalar, parameters_of
from rextio_torch.verify.problems import VerifyError

_THREADS = torch.get_num_threads()
#: What eager may take to find sizes for a function, and for all runs of one case.
LONGEST_SECONDS = 60.0


def record(
    wanted: Sequence[SourceFunction],
    source_id: str,
    inputs: Inputs,
    case: str | None,
    say: Say,
) -> Bundle:
    """Record calls of functions.

    A function that no inputs can be made for is told as `unverified`, and the others are recorded;
    raises its `VerifyError` if there is no other.
    """
    functions: list[RecordedFunction] = []
    problems: dict[str, VerifyError] = {}
    known: dict[str, list[Parameter]] = {}
    found = {item.qualname: load_source(item) for item in wanted}
    tensors = {item.qualname: item.tensors for item in wanted}
    for name, function in found.items():
        try:
            known[name] = parameters_of(function, name, tensors[name])
        except VerifyError as error:
            problems[name] = error
    inputs.check(known)
    for number, (name, parameters) in enumerate(known.items()):
        say({"event": "recording", "function": name, "number": number})
        request = inputs.request(name, parameters)
        try:
            with _limited(name):
                cases = list(cases_of(found[name], name, parameters, request))
            calls = []
            for chosen in cases:
                if case is None or chosen.name == case:
                    with _limited(f"{name}, case {chosen.name},"):
                        calls.append(_call(found[name], chosen))
        except VerifyError as error:
            problems[name] = error
            continue
        if not calls:
            raise VerifyError(
                f"{name} has no case {case}",
                expected="the name of a case, as a failure shows it",
                found=str(case),
                repair=f"leave out --case, and give --function {name}",
            )
        functions.append(RecordedFunction(name, calls))
    for name, problem in problems.items():
        if not functions:
            raise problem
        say({"event": "unverified", "function": name, **problem.to_dict()})
    return Bundle(source_id, Origin.here(), functions)


class _TooLongError(BaseException):
    """No `Exception`: neither a function's own handler nor what records exceptions takes it."""


@contextmanager
def _limited(what: str) -> Iterator[None]:
    """Raise `VerifyError` if eager does not end, as a loop may not for a scalar chosen here."""

    def stop(number: int, frame: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS)
    try:
        yield
    except _TooLongError:
        raise VerifyError(
            f"{what} does not end in eager PyTorch",
            expected=f"an end within {LONGEST_SECONDS:g} s",
            found="a call that was stopped then",
            repair="give scalars that it ends for: --value name=value",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def load_source(item: SourceFunction) -> Callable[..., Any]:
    """Import a function from its source file."""
    root = str(item.root)
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        found = importlib.import_module(item.module)
    # Whatever a module does when it is imported.
    except Exception as error:
        raise VerifyError(
            f"the source of {item.qualname} cannot be imported",
            expected=f"a module {item.module} that runs in eager PyTorch",
            found=f"{type(error).__name__}: {error}",
            repair=f"python -c 'import {item.module}' in {root}",
        ) from error
    file = Path(str(getattr(found, "__file__", "")))
    # The file itself may be a link to elsewhere.
    if item.root.resolve() not in (file.parent.resolve(), *file.parent.resolve().parents):
        raise VerifyError(
            f"another module is imported as {item.module}",
            expected=f"one of {root}",
            found=str(file),
            repair="rename it, or take the other one off PYTHONPATH",
        )
    function: Callable[..., Any] = getattr(found, item.name)
    return function


def _call(function: Callable[..., Any], case: Case) -> Recorded:
    # Threads that wait for small work cost more than the work.
    threads = _THREADS if case.is_large else 1
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            value = function(*case.arguments)
    # Whatever eager raises, native code must raise.
    except Exception as error:
        return Recorded(case.name, case.arguments, threads, raises=type(error).__name__)
    if isinstance(value, torch.Tensor):
        arguments: list[object] = list(case.arguments)
        expectation = expect(function, arguments, only_operator(function, arguments))
        return Recorded(case.name, case.arguments, threads, tensor=expectation)
    return Recorded(case.name, case.arguments, threads, value=value)


@dataclass(frozen=True)
class Inputs:
    """What the user said about inputs, for all functions."""

    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, str]
    recorded: Mapping[str, Any]

    @classmethod
    def read(
        cls, shapes: Mapping[str, Sequence[int]], values: Mapping[str, str], file: str | None
    ) -> Inputs:
        """Read the file of recorded inputs."""
        found = {} if file is None else read_inputs(Path(file))
        return cls({name: tuple(shape) for name, shape in shapes.items()}, values, found)

    def check(self, functions: Mapping[str, Sequence[Parameter]]) -> None:
        """Raise `VerifyError` if something is said of a parameter that no function has."""
        known = {item.name for parameters in functions.values() for item in parameters}
        for option, names in (("--shape", self.shapes), ("--value", self.values)):
            for name in names:
                if name not in known:
                    raise VerifyError(
                        f"no function has a parameter {name}, which {option} names",
                        expected=", ".join(sorted(known)) or "a function with parameters",
                        found=name,
                        repair=f"correct {option}",
                    )
        if self.recorded and not any(map(self._fits, functions.values())):
            raise VerifyError(
                "the recorded inputs fit no function",
                expected="one entry for each parameter of a function: "
                + "; ".join(
                    f"{name}({', '.join(p.name for p in parameters)})"
                    for name, parameters in functions.items()
                ),
                found=", ".join(self.recorded),
                repair="record the inputs by the names of the parameters",
            )

    def _fits(self, parameters: Sequence[Parameter]) -> bool:
        return all(item.name in self.recorded for item in parameters if item.tensor is not None)

    def request(self, function: str, parameters: Sequence[Parameter]) -> Request:
        """Return what concerns one function."""
        values = {
            item.name: _scalar(function, item, self.values[item.name])
            for item in parameters
            if item.name in self.values
        }
        recorded = self.recorded if self._fits(parameters) else {}
        return Request(self.shapes, values, recorded)


def _scalar(function: str, parameter: Parameter, text: str) -> Scalar:
    convert: Mapping[str | None, Callable[[str], Scalar]] = {
        "int": int,
        "float": float,
        "str": str,
        "bool": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()],
    }
    try:
        return convert[parameter.scalar](text)
    except (ValueError, KeyError):
        raise VerifyError(
            f"{function}: --value {parameter.name}={text} is no value of that parameter",
            expected=f"a {parameter.text}" if parameter.scalar else f"--shape for {parameter.text}",
            found=text,
            repair=f"correct --value {parameter.name}",
        ) from None


def read_inputs(path: Path) -> Mapping[str, Any]:
    """Read recorded inputs, by parameter: a dictionary saved by torch, or arrays of numpy."""
    try:
        if path.suffix == ".npz":
            import numpy

            with numpy.load(path) as arrays:
                return dict(_tensors(arrays))
        data = torch.load(path, weights_only=True)
    # Both raise whatever their formats come across.
    except Exception as error:
        raise VerifyError(
            f"{path} cannot be read",
            expected="tensors by the names of parameters: torch.save of a dictionary, numpy.savez",
            found=f"{type(error).__name__}: {error}".splitlines()[0][:300],
            repair=f"torch.save({{'x': x}}, {path.name!r})",
        ) from error
    if not isinstance(data, dict) or not data:
        raise VerifyError(
            f"{path} holds no inputs",
            expected="a dictionary of tensors by the names of parameters",
            found=type(data).__name__,
            repair=f"torch.save({{'x': x}}, {path.name!r})",
        )
    return {str(name): value for name, value in data.items()}


def _tensors(arrays: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for name in arrays.files:
        yield name, torch.from_numpy(arrays[name].copy())
