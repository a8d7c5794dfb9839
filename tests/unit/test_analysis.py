"""Every form of the table and its neighbours through Rextio's own analyser.

All forms are analysed once, by `rextio check` on one project: a module of accepted and one of
rejected calls for each row. That this project can be analysed at all is a test of its own, since
Rextio gives up on a whole project at the first diagnostic code that the plugin has not declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import pytest
from rextio.analyzer.models import FunctionAnalysis
from rextio.analyzer.project_scanner import analyze_project
from rextio.cli import check_cmd
from rextio.cli.main import main
from rextio.plugins.api import (
    BoundaryConversion,
    ClaimResult,
    ClaimSite,
    CoverageDecl,
    NotCovered,
    PluginType,
    Rejected,
    RuleRecord,
    RuleScope,
)
from rextio.plugins.loader import PluginError
from support import forms
from support.analysis import Analysis, RecordingPlugin, analyse, write_project

from rextio_torch.analysis import decide as decide_module
from rextio_torch.derive import records
from rextio_torch.ops.model import Operator
from rextio_torch.ops.table import OPERATORS
from rextio_torch.plugin import TorchPlugin

FORMS: dict[str, list[forms.Form]] = {}
for _operator in OPERATORS:
    FORMS[f"accepted_{_operator.id}"] = list(forms.accepted(_operator))
    FORMS[f"rejected_{_operator.id}"] = list(forms.rejected(_operator))

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)


def _module(calls: list[forms.Form]) -> str:
    return forms.module(form.function(f"f{index}") for index, form in enumerate(calls))


@dataclass(frozen=True)
class Checked:
    """What `rextio check` found, and how it ended."""

    status: int
    analysis: Analysis
    report: str


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    root = tmp_path_factory.mktemp("all")
    write_project(root, {name: _module(calls) for name, calls in FORMS.items()})
    offered: list[tuple[ClaimSite, ClaimResult]] = []
    functions: dict[str, FunctionAnalysis] = {}
    claim = TorchPlugin.claim

    def recording(self: TorchPlugin, site: ClaimSite, config: object) -> ClaimResult:
        result = claim(self, site, config)
        offered.append((site, result))
        return result

    def remembering(*arguments: object, **more: object) -> object:
        project = analyze_project(*arguments, **more)
        functions.update((f.qualname, f) for module in project.modules for f in module.functions)
        return project

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()):
        patch.setattr(TorchPlugin, "claim", recording)
        patch.setattr(check_cmd, "analyze_project", remembering)
        status = main(["check", str(root)])
    report = (root / ".rextio" / "reports" / "check.json").read_text(encoding="utf-8")
    return Checked(status, Analysis(functions, tuple(offered)), report)


@pytest.fixture(scope="module")
def analysis(checked: Checked) -> Analysis:
    return checked.analysis


def _line(index: int) -> int:
    """The line of the call of the function with this number: header, then two lines and a gap."""
    return len(forms.HEADER.splitlines()) + 3 * index + 3


def _wrong(analysis: Analysis, module: str, calls: list[forms.Form]) -> Iterator[str]:
    """Yield a line for each form that did not come out as it should."""
    for index, form in enumerate(calls):
        name = f"{module}.f{index}"
        function = analysis.functions[name]
        types = ", ".join(argument.type for argument in form.arguments)
        label = f"{form.kind}: {form.expression} with ({types})"
        if form.result is not None:
            claims = [(claim.rule_id, claim.result_type) for claim in function.plugin_claims]
            expected = (
                records.rule_id(form.operator, form.spelling.site_kind),
                form.result.key,
            )
            if not analysis.native(name) or function.diagnostics or claims != [expected]:
                yield f"{label}: not native, {claims}, {function.diagnostics}"
        else:
            found = [(item.code, item.severity, item.line) for item in function.diagnostics]
            expected_code = (form.operator.diagnostic.code, "error", _line(index))
            if function.accepted or function.plugin_claims or found != [expected_code]:
                yield f"{label}: not rejected, expected {expected_code}, {found}"


@by_operator
def test_accepted(operator: Operator, analysis: Analysis) -> None:
    module = f"accepted_{operator.id}"
    assert FORMS[module]
    assert list(_wrong(analysis, module, FORMS[module])) == []


@by_operator
def test_rejected(operator: Operator, analysis: Analysis) -> None:
    module = f"rejected_{operator.id}"
    assert FORMS[module]
    assert list(_wrong(analysis, module, FORMS[module])) == []


def test_every_signature_and_spelling_is_among_the_forms() -> None:
    for operator in OPERATORS:
        calls = FORMS[f"accepted_{operator.id}"]
        assert {form.spelling for form in calls} == set(operator.spellings)
        assert {form.result for form in calls} == {s.result for s in operator.signatures}
        assert {form.spelling for form in FORMS[f"rejected_{operator.id}"]} == set(
            operator.spellings
        )


def test_sites_are_what_rextio_offers(analysis: Analysis) -> None:
    """`Form.site`, on which the direct tests of `decide` rest, is what the analyser makes."""
    offered = {forms.site_facts(site) for site, _ in analysis.offered}
    for calls in FORMS.values():
        for form in calls:
            assert forms.site_facts(form.site()) in offered, form.expression


def test_a_project_of_all_rejected_forms_can_be_analysed(checked: Checked) -> None:
    assert checked.status == 0
    for operator in OPERATORS:
        assert f'"{operator.diagnostic.code}"' in checked.report


# These tests can fail


def _one_row(tmp_path: Path, identifier: str, kind: str) -> list[str]:
    module = f"{kind}_{identifier}"
    calls = FORMS[module]
    return list(_wrong(analyse(tmp_path, {module: _module(calls)}), module, calls))


def test_a_loose_rank_check_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loose(self: Operator, operands: object, options: object) -> object:
        return self.signatures[0]

    monkeypatch.setattr(Operator, "match", loose)
    wrong = _one_row(tmp_path, "matmul", "rejected")
    assert any("p0 @ p1 with (rextio-torch/tensor-f32-cpu-1d, " in line for line in wrong)


def test_a_loose_literal_check_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`True` is not `1`, though Python says they are equal."""
    import rextio_torch.ops.model as model

    monkeypatch.setattr(model, "same_literal", lambda left, right: left == right)
    wrong = _one_row(tmp_path, "softmax", "rejected")
    assert any("dim=True" in line for line in wrong)


