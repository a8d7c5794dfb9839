"""Rule records, coverage and diagnostics for Rextio, from the operator table."""

from __future__ import annotations

from rextio.plugins.api import CoverageDecl, RuleRecord, RuleScope
from rextio.plugins.api import Diagnostic as RextioDiagnostic

from rextio_torch.cuda import candidate
from rextio_torch.ops.model import Diagnostic, Operator, Signature
from rextio_torch.ops.table import OPERATORS
from rextio_torch.versions import DEVICE_CAPABILITY, DEVICE_PROVIDER, PLUGIN_ID


def rule_id(operator: Operator, site_kind: str, *, on_cuda: bool = False) -> str:
    """Return the id of the rule that claims an operator's call or binop sites."""
    return f"{PLUGIN_ID}/{operator.id}/{site_kind}" + ("_cuda0" if on_cuda else "")


def site_kinds(operator: Operator) -> tuple[str, ...]:
    """Return the kinds of claim site that an operator's spellings have."""
    return tuple(dict.fromkeys(spelling.site_kind for spelling in operator.spellings))


def signature_texts(operator: Operator) -> list[str]:
    """Return each accepted signature as text, for records and documentation."""
    return [_signature_text(operator, signature) for signature in operator.signatures]


def cuda_text(operator: Operator) -> str | None:
    """Return an operator's form in the CUDA candidate as text, if it has one."""
    if operator.cuda is None:
        return None
    return _signature_text(operator, operator.cuda.signature)


def _signature_text(operator: Operator, signature: Signature) -> str:
    operands = ", ".join(operand.label if operand else "None" for operand in signature.operands)
    options = "".join(
        f"; {parameter.name}={'|'.join(map(repr, operator.accepted(signature, parameter)))}"
        for parameter in operator.options
    )
    return f"({operands}{options}) -> {signature.result.label}"


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
        kinds = site_kinds(operator)
        labels = [label for kind in kinds for label in _labels(operator, kind)]
        # A record has one kind; the pattern names the spellings of every kind.
        scope = RuleScope(kinds[0], " | ".join(labels))
        records.append(_rejected(f"{operator.id}/rejected", scope, operator.diagnostic))
    return (*records, *_cuda_records())


def _cuda_records() -> list[RuleRecord]:
    """Return a record for each step of the CUDA candidate and for its two diagnostics."""
    records = [
        RuleRecord(
            id=rule_id(operator, operator.cuda.spelling.site_kind, on_cuda=True),
            provider=PLUGIN_ID,
            scope=RuleScope(operator.cuda.spelling.site_kind, operator.cuda.spelling.label),
            constraint=cuda_text(operator) or "",
            outcome="native",
            diagnostic_code=None,
            guidance=(
                f"A step of the build-only CUDA candidate, {candidate.CLAIMS_TEXT}: generated "
                f"under the permission of {DEVICE_PROVIDER} ({DEVICE_CAPABILITY}) only."
            ),
            stability="experimental",
        )
        for operator in OPERATORS
        if operator.cuda is not None
    ]
    scope = RuleScope("type", candidate.type_labels())
    for name, diagnostic in zip(("not_authorised", "outside"), candidate.DIAGNOSTICS, strict=True):
        records.append(_rejected(f"cuda0/{name}", scope, diagnostic))
    return records


def _rejected(name: str, scope: RuleScope, diagnostic: Diagnostic) -> RuleRecord:
    return RuleRecord(
        id=f"{PLUGIN_ID}/{name}",
        provider=PLUGIN_ID,
        scope=scope,
        constraint=diagnostic.why,
        outcome="reject",
        diagnostic_code=diagnostic.code,
        guidance=f"Write {diagnostic.instead}",
        stability="experimental",
        examples=({"rejected": diagnostic.example, "native": diagnostic.instead},),
    )


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
        packages=tuple(sorted({target.partition(".")[0] for target in functions})),
        modules=tuple(sorted({target.rpartition(".")[0] for target in functions})),
        symbols=tuple(sorted(functions)),
    )


def rejection_diagnostic(operator: Operator, reason: str) -> RextioDiagnostic:
    """Return the diagnostic of a rejected site; Rextio fills in its position."""
    return _rejection(operator.diagnostic, f"{operator.id} stays on Python: {reason}.")


def cuda_rejection(diagnostic: Diagnostic, reason: str) -> RextioDiagnostic:
    """Return the diagnostic of a rejected site with a CUDA operand."""
    return _rejection(diagnostic, f"This stays on Python, on CUDA tensors: {reason}.")


def _rejection(diagnostic: Diagnostic, what: str) -> RextioDiagnostic:
    return RextioDiagnostic(
        code=diagnostic.code,
        severity="error",
        message=f"{what} {diagnostic.why}",
        file_path="",
        suggestion=f"Write {diagnostic.instead}",
    )
