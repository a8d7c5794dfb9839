"""`decide` alone: every form of the table, and sites that nobody thought of."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rextio.plugins.api import (
    NON_LITERAL,
    RECEIVER_EXPR_KINDS,
    CallableMeta,
    Claimed,
    ClaimExpr,
    ClaimLiteral,
    ClaimSite,
    KeywordArg,
    LoweringContext,
    NotCovered,
    ReceiverMeta,
    Rejected,
)
from support import forms
from support.fuzz import examples

from rextio_torch.analysis import decide as decide_module
from rextio_torch.analysis.decide import Call, Rejection, decide
from rextio_torch.derive import records
from rextio_torch.ops.model import Operator
from rextio_torch.ops.table import BY_ID, OPERATORS
from rextio_torch.ops.tensor_types import ALL_TYPES, CUDA_TYPES
from rextio_torch.plugin import TorchPlugin

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)

MATRIX, VECTOR, LABELS = (
    "rextio-torch/tensor-f32-cpu-2d",
    "rextio-torch/tensor-f32-cpu-1d",
    "rextio-torch/tensor-i64-cpu-1d",
)
DECLARED = {
    record.diagnostic_code
    for record in records.rule_records()
    if record.diagnostic_code is not None
}
RULES = {record.id for record in records.rule_records() if record.outcome == "native"}


@by_operator
def test_accepted(operator: Operator) -> None:
    for form in forms.accepted(operator):
        decision = decide(form.site())
        assert isinstance(decision, Call), (form, decision)
        assert decision.operator is operator
        assert decision.spelling == form.spelling
        assert decision.signature is form.signature
        assert decision.options == form.options
        operands = [
            None if index is None else form.arguments[index].type for index in decision.operands
        ]
        expected = [item.key if item else None for item in decision.signature.operands]
        assert operands == expected


def _wrongly_decided(operator: Operator) -> list[forms.Form]:
    wrong = []
    for form in forms.rejected(operator):
        decision = decide(form.site())
        if not (isinstance(decision, Rejection) and decision.operator is operator):
            wrong.append(form)
    return wrong


@by_operator
def test_rejected(operator: Operator) -> None:
    assert _wrongly_decided(operator) == []


@by_operator
def test_reasons_are_short_sentences(operator: Operator) -> None:
    """A reason says what does not fit, not how this package or Rextio name things."""
    for form in forms.rejected(operator):
        decision = decide(form.site())
        assert isinstance(decision, Rejection)
        assert 0 < len(decision.reason) < 300, decision.reason
        assert not decision.reason.endswith(".")
        assert "rextio-torch/" not in decision.reason
        assert "Missing" not in decision.reason
        assert "REQUIRED" not in decision.reason


@pytest.mark.parametrize(
    ("arguments", "keywords", "reason"),
    [
        (("TensorI64Cpu1D",), {"dim": 0}, "operands of type (TensorI64Cpu1D) are not supported"),
        (
            ("float",),
            {"dim": 1},
            "`input` must be TensorF32Cpu2D or TensorF32Cpu1D, got a Python float",
        ),
        (("None",), {"dim": 1}, "`input` must be TensorF32Cpu2D or TensorF32Cpu1D, got None"),
        (("TensorF32Cpu2D",), {}, "`dim` is missing"),
        (("TensorF32Cpu2D",), {"dim": -1}, "`dim=-1` is not supported, only 0 or 1"),
        (("TensorF32Cpu1D",), {"dim": 0}, "`keepdim=False` is not supported, only True"),
        (("TensorF32Cpu2D",), {"dim": 1, "dtype": None}, "`dtype=` is not supported"),
        (("TensorF32Cpu2D", "int"), {}, "`dim` must be a literal, got a Python int value"),
        (
            ("TensorF32Cpu2D",) + ("int",) * 3,
            {},
            "it takes at most 3 positional arguments, got 4",
        ),
    ],
)
def test_reasons(arguments: tuple[str, ...], keywords: dict[str, object], reason: str) -> None:
    mean = BY_ID["mean"]
    form = forms.Form(
        "",
        mean,
        next(spelling for spelling in mean.spellings if spelling.kind == "function"),
        tuple(
            forms.Literal(None) if annotation == "None" else forms.Operand(annotation)
            for annotation in arguments
        ),
        tuple((name, forms.Literal(value)) for name, value in keywords.items()),
    )
    decision = decide(form.site())
    assert isinstance(decision, Rejection)
    assert decision.reason.startswith(reason)


def test_the_reason_of_a_combination_that_no_signature_accepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each value is accepted beside another one: no row is so today."""
    mean = BY_ID["mean"]
    first, second = (
        replace(mean.signatures[0], options={"dim": (0,), "keepdim": (False,)}),
        replace(mean.signatures[1], options={"dim": (1,), "keepdim": (True,)}),
    )
    row = replace(mean, signatures=(first, second))
    spelling = mean.spellings[0]
    monkeypatch.setattr(decide_module, "BY_SPELLING", {("method", "mean"): (row, spelling)})
    dim, keepdim = (
        KeywordArg(name, "int", ClaimLiteral(True, value))
        for name, value in (("dim", 0), ("keepdim", True))
    )
    decision = decide(replace(_method("mean", MATRIX), keywords=(dim, keepdim)))
    assert decision == Rejection(row, "this combination of options is not supported")


