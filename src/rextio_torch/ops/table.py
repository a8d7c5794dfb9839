"""The table itself: every row, checked once at import and indexed by spelling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rextio_torch.ops import arithmetic, pointwise, products, reduction
from rextio_torch.ops.model import Operator, Spelling

OPERATORS: tuple[Operator, ...] = (
    *pointwise.ROWS,
    *products.ROWS,
    *arithmetic.ROWS,
    *reduction.ROWS,
)


def check_table(operators: Iterable[Operator]) -> None:
    """Raise `ValueError` if rows share an id, a code or a spelling, or name a row that is not."""
    rows = tuple(operators)
    for what, values in (
        ("id", [row.id for row in rows]),
        ("diagnostic code", [row.diagnostic.code for row in rows]),
        ("spelling", [(s.kind, s.target) for row in rows for s in row.spellings]),
    ):
        for value, count in Counter[object](values).items():
            if count > 1:
                raise ValueError(f"{count} operator rows have the {what} {value!r}")
    ids = {row.id for row in rows}
    for row in rows:
        for other in (row.in_place, row.transposed):
            if other is not None and other not in ids:
                raise ValueError(f"operator row {row.id!r}: names {other!r}, which is no row")


check_table(OPERATORS)

BY_ID: Mapping[str, Operator] = {operator.id: operator for operator in OPERATORS}
#: (kind of spelling, target) -> the row and the spelling.
BY_SPELLING: Mapping[tuple[str, str], tuple[Operator, Spelling]] = {
    (spelling.kind, spelling.target): (operator, spelling)
    for operator in OPERATORS
    for spelling in operator.spellings
}
