"""The table of deliberate mistakes, and that the tests notice those in what is claimed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.mutation.check import CRATE, PACKAGE, REPOSITORY
from tools.mutation.front_end import FRONT_END
from tools.mutation.kernels import KERNELS
from tools.mutation.model import Mutation
from tools.mutation.native import NATIVE
from tools.mutation.rules import RULES
from tools.mutation.rust import with_switches


def mutation(text: str, wrong: str) -> Mutation:
    return Mutation("family", "mistake", "group/file.rs", text, wrong, "test")


def test_the_text_of_every_row_stands_once() -> None:
    for rows, folder in (
        (RULES, PACKAGE),
        (FRONT_END, PACKAGE),
        ((*KERNELS, *NATIVE), CRATE / "src"),
    ):
        for row in rows:
            begin, end = row.span((folder / row.path).read_text(encoding="utf-8"))
            assert begin < end
            assert row.wrong != row.text


def test_rows_are_distinct() -> None:
    rows = [*RULES, *FRONT_END, *KERNELS, *NATIVE]
    assert len({str(row) + row.path for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("text", "source", "replaced"),
    [("b", "abc", "b"), ("a«b»c", "abc b", "b"), ("«b»c", "b bc", "b"), ("a«b»", "b ab", "b")],
)
def test_the_place_of_a_row(text: str, source: str, replaced: str) -> None:
    begin, end = mutation(text, "x").span(source)
    assert source[begin:end] == replaced
    before = text.partition("«")[0]
    assert source[:begin].endswith(before if "«" in text else "")


@pytest.mark.parametrize("source", ["", "ac", "abab"])
def test_a_text_that_does_not_stand_once_is_an_error(source: str) -> None:
    with pytest.raises(ValueError, match=r"family: mistake: 'ab' stands \d times in group/file.rs"):
        mutation("ab", "x").span(source)


def test_switches_keep_expressions_and_statements() -> None:
    rows = [mutation("«a + b» * c", "a - b"), mutation("d;", "e;"), mutation("«a + b» * c", "0")]
    assert with_switches("group/file.rs", "x = a + b * c; d;", enumerate(rows, start=1)) == (
        "x = (if super::super::rxt_core::mutation(1) { a - b } else "
        "if super::super::rxt_core::mutation(3) { 0 } else { a + b }) * c; "
        "if super::super::rxt_core::mutation(2) { e; } else { d; }"
    )


def test_rows_that_overlap_are_an_error() -> None:
    rows = [mutation("a + b", "0"), mutation("b * c", "0")]
    with pytest.raises(ValueError, match=r"overlaps another row's text in group/file.rs"):
        with_switches("group/file.rs", "a + b * c", enumerate(rows, start=1))


def _survivors_in_rules(rows: str) -> str:
    """Return what survives of a table, computed by an interpreter of its own.

    Processes that tests start otherwise inherit the import path of the built modules, which hides
    the installed Rextio.
    """
    script = f"""
from tools.mutation.check import survivors_in_rules
from tools.mutation.front_end import FRONT_END
from tools.mutation.model import Mutation
from tools.mutation.rules import RULES
if __name__ == "__main__":
    print([str(row) for row, survives in survivors_in_rules([*{rows}]) if survives])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_mistakes_in_what_is_claimed_are_noticed() -> None:
    assert _survivors_in_rules("RULES") == "[]"


def test_mistakes_in_the_front_end_are_noticed() -> None:
    """One in each file; `make mutation` makes them all, which takes minutes."""
    assert _survivors_in_rules("{row.path: row for row in reversed(FRONT_END)}.values()") == "[]"


def test_a_mistake_that_changes_nothing_survives() -> None:
    """This check can fail."""
    harmless = Mutation(
        "claims", "none", "ops/model.py", "left == right", "right == left",
        "tests/unit/test_decide.py::test_reasons",
    )  # fmt: skip
    assert _survivors_in_rules(f"[{harmless!r}]") == str([str(harmless)])