# Not covered


def _site(target: str, *operands: str | None, **changes: object) -> ClaimSite:
    site = ClaimSite("call", target, operands, "m.py", 1, 0)
    return replace(site, **changes)


def _method(name: str, receiver: str | None, *operands: str | None) -> ClaimSite:
    return _site(f"x.{name}", *operands, receiver=ReceiverMeta(receiver, "name", True))


_NOT_COVERED = {
    "unrelated function": _site("torch.mm", MATRIX, MATRIX),
    "in-place function": _site("torch.relu_", MATRIX),
    "in-place method": _method("relu_", MATRIX),
    "in-place method with an operand": _method("add_", MATRIX, MATRIX),
    "class": _site("torch.nn.GELU", MATRIX),
    "another name of mul": _site("torch.multiply", MATRIX, MATRIX),
    "functional sigmoid": _site("torch.nn.functional.sigmoid", MATRIX),
    "method that is only a function": _method("gelu", MATRIX),
    "method mul": _method("mul", MATRIX, MATRIX),
    "unknown method": _method("unknown", MATRIX),
    "function without its package": _site("relu", MATRIX),
    "function of another package": _site("mytorch.relu", MATRIX),
    "function with a longer path": _site("my.torch.relu", MATRIX),
    "function named as an operator": _site("+", MATRIX, MATRIX),
    "unresolved operand": _site("torch.relu", None),
    "one unresolved operand": _site("torch.matmul", MATRIX, None),
    "unresolved surplus operand": _site("torch.relu", MATRIX, None),
    "unresolved right side": _site("+", MATRIX, None, kind="binop"),
    "unresolved receiver": _method("relu", None),
    "receiver of a core type": _method("relu", "int"),
    "receiver of another plugin": _method("relu", "rextio-numpy/f64-1d"),
    "operand of another plugin": _site("torch.relu", "rextio-numpy/f64-1d"),
    "right side of another plugin": _site("@", MATRIX, "rextio-numpy/f64-1d", kind="binop"),
    "surplus operand of another plugin": _site("torch.relu", MATRIX, "rextio-numpy/f64-1d"),
    "comparison": _site("<", MATRIX, MATRIX, kind="compare"),
    "comparison with the name of an operator": _site("+", MATRIX, MATRIX, kind="compare"),
    "modulo": _site("%", MATRIX, MATRIX, kind="binop"),
    "operator named as a function": _site("torch.relu", MATRIX, kind="binop"),
    "unknown kind": _site("torch.relu", MATRIX, kind="subscript"),
    "runtime keyword": _site("torch.mean", MATRIX, keywords=(KeywordArg("dim", "int"),)),
    "float keyword": _site("torch.mean", MATRIX, keywords=(KeywordArg("dim", "float"),)),
    "tensor keyword": _site(
        "torch.nn.functional.linear", MATRIX, keywords=(KeywordArg("weight", MATRIX),)
    ),
    "function by keyword": _site(
        "torch.nn.functional.gelu",
        MATRIX,
        callables=(CallableMeta(1, "m.helper", keyword="approximate"),),
    ),
}


