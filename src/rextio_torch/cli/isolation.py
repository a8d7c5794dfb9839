"""Keeps functions on Python that Rextio's analysis accepts and that cannot be built all the same.

Its code generator stops at such a function, or the Rust that it writes does not compile: either way
nothing of the project is built. Here the function is found, the project's copy is made again with
it marked to stay on Python, and the step that failed runs again.
"""

from __future__ import annotations

import functools
import json
import re
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import write_atomically
from rextio_torch.cli.progress import Display
from rextio_torch.cli.report import functions, read_report
from rextio_torch.cli.rextio import generate, generator_failure
from rextio_torch.cli.staging import Staged, stage
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.explain.rextio_words import NOT_BUILT, NOT_BUILT_ADVICE

T = TypeVar("T")
#: A function of the generated crate; what Rextio writes for one begins in the first column.
_RUST_FUNCTION = re.compile(r"(?:pub )?fn (\w+)")
_RUST_PLACE = re.compile(r"\s*--> src/lib\.rs:(\d+):")


@dataclass(frozen=True)
class Isolation:
    """Runs the steps of a build again, each time with fewer functions native."""

    tools: Toolchain
    display: Display
    #: Plugins to enable beside those that the project does.
    enabled: Sequence[str] = ()
    #: Whether a function that would stay on Python is an error.
    require_native: bool = False

    def run(self, step: Callable[[Staged], T], staged: Staged) -> tuple[T, Staged]:
        """Run a step of a build; return its result and the copy that it succeeded with.

        Raises the step's own `CliError` where it cannot be laid to a function, or was before.
        """
        while True:
            try:
                return step(staged), staged
            except CliError as error:
                found = self._culprits(staged)
                found = {name: why for name, why in found.items() if name not in staged.kept}
                if not found:
                    raise
                if self.require_native:
                    raise _not_native(found, staged.project) from error
                for line in kept_lines(found):
                    self.display.say(line)
                kept = {**staged.kept, **found}
                staged = stage(staged.project, staged.folder, kept=kept)

    def _culprits(self, staged: Staged) -> Mapping[str, str]:
        """Return the functions that stopped Rextio, by its reports, and what was said of each."""
        check, build, generate = (
            _report(staged, f"{command}.json") for command in ("check", "build", "generate")
        )
        native = build.get("native_build") or generate.get("native_source") or {}
        compiled = native.get("tool", "codegen") != "codegen"
        if not check or native.get("status", "failed") != "failed":
            return {}
        if compiled:
            crate = Path(str(build.get("generated_rust")), "src", "lib.rs")
            return dict(uncompiled(str(native.get("stderr")), crate, _native(check)))
        with self.display.step("looking for the function that Rextio cannot translate"):
            return self._untranslated(staged, callees_first(check))

    def _untranslated(self, staged: Staged, names: Sequence[str]) -> Mapping[str, str]:
        """Return the first of these functions at which the code generator stops.

        It does not say where it stops, so fewer functions are left to it until it goes through.
        """
        with tempfile.TemporaryDirectory(prefix="rextio-torch-isolation-") as scratch:
            folder = Path(scratch, staged.project.name)

            @functools.cache
            def failure(count: int) -> str | None:
                kept = {**staged.kept, **dict.fromkeys(names[count:], "")}
                copy = stage(staged.project, folder, kept=kept)
                return generator_failure(generate(copy.folder, self.tools, self.enabled))

            counts = range(len(names) + 1)
            count = bisect_left(counts, True, key=lambda count: failure(count) is not None)
            if count == 0 or count > len(names):
                return {}
            return {names[count - 1]: f"the code generator stops: {failure(count)}"}


def _report(staged: Staged, name: str) -> dict[str, Any]:
    with suppress(CliError):
        return read_report(staged.folder, name)
    return {}


def _native(check: Mapping[str, Any]) -> list[str]:
    return [function.qualname for function in functions(check) if function.native]


def callees_first(check: Mapping[str, Any]) -> list[str]:
    """Return the native functions of a check report, each after those that it calls.

    So the first that stops the generator is not one that is only called by it.
    """
    calls: dict[str, set[str]] = {
        function["qualname"]: {
            str(call.get("target")).rpartition(".")[2] for call in function.get("calls", ())
        }
        for module in check.get("modules", ())
        for function in module.get("functions", ())
    }
    native = _native(check)
    by_name = defaultdict(list)
    for qualname in native:
        by_name[qualname.rpartition(".")[2]].append(qualname)
    ordered: list[str] = []
    seen: set[str] = set()

    def visit(qualname: str) -> None:
        if qualname in seen:
            return
        seen.add(qualname)
        for name in sorted(calls[qualname]):
            for callee in by_name[name]:
                visit(callee)
        ordered.append(qualname)

    for qualname in native:
        visit(qualname)
    return ordered


def uncompiled(output: str, crate: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the functions that rustc's errors lie in, each with its last error."""
    try:
        lines = crate.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    by_symbol = {name.replace(".", "__"): name for name in names}
    error = None
    for line in output.splitlines():
        place = _RUST_PLACE.match(line)
        if line.startswith("error"):
            error = line
        elif place is not None and error is not None:
            name = by_symbol.get(_function_at(lines, int(place[1])) or "")
            if name is not None:
                yield name, f"the Rust that Rextio writes does not compile: {error}"
            # What follows are places that it refers to.
            error = None


def _function_at(lines: Sequence[str], number: int) -> str | None:
    """Return the function of the generated crate that a line, counted from 1, lies in."""
    at = number - 1
    while at < len(lines) and lines[at].startswith("#["):
        at += 1
    for line in reversed(lines[: at + 1]):
        found = _RUST_FUNCTION.match(line)
        if found is not None:
            return found[1]
        if line == "}":
            return None
    return None


def kept_lines(kept: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each function that stays on Python."""
    for name, why in kept.items():
        yield f"{NOT_BUILT.code}: {name} stays on Python, so that the rest is built: {why}"


def noted(check: Mapping[str, Any], kept: Mapping[str, str]) -> dict[str, Any]:
    """Return a check report that says why functions were kept on Python, as Rextio would."""

    def note(function: Mapping[str, Any]) -> Mapping[str, Any]:
        why = kept.get(str(function.get("qualname")))
        if why is None:
            return function
        start = (function.get("name_range") or {}).get("start") or {}
        diagnostic = {
            "code": NOT_BUILT.code,
            "severity": "error",
            "message": why,
            "suggestion": NOT_BUILT_ADVICE,
            "file_path": function.get("file_path"),
            "function_name": function.get("qualname"),
            "line": start.get("line"),
            "column": start.get("column"),
        }
        return {**function, "diagnostics": [*function.get("diagnostics", ()), diagnostic]}

    modules = [
        {**module, "functions": [note(function) for function in module.get("functions", ())]}
        for module in check.get("modules", ())
    ]
    return {**check, "modules": modules}


def note_kept(staged: Staged) -> None:
    """Write into the report of a build's copy why functions were kept on Python."""
    if staged.kept:
        check = noted(read_report(staged.folder, "check.json"), staged.kept)
        write_atomically(staged.folder / ".rextio" / "reports" / "check.json", json.dumps(check))


def _not_native(found: Mapping[str, str], project: Path) -> CliError:
    return CliError(
        f"{', '.join(found)} cannot be native ({NOT_BUILT.code})",
        expected="native code for each function that Rextio's analysis accepts (--require-native)",
        found="; ".join(dict.fromkeys(found.values())),
        repair=f"{NOT_BUILT_ADVICE} rextio-torch build {project}, without --require-native, keeps "
        "it on Python and builds the rest",
    )
