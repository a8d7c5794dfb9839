"""The Rust that is emitted: snapshots, the function scope, and refusal of what has drifted."""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rextio.plugins import api
from rextio.plugins.api import (
    ClaimLiteral,
    ClaimSite,
    KeywordArg,
    LoweringContext,
    PluginFunctionScopeContext,
)
from support import forms
from support.generated import functions, generate, statements
from syrupy.assertion import SnapshotAssertion

from rextio_torch.analysis.decide import Call, decide
from rextio_torch.derive.records import rule_id
from rextio_torch.lowering import emit
from rextio_torch.ops.table import BY_ID, OPERATORS
from rextio_torch.platforms import UnsupportedPlatformError
from rextio_torch.plugin import TorchPlugin, plugin, require_plugin_api
from rextio_torch.versions import BYPASS_VARIABLE, PLUGIN_API_VERSION

HEADER = """\
import rextio
import torch
import torch.nn.functional as F
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D
"""

FAMILIES = """
def linear(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, b)


def linear_without_bias(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.linear(x, w, bias=None)


def activations(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    h = torch.sigmoid(h)
    return F.relu(h, inplace=False)


def unary_math(v: TensorF32Cpu1D) -> TensorF32Cpu1D:
    h = torch.negative(v.square())
    return h.exp()


def gelu(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.gelu(x, approximate="none")


def matmul(x: TensorF32Cpu2D, v: TensorF32Cpu1D) -> TensorF32Cpu1D:
    h = x @ x
    return h.matmul(v)


def elementwise(x: TensorF32Cpu2D, v: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return torch.div(x + v, x * x) - v


def reductions(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    h = x.mean(dim=1, keepdim=True)
    return torch.sum(h, 0)


def softmax(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.softmax(x, dim=1, dtype=None)


def argmax(v: TensorF32Cpu1D) -> TensorI64Cpu1D:
    return v.argmax(dim=0, keepdim=True)
"""

#: What the native tests run.
CONTROL_FLOW = (Path(__file__).parent.parent / "native" / "sources" / "control_flow.py").read_text(
    encoding="utf-8"
)

WITHOUT_SCOPE = """
SEEN = []


def note(n: int) -> int:
    SEEN.append(n)
    return n + 1


def scale(f: float) -> float:
    SEEN.append(f)
    return f * 2.0


@rextio.native
def calls_back(x: TensorF32Cpu2D, n: int, f: float) -> TensorF32Cpu2D:
    h = x.relu()
    k = note(n)
    g = scale(f)
    if k > 1:
        h = h.tanh()
    return h @ x


@rextio.native
def scalar_only(x: TensorF32Cpu2D, n: int) -> int:
    return n + 1
"""


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    modules = {
        "families": HEADER + FAMILIES,
        "control": CONTROL_FLOW,
        "bare": HEADER + WITHOUT_SCOPE,
    }
    return functions(generate(tmp_path_factory.mktemp("generated"), modules))


def _names(source: str, *without: str) -> list[str]:
    names = re.findall(r"^def (\w+)", source, re.M)
    return [name for name in names if name not in without]


SCOPED = [
    *(f"families__{name}" for name in _names(FAMILIES)),
    *(f"control__{name}" for name in _names(CONTROL_FLOW)),
]
UNSCOPED = [f"bare__{name}" for name in _names(WITHOUT_SCOPE, "note", "scale")]


@pytest.mark.parametrize("name", [*SCOPED, *UNSCOPED])
def test_emitted_text(name: str, emitted: dict[str, str], snapshot: SnapshotAssertion) -> None:
    assert emitted[name] == snapshot