@pytest.mark.parametrize("name", _NOT_COVERED)
def test_not_covered(name: str) -> None:
    site = _NOT_COVERED[name]
    assert decide(site) is None
    assert TorchPlugin().claim(site, None) == NotCovered()


def test_position_and_expression_do_not_matter() -> None:
    site = _site("torch.relu", MATRIX)
    assert decide(site) == decide(replace(site, file_path="other.py", line=99, column=7))


def test_a_receiver_of_any_shape() -> None:
    """On a nested receiver Rextio gives the bare name of the method."""
    for kind in ("attribute", "subscript", "call", "opaque"):
        site = _site("relu", receiver=ReceiverMeta(MATRIX, kind, False))
        assert isinstance(decide(site), Call)


def test_a_parameter_named_torch_is_a_receiver() -> None:
    """`torch.relu(x)` on a tensor named torch is the method, which takes no argument."""
    receiver = ReceiverMeta(MATRIX, "name", True)
    assert isinstance(decide(_site("torch.relu", receiver=receiver)), Call)
    decision = decide(_site("torch.relu", MATRIX, receiver=receiver))
    assert isinstance(decision, Rejection)


# Any site at all

_TARGETS = sorted(
    {spelling.target for operator in OPERATORS for spelling in operator.spellings}
    | {f"x.{s.target}" for operator in OPERATORS for s in operator.spellings if s.kind == "method"}
)
_TYPES = st.sampled_from(
    [
        MATRIX,
        VECTOR,
        LABELS,
        *(tensor_type.key for tensor_type in CUDA_TYPES),
        "int",
        "float",
        "bool",
        "str",
        "None",
        "list[int]",
        "tuple[int, int]",
        "rextio-numpy/f64-1d",
        "rextio-torch/tensor-f16-cpu-2d",
        "",
        None,
    ]
)
_LITERALS = st.one_of(
    st.just(NON_LITERAL),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from(["none", "tanh", ""]),
        st.lists(st.integers(-2, 2), max_size=3).map(tuple),
    ).map(lambda value: ClaimLiteral(True, value)),
)
_NAMES = st.one_of(
    st.sampled_from(
        sorted(
            {
                parameter.name
                for operator in OPERATORS
                for spelling in operator.spellings
                for parameter in (*operator.parameters, *spelling.fixed)
            }
        )
    ),
    st.text(max_size=5),
)
_EXPRESSIONS = st.recursive(
    st.builds(
        ClaimExpr,
        kind=st.just("leaf"),
        result_type=_TYPES,
        leaf_index=st.integers(0, 5),
        leaf_kind=st.sampled_from(["name", "opaque"]),
    ),
    lambda children: st.builds(
        ClaimExpr,
        kind=st.just("call"),
        target=st.sampled_from(_TARGETS),
        result_type=_TYPES,
        children=st.lists(children, max_size=3).map(tuple),
    ),
    max_leaves=5,
)
_SITES = st.builds(
    ClaimSite,
    kind=st.sampled_from(["call", "call", "binop", "compare", ""]),
    target=st.one_of(st.sampled_from(_TARGETS), st.text(max_size=8)),
    operand_types=st.lists(_TYPES, max_size=5).map(tuple),
    file_path=st.just(""),
    line=st.just(0),
    column=st.just(0),
    operand_literals=st.lists(_LITERALS, max_size=5).map(tuple),
    keywords=st.lists(
        st.builds(KeywordArg, name=_NAMES, arg_type=_TYPES, literal=_LITERALS), max_size=4
    ).map(tuple),
    receiver=st.one_of(
        st.none(),
        st.builds(
            lambda arg_type, kind: ReceiverMeta(arg_type, kind, kind == "name"),
            _TYPES.filter(lambda item: item != ""),
            st.sampled_from(sorted(RECEIVER_EXPR_KINDS)),
        ),
    ),
    expression=st.none() | _EXPRESSIONS,
    callables=st.lists(
        st.builds(CallableMeta, arg_index=st.just(1), qualname=st.just("m.f"), keyword=_NAMES),
        max_size=1,
    ).map(tuple),
)
#: Near misses: an accepted or rejected form with one part exchanged.
_FORMS = [form for operator in OPERATORS for form in forms.accepted(operator)]


