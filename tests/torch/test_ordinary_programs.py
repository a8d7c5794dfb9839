"""The random programs in ordinary style are what they should be."""

from __future__ import annotations

import ast
from collections import Counter

import torch
from hypothesis import HealthCheck, Phase, given, settings
from support.ordinary_programs import Program, programs

PROGRAMS = 120
#: What the grammar is there for; each must come up.
WANTED = (
    ast.AnnAssign, ast.AugAssign, ast.Break, ast.Continue, ast.Delete, ast.For, ast.If, ast.IfExp,
    ast.NamedExpr, ast.Pass, ast.Pow, ast.Tuple, ast.USub, ast.While, ast.With,
)  # fmt: skip


def test_most_programs_run_in_eager() -> None:
    outcomes: Counter[str] = Counter()
    nodes: set[type[ast.AST]] = set()

    @settings(
        max_examples=PROGRAMS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def run(program: Program) -> None:
        nodes.update(type(node) for node in ast.walk(ast.parse(program.source)))
        function = program.load()
        for arguments in program.inputs():
            copies = [
                part.clone() if isinstance(part, torch.Tensor) else part for part in arguments
            ]
            try:
                result = function(*arguments)
            except (RuntimeError, IndexError) as error:
                outcomes[type(error).__name__] += 1
                continue
            outcomes["ran"] += 1
            assert result.dim() in (1, 2)
            for before, after in zip(copies, arguments, strict=True):
                if isinstance(before, torch.Tensor):
                    assert torch.equal(before, after), program.source
                    assert result is not after, program.source

    run()
    assert outcomes["ran"] >= 0.8 * outcomes.total(), outcomes
    assert nodes >= set(WANTED)
