"""What explain and build say of rewritten code is about the user's files."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from support import corpus
from support.analysis import write_project
from support.normal_form import normalise
from support.rewrites import HELPERS, REWRITES, STAYS, source_of

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.explain import explain_path
from rextio_torch.explain.forms.table import BY_ID
from rextio_torch.explain.model import Explained
from rextio_torch.syntax.source import SourceFile
from tools.corpus import after

REPOSITORY = Path(__file__).parent.parent.parent
DRAWN = {"E": "(x * v)", "U": "tanh", "O": "/"}


def _explained(root: Path, modules: dict[str, str]) -> dict[str, Explained]:
    answer = explain_path(write_project(root, modules), Environment.current())
    assert not answer.everywhere
    return {function.qualname: function for function in answer.functions}


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Explained]:
    modules = {form: source_of(texts, DRAWN) for form, texts in REWRITES.items()}
    return _explained(tmp_path_factory.mktemp("rewritten"), modules)


@pytest.mark.parametrize("form", REWRITES)
def test_rewritten_functions_are_native(form: str, rewritten: dict[str, Explained]) -> None:
    for index, text in enumerate(REWRITES[form]):
        function = rewritten[f"{form}.f{index}"]
        assert function.native, (text, function.findings)
        assert BY_ID[form].title in function.rewritten or form == "method_of_call"
    assert rewritten[f"{form}.pair"].outcome in ("inlined", "python")


def test_a_function_with_an_optional_tensor_is_inlined(rewritten: dict[str, Explained]) -> None:
    assert rewritten["none_test.optional"].outcome == "inlined"


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> tuple[SourceFile, dict[str, Explained]]:
    root = tmp_path_factory.mktemp("stays")
    source = source_of([text for _, text, _ in STAYS], {}, HELPERS)
    found = _explained(root, {"m": source})
    return SourceFile(root / "m.py", "m"), found


@pytest.mark.parametrize("index", range(len(STAYS)), ids=lambda index: f"{index}-{STAYS[index][0]}")
def test_what_is_not_rewritten_is_named_where_it_stands(
    index: int, stays: tuple[SourceFile, dict[str, Explained]]
) -> None:
    file, functions = stays
    form, _, place = STAYS[index]
    function = functions[f"m.f{index}"]
    assert not function.native
    found = [(item.code, file.slice(item.span)) for item in function.findings]
    assert any(place in shown for _, shown in found), found
    codes = {code for code, shown in found if place in shown}
    assert BY_ID[form].code in codes, found


def test_the_corpus(tmp_path: Path) -> None:
    """Each function has its expected outcome; at least 95 of 100 run natively."""
    project = shutil.copytree(corpus.PROJECT, tmp_path / "project")
    answer = explain_path(project, Environment.current())
    prefix = f"{corpus.PACKAGE}."
    found = {item.qualname.removeprefix(prefix): item for item in answer.functions}
    for case in corpus.CASES:
        if case.name not in found:
            # Without any tensor annotation it is not listed.
            assert case.outcome in BY_ID
            continue
        function = found[case.name]
        if case.outcome in (corpus.NATIVE, corpus.INLINED):
            assert function.outcome == case.outcome, (case.name, function.findings)
        else:
            assert not function.native
            codes = {item.code for item in function.findings}
            assert BY_ID[case.outcome].code in codes, (case.name, codes)
    good = [item for item in found.values() if item.outcome in ("native", "inlined")]
    assert len(good) >= 0.95 * len(corpus.CASES)
    page = (REPOSITORY / "docs" / "corpus.md").read_text(encoding="utf-8")
    stale = "stale: run `python -m tools.corpus docs/corpus.md`"
    assert page.endswith("\n".join(after(answer)) + "\n"), stale


SOURCES = REPOSITORY / "tests" / "native" / "sources"


def test_what_is_in_the_dialect_already_is_left_as_it_is() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in SOURCES.glob("*.py")}
    assert sources
    for name, normal in normalise(sources).items():
        assert normal.text == sources[name], name


def test_a_hundred_functions_are_rewritten_in_a_second() -> None:
    """In processor time; a machine of another speed, or one with other work, has three."""
    texts = [text for texts in REWRITES.values() for text in texts if not text.startswith("def ")]
    source = source_of((texts * 2)[:100], DRAWN)
    own = time.process_time()
    normal = normalise({"m.py": source})["m.py"]
    own = time.process_time() - own
    assert len(normal.functions) >= 100
    print(f"{own:.2f} s")
    assert own < 3
