"""What `explain` says that runs as one, against what the fused engine ran as one."""

from __future__ import annotations

import pytest
import torch
from support.native import SOURCES

from rextio_torch.explain.fusion import ran
from rextio_torch.explain.inference import infer
from rextio_torch.runtime.native import observed
from rextio_torch.syntax.source import SourceFile


def said() -> dict[str, list[int]]:
    """Return the sizes of the groups of each function of a source file."""
    file = SourceFile(SOURCES / "fusion.py", "fusion")
    file.join({file.module: file.names})
    functions = ((function.name, infer(file, function)) for function in file.functions())
    return {name: sorted(map(len, ran(facts.sites))) for name, facts in functions}


@pytest.mark.parametrize("name", said())
def test_groups(native_project, name) -> None:
    native, eager = native_project.pair(f"fusion.{name}")
    code = eager.__code__
    ranks = {"b": 1}
    arguments = [
        torch.rand([6] * ranks.get(parameter, 2))
        for parameter in code.co_varnames[: code.co_argcount]
    ]
    with observed() as groups:
        native(*arguments)
        assert sorted(groups()) == said()[name]
    with observed() as groups:
        assert groups() == []
