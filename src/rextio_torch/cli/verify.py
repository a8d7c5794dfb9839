"""`rextio-torch verify`: native functions against their own Python source.

The source files run in one process, which records inputs and what eager makes of them; the native
module runs in another on the same inputs. What `--save` keeps is what the first one recorded, and
`--check` is the second one alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from rextio_torch.cli import source
from rextio_torch.cli.build import python_path
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.inputs import InputOptions
from rextio_torch.cli.layout import require_project
from rextio_torch.cli.module import why_not_loaded
from rextio_torch.cli.native import native_functions, present_build
from rextio_torch.cli.progress import Display
from rextio_torch.cli.report import functions, read_report
from rextio_torch.cli.workers import Event, Outcome, run_worker
from rextio_torch.runtime.source_mark import marked_source_ids

_WORKER = "rextio_torch.verify.worker"


@dataclass(frozen=True)
class Options(InputOptions):
    """What the command was asked for."""

    functions: Sequence[str] = ()
    engines: Sequence[str] = ()
    case: str | None = None
    save: Path | None = None
    build: bool = True

    def reproduce(self, start: Sequence[str], tally: Event, case: str) -> str:
        """Return the command that runs one case again."""
        words = ["rextio-torch", "verify", *start, "--function", tally["function"]]
        for name, shape in self.shapes.items():
            words += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
        for name, value in self.values.items():
            words += ["--value", f"{name}={value}"]
        if self.inputs is not None:
            words += ["--inputs", str(self.inputs)]
        return shlex.join([*words, "--engine", tally["engine"], "--case", case])


@dataclass(frozen=True)
class VerifyResult:
    """How each function went on each engine."""

    #: The project or the bundle.
    subject: Path
    module: str
    source_id: str
    tallies: list[dict[str, Any]]
    notes: list[str]
    #: What ended the process, if something did; functions after it were not run.
    crash: str | None = None
    #: Native functions that no inputs could be made for, and why.
    unverified: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether anything was wrong, or not looked at."""
        ended = self.crash is not None or bool(self.unverified)
        return ended or any(tally["failed"] for tally in self.tallies)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "subject": str(self.subject),
            "module": self.module,
            "source_id": self.source_id,
            "results": self.tallies,
            "notes": self.notes,
            "crash": self.crash,
            "unverified": self.unverified,
        }


def verify(
    path: Path, options: Options, environment: Environment, display: Display
) -> VerifyResult:
    """Verify a project's native functions, or raise `CliError`."""
    project = require_project(path)
    source_id = present_build(project, environment, display, may_build=options.build)
    wanted = _wanted(project, options.functions)
    problem = why_not_loaded(project, environment)
    if problem is not None:
        raise problem
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder, "bundle.pt")
        recorded = run_worker(
            "running the source in eager PyTorch",
            _WORKER,
            {
                "do": "record",
                "functions": wanted,
                "source_id": source_id,
                **options.orders(),
                "case": options.case,
                "bundle": str(bundle),
            },
            environment.variables,
            display,
            _detail,
        )
        recorded.require("recording")
        if source.source_id(project, environment) != source_id:
            raise CliError(
                "the source changed while it was being verified",
                expected="the same files before and after",
                found="an edit in between",
                repair=f"rextio-torch verify {quoted(path)}",
            )
        if options.save is not None:
            shutil.copyfile(bundle, options.save)
        result = _check(bundle, project, [str(path)], options, environment, display)
        return replace(result, unverified=[_data(event) for event in recorded.of("unverified")])


def check_bundle(
    bundle: Path, path: Path | None, options: Options, environment: Environment, display: Display
) -> VerifyResult:
    """Check a native module against a bundle: a project's, or the one that is installed."""
    project = None if path is None else require_project(path)
    if project is None and environment.generated_paths:
        # The installed module may be a built one on PYTHONPATH.
        entries = [environment.variables.get("PYTHONPATH", ""), *environment.generated_paths]
        variables = {**environment.variables, "PYTHONPATH": os.pathsep.join(filter(None, entries))}
        environment = replace(environment, variables=variables)
    start = [*([] if path is None else [str(path)]), "--check", str(bundle)]
    return _check(bundle, project, start, options, environment, display)


