"""The licences of what others wrote in a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rextio_torch.wheels.licenses import Component, crates, distributions, third_party_licenses


def crate(folder: Path, name: str, *, kind: str = "lib", **files: str) -> dict[str, Any]:
    home = folder / name
    home.mkdir()
    for file, text in files.items():
        (home / file).write_text(text)
    return {
        "id": name,
        "name": name,
        "version": "1.0",
        "license": "MIT",
        "repository": f"https://example.org/{name}",
        "source": "registry",
        "manifest_path": str(home / "Cargo.toml"),
        "targets": [{"kind": [kind]}],
    }


def depends(name: str, *kinds: str | None) -> dict[str, Any]:
    return {"pkg": name, "dep_kinds": [{"kind": kind} for kind in kinds]}


def test_what_is_linked_and_its_texts(tmp_path: Path) -> None:
    packages = [
        crate(tmp_path, "root", LICENSE="of the root"),
        crate(tmp_path, "direct", LICENSE="shared text\n", NOTICE="a notice"),
        crate(tmp_path, "inner", **{"license.md": "shared text"}),
        crate(tmp_path, "textless"),
        crate(tmp_path, "macro", kind="proc-macro", LICENSE="of a macro"),
        crate(tmp_path, "of_macro", LICENSE="of a macro"),
        crate(tmp_path, "builder", LICENSE="of a build script"),
    ]
    nodes = [
        {
            "id": "root",
            "deps": [
                depends("direct", None, "build"),
                depends("macro", None),
                depends("builder", "build", "dev"),
            ],
        },
        {"id": "direct", "deps": [depends("inner", None), depends("textless", None)]},
        {"id": "macro", "deps": [depends("of_macro", None)]},
        *({"id": name, "deps": []} for name in ("inner", "textless", "of_macro", "builder")),
    ]
    found = crates({"packages": packages, "resolve": {"root": "root", "nodes": nodes}})
    assert [(it.title, it.texts) for it in found] == [
        ("direct 1.0", ("shared text\n", "a notice")),
        ("inner 1.0", ("shared text",)),
        ("textless 1.0", ()),
    ]


def test_each_text_stands_once() -> None:
    text = third_party_licenses(
        [
            Component("a 1", "MIT", "https://example.org/a", ("shared\n", "only a")),
            Component("b 2", "MIT", "https://example.org/b", ("shared",)),
            Component("c 3", "MIT", "https://example.org/c"),
        ]
    )
    head, *sections = text.split("=" * 80)
    assert [line for line in head.splitlines() if line][1:] == [
        "a 1: MIT (https://example.org/a)",
        "b 2: MIT (https://example.org/b)",
        "c 3: MIT (https://example.org/c)",
    ]
    assert [section.strip() for section in sections] == ["a 1, b 2", "shared", "a 1", "only a"]


def test_the_packages_of_which_a_wheel_carries_a_part() -> None:
    for it in distributions("rextio", "rextio-torch"):
        assert it.license == "MIT"
        assert any("Permission is hereby granted" in text for text in it.texts)
