"""How much of the test corpus runs natively, before and after rewriting.

    python -m tools.corpus [docs/corpus.md]

Counts what `rextio check` accepts and runs as native code (a Python shim does not count), for the
corpus as it is, for each module in a project of its own, and for a project where each function has
a module of its own, with the imports and constants of the one it is from; then what
`rextio-torch build` makes native. Prints the page, or writes it into the file.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.explain import explain_path
from rextio_torch.cli.report import INLINED, functions, read_report
from rextio_torch.explain.model import Explanation

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
            last = node.end_lineno or first
            lines[first - 1 : last] = [None] * (last - first + 1)
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


def count() -> int:
    """Return how many functions the corpus has."""
    return sum(len(written_functions(text)) for text in sources().values())


def before() -> list[str]:
    """Return the rows of the page about plain Rextio."""
    rows = []
    for title, projects in layouts(sources()):
        native: set[str] = set()
        with tempfile.TemporaryDirectory() as folder:
            for number, project in enumerate(projects):
                native |= native_functions(write(Path(folder) / str(number), project))
        rows.append(f"| `rextio check`, {title} | {_share(len(native), count())} | |")
    return rows


def explained() -> Explanation:
    """Explain the corpus, rewritten, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        project = shutil.copytree(PROJECT, Path(folder) / "project")
        return explain_path(project, Environment.current())


def after(answer: Explanation) -> list[str]:
    """Return the rows of the page about the rewritten corpus, and what keeps the rest on Python."""
    outcomes = Counter[str](function.outcome for function in answer.functions)
    forms = Counter(title for function in answer.functions for title in function.rewritten)
    rewritten = sum(bool(function.rewritten) for function in answer.functions)
    total = count()
    native, inlined = (_share(outcomes[name], total) for name in ("native", INLINED))
    return [
        f"| `rextio-torch build`, one project | {native} | {inlined} |",
        "",
        "Those on Python, and the first reason of each:",
        "",
        *_on_python(answer),
        "",
        f"In {rewritten} functions something was rewritten:",
        "",
        "| form | functions |",
        "| --- | --- |",
        *(
            f"| {title} | {number} |"
            for title, number in sorted(forms.items(), key=lambda item: (-item[1], item[0]))
        ),
    ]


def _on_python(answer: Explanation) -> Iterator[str]:
    listed = {function.qualname: function for function in answer.functions}
    for module, text in sources().items():
        for name in written_functions(text):
            function = listed.get(f"{PACKAGE}.{module}.{name}")
            if function is None:
                yield f"- `{module}.{name}`: no tensor annotations"
            elif function.outcome not in ("native", INLINED):
                yield f"- `{module}.{name}`: {function.findings[0].title}"


def _share(number: int, total: int) -> str:
    return f"{number} of {total} ({100 * number / total:.1f} %)"


def page() -> str:
    """Return docs/corpus.md."""
    lines = [
        "<!-- Generated by `python -m tools.corpus docs/corpus.md`. Do not edit. -->",
        "",
        "# Ordinary code",
        "",
        "How much of the functions of `tests/corpus` runs natively. They were written for these "
        "tests, in the ordinary style of inference services; they are not a sample of anybody's "
        "code. `tests/native/test_front_end.py` compares each native one with eager.",
        "",
        "`python -m tools.corpus` counts them. An inlined function stays on Python for callers in "
        "Python, and is native inside the functions that call it.",
        "",
        "| counted by | native | inlined |",
        "| --- | --- | --- |",
        *before(),
        *after(explained()),
    ]
    return "\n".join(lines) + "\n"


def main(*file: str) -> None:
    """Print the page, or write it into the file."""
    text = page()
    if file:
        Path(file[0]).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
