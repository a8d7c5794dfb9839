"""AOTInductor: torch.export, a package compiled ahead of time, loaded again.

A package is called in two ways: as `aoti_load_package` gives it, and through the runner inside,
which leaves out the Python around it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.contender import Peer, Setting
from benchmarks.peers.held import Held
from rextio_torch.bench.contender import Contender, calling

Settings = Mapping[str, object]
_PLAIN: Settings = {}
_FROZEN: Settings = {"freezing": True}


def _package_path(setting: Setting, variant: str) -> Path:
    parts = (
        inspect.getsource(setting.eager),
        torch.__version__,
        torch.backends.cpu.get_cpu_capability(),
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    name = setting.case.id.replace("/", "-")
    return setting.folder / "aoti" / f"{name}-{setting.threads}-{variant}-{digest}.pt2"


def _package(setting: Setting, variant: str, *, constants: bool, settings: Settings) -> Any:
    """Return the loaded package, compiled unless an earlier run left it."""
    path = _package_path(setting, variant)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        inputs = setting.inputs if constants else setting.arguments
        module = Held(setting.eager, setting.weights if constants else ())
        partial = path.with_name(f"partial-{path.name}")
        with torch.no_grad():
            exported = torch.export.export(module, inputs)
            torch._inductor.aoti_compile_and_package(
                exported, package_path=str(partial), inductor_configs=dict(settings)
            )
        partial.replace(path)
    return torch._inductor.aoti_load_package(str(path))


def _called(variant: str, *, constants: bool, settings: Settings) -> Callable[[Setting], Contender]:
    def prepare(setting: Setting) -> Contender:
        package = _package(setting, variant, constants=constants, settings=settings)
        return calling(package, *(setting.inputs if constants else setting.arguments))

    return prepare


def _run(variant: str, *, constants: bool, settings: Settings) -> Callable[[Setting], Contender]:
    def prepare(setting: Setting) -> Contender:
        package = _package(setting, variant, constants=constants, settings=settings)
        inputs = list(setting.inputs if constants else setting.arguments)
        return calling(package.loader.run, inputs)

    return prepare


PEERS = (
    Peer("aoti", _called("inputs", constants=False, settings=_PLAIN), slow=True),
    Peer("aoti-run", _run("inputs", constants=False, settings=_PLAIN), slow=True),
    Peer(
        "aoti-constants",
        _run("constants", constants=True, settings=_PLAIN),
        constants=True,
        slow=True,
    ),
    Peer(
        "aoti-frozen", _run("frozen", constants=True, settings=_FROZEN), constants=True, slow=True
    ),
)