@pytest.mark.parametrize("name", SCOPED)
def test_scope_order(name: str, emitted: dict[str, str]) -> None:
    """Extract every tensor, then guard, then operations; drop before each output conversion."""
    lines = statements(emitted[name])
    extract = [i for i, line in enumerate(lines) if "boundary::input(" in line]
    guard = [i for i, line in enumerate(lines) if "FunctionScope::enter()" in line]
    operations = [i for i, line in enumerate(lines) if "rxt_torch::ops::" in line]
    drop = [i for i, line in enumerate(lines) if line.startswith("std::mem::drop(")]
    convert = [i for i, line in enumerate(lines) if "boundary::output(" in line]
    assert extract
    assert operations
    assert len(guard) == 1
    assert max(extract) < guard[0] < min(operations)
    # One drop immediately before each conversion: the guard never spans a conversion.
    assert [i + 1 for i in drop] == convert
    assert max(operations) < max(drop)
    assert all("Scope::Function" in lines[i] for i in operations)
    assert not any("Scope::Operation" in line for line in lines)
    variable = lines[guard[0]].split()[1]
    assert all(lines[i] == f"std::mem::drop({variable});" for i in drop)


@pytest.mark.parametrize("name", UNSCOPED)
def test_no_scope(name: str, emitted: dict[str, str]) -> None:
    """Each operation guards itself where the function calls back into Python or has none."""
    text = emitted[name]
    assert "FunctionScope" not in text
    assert "Scope::Function" not in text
    assert text.count("rxt_torch::ops::") == text.count("Scope::Operation")


def test_callback_function_has_operations(emitted: dict[str, str]) -> None:
    assert emitted["bare__calls_back"].count("Scope::Operation") == 3
    assert "rxt_torch::ops::" not in emitted["bare__scalar_only"]


@pytest.mark.xfail(
    strict=True,
    reason="Rextio 0.1 reports only direct calls back into Python to function_scope_guard",
)
def test_no_scope_around_an_indirect_callback(tmp_path: Path) -> None:
    """A native scalar function in between calls back: the callback sees the guard's grad mode."""
    source = """
SEEN = []


def note(n: int) -> int:
    SEEN.append(n)
    return n + 1


@rextio.native
def between(n: int) -> int:
    return note(n) + 1


@rextio.native
def outer(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    k = between(n)
    return h.tanh()
"""
    text = functions(generate(tmp_path, {"m": HEADER + source}))["m__outer"]
    assert "m__between(" in text
    assert "FunctionScope" not in text


def test_generation_is_deterministic(tmp_path: Path) -> None:
    modules = {"families": HEADER + FAMILIES}
    assert generate(tmp_path / "a", modules) == generate(tmp_path / "b", modules)


# lower()


def _context(site: ClaimSite, **facts: object) -> LoweringContext:
    operands = tuple(f"v{index}" for index in range(len(site.operand_types)))
    return LoweringContext(
        operands=operands,
        target_language="rust",
        fresh_name=lambda prefix: f"{prefix}_0",
        receiver="receiver" if site.receiver else None,
        **facts,
    )


def _claimed(form: forms.Form) -> ClaimSite:
    assert form.result is not None
    return replace(
        form.site(),
        rule_id=rule_id(form.operator, form.spelling.site_kind),
        result_type=form.result.key,
    )


ACCEPTED = [form for operator in OPERATORS for form in forms.accepted(operator)]


def _rust_literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _expected_arguments(form: forms.Form) -> list[str]:
    """Operands in the order of the row's parameters, then each option with a choice."""
    first = 1 if form.spelling.kind == "method" else 0
    arguments = ["&receiver"] if first else []
    operator = form.operator
    for index, parameter in enumerate(operator.tensor_parameters):
        if index < first:
            continue
        given = index < len(form.arguments) and isinstance(form.arguments[index], forms.Operand)
        text = f"&v{index - first}" if given else "None"
        arguments.append(f"Some({text})" if given and parameter.optional else text)
    for parameter in operator.options:
        choices = {
            repr(choice)
            for signature in operator.signatures
            for choice in operator.accepted(signature, parameter)
        }
        if len(choices) > 1:
            arguments.append(_rust_literal(form.options[parameter.name]))
    return arguments


