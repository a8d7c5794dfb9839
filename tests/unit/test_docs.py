"""The generated pages are those of the table, and links and commands of the docs exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rextio_torch.derive.pages import PAGES

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
