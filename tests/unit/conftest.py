"""Fixtures that several modules of unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    (folder / "package").mkdir(parents=True)
    (folder / "rextio.toml").write_text('[plugins]\nenabled = ["rextio-torch"]\n')
    (folder / "package" / "model.py").write_text("def f(): ...\n")
    return folder
