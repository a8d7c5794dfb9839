"""The process that times a function: eager, native through the wrapper and direct, and libtorch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from rextio_torch.bench.contender import Contender, calling, running
from rextio_torch.bench.effort import Effort
from rextio_torch.bench.measure import Patience, measure
from rextio_torch.runtime.native import engine, native
from rextio_torch.verify.cases import call_of
from rextio_torch.verify.check import import_function, load_native
from rextio_torch.verify.events import say, serve
from rextio_torch.verify.function import SourceFunction
from rextio_torch.verify.oracle import expect, only_operator
from rextio_torch.verify.parameters import parameters_of
from rextio_torch.verify.problems import VerifyError
from rextio_torch.verify.record import Inputs, load_source


def follow(orders: Mapping[str, Any]) -> None:
    """Time one function on every size that is asked for."""
    if orders["threads"] is not None:
        torch.set_num_threads(orders["threads"])
    timed = SourceFunction.from_dict(orders["function"])
    name = timed.qualname
    eager = source_function(timed, Path(orders["path"]))
    load_native(orders["path"])
    built = import_function(name)
    parameters = parameters_of(eager, name, timed.tensors)
    inputs = Inputs.read(orders["shapes"], orders["values"], orders["inputs"])
    inputs.check({name: parameters})
    request = inputs.request(name, parameters)
    info = engine()
    effort = Effort(**orders["effort"])
    patience = Patience(effort.quiet_seconds * effort.attempts)
    for number, size in enumerate(orders["sizes"]):
        arguments, is_fixed = call_of(eager, name, parameters, request, size)
        if number > 0 and is_fixed:
            # Nothing depends on the size.
            break
        said = [
            f"{item.name}={'x'.join(map(str, value.shape))}"
            if isinstance(value, torch.Tensor)
            else f"{item.name}={value}"
            for item, value in zip(parameters, arguments, strict=True)
        ]
        say({"event": "measuring", "inputs": said})
        contenders = _contenders(eager, built, arguments, info.available_simd[0])
        _check(name, eager, arguments, contenders)
        measured = measure(contenders, effort, info.threads, patience)
        say(
            {
                "event": "measured",
                "size": None if is_fixed else size,
                "inputs": said,
                "threads": info.threads,
                "simd": info.available_simd[0],
                "rounds": measured.rounds,
                "others": measured.others,
            }
        )


def source_function(timed: SourceFunction, built: Path) -> Callable[..., Any]:
    """Import a function's source, and leave its modules' names to the built ones.

    The Python function under a wrapper is not eager PyTorch: what it calls may be native.
    """
    before = set(sys.modules)
    function = load_source(timed)
    sys.path.remove(str(timed.root))
    for name in set(sys.modules) - before:
        place = built.joinpath(*name.split("."))
        if place.is_dir() or place.with_suffix(".py").is_file():
            del sys.modules[name]
    return function


def _contenders(
    eager: Callable[..., Any], built: Callable[..., Any], arguments: tuple[Any, ...], simd: str
) -> dict[str, Contender]:
    direct = native(built)
    return {
        "eager": calling(eager, *arguments),
        "inference": calling(eager, *arguments, context=torch.inference_mode),
        "libtorch": calling(direct, *arguments, context=running("libtorch", simd)),
        "fused-wrapper": calling(built, *arguments, context=running("fused", simd)),
        "fused-direct": calling(direct, *arguments, context=running("fused", simd)),
    }


def _check(
    name: str,
    eager: Callable[..., Any],
    arguments: tuple[Any, ...],
    contenders: Mapping[str, Contender],
) -> None:
    """Raise `VerifyError` if a contender does not compute what eager does."""
    given = list(arguments)
    try:
        expectation = expect(eager, given, only_operator(eager, given))
    # Whatever eager raises on these inputs.
    except Exception as error:
        raise VerifyError(
            f"{name} raises on these inputs, so there is nothing to time",
            expected="inputs that eager PyTorch accepts",
            found=f"{type(error).__name__}: {error}".splitlines()[0],
            repair="--shape, --value or --inputs",
        ) from error
    for title, contender in contenders.items():
        with contender.context():
            problem = expectation.judge(contender.call(), exactly=False).problem
        if problem is not None:
            raise VerifyError(
                f"{name} gives another result ({title}), so its time means nothing",
                expected="eager's result",
                found=problem,
                repair=f"rextio-torch verify --function {name}",
            )


if __name__ == "__main__":
    serve(follow)
