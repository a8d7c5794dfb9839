"""Each form of the table against Rextio's own analyser, and each reason as it is shown.

The example of a form is not native as it is written, or some calls of it fail; what stands in its
place is native, and explain names the form at the example and nothing at all in native code. What
the front end rewrites is native.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import forms as calls
from support.analysis import write_project
from support.generated import generate
from support.random_programs import module_text as random_programs
from syrupy.assertion import SnapshotAssertion

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.explain import check_report, explain_path
from rextio_torch.cli.staging import Staged
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.explain.forms.table import FORMS, example_module
from rextio_torch.explain.inference import infer
from rextio_torch.explain.join import explain
from rextio_torch.explain.model import Explanation, Form
from rextio_torch.ops.table import OPERATORS
from rextio_torch.syntax.source import SourceFile

by_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)


def _explained(root: Path, modules: dict[str, str], *, normalize: bool = False) -> Explanation:
    project = write_project(root, modules)
    return explain_path(project, Environment.current(), normalize=normalize)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    """Every example in a module of its own, those that drop a whole project apart."""
    modules = {form.id: example_module(form.example) for form in _with_others()}
    return _explained(tmp_path_factory.mktemp("examples"), modules)


@pytest.fixture(scope="module")
def replacements(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    modules = {form.id: example_module(form.instead) for form in FORMS}
    return _explained(tmp_path_factory.mktemp("instead"), modules)


def _with_others() -> list[Form]:
    """Return the forms that may stand beside others: no project is dropped, no build stopped."""
    return [form for form in FORMS if form.scope != "project" and form.stops != "generator"]


def _example(form: Form, examples: Explanation, tmp_path: Path) -> Explanation:
    if form.other is None and form.stops != "generator":
        return examples
    if form.other is None:
        return _explained(tmp_path, {form.id: example_module(form.example)})
    script = form.other.replace("example", form.id)
    return _explained(tmp_path, {form.id: example_module(form.example), "script": script})


@by_form
def test_the_example_is_not_native(form: Form, examples: Explanation, tmp_path: Path) -> None:
    answer = _example(form, examples, tmp_path)
    functions = [f for f in answer.functions if f.qualname.startswith(f"{form.id}.")]
    named = [f for f in functions if f.qualname.rpartition(".")[2] == "f"]
    assert named
    assert {f.native for f in named} == {form.fails_calls}


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
    for file, findings in answer.files.items():
        if Path(file).stem == form.id and form.scope == "file":
            found |= {finding.code for finding in findings}
    found |= {finding.code for finding in answer.everywhere}
    if form.stops == "generator":
        assert "RXT050" in found
        found.remove("RXT050")
    assert found == {form.code}


# Nothing is said of native code


def _surface() -> dict[str, str]:
    """Every accepted call of the operator table, one function each."""
    return {
        f"accepted_{operator.id}": calls.module(
            form.function(f"f{index}") for index, form in enumerate(calls.accepted(operator))
        )
        for operator in OPERATORS
    }


#: Scalars and control flow that Rextio does compile: next door to many forms.
SCALARS = """\
import logging
import math

logger = logging.getLogger(__name__)


def conditions(x: TensorF32Cpu2D, n: int, a: bool, s: str) -> TensorF32Cpu2D:
    if a and not (0 < n < 3) or a == True:
        return x.relu()
    elif s == "relu" or -n % 2 == 0:
        return x.exp()
    return x.tanh()


def optional(x: TensorF32Cpu2D, n: int | None, w: tuple[int, int]) -> TensorF32Cpu2D:
    if n is None:
        return x.relu()
    return x.tanh()


def numbers(x: TensorF32Cpu2D, n: int, t: float, ks: list[int]) -> TensorF32Cpu2D:
    k: int = n + 1
    k += 2
    total = abs(k) + max(n, 3) + sum(ks) + len(ks) + ks[0]
    if total > 2 and math.sqrt(t / 2.0) < math.pi:
        return x.relu()
    return x.tanh()


def lists(x: TensorF32Cpu2D, n: int, ks: list[int]) -> TensorF32Cpu2D:
    more = [i + 1 for i in range(n)]
    more.append(n)
    h = x.relu()
    for i, k in enumerate(ks):
        h = h.tanh()
    for k in ks:
        h = h.exp()
    return h