@pytest.mark.parametrize(("active", "scope"), [(True, "Function"), (False, "Operation")])
def test_every_accepted_form_lowers(active: bool, scope: str) -> None:
    """One fallible call of the row's runtime function, with the whole runtime as helpers."""
    for form in ACCEPTED:
        site = _claimed(form)
        lowered = TorchPlugin().lower(site, _context(site, function_scope_guard_active=active))
        arguments = ", ".join([f"rxt_torch::Scope::{scope}", *_expected_arguments(form)])
        expected = f"rxt_torch::ops::{form.operator.id}({arguments})?"
        assert lowered.rust == expected, form.expression
        assert lowered.helpers == emit.helpers()
        assert lowered.uses == ()


@pytest.mark.parametrize("value", ["none", "tanh"])
def test_a_string_option_with_a_choice_is_a_rust_string(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gelu = BY_ID["gelu"]
    options = {"approximate": ("none", "tanh")}
    row = replace(gelu, signatures=tuple(replace(s, options=options) for s in gelu.signatures))
    assert [parameter.name for parameter in row.runtime_options] == ["approximate"]
    spelling = gelu.spellings[0]
    entry = {("function", spelling.target): (row, spelling)}
    monkeypatch.setattr("rextio_torch.analysis.decide.BY_SPELLING", entry)
    (form,) = (
        form
        for form in forms.accepted(row)
        if form.options["approximate"] == value and form.signature is row.signatures[0]
        if form.keywords
    )
    site = _claimed(form)
    lowered = TorchPlugin().lower(site, _context(site))
    assert lowered.rust == f'rxt_torch::ops::gelu(rxt_torch::Scope::Operation, &v0, "{value}")?'


@pytest.mark.parametrize(
    ("value", "rust"),
    [
        ("", '""'),
        ("a b", '"a b"'),
        ('a"b', '"a\\u{22}b"'),
        ("a\\b", '"a\\u{5c}b"'),
        ("a\n{é}", '"a\\u{a}{\\u{e9}}"'),
    ],
)
def test_strings_are_escaped_for_rust(value: str, rust: str) -> None:
    assert emit._literal(value) == rust


_SUM = "p0.sum(dim=0, keepdim=True)"


def _sum_site() -> ClaimSite:
    found = [
        form
        for form in forms.accepted(BY_ID["sum"])
        if form.expression == _SUM and form.arguments == (forms.Operand("TensorF32Cpu2D"),)
    ]
    return _claimed(found[0])


_DRIFT = {
    "rule id": {"rule_id": "rextio-torch/mean/call"},
    "rule id of another kind": {"rule_id": "rextio-torch/sum/binop"},
    "no rule id": {"rule_id": None},
    "result type": {"result_type": "rextio-torch/tensor-f32-cpu-1d"},
    "no result type": {"result_type": None},
    "target": {"target": "p0.mean"},
    "kind": {"kind": "binop", "target": "+"},
    "operand": {"operand_types": ("int",), "operand_literals": (ClaimLiteral(True, 1),)},
    "literal": {"keywords": (KeywordArg("dim", "int", ClaimLiteral(True, 2)),)},
    "keepdim": {"keywords": (KeywordArg("dim", "int", ClaimLiteral(True, 0)),)},
    "runtime value": {"keywords": (KeywordArg("dim", "int"),)},
    "receiver": {"receiver": api.ReceiverMeta("rextio-torch/tensor-i64-cpu-1d", "name", True)},
    "receiver rank": {"receiver": api.ReceiverMeta("rextio-torch/tensor-f32-cpu-1d", "name", True)},
    "no receiver": {"receiver": None},
}


@pytest.mark.parametrize("drift", _DRIFT)
def test_drift_is_refused(drift: str) -> None:
    site = _sum_site()
    context = _context(site)
    TorchPlugin().lower(site, context)
    changed = replace(site, **_DRIFT[drift])
    if drift == "receiver rank":
        # Rank 1 with keepdim is accepted too, with another result.
        assert isinstance(decide(changed), Call)
    with pytest.raises(ValueError, match="was claimed"):
        TorchPlugin().lower(changed, context)


def test_unrendered_receiver_is_refused() -> None:
    site = _sum_site()
    with pytest.raises(ValueError, match="receiver"):
        TorchPlugin().lower(site, replace(_context(site), receiver=None))


def test_another_language_is_refused() -> None:
    site = _sum_site()
    with pytest.raises(ValueError, match="'zig'"):
        TorchPlugin().lower(site, replace(_context(site), target_language="zig"))


def test_another_backend_is_refused() -> None:
    site = _sum_site()
    context = _context(site)
    # LoweringContext checks the artifact profile; only the field matters here.
    object.__setattr__(context, "backend", api.LOWERING_BACKEND_STANDALONE_RUST)
    with pytest.raises(ValueError, match="standalone-rust"):
        TorchPlugin().lower(site, context)


def test_not_a_context_is_refused() -> None:
    with pytest.raises(ValueError, match="LoweringContext"):
        TorchPlugin().lower(_sum_site(), object())


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_bypass_variable_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site = _sum_site()
    monkeypatch.setenv(BYPASS_VARIABLE, value)
    with pytest.raises(RuntimeError, match="LIBTORCH_BYPASS_VERSION_CHECK"):
        TorchPlugin().lower(site, _context(site))


@pytest.mark.parametrize(
    ("system", "machine", "reason"),
    [
        ("Darwin", "x86_64", "no torch 2.11.0 wheel"),
        ("Windows", "AMD64", "deferred"),
        ("Linux", "i686", "32-bit"),
    ],
)
def test_an_unsupported_host_is_refused(
    system: str, machine: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = _sum_site()
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(UnsupportedPlatformError, match=reason):
        TorchPlugin().lower(site, _context(site))


# function_scope_guard()


def _scope(**facts: object) -> PluginFunctionScopeContext:
    return PluginFunctionScopeContext(
        function_qualname="m.f",
        used_type_keys=("rextio-torch/tensor-f32-cpu-2d",),
        **{"used_rule_ids": ("rextio-torch/relu/call",), **facts},
    )


def test_function_scope() -> None:
    guard = TorchPlugin().function_scope_guard(_scope())
    assert guard is not None
    assert guard.rust == "rxt_torch::FunctionScope::enter()"
    assert guard.helpers == emit.helpers()


@pytest.mark.parametrize(
    "facts", [{"has_python_boundary_calls": True}, {"used_rule_ids": ()}], ids=["callback", "types"]
)
def test_no_function_scope(facts: dict[str, object]) -> None:
    assert TorchPlugin().function_scope_guard(_scope(**facts)) is None


def test_no_function_scope_standalone() -> None:
    context = _scope()
    object.__setattr__(context, "backend", api.LOWERING_BACKEND_STANDALONE_RUST)
    assert TorchPlugin().function_scope_guard(context) is None


# Rextio's plugin API


def test_installed_rextio_is_accepted() -> None:
    assert isinstance(plugin(), TorchPlugin)


@pytest.mark.parametrize("host", ["1.7", "1.8", "1.10", "1.7.3"])
def test_plugin_api_accepted(host: str) -> None:
    require_plugin_api(host)


@pytest.mark.parametrize("host", ["1.6", "1.0", "0.9", "2.0", "2.7", "1", "", "x", "1.x", "x.7"])
def test_plugin_api_refused(host: str) -> None:
    with pytest.raises(RuntimeError) as error:
        require_plugin_api(host)
    assert f"plugin API {PLUGIN_API_VERSION} " in str(error.value)
    assert f"has {host};" in str(error.value)


def test_entry_point_checks_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "PLUGIN_API_VERSION", "1.6")
    with pytest.raises(RuntimeError, match=r"1\.7.*1\.6"):
        plugin()
