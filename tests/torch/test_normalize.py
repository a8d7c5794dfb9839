"""The normal form of ordinary functions computes what the functions compute, bit for bit.

Each rewrite of the table of forms has generated programs around it; each row of the table of
equivalents is compared with what it stands for. Values may be NaN, infinite, -0.0 or denormal,
tensors empty, not contiguous or of shapes that do not fit. `REXTIO_TORCH_PROGRAMS` sets the number
of random programs.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.normal_form import both, normalise, outcome
from support.ordinary_programs import Program, programs
from support.rewrites import EXPRESSIONS, HEADER, HELPERS, METHODS, REWRITES, STAYS, source_of

from rextio_torch.explain.forms.table import FORMS
from rextio_torch.normalize.equivalents import EQUIVALENTS, Equivalent

PROGRAMS = int(os.environ.get("REXTIO_TORCH_PROGRAMS", "250"))
#: A mistake in any rewrite must show in this few examples.
EXAMPLES = 10


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def test_random_programs() -> None:
    counts: Counter[str] = Counter()

    @_settings(PROGRAMS)
    @given(programs())
    def run(program: Program) -> None:
        original, staged, file = both(program.source)
        function, normal = getattr(original, program.name), getattr(staged, program.name)
        rewritten = program.name in file.functions
        counts["normal" if rewritten or program.name not in file.left_alone else "left alone"] += 1
        for arguments in program.inputs():
            before, after = outcome(function, arguments), outcome(normal, arguments)
            assert before.same_as(after), f"{program.source}\n{file.text}\n{before}\n{after}"
            assert before.shares <= after.shares, f"{program.source}\n{file.text}"

    run()
    assert counts["normal"] >= 0.95 * counts.total(), counts


# Each rewrite

SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, -1e-45, 3e38, -3e38,
    math.nan, math.inf, -math.inf,
)  # fmt: skip
NUMBERS = st.one_of(st.sampled_from(SPECIAL), st.floats(-4, 4, width=32))


@st.composite
def tensors(draw: st.DrawFn, *shape: int) -> torch.Tensor:
    """A float32 tensor; one of rank 2 may be the transposed of another."""
    size = math.prod(shape)
    values = torch.tensor(draw(st.lists(NUMBERS, min_size=size, max_size=size)))
    if len(shape) == 2 and draw(st.booleans()):
        return values.reshape(shape[::-1]).t()
    return values.reshape(shape)


@st.composite
def operands(draw: st.DrawFn) -> tuple[object, ...]:
    """Arguments of `f`: mostly of shapes that fit, in part by broadcasting."""
    rows, columns = draw(st.sampled_from([2, 3, 1, 0])), draw(st.sampled_from([3, 2, 1]))
    y = draw(st.sampled_from([(rows, columns)] * 5 + [(1, columns), (rows, 1), (rows + 2, 1)]))
    v = draw(st.sampled_from([(columns,)] * 4 + [(1,), (columns + 1,)]))
    w = draw(st.sampled_from([(columns, columns)] * 4 + [(columns, 2), (2, columns)]))
    return (
        draw(tensors(rows, columns)),
        draw(tensors(*y)),
        draw(tensors(*v)),
        draw(tensors(*w)),
        draw(st.integers(0, 3)),
        draw(st.booleans()),
    )


def test_each_rewrite_has_programs() -> None:
    rewritten = [form for form in FORMS if form.rewritten]
    assert set(REWRITES) <= {form.id for form in rewritten}
    assert set(REWRITES) >= {form.id for form in rewritten if form.scope == "function"}


@pytest.mark.parametrize("form", REWRITES)
def test_rewrite(form: str) -> None:
    computed = 0

    @_settings(EXAMPLES)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal computed
        drawn = {
            "E": data.draw(st.sampled_from(EXPRESSIONS)),
            "U": data.draw(st.sampled_from(METHODS)),
            "O": data.draw(st.sampled_from("+-*/")),
        }
        source = source_of(REWRITES[form], drawn)
        before, after, file = both(source)
        for name in (f"f{index}" for index in range(len(REWRITES[form]))):
            assert name in file.functions, f"{source}\n{name}: {file.left_alone}"
            applied = file.functions[name].applied
            assert form in applied or form == "method_of_call", f"{source}\n{name}"
            for _ in range(2):
                arguments = data.draw(operands())
                one = outcome(getattr(before, name), arguments)
                two = outcome(getattr(after, name), arguments)
                assert one.same_as(two), f"{source}\n{file.text}\n{name}\n{one}\n{two}"
                assert one.shares <= two.shares, f"{source}\n{file.text}\n{name}"
                computed += one.raises is None

    run()
    assert computed > EXAMPLES * len(REWRITES[form])


def test_what_stays_computes_the_same() -> None:
    """Parts of a function that stays on Python may be rewritten: also those keep their meaning."""
    source = source_of([text for _, text, _ in STAYS], {}, HELPERS)
    before, after, _ = both(source)

    @_settings(EXAMPLES)
    @given(operands())
    def run(arguments: tuple[object, ...]) -> None:
        for index, (_, text, _) in enumerate(STAYS):
            one = outcome(getattr(before, f"f{index}"), arguments)
            two = outcome(getattr(after, f"f{index}"), arguments)
            assert one.same_as(two), f"{text}\n{one}\n{two}"
            assert one.shares <= two.shares, text

    run()


def test_constants() -> None:
    """A name that is assigned more than once is no constant, wherever that is."""
    source = HEADER + HELPERS
    source += "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return -x.softmax(dim=CHANGED)\n"
    assert "dim=CHANGED" in normalise({"module.py": source})["module.py"].text


# Equivalents


def _refused(row: Equivalent) -> list[str]:
    """Return calls like the example's that the row does not hold for."""
    other = {
        "-": [],
        "**": ["a**3", "a**-1", "a**True", "a**2.5", "2**a", "a**a"],
        "pow": ["{}3)", "{}exponent=-2)", "{}n)"],
        "add": ["{}b, alpha=2)", "{}b, alpha=n)", "{}2)"],
        "sub": ["{}b, alpha=2)", "{}2)"],
        "subtract": ["{}b, alpha=2)", "{}2)"],
        "div": ["{}b, rounding_mode='floor')", "{}b, rounding_mode='trunc')", "{}2)"],
        "divide": ["{}b, rounding_mode='floor')", "{}2)"],
        "dropout": ["{}0.5)", "{}0.5, True)", "{}p=0.5, training=flag)", "{}2.0, False)"],
        "to": ["{}torch.float64)", "{}torch.int64)", "{}'cuda')", "{}torch.float32, copy=True)"],
        "contiguous": ["{}memory_format=torch.channels_last)"],
        "transpose": ["{}0, 0)", "{}1, 1)", "{}n, 0)", "{}0, 2)"],
    }
    calls = other.get(row.written.rpartition(".")[2], [])
    before = row.example.partition("(")[0] + "("
    before += "a, " if row.kind == "function" else ""
    return [call.format(before) for call in calls]


