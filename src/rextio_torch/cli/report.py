"""Which functions of a built project are native, read from Rextio's reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rextio_torch import versions
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.explain.model import Explained
from rextio_torch.explain.verdict import is_native, is_shim

NO_DIAGNOSTIC = (
    "kept on Python by Rextio without a diagnostic; rextio-torch explain says what keeps it there"
)
#: The route of a function that is native inside those that call it, and Python by itself.
INLINED = "inlined"
SHIM = "RXT080: Python run by a shim, not native code"


@dataclass(frozen=True)
class Function:
    """One function of a project, as it will run."""

    qualname: str
    native: bool
    route: str
    reason: str | None
    suggestion: str | None = None
    #: Whether its signature names one of this plugin's tensor types.
    has_tensors: bool = False
    #: Its tensor parameters whose default is no tensor: a call that leaves one out fails.
    wrong_defaults: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the function as JSON-ready data."""
        return asdict(self)

    @property
    def uses_this_plugin(self) -> bool:
        """Whether its native code is this plugin's."""
        names = self.route.removeprefix("native-plugin:").split("+")
        return self.native and versions.PLUGIN_ID in names


def read_report(project: Path, name: str) -> dict[str, Any]:
    """Return one of the reports that Rextio writes, or refuse what is none."""
    path = project / ".rextio" / "reports" / name
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CliError(
            f"Rextio left no readable report {name}",
            expected=str(path),
            found=str(error),
            repair=f"rextio check {quoted(project)}",
        ) from error
    if not isinstance(data, dict):
        raise CliError(
            f"{path} is not a report", expected="a JSON object", found=type(data).__name__
        )
    return data


def functions(
    check: Mapping[str, Any], tensors: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> list[Function]:
    """Return every function of a check report, in source order.

    `tensors` are the functions with tensor annotations, `module.function`, with their tensor
    parameters whose default is no tensor; those that Rextio says nothing of are listed too.
    """
    result = []
    for module in check.get("modules", ()):
        name = f"{module.get('module_name')}."
        listed = [_function(function) for function in module.get("functions", ())]
        seen = {function.qualname for function in listed}
        unseen = {it for it in tensors if it.startswith(name) and it.count(".") == name.count(".")}
        listed += [
            Function(missing, False, "fallback-python", NO_DIAGNOSTIC)
            for missing in sorted(unseen - seen)
        ]
        listed = [
            replace(
                f,
                has_tensors=f.qualname in tensors,
                wrong_defaults=tuple(tensors.get(f.qualname, ())),
            )
            for f in listed
        ]
        result += listed
    return result


def with_reason(function: Function, explained: Explained | None) -> Function:
    """Return a function that runs in Python with the first reason that explain gives."""
    if function.native or explained is None:
        return function
    if explained.outcome == "inlined":
        return replace(function, route=INLINED, reason=explained.notes[0], suggestion=None)
    if not explained.findings:
        return function
    first = explained.findings[0]
    place = f"{first.file or explained.file}:{first.span.line}:{first.span.column}"
    more = len(explained.findings) - 1
    rest = f" (and {more} more: rextio-torch explain)" if more else ""
    reason = f"{first.code}: {place}: {first.title}{rest}"
    return replace(function, reason=reason, suggestion=first.instead)


@dataclass(frozen=True)
class ParseError:
    """A file that Rextio could not parse."""

    file: str
    line: int | None
    message: str


def parse_errors(check: Mapping[str, Any]) -> list[ParseError]:
    """Return the errors that keep Rextio from analysing a project."""
    return [
        ParseError(str(found["file_path"]), found["line"], str(found["message"]))
        for found in check.get("diagnostics", ())
        if found.get("code") == "RXT000"
    ]


def _function(data: Mapping[str, Any]) -> Function:
    route = str(data.get("route", "unknown"))
    qualname = str(data.get("qualname", "?"))
    if is_native(data):
        return Function(qualname, True, route, None)
    diagnostics = [d for d in data.get("diagnostics", ()) if isinstance(d, dict)]
    # Errors decide; a warning beside them would name the wrong cause.
    ranked = sorted(diagnostics, key=lambda d: d.get("severity") != "error")
    if not ranked:
        accelerator = route.partition("fallback-accelerated:")[2]
        reason = (
            f"compiled by {accelerator}"
            if accelerator
            else SHIM
            if is_shim(data)
            else NO_DIAGNOSTIC
        )
        return Function(qualname, False, route, reason)
    first = ranked[0]
    place = f"line {first['line']}: " if first.get("line") else ""
    reason = f"{first.get('code')}: {place}{first.get('message')}"
    suggestion = first.get("suggestion")
    return Function(qualname, False, route, reason, str(suggestion) if suggestion else None)


def failure_text(build: Mapping[str, Any], limit: int = 40) -> str | None:
    """Return the readable end of why a build failed, from its report."""
    for stage in ("native_build", "rust_crate_build", "fallback_build", "executable_build"):
        result = build.get(stage)
        if isinstance(result, dict) and result.get("status") == "failed":
            text = str(result.get("stderr") or result.get("message") or "")
            return error_tail(text, limit)
    error = build.get("error")
    if isinstance(error, dict):
        return str(error.get("message"))
    return None


def error_tail(text: str, limit: int = 40) -> str:
    """Return cargo's output from its first error on, without the lines of progress."""
    lines = [
        line
        for line in text.splitlines()
        if not line.lstrip().startswith(
            ("Compiling ", "Fresh ", "Updating ", "Locking ", "Adding ")
        )
    ]
    first = next((i for i, line in enumerate(lines) if line.startswith("error")), 0)
    shown = lines[first : first + limit] if len(lines) - first > limit else lines[first:]
    rest = len(lines) - first - len(shown)
    return "\n".join([*shown, *([f"… {rest} more lines"] if rest > 0 else [])])
