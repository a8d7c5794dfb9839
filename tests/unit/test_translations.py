"""The translated READMEs have the structure of the English one: headings, code, tables, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
README = REPOSITORY / "README.md"
#: The letters that a translation is written in, and those that another language would have.
SCRIPTS = {
    "ko": (r"[가-힣]", r"[ぁ-ゖァ-ヺ]"),
    "zh-CN": (r"[一-鿿]", r"[ぁ-ゖァ-ヺ가-힣們個數檔說執]"),
    "zh-TW": (r"[一-鿿]", r"[ぁ-ゖァ-ヺ가-힣们个数档说执]"),
    "ja": (r"[ぁ-ゖァ-ヺ一-鿿]", r"[가-힣]"),
}
TRANSLATIONS = {
    language: REPOSITORY / "docs" / "readme" / f"README.{language}.md" for language in SCRIPTS
}
FENCED = re.compile(r"^```.*\n(?:.*\n)*?```$", re.M)
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
by_language = pytest.mark.parametrize("language", TRANSLATIONS)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _parts(path: Path) -> tuple[str, str]:
    """Return a README's first paragraph, the links to the other languages, and what follows it."""
    _, languages, rest = _read(path).split("\n\n", 2)
    return languages, rest


def code(text: str) -> list[str]:
    return FENCED.findall(text)


def outline(text: str) -> list[str]:
    """Return the levels of the headings, and what stands between them, in order."""
    kinds = {
        r"#+ ": lambda line: line.split()[0],
        r"- ": lambda line: "item",
        r"\|": lambda line: "row",
        "```": lambda line: line,
    }
    found = []
    for line in text.split("\n"):
        for pattern, kind in kinds.items():
            if re.match(pattern, line):
                found.append(kind(line))
    return found


def tables(text: str) -> list[list[str]]:
    """Return each row's cells; what is neither code nor a number is only counted."""
    rows = [line for line in text.split("\n") if line.startswith("|")]
    return [
        [cell if re.fullmatch(r"`.*`|[\d.]+|-+", cell) else "text" for cell in _cells(row)]
        for row in rows
    ]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def inline_code(text: str) -> list[str]:
    """Return the code inside sentences; another language may have it in another order."""
    return sorted(re.findall(r"`[^`\n]+`", FENCED.sub("", text)))


def links(path: Path, text: str) -> list[str]:
    """Return where links lead: places in the repository, or addresses."""
    found = []
    for target in LINK.findall(FENCED.sub("", text)):
        is_address = target.startswith("https://")
        resolved = path.parent.joinpath(target.partition("#")[0]).resolve()
        assert is_address or resolved.exists(), target
        found.append(target if is_address else f"{resolved}#{target.partition('#')[2]}")
    return sorted(found)


def differences(path: Path, text: str) -> list[str]:
    """Return in what a translation's text differs from the English one."""
    _, english = _parts(README)
    checks = {
        "code": code(text) == code(english),
        "headings": outline(text) == outline(english),
        "tables": tables(text) == tables(english),
        "inline code": inline_code(text) == inline_code(english),
        "links": links(path, text) == links(README, english),
    }
    return [name for name, same in checks.items() if not same]


@by_language
def test_a_translation_has_the_structure_of_the_readme(language: str) -> None:
    path = TRANSLATIONS[language]
    assert differences(path, _parts(path)[1]) == []


@by_language
def test_a_translation_is_in_its_language(language: str) -> None:
    """Most of what is neither code nor link is in its own script, and nothing in another's."""
    own, others = SCRIPTS[language]
    text = re.sub(r"`[^`\n]+`", "", LINK.sub("", FENCED.sub("", _parts(TRANSLATIONS[language])[1])))
    letters = re.findall(r"[^\W\d_]", text)
    assert len(re.findall(own, text)) > 0.6 * len(letters)
    assert re.findall(others, text) == []
    # No paragraph was left in English.
    for paragraph in re.split(r"\n(?:\n|- |\|)", text):
        assert re.search(own, paragraph) or len(re.findall(r"[a-z]", paragraph)) < 40, paragraph


def test_every_readme_leads_to_all_others() -> None:
    pages = {README, *TRANSLATIONS.values()}
    for page in pages:
        languages, _ = _parts(page)
        targets = [(page.parent / target).resolve() for target in LINK.findall(languages)]
        assert len(targets) == len(set(targets))
        assert set(targets) == pages - {page}


MISTAKES = {
    "code": ("rextio-torch doctor\n", "rextio-torch doctor --json\n"),
    "headings": ("\n## ", "\n### "),
    "tables": ("| 2298 |", "| 2289 |"),
    "inline code": ("`resize_`", "`resize`"),
    "links": ("(../wheels.md)", "(../tutorial.md)"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_noticed(what: str) -> None:
    path = TRANSLATIONS["ja"]
    _, text = _parts(path)
    wrong = text.replace(*MISTAKES[what], 1)
    assert wrong != text
    assert differences(path, wrong) == [what]