RANKS = {1: "TensorF32Cpu1D", 2: "TensorF32Cpu2D"}


def _call_of(row: Equivalent, call: str, ranks: tuple[int, ...]) -> str:
    """Return a module with the call; a transposed matrix stands on the right of a product."""
    a, b = RANKS[ranks[0]], RANKS[ranks[-1]]
    call = f"c @ {call}" if row.gives == "transposed" else call
    return (
        f"{HEADER}def f(a: {a}, b: {b}, c: TensorF32Cpu2D, n: int, flag: bool) -> {a}:\n"
        f"    return {call}\n"
    )


@st.composite
def pairs(draw: st.DrawFn, row: Equivalent, ranks: tuple[int, ...]) -> tuple[object, ...]:
    """Arguments of a call in `_call_of`."""
    rows, columns = draw(st.sampled_from([2, 3, 1, 0])), draw(st.sampled_from([3, 2, 1]))
    a = (rows, columns)[-ranks[0] :]
    if row.gives == "matmul":
        b = (columns, draw(st.integers(0, 3)))[: ranks[-1]]
    else:
        b = draw(st.sampled_from([(rows, columns)] * 3 + [(1, columns), (rows, 1), (4, 5)]))
        b = b[-ranks[-1] :]
    return (draw(tensors(*a)), draw(tensors(*b)), draw(tensors(2, columns)), 0, False)


by_row = pytest.mark.parametrize(
    "row", EQUIVALENTS, ids=lambda row: f"{row.kind} {row.written} {row.gives}"
)


@by_row
def test_equivalent(row: Equivalent) -> None:
    for ranks in row.ranks:
        original, staged, file = both(_call_of(row, row.example, ranks))
        line = file.functions["f"].lines[-1].text
        assert row.example not in line
        assert row.gives != "identity" or line == "    return a"
        _compare(row, original.f, staged.f, pairs(row, ranks))


def _compare(
    row: Equivalent,
    function: Callable[..., object],
    normal: Callable[..., object],
    arguments: st.SearchStrategy[tuple[object, ...]],
) -> None:
    @_settings(EXAMPLES)
    @given(arguments)
    def run(arguments: tuple[object, ...]) -> None:
        before, after = outcome(function, arguments), outcome(normal, arguments)
        assert before.same_as(after), f"{row}\n{before}\n{after}"
        assert before.shares <= after.shares
        assert not (row.fresh and before.shares), row

    run()


@by_row
def test_what_an_equivalent_refuses_stays(row: Equivalent) -> None:
    for call in _refused(row):
        file = normalise({"module.py": _call_of(row, call, row.ranks[0])})["module.py"]
        assert call in file.text
        assert "f" not in file.functions, call
