"""The files of a project that tensor functions are in, parsed and joined."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
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
    _add_constants(texts, modules, files)
    names = {file.module: file.names for file in files.values()}
    for file in files.values():
        file.join(names)
    return files


def _add_constants(
    texts: Mapping[Path, bytes], modules: Mapping[Path, str], files: dict[Path, SourceFile]
) -> None:
    """Parse also the files that names are imported from, and those that may assign such a name."""
    paths = {name: path for path, name in modules.items() if path in texts}
    added: dict[Path, SourceFile | None] = {}
    names: set[str] = set()
    wanted = [item for file in files.values() for item in _used(file)]
    seen = set(wanted)
    while wanted:
        module, name = wanted.pop()
        path = paths.get(module)
        if path is None or path in files:
            continue
        if path not in added:
            added[path] = _parsed(path, modules)
        names.add(name)
        file = added[path]
        again = file.names.imports.get(name, "") if file is not None else ""
        further = (again.rpartition(".")[0], again.rpartition(".")[2])
        if further not in seen:
            seen.add(further)
            wanted.append(further)
    if names:
        words = b"|".join(re.escape(name.encode()) for name in sorted(names))
        assigned = re.compile(rb"[.\"'](?:" + words + rb")\b")
        for path in texts.keys() - files.keys() - added.keys():
            if assigned.search(texts[path]):
                added[path] = _parsed(path, modules)
    files.update((path, file) for path, file in sorted(added.items()) if file is not None)


def _used(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Yield the modules that a file imports something of, each with a name of it."""
    for name, target in file.names.imports.items():
        module, _, last = target.rpartition(".")
        yield module, last
        for attribute in re.findall(rf"\b{re.escape(name)}\s*\.\s*(\w+)", file.text):
            yield target, attribute


def _parsed(path: Path, modules: Mapping[Path, str]) -> SourceFile | None:
    with contextlib.suppress(UnreadableError):
        return SourceFile(path, modules[path])
    return None
