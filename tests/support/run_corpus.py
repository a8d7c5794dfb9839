"""Runs the built corpus and compares it with eager; prints what differs, one line each.

python -m support.run_corpus BUILT_FOLDER MODE
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
import sys
import typing

import torch

from rextio_torch.verify.oracle import expect, only_operator
from support.corpus import CASES, INLINED, NATIVE, PACKAGE, eager_module
from support.normal_form import Outcome


def main(folder: str, mode: str) -> None:
    """Print the differences; `mode` is `native` or `fallback`."""
    eager = {
        case.name: getattr(eager_module(case.name.split(".")[0]), case.name.split(".")[1])
        for case in CASES
    }
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    for case in CASES:
        module, name = case.name.split(".")
        built = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
        original = eager[case.name]
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if getattr(built, attribute) != getattr(original, attribute):
                print(case.name, attribute, getattr(built, attribute))
        if str(inspect.signature(built)) != str(inspect.signature(original)):
            print(case.name, inspect.signature(built))
        if typing.get_type_hints(built).keys() != typing.get_type_hints(original).keys():
            print(case.name, "type hints")
        if pickle.loads(pickle.dumps(built)) is not built:
            print(case.name, "pickle")
        if functools.wraps(built)(lambda: None).__doc__ != original.__doc__:
            print(case.name, "wraps")
        if mode == "native" and case.outcome != NATIVE:
            continue
        for arguments in case.inputs():
            given, kept = [[torch.clone(a) if isinstance(a, torch.Tensor) else a
                            for a in arguments] for _ in range(2)]  # fmt: skip
            if mode == "fallback" or case.outcome == INLINED:
                expected = Outcome(original(*kept), None, kept)
                found = Outcome(built(*given), None, given)
                reason = "" if found.same_as(expected) else "another result"
            else:
                expectation = expect(original, kept, only_operator(original, kept))
                judgement = expectation.judge(built(*given), exactly=False)
                reason = judgement.problem or ""
            if reason:
                print(case.name, [getattr(a, "shape", a) for a in arguments], reason)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
