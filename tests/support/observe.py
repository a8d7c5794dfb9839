"""A program that imports modules of installed wheels in an order and tells what they do.

It runs by itself, in an environment where only the standard library is sure to be there.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
import warnings


def calls(name: str, module: types.ModuleType) -> dict[str, object]:
    """Return calls of each function of a module, and what eager PyTorch makes of them."""
    if name == "torch":
        return {}
    if name == "shop.prices":
        numbers = {
            "total": (lambda: module.total([1, 2, 3]), lambda: 6),
            "named": (lambda: module.named(None if torch is None else x, {"a": 1}), lambda: 1),
        }
        if torch is None:
            return {"total": numbers["total"]}
        return {"doubled": (lambda: module.doubled(x), lambda: (x + x).relu()), **numbers}
    return {
        "grown": (lambda: module.grown(x), lambda: x.exp()),
        "largest": (lambda: module.largest(x, x[0]), lambda: (x + x[0]).argmax(dim=1)),
        # Calls a function of its module from native code.
        "asking": (lambda: module.asking(x, 1), lambda: x.relu().neg()),
    }


def outcome(run: object, expected: object) -> str:
    """Return `right`, `wrong` or what was raised."""
    try:
        result, wanted = run(), expected()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if torch is not None and isinstance(wanted, torch.Tensor):
        return "right" if torch.allclose(result, wanted, rtol=1e-5) else "wrong"
    return "right" if result == wanted else "wrong"


def native_module(function: object) -> str | None:
    """Return the module of the native function under a wrapper."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    found = [value.__module__ for value in cells if isinstance(value, types.BuiltinFunctionType)]
    return next((name for name in found if name.rpartition(".")[2] == "_rextio_native"), None)


modules, seen, failed = {}, {}, {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in sys.argv[1:]:
        try:
            modules[name] = importlib.import_module(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    try:
        import torch
    except ImportError:
        torch = None
    if not hasattr(torch, "Tensor"):
        torch = None
    x = None if torch is None else torch.tensor([[-1.0, 0.5, 2.0], [3.0, -4.0, 0.25]])
    for name, module in modules.items():
        for function, (run, expected) in calls(name, module).items():
            native = native_module(getattr(module, function))
            seen[f"{name}.{function}"] = [native, outcome(run, expected)]
told = [str(item.message) for item in caught if "NumPy" not in str(item.message)]
print(json.dumps({"failed": failed, "seen": seen, "warnings": told}))
