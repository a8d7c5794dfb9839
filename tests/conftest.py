"""Fixtures that several folders of tests share, and the option of one of them."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from support.engines import variant
from support.native import native_project

__all__ = ["native_project", "variant"]

# The tests start hundreds of interpreters: without bytecode each compiles whatever it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background has it ignored, and builds respect that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-scoreboards",
        action="store_true",
        help="write docs/external.md instead of comparing it (`make scoreboards`)",
    )
    parser.addoption(
        "--another-torch",
        metavar="VERSION",
        help="download this torch too, and install wheels beside it (test_wheels.py)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "another_torch" in metafunc.fixturenames:
        real = metafunc.config.getoption("--another-torch")
        kinds = ["libraries", *([real] if real else [])]
        metafunc.parametrize("another_torch", kinds, indirect=True)
