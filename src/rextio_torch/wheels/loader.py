"""Loads the native part of a wheel. A copy of this file is in each; it needs Python alone."""

from __future__ import annotations

import importlib
import os
import sys
import warnings

#: Where the native module lies, out of the way of imports until torch is known to fit.
FOLDER = "lib"
#: Native code calls back through these modules, which it imports by these names.
SHARED = ("rextio.runtime.boundary_call", "rextio.runtime.original_registry")


def load(package: str, path: list[str], distribution: str, torch_version: str) -> None:
    """Import torch, then the native module of a package, whose search path is `path`.

    Where it does not load, the wrappers find none and run Python: then this warns, or raises
    `ImportError` under `REXTIO_NATIVE_MODE=native`. Without torch it raises `ModuleNotFoundError`.
    Under `REXTIO_NATIVE_MODE=fallback` it does neither.
    """
    mode = os.environ.get("REXTIO_NATIVE_MODE", "").strip().lower()
    wanted = f"torch=={torch_version}"
    try:
        # The native module finds libtorch in the process.
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        if mode == "fallback":
            return
        text = f'{distribution} needs {wanted}, and there is no torch: pip install "{wanted}"'
        raise ModuleNotFoundError(text, name="torch") from None
    found = str(getattr(torch, "__version__", "of an unknown version"))
    cause: Exception | None = None
    if found.partition("+")[0] != torch_version:
        problem = (
            f'it was built for {wanted}, and torch {found} is installed: pip install "{wanted}"'
        )
    else:
        path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), FOLDER))
        try:
            importlib.import_module(f"{package}._rextio_native")
        # What a loader, or a module's own initialisation, raises.
        except Exception as error:
            path.pop()
            problem, cause = f"{type(error).__name__}: {error}", error
        else:
            _share(package)
            return
    text = f"the native part of {distribution} does not load: {problem}"
    if mode == "native":
        raise ImportError(text) from cause
    if mode != "fallback":
        text += " (until then its functions run in Python)"
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def _share(package: str) -> None:
    """Let native code and the wrappers meet in the same modules: Rextio's own, if it is here."""
    for name in ("rextio", *SHARED):
        try:
            module = importlib.import_module(name)
        except ImportError:
            module = sys.modules[name] = importlib.import_module(f"{package}.{name}")
        if name in SHARED:
            sys.modules[f"{package}.{name}"] = module