def test_a_lost_signature_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(self: Operator, operands: object, options: object) -> object:
        return None

    monkeypatch.setattr(Operator, "match", strict)
    monkeypatch.setattr(decide_module, "_explain_mismatch", _raise_unsupported)
    assert len(_one_row(tmp_path, "relu", "accepted")) == len(FORMS["accepted_relu"])


def _raise_unsupported(*_: object) -> None:
    raise decide_module._Unsupported("planted")


def test_an_undeclared_code_aborts_the_project(tmp_path: Path) -> None:
    """Why every code is declared: Rextio takes one undeclared code for a broken plugin."""

    class Undeclared(RecordingPlugin):
        def claim(self, site: ClaimSite, config: object) -> ClaimResult:
            result = super().claim(site, config)
            if isinstance(result, Rejected):
                return Rejected(replace(result.diagnostic, code="RXTP-TORCH-999"))
            return result

    module = _module(FORMS["rejected_relu"][:5])
    with pytest.raises(PluginError, match="RXTP-TORCH-999"):
        analyse(tmp_path, {"m": module}, plugin=Undeclared())


# Import spellings


def _import_spellings(target: str) -> Iterator[tuple[str, str]]:
    """Yield each import statement that reaches a dotted target, and the target as then written."""
    parts = target.split(".")
    for count in range(1, len(parts)):
        module, rest = ".".join(parts[:count]), ".".join(parts[count:])
        yield f"import {module}", target
        yield f"import {module} as alias", f"alias.{rest}"
        parent = ".".join(parts[: count - 1])
        if parent:
            yield f"from {parent} import {parts[count - 1]}", f"{parts[count - 1]}.{rest}"
            yield f"from {parent} import {parts[count - 1]} as alias", f"alias.{rest}"
    parent = ".".join(parts[:-1])
    yield f"from {parent} import {parts[-1]}", parts[-1]
    yield f"from {parent} import {parts[-1]} as alias", "alias"


_TYPES = "from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D\n"


