"""Text that knows which places of the user's files it was made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rextio_torch.syntax.source import SourceFile, Span


@dataclass(frozen=True)
class Origin:
    """A range of a user's file."""

    file: SourceFile
    span: Span


@dataclass(frozen=True)
class Mark:
    """A range of a text, by characters, and where it comes from."""

    start: int
    end: int
    origin: Origin

    def moved(self, by: int) -> Mark:
        """Return the mark of the same text further on."""
        return Mark(self.start + by, self.end + by, self.origin)


@dataclass(frozen=True)
class Code:
    """Source text with its marks, the outer ones first."""

    text: str
    marks: tuple[Mark, ...] = ()

    def __add__(self, other: Code | str) -> Code:
        """Return both, one after the other."""
        if isinstance(other, str):
            return Code(self.text + other, self.marks)
        size = len(self.text)
        return Code(
            self.text + other.text, (*self.marks, *(mark.moved(size) for mark in other.marks))
        )

    def __radd__(self, other: str) -> Code:
        """Return text before this."""
        return Code(other) + self

    def at(self, origin: Origin) -> Code:
        """Return the same text, all of it from one place beside the places of its parts."""
        return Code(self.text, (Mark(0, len(self.text), origin), *self.marks))


def joined(separator: str, parts: Iterable[Code]) -> Code:
    """Return texts with another between them."""
    text = ""
    marks: list[Mark] = []
    for index, part in enumerate(parts):
        text += separator if index else ""
        marks += [mark.moved(len(text)) for mark in part.marks]
        text += part.text
    return Code(text, tuple(marks))
