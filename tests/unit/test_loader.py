"""The runtime crate as helper text: the bytes that cargo tests are those that crates contain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.generated import generate

from rextio_torch.runtime import loader
from rextio_torch.runtime.loader import GROUPS, RUST_SOURCE, helpers

FILES = sorted(
    path for group in GROUPS for path in (RUST_SOURCE / group).rglob("*.rs") if path.is_file()
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RUST_SOURCE)))
def test_files_are_verbatim(path: Path) -> None:
    """Byte for byte: what is between two module declarations is there as it stands."""
    group = path.relative_to(RUST_SOURCE).parts[0]
    helper = helpers()[GROUPS.index(group)]
    pieces = re.split(r"^(?:pub(?:\([a-z]+\))? )?mod \w+;$", path.read_text("utf-8"), flags=re.M)
    position = 0
    for piece in pieces:
        position = helper.find(piece, position)
        assert position >= 0, piece
        position += len(piece)


def test_every_file_is_included() -> None:
    assert {path.relative_to(RUST_SOURCE).parts[0] for path in FILES} == set(GROUPS)
    others = {path for path in RUST_SOURCE.rglob("*.rs") if path not in FILES}
    assert others == {RUST_SOURCE / "lib.rs"}


def test_groups_are_modules_of_the_crate() -> None:
    declared = re.findall(r"^pub mod (\w+);$", (RUST_SOURCE / "lib.rs").read_text("utf-8"), re.M)
    assert declared == list(GROUPS)
    for group, helper in zip(GROUPS, helpers(), strict=True):
        assert re.search(rf"^mod {group} \{{$", helper, re.M)


def test_deterministic() -> None:
    once = helpers()
    loader.helpers.cache_clear()
    assert helpers() == once


def test_line_ends_are_unix() -> None:
    assert all(b"\r" not in path.read_bytes() for path in FILES)


def test_generated_crates_contain_each_group_once(tmp_path: Path) -> None:
    source = """\
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D


def f(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return x.relu().mean(dim=1)


def g(v: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return v.tanh()
"""
    crate = generate(tmp_path, {"a": source, "b": source})
    for helper in helpers():
        assert crate.count(helper) == 1


# Files that cannot travel


def _crate(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(loader, "RUST_SOURCE", tmp_path)
    monkeypatch.setattr(loader, "GROUPS", ("group",))
    loader.helpers.cache_clear()
    yield tmp_path
    loader.helpers.cache_clear()


def test_nesting(module: Path) -> None:
    _crate(
        module,
        {
            "group/mod.rs": "//! Doc.\n\npub mod a;\nmod b;\npub(crate) mod c;\n\npub fn f() {}\n",
            "group/a.rs": "pub fn g() {}\n",
            "group/b/mod.rs": "mod deep;\n",
            "group/b/deep.rs": "fn h() {}\n",
            "group/c.rs": "// mod d; is a comment\n",
        },
    )
    (text,) = helpers()
    assert (
        text
        == """\
#[allow(dead_code, unused_imports)]
mod group {
//! Doc.

pub mod a {
pub fn g() {}

}
mod b {
mod deep {
fn h() {}

}

}
pub(crate) mod c {
// mod d; is a comment

}

pub fn f() {}

}"""
    )


def test_missing_module_file_is_refused(module: Path) -> None:
    _crate(module, {"group/mod.rs": "mod lost;\n"})
    with pytest.raises(ValueError, match="'lost' has no file"):
        helpers()


def test_missing_group_is_refused(module: Path) -> None:
    with pytest.raises(ValueError, match="'group' has no file"):
        helpers()


@pytest.mark.parametrize("text", ["use crate::a;\n", "fn f() -> crate::E {\n}\n"])
def test_crate_paths_are_refused(text: str, module: Path) -> None:
    _crate(module, {"group/mod.rs": "mod inner;\n", "group/inner.rs": text})
    with pytest.raises(ValueError, match=r"inner\.rs: use super::"):
        helpers()
