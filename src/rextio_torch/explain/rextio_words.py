"""Reasons in Rextio's own words, where no table has one: which are shown, and which only follow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.forms import definition, signature
from rextio_torch.explain.forms.table import forms_of
from rextio_torch.explain.model import Finding
from rextio_torch.explain.verdict import Blocker, Verdict
from rextio_torch.ops.model import Diagnostic
from rextio_torch.syntax.source import SourceFile, Span
from rextio_torch.syntax.tree import parameters

_SIGNATURE_CODES = {form.code for form in forms_of(signature, definition)}
# Rextio's words for what only follows from something else that it reports.
_UNDEFINED = re.compile(r"name '(.+?)' is not defined in this scope")
_FOLLOWS = (
    "this binary operator is not supported",
    "this unary operator is not supported",
    "membership comparisons are not supported",
    "unsupported unresolved call",
)
_FOLLOWS_ANYWHERE = ("inferred type ", "tuple items must be", "calling a name that is shadowed")
_REBOUND = "is a module attribute rebound at module load"
_MUTATED = "call reaches a project module attribute that is mutated"
#: Of a function that Rextio accepts and that was kept on Python, so that the rest was built.
NOT_BUILT = Diagnostic(
    code="RXTP-BUILD-001",
    why="Rextio's analysis accepts the function, but its code generator stops there (RXT050), or "
    "the Rust that it writes does not compile; then `rextio build` builds nothing of the project. "
    "`rextio-torch build` keeps the function on Python, and what calls it, and builds the rest.",
    example="""\
def steps(n: int) -> int:
    total = n
    for step in [1, 2, 3]:
        total = total + step
    return total""",
    instead="""\
def steps(n: int) -> int:
    total = n
    for step in range(1, 4):
        total = total + step
    return total""",
)
NOT_BUILT_ADVICE = (
    "Write what the message is about in another way; and please report the function with the "
    "message, so that it gets a reason of its own."
)


@dataclass(frozen=True)
class Unexplained:
    """What no finding covers: places in the function, or something about its file or project."""

    findings: list[Finding]
    whole_file: bool
    whole_project: bool


def unexplained(facts: Facts, verdict: Verdict, findings: list[Finding]) -> Unexplained:
    """Return Rextio's own reasons that no finding covers."""
    rest: list[Finding] = []
    whole_file = whole_project = False
    for blocker in verdict.blockers:
        if _REBOUND in blocker.message or _MUTATED in blocker.message:
            whole_project = True
        elif blocker.code in ("RXT002", "RXT003") and _known_type(facts, blocker):
            whole_file = True
        elif not _is_explained(facts, blocker, findings):
            rest.append(of_rextio(facts.file, blocker))
    if whole_file:
        # Parameters of unknown type are not defined, in Rextio's words; the rest follows.
        rest = []
    return Unexplained(rest, whole_file, whole_project)


def _known_type(facts: Facts, blocker: Blocker) -> bool:
    """Whether a type that Rextio does not accept here is one that it knows."""
    file = facts.file
    if blocker.code == "RXT003":
        return file.resolver.annotation(facts.node.returns).kind == "tensor"
    column = file.column(blocker.line, blocker.byte)
    for parameter in parameters(facts.node.params):
        span = file.span(parameter.name)
        if (span.line, span.column) == (blocker.line, column):
            return file.resolver.annotation(parameter.annotation).kind == "tensor"
    return False


def _is_explained(facts: Facts, blocker: Blocker, findings: list[Finding]) -> bool:
    column = facts.file.column(blocker.line, blocker.byte)
    end = facts.file.end_of(blocker.line, column)
    for finding in findings:
        start = (finding.span.line, finding.span.column)
        if finding.span.covers(blocker.line, column) or (blocker.line, column) <= start < end:
            return True
    if not findings:
        return False
    if blocker.code in ("RXT001", "RXT002", "RXT003"):
        return any(finding.code in _SIGNATURE_CODES for finding in findings)
    undefined = _UNDEFINED.match(blocker.message)
    if undefined is not None:
        return undefined[1] in facts.local_names
    if blocker.line == facts.file.span(facts.node).line:
        return True
    if any(facts.file.span(node).covers(blocker.line, column) for node in facts.following_sites):
        return True
    starts = {facts.file.span(node) for node in facts.unknown_sites}
    unknown = any((span.line, span.column) == (blocker.line, column) for span in starts)
    inside = any(finding.span.line == blocker.line for finding in findings)
    return blocker.message.startswith(_FOLLOWS_ANYWHERE) or (
        blocker.message.startswith(_FOLLOWS) and (unknown or inside)
    )


def of_rextio(file: SourceFile, blocker: Blocker) -> Finding:
    """Return the finding for a reason that Rextio gives."""
    column = file.column(blocker.line, blocker.byte)
    reason = "Rextio's own words; this is in no table of rextio-torch."
    return Finding(
        code=blocker.code,
        title=blocker.message,
        span=Span(blocker.line, column, blocker.line, file.word_end(blocker.line, column)),
        reason=NOT_BUILT.why if blocker.code == NOT_BUILT.code else reason,
        instead=blocker.suggestion,
        by="rextio",
    )


def no_reason(verdict: Verdict, span: Span) -> Finding:
    """Return the finding for a function that Rextio keeps on Python without a reason."""
    said = f" It says: {verdict.skipped}." if verdict.skipped else ""
    return Finding(
        code="RXTP-FORM-000",
        title="kept on Python without a reason",
        span=span,
        reason=f"Rextio keeps the function on Python, and no table knows why.{said}",
        instead=None,
        by="rextio",
    )


def generator_stopped(cause: str) -> Finding:
    """Return the finding for a code generator that stops, though the analysis accepts it all."""
    return Finding(
        code="RXT050",
        title=f"the code generator stops: {cause}",
        span=Span(1, 1, 1, 1),
        reason="Rextio's own words, without a place. A function with a reason that mentions RXT050 "
        "is the cause, if there is one.",
        instead="Where none is, take functions out of the project until it is gone.",
        by="rextio",
    )


def unknown_cause(file: SourceFile) -> Finding:
    """Return the finding for a file whose names Rextio does not trust, where no form says why."""
    return Finding(
        code="RXTP-FORM-000",
        title="something at module level, here or in another file",
        span=Span(1, 1, 1, 1),
        reason="Rextio does not trust the names of this file, and no table knows why: something at "
        "module level may bind one again.",
        instead="Move the functions into a file of imports and functions alone.",
        by="rextio",
        file=file.label,
    )
