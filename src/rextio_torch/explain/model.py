"""What a row of the table of forms says, and what is found in a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.syntax.source import SourceFile, Span

CODE = re.compile(r"RXTP-FORM-\d{3}")


#: Detections in a function and in a file, and those of a whole project's other files.
FunctionDetection: TypeAlias = Callable[[Facts], Iterable[cst.CSTNode]]
FileDetection: TypeAlias = Callable[[SourceFile], Iterable[cst.CSTNode]]


@dataclass(frozen=True)
class Form:
    """One row: a form of Python that Rextio does not compile.

    `example` and `instead` are modules without their imports, in which the function `f` is not
    native and native; the tests hold both against Rextio. `scope` says what stays on Python: the
    function, all functions of the file, or all of the project. `other` is a second file of the
    example's project.
    """

    code: str
    id: str
    title: str
    reason: str
    advice: str
    example: str
    instead: str
    detect: FunctionDetection | None = None
    detect_in_file: FileDetection | None = None
    scope: Literal["function", "file", "project"] = "function"
    other: str | None = None
    #: What the front end makes of it before Rextio sees it, and where it does not.
    rewritten: str | None = None
    except_where: str | None = None
    #: What refuses the form where Rextio's analysis accepts it, and with it the whole project if
    #: nothing keeps the function on Python: the code generator, or the compiler of its Rust.
    stops: Literal["generator", "compiler"] | None = None
    #: Whether Rextio makes the function native all the same, and only some calls of it are wrong.
    fails_calls: bool = False

    def __post_init__(self) -> None:
        """Reject a row that cannot be shown or that detects nothing."""
        if CODE.fullmatch(self.code) is None:
            raise ValueError(f"form {self.id!r}: code must be RXTP-FORM-NNN, not {self.code!r}")
        if (self.detect is None) == (self.detect_in_file is None):
            raise ValueError(f"form {self.id!r}: needs one detection")
        if self.except_where is not None and self.rewritten is None:
            raise ValueError(f"form {self.id!r}: an exception from no rewrite")
        if (self.scope == "function") != (self.detect is not None):
            raise ValueError(f"form {self.id!r}: a detection of another scope")


@dataclass(frozen=True)
class Finding:
    """One place that keeps functions on Python.

    `by` says whose reason it is: the table of forms, the operator table, or Rextio.
    """

    code: str
    title: str
    span: Span
    reason: str
    instead: str | None
    by: Literal["form", "operator", "rextio"]
    #: Where it is, if that is another file than the function's.
    file: str | None = None
    #: Whether the front end rewrites it wherever nothing else keeps the function on Python.
    is_rewritten: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready data."""
        data = asdict(self)
        del data["is_rewritten"]
        return {**data.pop("span"), **data}


@dataclass(frozen=True)
class Operation:
    """One operation of a native function."""

    operator: str
    schema: str
    span: Span
    source: str
    #: The type of the result, as its marker.
    result: str

    def to_dict(self) -> dict[str, Any]:
        """Return the operation as JSON-ready data."""
        data = asdict(self)
        return {**data.pop("span"), **data}


@dataclass(frozen=True)
class Fused:
    """Operations that run as one, by their indices, and how."""

    operations: tuple[int, ...]
    how: str


@dataclass(frozen=True)
class Explained:
    """One function with tensor annotations."""

    qualname: str
    file: str
    span: Span
    #: `inlined` is Python of its own, and native inside the functions that call it.
    outcome: Literal["native", "inlined", "python", "shim"]
    operations: tuple[Operation, ...] = ()
    fused: tuple[Fused, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    #: Titles of the forms that were rewritten, and what the function became, if any were.
    rewritten: tuple[str, ...] = ()
    normal_form: str | None = None

    @property
    def native(self) -> bool:
        """Whether it runs as native code; Python behind a shim does not."""
        return self.outcome == "native"

    def to_dict(self) -> dict[str, Any]:
        """Return the function as JSON-ready data."""
        return {
            "qualname": self.qualname,
            "file": self.file,
            **asdict(self.span),
            "outcome": self.outcome,
            "native": self.native,
            "operations": [operation.to_dict() for operation in self.operations],
            "fused": [asdict(fused) for fused in self.fused],
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
            "rewritten": list(self.rewritten),
            "normal_form": self.normal_form,
        }


@dataclass(frozen=True)
class Explanation:
    """A whole answer: functions, and what keeps whole files or all of the project on Python."""

    projects: tuple[str, ...]
    functions: tuple[Explained, ...]
    #: What keeps all functions of a file on Python, by file, and all of the project.
    files: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    everywhere: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def not_native(self) -> list[str]:
        """The functions that run in Python."""
        functions = self.functions
        return [it.qualname for it in functions if it.outcome not in ("native", "inlined")]

    @property
    def wrong_defaults(self) -> list[str]:
        """The native functions that fail where a call leaves a parameter out."""
        return [f.qualname for f in self.functions if f.native and f.findings]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON-ready data; `schema` counts changes that break readers."""
        return {
            "schema": 1,
            "projects": list(self.projects),
            "functions": [function.to_dict() for function in self.functions],
            "files": [
                {"file": file, "findings": [finding.to_dict() for finding in findings]}
                for file, findings in self.files.items()
            ],
            "everywhere": [finding.to_dict() for finding in self.everywhere],
            "not_native": self.not_native,
            "wrong_defaults": self.wrong_defaults,
            "notes": list(self.notes),
        }
