"""How much of the test corpus plain Rextio makes native: `python -m tools.corpus`.

Counts what `rextio check` accepts and runs as native code (a Python shim does not count), for the
corpus as it is, for each module in a project of its own, and for a project where each function has
a module of its own, with the imports and constants of the one it is from.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rextio_torch.cli.report import functions, read_report

PROJECT = Path(__file__).parent.parent / "tests" / "corpus" / "project"
PACKAGE = "serving"


def native_functions(project: Path) -> set[str]:
    """Return what `rextio check` finds native in a project, as `module.function`."""
    rextio = Path(sys.executable).parent / "rextio"
    subprocess.run([rextio, "check", project], cwd=project, check=True, capture_output=True)
    found = functions(read_report(project, "check.json"))
    return {function.qualname.removeprefix(f"{PACKAGE}.") for function in found if function.native}


def sources() -> dict[str, str]:
    """Return the modules of the corpus."""
    paths = sorted((PROJECT / PACKAGE).glob("*.py"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def written_functions(text: str) -> list[str]:
    """Return the names of a module's functions."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def single(text: str, name: str) -> str:
    """Return a module without its functions but one."""
    lines: list[str | None] = list(text.splitlines(keepends=True))
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name != name:
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            lines[first - 1 : node.end_lineno] = [None] * (node.end_lineno - first + 1)
    return "".join(line for line in lines if line is not None)


def write(root: Path, modules: dict[str, str]) -> Path:
    """Write a project of these modules of the package."""
    (root / PACKAGE).mkdir(parents=True)
    shutil.copy(PROJECT / "rextio.toml", root)
    for name, text in {"__init__": "", **modules}.items():
        (root / PACKAGE / f"{name}.py").write_text(text, encoding="utf-8")
    return root


def layouts(modules: dict[str, str]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Return the ways in which the corpus is checked: a title, and the projects of each."""
    yield "one project", [modules]
    yield "each module alone", [{name: text} for name, text in modules.items()]
    alone = {
        f"{name}_{function}": single(text, function)
        for name, text in modules.items()
        for function in written_functions(text)
    }
    yield "each function in a module of its own", [alone]


def main() -> None:
    """Print a line for each way."""
    modules = sources()
    total = sum(len(written_functions(text)) for text in modules.values())
    for title, projects in layouts(modules):
        native: set[str] = set()
        with tempfile.TemporaryDirectory() as folder:
            for number, project in enumerate(projects):
                native |= native_functions(write(Path(folder) / str(number), project))
        print(f"{title}: {len(native)} of {total} native", *sorted(native), sep="\n    ")


if __name__ == "__main__":
    main()
