"""How something importable is reached from a file, and the import that it takes."""

from __future__ import annotations

from rextio_torch.normalize.bindings import bindings
from rextio_torch.syntax.source import SourceFile


def importable(
    file: SourceFile, target: str, hidden: frozenset[str] = frozenset()
) -> tuple[str, set[str]]:
    """Return a dotted name for a target, and the import statements that the file lacks for it.

    `hidden` are names that mean something else where it is used.
    """
    imports = file.names.imports
    names = [
        name
        for name, path in imports.items()
        if (target == path or target.startswith(path + "."))
        and name not in hidden
        and name not in file.names.assigned
        and name not in file.names.conditional
        and name not in bindings(file).unsettled
    ]
    if names:
        best = max(names, key=lambda name: len(imports[name]))
        return best + target[len(imports[best]) :], set()
    module, _, rest = target.partition(".")
    if module == "rextio_torch":
        # An import of a package does not import its modules.
        module, _, rest = target.rpartition(".")
        name = _free(rest, file, hidden)
        return name, {f"from {module} import {rest} as {name}"}
    name = _free(module, file, hidden)
    return f"{name}.{rest}" if rest else name, {f"import {module} as {name}"}


def _free(name: str, file: SourceFile, hidden: frozenset[str]) -> str:
    """Return a name for an import that means nothing in the file yet."""
    name = f"_{name}"
    while name in hidden or name in bindings(file).names:
        name = f"_{name}"
    return name