def test_import_spellings_of_a_functional() -> None:
    assert set(_import_spellings("torch.nn.functional.relu")) == {
        ("import torch", "torch.nn.functional.relu"),
        ("import torch as alias", "alias.nn.functional.relu"),
        ("import torch.nn", "torch.nn.functional.relu"),
        ("import torch.nn as alias", "alias.functional.relu"),
        ("from torch import nn", "nn.functional.relu"),
        ("from torch import nn as alias", "alias.functional.relu"),
        ("import torch.nn.functional", "torch.nn.functional.relu"),
        ("import torch.nn.functional as alias", "alias.relu"),
        ("from torch.nn import functional", "functional.relu"),
        ("from torch.nn import functional as alias", "alias.relu"),
        ("from torch.nn.functional import relu", "relu"),
        ("from torch.nn.functional import relu as alias", "alias"),
    }


def test_every_import_spelling(tmp_path: Path) -> None:
    """One accepted and one rejected call of every function, under every import that reaches it."""
    modules: dict[str, str] = {}
    expected: list[tuple[str, forms.Form]] = []
    for operator in OPERATORS:
        for spelling in operator.spellings:
            if spelling.kind != "function":
                continue
            good, bad = (
                next(f for f in FORMS[f"{kind}_{operator.id}"] if f.spelling == spelling)
                for kind in ("accepted", "rejected")
            )
            for statement, written in _import_spellings(spelling.target):
                module = f"m{len(modules)}"
                modules[module] = f"{statement}\n{_TYPES}\n" + "\n".join(
                    form.function(name, form.written(written))
                    for name, form in (("good", good), ("bad", bad))
                )
                expected += [(f"{module}.good", good), (f"{module}.bad", bad)]
    analysis = analyse(tmp_path, modules)
    for name, form in expected:
        source = modules[name.partition(".")[0]]
        if form.result is not None:
            assert analysis.native(name), source
        else:
            assert analysis.codes(name) == [form.operator.diagnostic.code], source


@pytest.mark.parametrize(
    ("statement", "annotation"),
    [
        ("from rextio_torch.types import TensorF32Cpu2D", "TensorF32Cpu2D"),
        ("from rextio_torch.types import TensorF32Cpu2D as Matrix", "Matrix"),
        ("import rextio_torch.types", "rextio_torch.types.TensorF32Cpu2D"),
        ("import rextio_torch.types as t", "t.TensorF32Cpu2D"),
        ("from rextio_torch import types", "types.TensorF32Cpu2D"),
        ("import rextio_torch", "rextio_torch.types.TensorF32Cpu2D"),
        (
            "from __future__ import annotations\nfrom rextio_torch.types import TensorF32Cpu2D",
            "TensorF32Cpu2D",
        ),
    ],
)
def test_annotation_spellings(statement: str, annotation: str, tmp_path: Path) -> None:
    source = f"{statement}\n\n\ndef f(x: {annotation}) -> {annotation}:\n    return x.relu()\n"
    assert analyse(tmp_path, {"m": source}).native("m.f")


# Where a call may stand

PLACES = """\
import torch
import torch.nn.functional as F
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D

def chained(x: TensorF32Cpu2D) -> TensorI64Cpu1D:
    return x.relu().softmax(dim=1).argmax(dim=1)

def inside(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return torch.mean(F.relu(F.linear(x, w, b) * x) - b, dim=0)

def assigned(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    h = x @ x
    h = h + x
    pooled = h.mean(dim=1)
    return pooled

def loop(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for i in range(n):
        h = h.tanh()
    return h

def branches(x: TensorF32Cpu2D, flag: bool, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    if flag:
        h = h * x
    elif n > 3:
        h = h - x
    else:
        h = h + x
    return h

def countdown(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    i = n
    while i > 0:
        h = h.tanh()
        i = i - 1
    return h
"""


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("chained", ["relu", "softmax", "argmax"]),
        ("inside", ["mean", "sub", "relu", "mul", "linear"]),
        ("assigned", ["matmul", "add", "mean"]),
        ("loop", ["relu", "tanh"]),
        ("branches", ["relu", "mul", "sub", "add"]),
        ("countdown", ["relu", "tanh"]),
    ],
)
def test_places(name: str, rows: list[str], tmp_path: Path) -> None:
    analysis = analyse(tmp_path, {"m": PLACES})
    assert analysis.native(f"m.{name}")
    claimed = [claim.rule_id for claim in analysis.functions[f"m.{name}"].plugin_claims]
    assert sorted(rule.split("/")[1] for rule in claimed) == sorted(rows)