def _check(
    bundle: Path,
    project: Path | None,
    start: Sequence[str],
    options: Options,
    environment: Environment,
    display: Display,
) -> VerifyResult:
    outcome = run_worker(
        "running the native module",
        _WORKER,
        {
            "do": "check",
            "bundle": str(bundle.absolute()),
            "path": None if project is None else str(python_path(project)),
            "engines": list(options.engines),
            "functions": list(options.functions),
            "case": options.case,
        },
        environment.variables,
        display,
        _detail,
    )
    outcome.require("the check", started="engine")
    tallies = []
    for event in outcome.of("tally"):
        tally = _data(event)
        for failure in tally["failures"]:
            failure["reproduce"] = options.reproduce(start, tally, failure["case"])
        tallies.append(tally)
    engine = outcome.last("engine")
    return VerifyResult(
        bundle if project is None else project,
        engine["module"],
        ", ".join(marked_source_ids(Path(engine["module"]))),
        tallies,
        [event["text"] for event in outcome.of("note")],
        None if outcome.is_done else _crash(outcome, options, start),
    )


def _data(event: Event) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "event"}


def _crash(outcome: Outcome, options: Options, start: Sequence[str]) -> str:
    checking, case = outcome.last("checking"), outcome.last("case")
    text = outcome.ending
    if checking and case:
        text += f" in {checking['function']} on {checking['engine']}, case {case['case']}"
        text += f"; again: {options.reproduce(start, checking, case['case'])}"
    printed = " | ".join(outcome.printed[-3:])
    return text + (f" ({printed})" if printed else "")


def _detail(event: Event) -> str | None:
    if event["event"] == "recording":
        return str(event["function"])
    if event["event"] == "checking":
        return f"{event['function']} on {event['engine']}"
    return None


def _wanted(project: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the native functions of a project, or those of some names."""
    native = native_functions(project)
    known = {item.qualname for item in native}
    for name in names:
        if name not in known:
            listed = functions(read_report(project, "check.json"))
            reason = next((item.reason for item in listed if item.qualname == name), None)
            raise CliError(
                f"{name} is not a native function of {project}",
                expected=", ".join(item.qualname for item in native),
                found=reason or "no function of that name",
                repair=f"rextio-torch build {quoted(project)}",
            )
    return [item.to_dict() for item in native if not names or item.qualname in names]


_COLUMNS = ("cases", "bit-equal", "within", "worst ULP", "failed")


def lines(result: VerifyResult) -> list[str]:
    """Return the result as lines of text."""
    rows = [
        (tally["cases"], tally["bit_equal"], tally["within"], tally["worst_ulp"], tally["failed"])
        for tally in result.tallies
    ]
    width = max([len(tally["function"]) for tally in result.tallies] + [len("function")])
    head = "  ".join(f"{title:>9}" for title in _COLUMNS)
    found = [f"      {'function':<{width}}  {'engine':<14}  {head}"]
    for tally, row in zip(result.tallies, rows, strict=True):
        mark, colour = ("FAIL", "red") if tally["failed"] else ("ok", "green")
        numbers = "  ".join(f"{number:>9}" for number in row)
        mark = click.style(f"{mark:<4}", fg=colour, bold=True)
        found.append(f"{mark}  {tally['function']:<{width}}  {tally['engine']:<14}  {numbers}")
    for tally in result.tallies:
        for failure in tally["failures"]:
            place = f"{tally['function']} on {tally['engine']}, case {failure['case']}"
            found.append(f"failed: {place}: {failure['problem']}")
            found.append(f"  again: {failure['reproduce']}")
        told = len(tally["failures"])
        if tally["failed"] > told:
            found.append(f"  and {tally['failed'] - told} more cases of {tally['function']}")
    for item in result.unverified:
        found.append(f"not verified: {item['message']}")
        words = [(word, item[word]) for word in ("expected", "found", "repair") if item[word]]
        found += [f"  {word}: {text}" for word, text in words]
    if result.crash is not None:
        found.append(f"failed: {result.crash}")
        found.append("  the functions and engines after that were not run")
    found += [f"note: {note}" for note in result.notes]
    cases = sum(tally["cases"] for tally in result.tallies)
    failed = sum(tally["failed"] for tally in result.tallies)
    found.append(f"module: {result.module} (source {result.source_id[:12] or 'unknown'})")
    rest = f", {len(result.unverified)} not verified" if result.unverified else ""
    rest += ", ended early" if result.crash else ""
    found.append(f"{cases} calls, {failed} failed{rest}")
    return found
