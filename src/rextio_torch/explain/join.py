"""Rextio's verdict and the tables joined: one answer for each function with tensor annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import libcst as cst

from rextio_torch.analysis.decide import CudaRejection, Rejection
from rextio_torch.cuda import candidate
from rextio_torch.explain.facts import Facts, Site
from rextio_torch.explain.forms.table import FORMS
from rextio_torch.explain.fusion import fused
from rextio_torch.explain.inference import infer
from rextio_torch.explain.model import Explained, Explanation, Finding, Form, Operation
from rextio_torch.explain.rextio_words import (
    NOT_BUILT,
    generator_stopped,
    no_reason,
    of_rextio,
    unexplained,
    unknown_cause,
)
from rextio_torch.explain.verdict import UNSEEN, Claim, Verdict, verdicts
from rextio_torch.ops.table import BY_ID
from rextio_torch.ops.tensor_types import TYPES_BY_KEY
from rextio_torch.syntax.files import parse_files
from rextio_torch.syntax.source import Function, SourceFile, Span

_STOPS_BUILD = {form.code for form in FORMS if form.stops is not None}
_FAILS_CALLS = {form.code for form in FORMS if form.fails_calls}
SHIM = (
    "marked @rextio.native, but run in Python by a shim (RXT080): Rextio calls that accepted, it "
    "is not native code"
)


@dataclass
class _Answer:
    """What was found out about a function, and what else keeps it on Python."""

    explained: Explained
    whole_file: bool = False
    whole_project: bool = False


def explain(
    project: Path,
    report: Mapping[str, Any],
    chosen: Callable[[Path], bool],
    stopped: str | None = None,
    unseen: Set[str] = frozenset(),
) -> Explanation:
    """Explain the functions of the chosen files, by the report of `rextio check` on a project.

    `stopped` is what stops Rextio's code generator there: then nothing is native. `unseen` are
    functions with tensor annotations, `module.function`, that the files no longer hold. Raises
    `UnreadableError` for a chosen file that cannot be parsed.
    """
    modules = {
        Path(module["file_path"]): module
        for module in report.get("modules", ())
        if module.get("file_path")
    }
    names = {path: str(module.get("module_name")) for path, module in modules.items()}
    files = parse_files(names, chosen)
    functions = {path: list(file.functions()) for path, file in files.items()}
    tensor_functions = {
        f"{files[path].module}.{function.name}"
        for path, found in functions.items()
        for function in found
    } | unseen
    explained: list[Explained] = []
    shared: dict[str, tuple[Finding, ...]] = {}
    everywhere: list[Finding] = []
    for path, file in files.items():
        if not chosen(path):
            continue
        file.tensor_functions = tensor_functions
        by_line = verdicts(modules[path])
        answers = [_answer(file, function, by_line) for function in functions[path]]
        explained += [answer.explained for answer in answers]
        if any(answer.whole_file for answer in answers):
            shared[file.label] = tuple(_in_file(file, "file") or [unknown_cause(file)])
        if not everywhere and any(answer.whole_project for answer in answers):
            everywhere = [f for other in files.values() for f in _in_file(other, "project")]
            everywhere = everywhere or [unknown_cause(file)]
    if stopped is not None:
        everywhere.append(generator_stopped(stopped))
        explained = [
            _not_built(function) if function.native else function for function in explained
        ]
    return Explanation((str(project),), tuple(explained), shared, tuple(everywhere))


def explain_unseen(file: SourceFile, function: Function, tensor_functions: Set[str]) -> Explained:
    """Explain a function that Rextio was not shown: by the tables, its own statement included."""
    file.tensor_functions = set(tensor_functions)
    start, end = file.statement_range(function.node)
    findings = _findings(infer(file, function))
    findings += [
        finding
        for finding in _in_file(file, "file")
        if start <= file.offset(finding.span.line, finding.span.column) < end
    ]
    return Explained(
        qualname=f"{file.module}.{function.name}",
        file=file.label,
        span=file.span(function.node),
        outcome="python",
        findings=tuple(sorted(findings, key=lambda finding: (finding.span, finding.code))),
    )


def _not_built(function: Explained) -> Explained:
    note = "Rextio's analysis accepts it, but nothing of the project is built, see below"
    return replace(function, outcome="python", fused=(), notes=(*function.notes, note))


def _answer(file: SourceFile, function: Function, by_line: Mapping[int, Verdict]) -> _Answer:
    span = file.span(function.node)
    verdict = by_line.get(span.line, UNSEEN)
    qualname = f"{file.module}.{function.name}"
    facts = infer(file, function)
    findings = _findings(facts)
    if verdict.outcome == "native":
        stopping = tuple(finding for finding in findings if finding.code in _STOPS_BUILD)
        if stopping:
            return _Answer(
                Explained(qualname, file.label, span, outcome="python", findings=stopping)
            )
        failing = tuple(finding for finding in findings if finding.code in _FAILS_CALLS)
        return _Answer(replace(_native(facts, verdict, qualname, span), findings=failing))
    kept = [blocker for blocker in verdict.blockers if blocker.code == NOT_BUILT.code]
    if kept:
        known = [finding for finding in findings if finding.code in _STOPS_BUILD]
        causes = tuple(known or (of_rextio(file, blocker) for blocker in kept))
        return _Answer(Explained(qualname, file.label, span, outcome="python", findings=causes))
    rest = unexplained(facts, verdict, findings)
    findings = sorted({*findings, *rest.findings}, key=lambda finding: (finding.span, finding.code))
    notes = []
    if verdict.outcome == "shim":
        notes.append(SHIM)
    if rest.whole_file:
        notes.append("the whole file stays on Python, see below")
    if rest.whole_project:
        notes.append("all of the project stays on Python, see below")
    if not findings and not rest.whole_file and not rest.whole_project:
        findings = [no_reason(verdict, span)]
    explained = Explained(
        qualname=qualname,
        file=file.label,
        span=span,
        outcome=verdict.outcome,
        findings=tuple(findings),
        notes=tuple(notes),
    )
    return _Answer(explained, rest.whole_file, rest.whole_project)


def _native(facts: Facts, verdict: Verdict, qualname: str, span: Span) -> Explained:
    """List what Rextio says was claimed, with what the source says about the flow of data."""
    file = facts.file
    sites: dict[tuple[str, Span], Site] = {
        (site.call.operator.id, file.span(site.node)): site for site in facts.sites
    }
    claims = {(claim.operator, _claim_span(file, claim)): claim for claim in verdict.claims}
    ordered = [(key, site) for key, site in sites.items() if key in claims]
    operations = tuple(
        _operation(file, claims[key], key[1])
        for key in (*(key for key, _ in ordered), *(key for key in claims if key not in sites))
    )
    notes = [
        f"line {call.line} calls Python (RXT075): each operation is computed at once, nothing fuses"
        for call in verdict.callbacks
    ]
    if any(site.call.on_cuda for _, site in ordered):
        notes.append(
            f"the build-only CUDA candidate, {candidate.CLAIMS_TEXT}: each operation runs in "
            "libtorch, nothing fuses"
        )
    known = len(ordered) == len(sites) == len(claims)
    return Explained(
        qualname=qualname,
        file=file.label,
        span=span,
        outcome="native",
        operations=operations,
        fused=fused([site for _, site in ordered]) if known and not notes else (),
        notes=tuple(notes),
    )


def _claim_span(file: SourceFile, claim: Claim) -> Span:
    return Span(
        claim.line,
        file.column(claim.line, claim.byte),
        claim.end_line,
        file.column(claim.end_line, claim.end_byte),
    )


def _operation(file: SourceFile, claim: Claim, span: Span) -> Operation:
    return Operation(
        operator=claim.operator,
        schema=BY_ID[claim.operator].schema,
        span=span,
        source=file.slice(span),
        result=TYPES_BY_KEY[claim.result].label if claim.result in TYPES_BY_KEY else claim.result,
    )


def _findings(facts: Facts) -> list[Finding]:
    """Return what the tables know to keep a function on Python."""
    found = []
    for form in FORMS:
        if form.detect is not None:
            found += [_of_form(form, facts.file, node) for node in form.detect(facts)]
    found += [_of_operator(facts, node, rejected) for node, rejected in facts.rejections]
    return list(dict.fromkeys(found))


def _in_file(file: SourceFile, scope: str) -> list[Finding]:
    nodes: list[tuple[Form, cst.CSTNode]] = [
        (form, node)
        for form in FORMS
        if form.detect_in_file is not None and form.scope == scope
        for node in form.detect_in_file(file)
    ]
    findings = [_of_form(form, file, node) for form, node in nodes]
    return sorted(dict.fromkeys(findings), key=lambda finding: finding.span)


def _of_form(form: Form, file: SourceFile, node: cst.CSTNode) -> Finding:
    reason = form.reason
    if form.except_where is not None:
        reason += f" rextio-torch rewrites it, unless {form.except_where}."
    return Finding(
        code=form.code,
        title=form.title,
        span=file.span(node),
        reason=reason,
        instead=form.advice,
        by="form",
        is_rewritten=form.rewritten is not None and form.except_where is None,
        file=None if form.scope == "function" else file.label,
    )


def _of_operator(facts: Facts, node: cst.CSTNode, rejected: Rejection | CudaRejection) -> Finding:
    if isinstance(rejected, CudaRejection):
        diagnostic, what = candidate.OUTSIDE, "on CUDA tensors"
    else:
        diagnostic, what = rejected.operator.diagnostic, rejected.operator.id
    return Finding(
        code=diagnostic.code,
        title=f"{what}: {rejected.reason}",
        span=facts.file.span(node),
        reason=diagnostic.why,
        instead=f"Write {diagnostic.instead}",
        by="operator",
        is_rewritten=node in facts.from_the_end,
    )
