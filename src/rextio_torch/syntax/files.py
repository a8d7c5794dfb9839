"""The files of a project that tensor functions are in, parsed and joined."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from rextio_torch.syntax.source import SourceFile, UnreadableError

#: Files with neither have no tensor functions, unless they import from one that has.
_PACKAGES = (b"rextio_torch", b"jaxtyping")


def module_name(file: Path, project: Path) -> str:
    """Return the name that Rextio gives the module of a file."""
    parts = list(file.relative_to(project).with_suffix("").parts)
    if parts[0] == "src":
        del parts[0]
    if parts and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def parse_files(
    modules: Mapping[Path, str],
    required: Callable[[Path], bool] = lambda path: False,
    more_modules: Collection[str] = (),
) -> dict[Path, SourceFile]:
    """Parse the files that can have a part in it: those that name the package, and what uses them.

    The rest of a large project is left alone, but for `more_modules`, and so is a file that cannot
    be parsed; for a required one that raises `UnreadableError`.
    """
    texts = {path: path.read_bytes() for path in modules if path.is_file()}
    wanted = {path for path, text in texts.items() if any(name in text for name in _PACKAGES)}
    while True:
        stems = {(p.parent.name if p.name == "__init__.py" else p.stem).encode() for p in wanted}
        pattern = re.compile(rb"\b(?:" + b"|".join(map(re.escape, stems)) + rb")\b")
        others = texts.keys() - wanted if stems else ()
        more = {path for path in others if pattern.search(texts[path])}
        if not more:
            break
        wanted |= more
    wanted |= {path for path in texts if modules[path] in more_modules}
    files = {}
    for path in sorted(wanted):
        try:
            files[path] = SourceFile(path, modules[path])
        except UnreadableError:
            if required(path):
                raise
    names = {file.module: file.names for file in files.values()}
    for file in files.values():
        file.join(names)
    return files
