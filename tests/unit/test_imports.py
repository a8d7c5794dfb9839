"""What importing the package imports, each time in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def _modules_after(statements: str) -> set[str]:
    program = f"import sys, json\n{statements}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def _of(package: str, modules: set[str]) -> set[str]:
    return {name for name in modules if name == package or name.startswith(f"{package}.")}


DISCOVERY = """
from importlib.metadata import entry_points
(point,) = entry_points(group="rextio.plugins", name="rextio-torch")
assert point.value == "rextio_torch.plugin:plugin", point.value
plugin = point.load()()
plugin.covers()
plugin.describe(None)
plugin.type_vocabulary()
plugin.crate_dependencies()
"""


@pytest.mark.parametrize(
    "statement",
    ["import rextio_torch", "import rextio_torch.types", "import rextio_torch.in_place"],
)
def test_plain_imports(statement: str) -> None:
    """Neither torch nor Rextio: annotated code starts as fast as without the package."""
    modules = _modules_after(statement)
    assert not _of("torch", modules)
    assert not _of("rextio", modules)
    assert _of("rextio_torch", modules) <= {
        "rextio_torch",
        "rextio_torch.versions",
        "rextio_torch.types",
        "rextio_torch.in_place",
        "rextio_torch.runtime",
        "rextio_torch.runtime.native",
    }
    assert "ctypes" not in modules


def test_discovery() -> None:
    """Loading the plugin and asking all its questions imports no more of Rextio than its API."""
    api = _modules_after("import rextio.plugins.api")
    modules = _modules_after(DISCOVERY)
    assert "rextio_torch.plugin" in modules
    assert not _of("torch", modules)
    assert _of("rextio", modules) == _of("rextio", api)
    assert not _of("rextio_torch.cli", modules)
    assert not modules & {"numpy", "click", "libcst", "rich", "tomlkit"}


def test_a_forbidden_import_is_noticed() -> None:
    """The comparison above can fail."""
    api = _modules_after("import rextio.plugins.api")
    more = _modules_after(f"{DISCOVERY}\nimport rextio.plugins.loader")
    assert _of("rextio", more) > _of("rextio", api)


def test_the_table_imports_nothing() -> None:
    """`ops` is data: no other part of the package, no Rextio, no torch."""
    modules = _modules_after("import rextio_torch.ops.table")
    assert not _of("torch", modules)
    assert not _of("rextio", modules)
    mine = _of("rextio_torch", modules) - _of("rextio_torch.ops", modules)
    mine -= _of("rextio_torch", _modules_after("import rextio_torch"))
    assert not mine
