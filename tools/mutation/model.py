"""What a row says, and where its text stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One mistake: `wrong` in place of a text that stands exactly once in the file `path`.

    Where `text` has a part in guillemets, only that part is replaced; the rest tells it from others
    like it. `test` is the test that must fail.
    """

    family: str
    mistake: str
    path: str
    text: str
    wrong: str
    test: str

    def span(self, source: str) -> tuple[int, int]:
        """Return where the replaced text begins and ends; `ValueError` if it is not there once."""
        before, mark, rest = self.text.partition("«")
        right, _, after = rest.partition("»")
        whole = before + right + after
        if (count := source.count(whole)) != 1:
            raise ValueError(f"{self}: {whole!r} stands {count} times in {self.path}, not once")
        begin = source.index(whole) + (len(before) if mark else 0)
        return begin, begin + len(right if mark else whole)

    def __str__(self) -> str:
        return f"{self.family}: {self.mistake}"
