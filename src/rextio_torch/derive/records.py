"""Rule records, coverage and diagnostics for Rextio, from the operator table."""

from __future__ import annotations

from rextio.plugins.api import CoverageDecl, RuleRecord, RuleScope
from rextio.plugins.api import Diagnostic as RextioDiagnostic

from rextio_torch.ops.model import Operator
from rextio_torch.ops.table import OPERATORS
from rextio_torch.versions import PLUGIN_ID


def rule_id(operator: Operator, site_kind: str) -> str:
    """Return the id of the rule that claims an operator's call or binop sites."""
    return f"{PLUGIN_ID}/{operator.id}/{site_kind}"


def site_kinds(operator: Operator) -> tuple[str, ...]:
    """Return the kinds of claim site that an operator's spellings have."""
    return tuple(dict.fromkeys(spelling.site_kind for spelling in operator.spellings))


def signature_texts(operator: Operator) -> list[str]:
    """Return each accepted signature as text, for records and documentation."""
    texts = []
    for signature in operator.signatures:
        operands = ", ".join(
            operand.marker if operand else "None" for operand in signature.operands
        )
        options = "".join(
            f"; {parameter.name}={'|'.join(map(repr, operator.accepted(signature, parameter)))}"
            for parameter in operator.options
        )
        texts.append(f"({operands}{options}) -> {signature.result.marker}")
    return texts


def rule_records() -> tuple[RuleRecord, ...]:
    """Return a record for each claiming rule and one for each diagnostic code."""
    records = []
    for operator in OPERATORS:
        signatures = " or ".join(signature_texts(operator))
        for kind in site_kinds(operator):
            records.append(
                RuleRecord(
                    id=rule_id(operator, kind),
                    provider=PLUGIN_ID,
                    scope=RuleScope(kind, " | ".join(_labels(operator, kind))),
                    constraint=signatures,
                    outcome="native",
                    diagnostic_code=None,
                    guidance=f"{operator.id} runs natively for {signatures}.",
                    stability="experimental",
                )
            )
        diagnostic = operator.diagnostic
        kinds = site_kinds(operator)
        labels = [label for kind in kinds for label in _labels(operator, kind)]
        records.append(
            RuleRecord(
                id=f"{PLUGIN_ID}/{operator.id}/rejected",
                provider=PLUGIN_ID,
                # A record has one kind; the pattern names the spellings of every kind.
                scope=RuleScope(kinds[0], " | ".join(labels)),
                constraint=diagnostic.why,
                outcome="reject",
                diagnostic_code=diagnostic.code,
                guidance=f"Write {diagnostic.instead}",
                stability="experimental",
                examples=({"rejected": diagnostic.example, "native": diagnostic.instead},),
            )
        )
    return tuple(records)


def _labels(operator: Operator, kind: str) -> list[str]:
    return [spelling.label for spelling in operator.spellings if spelling.site_kind == kind]


def coverage() -> CoverageDecl:
    """Return the packages, modules and symbols that claims may come from."""
    functions = [
        spelling.target
        for operator in OPERATORS
        for spelling in operator.spellings
        if spelling.kind == "function"
    ]
    return CoverageDecl(
        packages=("torch",),
        modules=tuple(sorted({target.rpartition(".")[0] for target in functions})),
        symbols=tuple(sorted(functions)),
    )


def rejection_diagnostic(operator: Operator, reason: str) -> RextioDiagnostic:
    """Return the diagnostic of a rejected site; Rextio fills in its position."""
    diagnostic = operator.diagnostic
    return RextioDiagnostic(
        code=diagnostic.code,
        severity="error",
        message=f"{operator.id} stays on Python: {reason}. {diagnostic.why}",
        file_path="",
        suggestion=f"Write {diagnostic.instead}",
    )
