"""Fixtures that several folders of tests share, and the option of one of them."""

from __future__ import annotations

import pytest
from support.engines import variant
from support.native import native_project

__all__ = ["native_project", "variant"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-scoreboards",
        action="store_true",
        help="write docs/external.md instead of comparing it (`make scoreboards`)",
    )
