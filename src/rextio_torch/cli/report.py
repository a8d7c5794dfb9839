"""Which functions of a built project are native, read from Rextio's reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rextio_torch import versions
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.tensors import tensor_functions

NO_DIAGNOSTIC = (
    "kept on Python by Rextio without a diagnostic; rextio-torch explain says what keeps it there"
)
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
            repair=f"rextio check {project}",
        ) from error
    if not isinstance(data, dict):
        raise CliError(
            f"{path} is not a report", expected="a JSON object", found=type(data).__name__
        )
    return data


def functions(check: Mapping[str, Any]) -> list[Function]:
    """Return every function of a check report, in source order."""
    result = []
    for module in check.get("modules", ()):
        name = f"{module.get('module_name')}."
        found = tensor_functions(Path(module.get("file_path", "")))
        tensors = {name + function: tuple(defaults) for function, defaults in found.items()}
        listed = [_function(function) for function in module.get("functions", ())]
        seen = {function.qualname for function in listed}
        listed += [
            Function(missing, False, "fallback-python", NO_DIAGNOSTIC)
            for missing in tensors
            if missing not in seen
        ]
        listed = [
            replace(
                f, has_tensors=f.qualname in tensors, wrong_defaults=tensors.get(f.qualname, ())
            )
            for f in listed
        ]
        result += listed
    return result


@dataclass(frozen=True)
class ParseError:
    """A file that Rextio could not parse."""

    file: str
    line: int
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
    shim = bool(data.get("native_runtime_semantics")) or route == "native-shim"
    native = data.get("native_status") == "accepted" and route.startswith("native") and not shim
    qualname = str(data.get("qualname", "?"))
    if native:
        return Function(qualname, True, route, None)
    diagnostics = [d for d in data.get("diagnostics", ()) if isinstance(d, dict)]
    # Errors decide; a warning beside them would name the wrong cause.
    ranked = sorted(diagnostics, key=lambda d: d.get("severity") != "error")
    if not ranked:
        accelerator = route.partition("fallback-accelerated:")[2]
        reason = f"compiled by {accelerator}" if accelerator else SHIM if shim else NO_DIAGNOSTIC
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
