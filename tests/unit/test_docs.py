"""The generated pages are those of the table, and links and commands of the docs exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from support.analysis import write_project

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.explain import explain_path
from rextio_torch.cli.explain_text import lines as explain_lines
from rextio_torch.cli.explain_text import source_lines
from rextio_torch.derive.pages import PAGES
from rextio_torch.derive.python_page import EXAMPLES
from rextio_torch.explain.forms.table import example_module

REPOSITORY = Path(__file__).parent.parent.parent
MARKDOWN = sorted(
    path
    for path in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]
    if path.is_file()
)


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_fresh(name) -> None:
    written = (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "stale: run `make docs`"


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        if anchor:
            assert anchor in _anchors(linked), target


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_make_targets_of_the_docs_exist(path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", path.read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_examples_of_ordinary_python_are_native(tmp_path) -> None:
    """What docs/python.md shows as native is so for Rextio too."""
    examples = {name: example_module(text) for name, text in EXAMPLES.items()}
    answer = explain_path(write_project(tmp_path, examples), Environment.current())
    assert len(answer.functions) > len(examples)
    python = {f.qualname for f in answer.functions if f.outcome == "python"}
    # Shown for what it does to the others of its file.
    assert python == {"evaluated_annotation.g"}


def test_explain_says_what_the_readme_shows(tmp_path, monkeypatch) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    source = re.search(r"`model/score.py`:\n\n```python\n(.*?)```", readme, re.S)
    shown = re.search(r"\$ rextio-torch explain model\n(.*?)```", readme, re.S)
    assert source
    assert shown
    monkeypatch.chdir(tmp_path)
    project = write_project(Path("model"), {"score": source[1]})
    answer = explain_path(project, Environment.current())
    printed = [
        click.unstyle(line) for line in explain_lines(answer, 100, source=source_lines(answer))
    ]
    wanted = [line for line in shown[1].splitlines() if line != "…"]
    assert len(wanted) > 5
    first = printed.index(wanted[0])
    assert printed[first : first + len(wanted)] == wanted