def test_rejection_inside_an_expression(tmp_path: Path) -> None:
    """One call outside the surface keeps the function on Python, at the line of that call."""
    source = forms.module(
        [
            "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n"
            "    h = x.relu()\n"
            "    g = (\n"
            "        h * 2.0\n"
            "    )\n"
            "    return g\n",
            "def g(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return x.relu()\n",
        ]
    )
    analysis = analyse(tmp_path, {"m": source})
    (diagnostic,) = analysis.functions["m.f"].diagnostics
    line = source.splitlines().index("        h * 2.0") + 1
    assert (diagnostic.code, diagnostic.line) == ("RXTP-TORCH-015", line)
    assert not analysis.functions["m.f"].accepted
    assert analysis.native("m.g")


# Not covered


@dataclass(frozen=True)
class Foreign:
    """Another plugin with a tensor type and no claims."""

    plugin_id: str = "rextio-other"
    api_version: str = "1.7"

    def to_rextio_plugin(self) -> dict[str, object]:
        return {
            "id": self.plugin_id,
            "name": "Other",
            "target_language": "rust",
            "packages": ["othertensors"],
        }

    def covers(self) -> CoverageDecl:
        return CoverageDecl(packages=("othertensors",))

    def describe(self, config: object) -> tuple[RuleRecord, ...]:
        scope = RuleScope("call", "othertensors.f")
        return (RuleRecord("rextio-other/f", self.plugin_id, scope, "", "native", None, ""),)

    def type_vocabulary(self) -> tuple[PluginType, ...]:
        conversion = BoundaryConversion("O", "{param}", "O", "{value}")
        return (PluginType("rextio-other/array", ("othertensors.Array",), "O", conversion),)

    def claim(self, site: ClaimSite, config: object) -> ClaimResult:
        return NotCovered()

    def lower(self, claimed: ClaimSite, ctx: object) -> None:
        raise AssertionError("nothing is claimed")

    def crate_dependencies(self) -> tuple[()]:
        return ()


def _returning(expression: str, parameters: str = "x: TensorF32Cpu2D") -> str:
    return f"def f({parameters}) -> TensorF32Cpu2D:\n    return {expression}"