@st.composite
def _near(draw: st.DrawFn) -> ClaimSite:
    site, other = draw(st.sampled_from(_FORMS)).site(), draw(_SITES)
    parts = ["target", "operand_types", "operand_literals", "keywords", "receiver", "kind"]
    parts += ["expression", "callables"]
    return replace(
        site,
        **{
            part: getattr(other, part) for part in draw(st.sets(st.sampled_from(parts), max_size=2))
        },
    )


def _aligned(site: ClaimSite) -> ClaimSite:
    """Rextio gives one literal for each operand, or none at all."""
    if len(site.operand_literals) > len(site.operand_types):
        return replace(site, operand_literals=site.operand_literals[: len(site.operand_types)])
    return site


_RUST = re.compile(
    r"rxt_torch::ops::\w+\(rxt_torch::Scope::(Function|Operation)"
    r"(, (&\w+|Some\(&\w+\)|None|true|false|\d+|\"\w*\"))*\)\?"
)


def _lower(site: ClaimSite, *, in_scope: bool) -> str:
    context = LoweringContext(
        operands=tuple(f"a{index}" for index in range(len(site.operand_types))),
        target_language="rust",
        fresh_name=str,
        receiver=None if site.receiver is None else "receiver",
        function_scope_guard_active=in_scope,
    )
    return TorchPlugin().lower(site, context).rust


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(_SITES, _near()).map(_aligned), st.booleans())
def test_any_site(site: ClaimSite, in_scope: bool) -> None:
    """Never an exception, always the same answer, and only what Rextio has been told about.

    What is claimed is lowered, to an expression that names the site's operands and nothing else.
    """
    decision = decide(site)
    assert decide(site) == decision
    result = TorchPlugin().claim(site, None)
    assert TorchPlugin().claim(site, None) == result
    if isinstance(result, Claimed):
        site = replace(site, rule_id=result.rule_id, result_type=result.result_type)
    if decision is None:
        assert result == NotCovered()
    elif isinstance(decision, Call) and not (
        decision.on_cuda and decision.signature.result.after is None
    ):
        assert isinstance(result, Claimed)
        assert result.rule_id in RULES
        assert result.result_type in {tensor_type.key for tensor_type in ALL_TYPES}
        assert decision.signature in decision.operator.all_signatures
        assert None not in site.operand_types
        if not decision.on_cuda:
            rust = _lower(site, in_scope=in_scope)
            assert _RUST.fullmatch(rust), rust
            assert _lower(site, in_scope=in_scope) == rust
            names = {f"a{index}" for index in range(len(site.operand_types))} | {"receiver"}
            used = re.findall(r"&(\w+)", rust)
            assert names.issuperset(used)
            assert len(set(used)) == len(used)
            return
    else:
        assert isinstance(result, Rejected)
        assert result.diagnostic.code in DECLARED
        if isinstance(decision, Rejection):
            assert result.diagnostic.code == decision.operator.diagnostic.code
            assert decision.reason
    with pytest.raises(ValueError, match=r"not in the operator table|permission|was claimed as"):
        _lower(site, in_scope=in_scope)


# These tests can fail


def test_a_forgotten_keyword_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    bind = decide_module._bind

    def careless(operator: Operator, spelling: object, arguments: object, site: ClaimSite) -> Call:
        return bind(operator, spelling, arguments, replace(site, keywords=()))

    monkeypatch.setattr(decide_module, "_bind", careless)
    wrong = {form.kind for form in _wrongly_decided(BY_ID["relu"])}
    assert {"unknown keyword", "duplicate", "options"} <= wrong


def test_a_forgotten_arity_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(parameters: tuple[object, ...], arguments: list[object]) -> dict[str, object]:
        return {p.name: a for p, a in zip(parameters, arguments, strict=False)}

    monkeypatch.setattr(decide_module, "_bind_positional", careless)
    wrong = {form.kind for form in _wrongly_decided(BY_ID["relu"])}
    assert "arity" in wrong
