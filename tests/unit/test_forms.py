"""Each form of the table against Rextio's own analyser, and each reason as it is shown.

The example of a form is not native, what stands in its place is, and explain names the form at the
example and nothing at all in native code.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import forms as calls
from support.analysis import write_project

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.explain import check_report, explain_path, lines, source_lines
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.explain.explain import explain
from rextio_torch.explain.forms.table import FORMS, example_module
from rextio_torch.explain.inference import Facts
from rextio_torch.explain.model import Explained, Explanation, Form
from rextio_torch.explain.source import SourceFile
from rextio_torch.ops.table import OPERATORS

by_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)


def _explained(root: Path, modules: dict[str, str]) -> Explanation:
    return explain_path(write_project(root, modules), Environment.current())


def _native(answer: Explanation, module: str) -> list[str]:
    prefix = f"{module}."
    return [f.qualname for f in answer.functions if f.qualname.startswith(prefix) and f.native]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    """Every example in a module of its own, those that drop a whole project apart."""
    modules = {form.id: example_module(form.example) for form in FORMS if form.scope != "project"}
    return _explained(tmp_path_factory.mktemp("examples"), modules)


@pytest.fixture(scope="module")
def replacements(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    modules = {form.id: example_module(form.instead) for form in FORMS}
    return _explained(tmp_path_factory.mktemp("instead"), modules)


def _example(form: Form, examples: Explanation, tmp_path: Path) -> Explanation:
    if form.other is None:
        return examples
    return _explained(tmp_path, {form.id: example_module(form.example), "script": form.other.replace("example", form.id)})


@by_form
def test_the_example_is_not_native(form: Form, examples: Explanation, tmp_path: Path) -> None:
    answer = _example(form, examples, tmp_path)
    functions = [f for f in answer.functions if f.qualname.startswith(f"{form.id}.")]
    named = [f for f in functions if f.qualname.rpartition(".")[2] == "f"]
    assert named
    assert not any(f.native for f in named)


@by_form
def test_what_stands_in_its_place_is_native(form: Form, replacements: Explanation) -> None:
    functions = [f for f in replacements.functions if f.qualname == f"{form.id}.f"]
    assert functions
    assert all(f.native for f in functions)


@by_form
def test_explain_names_the_form_and_nothing_else(
    form: Form, examples: Explanation, tmp_path: Path
) -> None:
    answer = _example(form, examples, tmp_path)
    found = {
        finding.code
        for function in answer.functions
        if re.fullmatch(rf"{form.id}\.(.*\.)?f", function.qualname)
        for finding in function.findings
    }
    for file, findings in answer.shared.items():
        if Path(file).stem == form.id:
            found |= {finding.code for finding in findings if form.scope != "function"}
    assert found == {form.code}
