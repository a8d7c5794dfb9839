"""Which names of a module stand for the same thing as long as the module is loaded."""

from __future__ import annotations

import builtins
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from rextio_torch.syntax.names import Names
from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import assigned_names, statements

_TYPES = "rextio_torch.types"
#: What may bind names that are not written there; `model.eval()` does not.
_BY_TEXT = re.compile(
    r"(?<![\w.])(?:globals|vars|exec|eval)\s*\(|\bbuiltins\b|\bsys\s*\.\s*modules\b"
)


@dataclass(frozen=True)
class Bindings:
    """The names that a module's own statements bind."""

    names: frozenset[str]
    #: Those that are bound more than once, to what is not the same import, or deleted.
    unsettled: frozenset[str]


@lru_cache(maxsize=1024)
def bindings(file: SourceFile) -> Bindings:
    """Return what a module binds at its top level, in whatever statement."""
    found: dict[str, set[object]] = defaultdict(set)
    packaged = file.path.name == "__init__.py"
    imports = [
        item
        for item in statements(file.tree.body)
        if isinstance(item, (cst.Import, cst.ImportFrom))
    ]
    for item in imports:
        line = cst.Module([cst.SimpleStatementLine([item])])
        for name, target in Names.of(line, file.module, is_package=packaged).imports.items():
            found[name].add(target)
    for number, name in enumerate(assigned_names(file.tree, imports=False)):
        found[name].add(number)
    unsettled = {name for name, values in found.items() if len(values) > 1}
    if any(star != _TYPES for star in file.names.stars) or binds_by_text(file):
        # It may bind any of them.
        unsettled = set(found)
    return Bindings(frozenset(found), frozenset(unsettled))


def binds_by_text(file: SourceFile) -> bool:
    """Whether a module may bind names that are not written in it, as `exec` does."""
    return _BY_TEXT.search(file.text) is not None


def is_builtin(file: SourceFile, name: str, *others: SourceFile) -> bool:
    """Whether a name that is no local one is the builtin of that name, in all of these files."""
    return hasattr(builtins, name) and not any(
        name in bindings(item).names or set(item.names.stars) - {_TYPES} for item in (file, *others)
    )
