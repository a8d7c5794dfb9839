"""A function's body as a part of another: it assigns its results instead of returning them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rextio_torch.normalize.statements import (
    Assign,
    Block,
    For,
    If,
    Return,
    Statement,
    Var,
    While,
    returns,
)


class NotInlinedError(Exception):
    """A call stays a call: its reason is in the table of forms."""


@dataclass
class SingleExit:
    """Rewrites a body so that it runs to its end on every way."""

    results: Sequence[Var]
    temporary: Callable[[], Var]
    #: Statements that may still be written a second time.
    most: int

    def of(self, block: Block) -> Block:
        """Return the body; raises `NotInlinedError` where it cannot be written so."""
        found: list[Statement] = []
        for index, statement in enumerate(block):
            rest = block[index + 1 :]
            match statement:
                case Return():
                    return (*found, *self._assigned(statement))
                case If(body=body, orelse=orelse) if returns((statement,)):
                    self.most -= len(rest) + 1
                    if self.most < 0:
                        raise NotInlinedError
                    # What follows belongs to the ways that do not return.
                    then, other = self.of((*body, *rest)), self.of((*orelse, *rest))
                    return (*found, replace(statement, body=then, orelse=other))
                case For() | While() if returns((statement,)):
                    raise NotInlinedError
            found.append(statement)
        raise NotInlinedError

    def _assigned(self, statement: Return) -> Block:
        """Return the assignments of the results; all values are read before any of them."""
        if len(statement.values) != len(self.results):
            raise NotInlinedError
        found: list[Statement] = []
        again: list[Statement] = []
        for index, (var, value) in enumerate(zip(self.results, statement.values, strict=True)):
            into = var
            if any(var in later.reads() for later in statement.values[index + 1 :]):
                into = self.temporary()
                kept = replace(value, given={**value.given, value.node: into})
                again.append(Assign(statement.frame, statement.node, var, kept))
            found.append(Assign(statement.frame, statement.node, into, value))
        return (*found, *again)
