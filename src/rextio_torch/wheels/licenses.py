"""The licence texts of what a wheel contains beside the project, which copies of it must carry.

`cargo metadata` says which crates are in the native module, and where their sources lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

#: The file's name in a wheel.
FILE = "THIRD-PARTY-LICENSES.txt"
#: How the files in a crate begin that hold its licence.
_NAMES = ("licen", "copying", "copyright", "notice", "unlicense")
_RULE = "=" * 80


@dataclass(frozen=True)
class Component:
    """Something that others wrote, in a wheel."""

    #: Name and version.
    title: str
    #: An SPDX expression, as its authors state it.
    license: str
    #: Where its source is.
    source: str
    texts: tuple[str, ...] = ()


#: Linked into every module; its texts are among those of the crates.
STANDARD_LIBRARY = Component(
    "the Rust standard library", "MIT OR Apache-2.0", "https://github.com/rust-lang/rust"
)


def third_party_licenses(components: Iterable[Component]) -> str:
    """Return a list of components, and each licence text once, under the titles that have it."""
    lines: list[str] = []
    titles: dict[str, list[str]] = {}
    for it in components:
        lines.append(f"{it.title}: {it.license} ({it.source})")
        for text in it.texts:
            titles.setdefault(text.strip(), []).append(it.title)
    sections = [f"{_RULE}\n{', '.join(its)}\n{_RULE}\n\n{text}\n" for text, its in titles.items()]
    return "\n".join(["This wheel contains, beside the project:\n", *lines, "", *sections])


def distributions(*names: str) -> list[Component]:
    """Return installed Python packages of which a wheel carries a part."""
    found = []
    for name in names:
        installed = distribution(name)
        metadata = installed.metadata
        texts = [
            file.read_text()
            for file in installed.files or ()
            if ".dist-info/licenses/" in file.as_posix()
        ]
        source = f"https://pypi.org/project/{name}/"
        title = f"{name} {installed.version}"
        found.append(Component(title, metadata["License-Expression"], source, tuple(texts)))
    return found


def crates(metadata: Mapping[str, Any]) -> list[Component]:
    """Return the crates that are linked into one, from its `cargo metadata --format-version 1`.

    What only takes part in the build is left out: procedural macros, build scripts, what they need.
    """
    return [
        Component(
            f"{package['name']} {package['version']}",
            package["license"] or "see its text",
            package["repository"] or package["source"],
            tuple(
                file.read_text(encoding="utf-8", errors="replace")
                for file in _license_files(Path(package["manifest_path"]).parent)
            ),
        )
        for package in _linked(metadata)
    ]


def _linked(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the crates that are linked into the root, without it, by name and version."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    found = {root}
    todo = [root]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            identity = dependency["pkg"]
            # Cargo's name of an ordinary dependency is null; the others are "dev" and "build".
            ordinary = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if identity in found or not ordinary or _is_macro(packages[identity]):
                continue
            found.add(identity)
            todo.append(identity)
    linked = [packages[identity] for identity in found - {root}]
    return sorted(linked, key=lambda package: (package["name"], package["version"]))


def _is_macro(package: Mapping[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def _license_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().startswith(_NAMES) and path.is_file() and path.suffix != ".rs"
    )