NOT_COVERED: Mapping[str, str] = {
    "untyped parameter": _returning("x.relu()", "x"),
    "untyped operand": _returning("torch.relu(x)", "x, y: TensorF32Cpu2D"),
    "untyped right side": _returning("x + y", "x: TensorF32Cpu2D, y"),
    "torch.Tensor annotation": _returning("x.relu()", "x: torch.Tensor"),
    "unresolved result": _returning("torch.relu(unknown(x))"),
    "unresolved local": (
        "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    h = unknown(x)\n    return torch.relu(h)"
    ),
    "in-place method": _returning("x.relu_()"),
    "in-place method with an operand": _returning("x.add_(x)"),
    "in-place function": _returning("torch.relu_(x)"),
    "augmented assignment": (
        "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    h = x.relu()\n    h += x\n    return h"
    ),
    "torch.mm": _returning("torch.mm(x, x)"),
    "torch.multiply": _returning("torch.multiply(x, x)"),
    "torch.absolute": _returning("torch.absolute(x)"),
    "torch.nn.GELU": _returning("torch.nn.GELU()(x)"),
    "torch.nn.GELU class": _returning("torch.nn.GELU(x)"),
    "F.sigmoid": _returning("F.sigmoid(x)"),
    "F.tanh": _returning("F.tanh(x)"),
    "torch.nn.functional.relu6": _returning("F.relu6(x)"),
    "torch.special.softmax": _returning("torch.special.softmax(x, 1)"),
    "unbound method": _returning("torch.Tensor.relu(x)"),
    "another package": _returning("numpy.exp(x)"),
    "x.mul": _returning("x.mul(x)"),
    "x.gelu": _returning("x.gelu()"),
    "x.linear": _returning("x.linear(x)"),
    "unknown method": _returning("x.unknown()"),
    "dunder": _returning("x.__add__(x)"),
    "comparison": _returning("x < x"),
    "modulo": _returning("x % x"),
    "floor division": _returning("x // x"),
    "power": _returning("x ** 2"),
    "minus": _returning("-x"),
    "index": _returning("x[0]"),
    "attribute": _returning("x.T"),
    "runtime option": _returning("x.mean(dim=d)", "x: TensorF32Cpu2D, d: int"),
    "computed option": _returning("x.mean(dim=1 + 0)"),
    "float option": _returning("x.mean(dim=1.0)"),
    "dtype option": _returning("x.mean(dim=1, dtype=torch.float64)"),
    "tensor by keyword": _returning("F.linear(x, weight=x)"),
    "out by keyword": _returning("torch.add(x, x, out=x)"),
    "function by keyword": _returning("F.gelu(x, approximate=helper)"),
    "function as unknown keyword": _returning("x.relu(key=helper)"),
    "function as argument": _returning("torch.relu(x, helper)"),
    "starred argument": _returning("x.relu(*y)", "x: TensorF32Cpu2D, y: list[int]"),
    "double star": _returning("x.relu(**y)", "x: TensorF32Cpu2D, y: dict[str, int]"),
    "method of a scalar": _returning("n.relu()", "x: TensorF32Cpu2D, n: int"),
    "shadowed function": (
        "from torch import relu\n"
        "def relu(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n"
        "    return x\n"
        "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n"
        "    return relu(x)"
    ),
    "scalars only": _returning("n * 2.0 + m", "n: int, m: float"),
    "another plugin's operand": _returning("x + y", "x: TensorF32Cpu2D, y: othertensors.Array"),
    "another plugin's operand first": _returning(
        "y @ x", "x: TensorF32Cpu2D, y: othertensors.Array"
    ),
    "another plugin's argument": _returning(
        "F.linear(x, y)", "x: TensorF32Cpu2D, y: othertensors.Array"
    ),
    "another plugin's receiver": _returning("y.relu()", "y: othertensors.Array"),
    "another plugin's function": _returning("othertensors.f(x)"),
}

_NOT_COVERED_HEADER = """\
import numpy
import othertensors
import torch
import torch.nn.functional as F
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D

def helper(n: int) -> int:
    return n

"""


@pytest.fixture(scope="module")
def not_covered(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    modules = {
        f"m{index}": _NOT_COVERED_HEADER + source + "\n"
        for index, source in enumerate(NOT_COVERED.values())
    }
    return analyse(tmp_path_factory.mktemp("not_covered"), modules, Foreign())


@pytest.mark.parametrize("name", NOT_COVERED)
def test_not_covered(name: str, not_covered: Analysis) -> None:
    """The plugin says nothing: no claim of the call, and none of its codes."""
    module = f"m{list(NOT_COVERED).index(name)}"
    function = not_covered.functions[f"{module}.f"]
    assert not [code for code in not_covered.codes(f"{module}.f") if code.startswith("RXTP-")]
    assert not not_covered.native(f"{module}.f")
    harmless = {"rextio-torch/relu/call"} if name == "augmented assignment" else set()
    assert {claim.rule_id for claim in function.plugin_claims} <= harmless


def test_not_covered_would_notice_a_claim(tmp_path: Path) -> None:
    class Greedy(TorchPlugin):
        def claim(self, site: ClaimSite, config: object) -> ClaimResult:
            operator = OPERATORS[0]
            return Rejected(records.rejection_diagnostic(operator, "planted"))

    modules = {
        f"m{index}": _NOT_COVERED_HEADER + source + "\n"
        for index, source in enumerate(NOT_COVERED.values())
    }
    analysis = analyse(tmp_path, modules, Foreign(), plugin=Greedy())
    hit = [
        name
        for index, name in enumerate(NOT_COVERED)
        if any(code.startswith("RXTP-") for code in analysis.codes(f"m{index}.f"))
    ]
    # The rest is never offered to a plugin, whatever the plugin would say.
    assert len(hit) > len(NOT_COVERED) // 2
