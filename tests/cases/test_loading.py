"""Cases from public reports about loading native modules, each in a fresh process."""

from __future__ import annotations

import sys
import textwrap

import pytest
from support.native import run


def output(native_project, source: str) -> str:
    built = native_project.path / ".rextio" / "build" / "python"
    return run([sys.executable, "-W", "error", "-c", textwrap.dedent(source)], cwd=built).stdout


@pytest.mark.parametrize("order", ["import boundary, torch", "import torch, boundary"])
def test_import_orders_in_a_fresh_process(native_project, order) -> None:
    # tch #723
    printed = output(
        native_project,
        f"""\
        import sys
        sys.path.insert(0, "")
        {order}
        print(boundary.vector(torch.zeros(2)).tolist())
        """,
    )
    assert printed.split() == ["[1.0,", "1.0]"]


def test_one_libtorch_is_mapped(native_project) -> None:
    # tch #882
    printed = output(
        native_project,
        """\
        import sys
        sys.path.insert(0, "")
        import boundary, torch
        boundary.vector(torch.zeros(2))
        maps = open("/proc/self/maps").read().split()
        print(*{word for word in maps if "libtorch_cpu" in word}, sep="\\n")
        print(torch.__file__)
        """,
    )
    *libraries, package = printed.split()
    assert len(libraries) == 1
    assert libraries[0].startswith(package.rpartition("/")[0])
