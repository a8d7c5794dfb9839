"""What another environment than that of the tests gets."""

from __future__ import annotations

import sys
from pathlib import Path

from rextio_torch import versions
from support.native import CACHE, run

FOLDER = CACHE / "wheels"
TORCH = f"torch=={versions.TORCH_VERSION}"


def uv(*arguments: str | Path) -> None:
    run([sys.executable, "-m", "uv", *arguments], VIRTUAL_ENV=None, PYTHONPATH=None)


def torch_folder() -> Path:
    """Return a folder with torch and what it requires, for a `.pth` file to name."""
    folder = FOLDER / f"torch-{versions.TORCH_VERSION}"
    if not (folder / "torch").is_dir():
        uv("pip", "install", "--target", folder, TORCH)
    return folder