def loops(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for i in range(0, n, 2):
        for _ in range(i):
            if i > 3:
                break
            t = h.tanh()
            h = t.exp()
    while True:
        n = n - 1
        if n < 0:
            break
        if n == 1:
            continue
        h = h.sqrt()
    return h


def attempt(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.tanh()
    try:
        y = x.relu()
    except RuntimeError:
        y = x.exp()
    return y


def aliases(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x
    h = h.relu()
    if n > 0:
        h = x
    h = h.tanh()
    return h


def computed_alias(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x
    for _ in range(n):
        h = h.tanh()
    h = h.exp()
    g = h
    return g


def parameter(x: TensorF32Cpu2D, /, *, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    x = x @ w
    return x


def nothing(x: TensorF32Cpu2D) -> None:
    y = x.relu()


def number(x: TensorF32Cpu2D, n: int = 3) -> int:
    return n + 1
"""
SOURCES = Path(__file__).parent.parent / "native" / "sources"


def test_no_form_is_found_in_native_code(tmp_path: Path) -> None:
    """And every operation that Rextio claims is one that the flow of data is known of."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in SOURCES.glob("*.py")}
    others = {"programs": random_programs(60), "scalars": example_module(SCALARS)}
    project = write_project(tmp_path, {**_surface(), **sources, **others})
    environment = Environment.current()
    tools = Toolchain.of(environment.for_building(), project)
    report, _ = check_report(Staged(project, project, {}), tools, [])
    answer = explain(project, report, lambda path: True)
    native = {function.qualname: function for function in answer.functions if function.native}
    assert len(native) > 300
    assert not [name for name in answer.not_native if name.startswith("scalars.")]
    for module in report["modules"]:
        file = SourceFile(Path(module["file_path"]), module["module_name"])
        for function in file.functions():
            explained = native.get(f"{file.module}.{function.name}")
            if explained is None:
                continue
            facts = infer(file, function)
            found = [form.id for form in FORMS if form.detect and list(form.detect(facts))]
            assert not found, explained.qualname
            assert not facts.rejections, explained.qualname
            claims = [item.operator for item in explained.operations]
            assert claims == [site.call.operator.id for site in facts.sites], explained.qualname


def test_the_code_generator_takes_every_replacement(tmp_path: Path) -> None:
    """What explain calls native is more than accepted: Rextio writes Rust for it."""
    modules = {form.id: example_module(form.instead) for form in FORMS}
    crate = generate(tmp_path, {**modules, "scalars": example_module(SCALARS)})
    assert all(f"{form.id}__f" in crate for form in FORMS)


def test_what_stops_the_build_is_accepted_by_the_analysis(tmp_path: Path) -> None:
    """The reason for `stops`: without it explain would call the function native."""
    stopping = [form for form in FORMS if form.stops == "generator"]
    assert stopping
    for form in stopping:
        root = write_project(tmp_path / form.id, {"m": example_module(form.example)})
        tools = Toolchain.of(Environment.current(), root)
        report, stopped = check_report(Staged(root, root, {}), tools, [])
        (function,) = report["modules"][0]["functions"]
        assert function["accepted"]
        assert stopped


#: Bodies that may return the parameter `x` itself, or follow what a block does too closely.
RETURNED = (
    "return x",
    "if n > 0:\n        x = x.relu()\n    return x",
    "if n > 0:\n        x = x.relu()\n        return x\n    return x.tanh()",
    "if n > 0:\n        t = x\n        t = t.relu()\n        return t\n    return x.tanh()",
    "h = x.relu()\n    if n > 0:\n        h = x\n        h = h.tanh()\n    return h",
    "h = x.relu()\n    if n > 0:\n        h = x\n    return h",
    "for i in range(n):\n        h = x\n        h = h.exp()\n        return h\n    return x.tanh()",
)


def test_returned_parameters(tmp_path: Path) -> None:
    signature = "(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D"
    functions = [f"def f{i}{signature}:\n    {body}\n" for i, body in enumerate(RETURNED)]
    answer = _explained(tmp_path, {"m": example_module("\n\n".join(functions))})
    assert len(answer.functions) == len(RETURNED)
    for function in answer.functions:
        assert not function.native
        assert [finding.code for finding in function.findings] == ["RXTP-FORM-052"]


#: Statements of functions, and the codes that are shown: nothing that only follows from another.
CONSEQUENCES = {
    "y = x.relu() if n > 0 else x.tanh()\n    z = y.exp()\n    return z": ["068"],
    "y = torch.mm(x, x)\n    return y.relu() + y.tanh()": ["075"],
    "a, b = x.relu(), x.tanh()\n    return a + b": ["045"],
    "y = x.relu()\n    y = y.mean(dim=1)\n    return y": ["043", "054"],
    "h = x.relu()\n    for w in (x, h):\n        h = h @ w\n    return h": ["048"],
    "k = sum(i for i in range(n))\n    return x.relu()": ["082"],
    "import math\n    k = math.sqrt(2.0)\n    return x.relu()": ["040"],
    "import torch\n    return torch.relu(x)": ["040"],
    "assert x.dim() == 2\n    return -x ** 2": ["033", "077", "060", "062"],
    "return F.leaky_relu(x, negative_slope=0.1)": ["075", "071"],
    "with torch.no_grad():\n        y = x.relu()\n    return y": ["036", "051"],
}


def test_what_follows_is_left_out(tmp_path: Path) -> None:
    signature = "(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D"
    functions = [f"def f{i}{signature}:\n    {body}\n" for i, body in enumerate(CONSEQUENCES)]
    answer = _explained(tmp_path, {"m": example_module("\n\n".join(functions))})
    found = [[finding.code for finding in function.findings] for function in answer.functions]
    assert found == [[f"RXTP-FORM-{code}" for code in codes] for codes in CONSEQUENCES.values()]


def test_codes_are_stable(snapshot: SnapshotAssertion) -> None:
    """A code is never used again for something else: here lines are only added."""
    assert {form.code: form.id for form in FORMS} == snapshot


# Module level

#: Statements before a native function, and whether they keep it on Python.
MODULE_LEVEL = {
    'if __name__ == "__main__":\n    print(1)': True,
    'if __name__ == "__main__":\n    pass': False,
    'print("hello")': True,
    "W = torch.zeros(3)": True,
    'N = 3\nEPS = 1e-5\nNAME = "a"\nM = -3\nK = 3 * 4': False,
    'N = [1, 2]\nM = {"a": 1}\nK = (1, 2)': False,
    "D = torch.float32": False,
    "N: int = 3": False,
    "for i in range(3):\n    pass": False,
    "N = 1\nif N:\n    M = 2": False,
    "try:\n    import numpy\nexcept ImportError:\n    numpy = None": False,
    "import io\nwith io.StringIO() as s:\n    pass": True,
    '__all__ = ["f"]': False,
    "import logging\nlogger = logging.getLogger(__name__)": False,
    '"""Module."""': False,
    "class A:\n    x = 1": False,
    "class A(Exception):\n    pass": True,
    "class A:\n    def m(self) -> int:\n        return 1": False,
    "class A:\n    @property\n    def m(self) -> int:\n        return 1": False,
    "class A:\n    x = torch.zeros(1)": True,
    "from typing import NamedTuple\nclass A(NamedTuple):\n    x: int": True,
    "import functools\n@functools.cache\ndef g(n: int) -> int:\n    return n": True,
    "def g(n: int = int(3)) -> int:\n    return n": True,
    "def g(n: object = torch.float32) -> int:\n    return 1": False,
    "def g(x: TensorF32Cpu2D | None) -> int:\n    return 1": True,
    "def g(x: int | None) -> int:\n    return 1": False,
    "def g(x: list[TensorF32Cpu2D]) -> int:\n    return 1": False,
    "def g(x: torch.Tensor['a']) -> int:\n    return 1": True,
    "from collections.abc import Callable\ndef g(x: Callable[[int], int]) -> int:\n    return 1": (
        True
    ),
    "from math import *": True,
    "N = 1\ndel N": False,
    "N = 1\nN += 1": True,
    "g = lambda n: n": False,
    "from typing import TypeVar\nT = TypeVar('T')": True,
    "assert True": False,
    "D = {}\nD['a'] = 1": True,
    "@torch.no_grad()\ndef g(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return x.relu()": True,
    "def d(g):\n    return g\n@d\ndef g(n: int) -> int:\n    return n": False,
    "import rextio\n@rextio.native\ndef g(n: int) -> int:\n    return n": False,
}


def test_forms_at_module_level(tmp_path: Path) -> None:
    """The detections name a statement where Rextio drops the file, and nowhere else."""
    function = "\n\n\ndef f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return x.relu()\n"
    texts = {f"m{index}": text for index, text in enumerate(MODULE_LEVEL)}
    answer = _explained(
        tmp_path, {name: example_module(text + function) for name, text in texts.items()}
    )
    native = {f.qualname for f in answer.functions if f.native}
    named = {Path(file).stem: found for file, found in answer.files.items()}
    for name, text in texts.items():
        dropped = MODULE_LEVEL[text]
        assert (f"{name}.f" not in native) == dropped, text
        codes = [finding.code for finding in named.get(name, ())]
        assert bool(codes) == dropped, text
        assert "RXTP-FORM-000" not in codes, text
        file = SourceFile(tmp_path / f"{name}.py", name)
        found = [f.id for f in FORMS if f.scope == "file" for _ in f.detect_in_file(file)]
        assert bool(found) == dropped, (text, found)


def test_annotations_are_named_where_they_are(tmp_path: Path) -> None:
    """Also in a function of which something else was rewritten."""
    text = 'def f(x: TensorF32Cpu2D, w: torch.Tensor) -> TensorF32Cpu2D:\n    """Clip."""\n'
    module = example_module(text + "    return x.relu()\n")
    answer = _explained(tmp_path, {"m": module}, normalize=True)
    ((finding,),) = [function.findings for function in answer.functions]
    line = example_module(text).split("\n")[finding.span.line - 1]
    assert line[finding.span.column - 1 : finding.span.end_column - 1] == "torch.Tensor"


def test_functions_with_torch_tensor_alone_are_named(tmp_path: Path) -> None:
    plain = "import torch\n\n\ndef f(x: torch.Tensor) -> torch.Tensor:\n    return x.relu()\n"
    (note,) = _explained(
        tmp_path, {"m": plain, "other": "def g(n: int) -> int:\n    return n\n"}
    ).notes
    assert note.startswith("RXTP-FORM-005: ")
    assert " m.f. " in note
    assert "other" not in note
