"""Versions and names that several files must write: each pinned to `rextio_torch.versions`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from rextio_torch import versions
from rextio_torch.cli.doctor import host
from rextio_torch.plugin import TorchPlugin
from rextio_torch.runtime import source_mark
from rextio_torch.runtime.loader import RUST_SOURCE

REPOSITORY = Path(__file__).parent.parent.parent


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def test_pyproject() -> None:
    data = _toml(REPOSITORY / "pyproject.toml")
    project = data["project"]
    assert project["dependencies"] == [
        versions.REXTIO_REQUIREMENT,
        f"torch=={versions.TORCH_VERSION}",
    ]
    major, minor = map(int, versions.PYTHON_VERSION.split("."))
    assert project["requires-python"] == f">={major}.{minor},<{major}.{minor + 1}"
    assert project["entry-points"]["rextio.plugins"] == {versions.PLUGIN_ID: host.ENTRY_POINT}
    version = data["tool"]["hatch"]["version"]
    text = (REPOSITORY / version["path"]).read_text(encoding="utf-8")
    found = re.search(version["pattern"], text)
    assert found is not None
    assert found["version"] == versions.__version__


def test_the_runtime_crate() -> None:
    data = _toml(RUST_SOURCE.parent / "Cargo.toml")
    assert data["package"]["version"] == versions.__version__
    for crate in TorchPlugin().crate_dependencies():
        declared = data["dependencies"][crate.name]
        if isinstance(declared, str):
            declared = {"version": declared}
        assert declared["version"] == crate.version
        assert tuple(declared.get("features", ())) == crate.features


def test_the_marker_in_the_module() -> None:
    """The command looks for what the runtime writes, under the variable that it reads."""
    text = (RUST_SOURCE / "rxt_torch" / "identity.rs").read_text(encoding="utf-8")
    assert f'PREFIX: &[u8] = b"{source_mark.PREFIX.decode()}"' in text
    assert f'UNKNOWN: &str = "{source_mark.NO_SOURCE_ID}"' in text
    assert set(re.findall(r'option_env!\("(\w+)"\)', text)) == {
        source_mark.SOURCE_ID_VARIABLE,
        versions.BYPASS_VARIABLE,
    }


def test_the_release_that_a_module_requires() -> None:
    text = (RUST_SOURCE / "rxt_torch" / "release.rs").read_text(encoding="utf-8")
    assert f'TORCH_VERSION: &str = "{versions.TORCH_VERSION}"' in text


def test_documents() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f"torch=={versions.TORCH_VERSION}" in readme
    assert f"cargo and rustc {versions.MINIMUM_RUST_VERSION} or newer" in readme
    assert f"CPython {versions.PYTHON_VERSION}" in readme
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.M)[0] == versions.__version__
