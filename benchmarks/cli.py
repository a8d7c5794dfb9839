"""The command line: chooses cases, runs them, writes JSON, page and plots."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks import machine
from benchmarks.build import BuildError, build, environment, time_builds
from benchmarks.cases import CASES, QUICK, find
from benchmarks.orders import BRIEF, FULL, Effort, Orders
from benchmarks.page import render
from benchmarks.progress import Display, Step
from benchmarks.results import FORMAT, Json, load, save
from benchmarks.runner import Report, by_group, prepare, run
from benchmarks.targets import evaluate

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
#: What preparing torch.compile and AOTInductor may take in a quick run; later runs find it done.
QUICK_PREPARE_SECONDS = 55.0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare rextio-torch with eager PyTorch, torch.compile, AOTInductor and "
        "ONNX Runtime.",
    )
    result.add_argument("--quick", action="store_true", help="few cases, under two minutes")
    result.add_argument("--only", metavar="REGEX", help="cases whose id matches, e.g. '^mlp/'")
    result.add_argument(
        "--threads",
        type=int,
        action="append",
        metavar="N",
        help="number of threads, may be repeated (default: 1 and 2; quick: 1)",
    )
    result.add_argument("--simd", help="instruction set of the fused engine (default: the best)")
    result.add_argument(
        "--json",
        type=Path,
        metavar="PATH",
        help="results (default: benchmarks/results/full.json or quick.json)",
    )
    result.add_argument(
        "--page",
        type=Path,
        metavar="PATH",
        help="page (default: docs/benchmarks.md of a full run, else beside the "
        "results); plots go into a folder of the same name",
    )
    result.add_argument(
        "--work",
        type=Path,
        default=ROOT / ".cache" / "benchmarks",
        help="where programs are built and compiled peers are kept",
    )
    result.add_argument(
        "--no-cold",
        action="store_true",
        help="do not time a build from nothing, which takes minutes",
    )
    result.add_argument("--list", action="store_true", help="list the ids of the cases")
    result.add_argument(
        "--render", action="store_true", help="only write page and plots from the results"
    )
    return result  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = parser().parse_args(arguments)
    ids = chosen(quick=options.quick, only=options.only)
    if options.list:
        print("\n".join(ids))
        return 0
    complete = not options.quick and options.only is None
    results_path = options.json or RESULTS / ("full.json" if complete else "quick.json")
    page_path = options.page or (
        ROOT / "docs" / "benchmarks.md" if complete else results_path.with_suffix(".md")
    )
    display = Display(Console(stderr=True))
    if options.render:
        try:
            results = load(results_path)
        except (OSError, ValueError) as error:
            display.say(f"no results to render: {error}")
            return 1
        write_page(results, page_path, display)
        return 0
    if not ids:
        display.say(f"no case matches {options.only!r}; --list shows all")
        return 1
    try:
        results = Run(options, ids, display, results_path).all()
    except BuildError as error:
        display.say(str(error))
        return 1
    write_page(results, page_path, display)
    tell(results, display)
    return 1 if results["lost"] else 0


def chosen(*, quick: bool, only: str | None) -> list[str]:
    """Return the ids of the cases to run."""
    ids = list(QUICK) if quick else [case.id for case in CASES]
    return ids if only is None else [name for name in ids if re.search(only, name)]


class Run:
    """One run of the benchmark."""

    def __init__(
        self, options: argparse.Namespace, ids: Sequence[str], display: Display, path: Path
    ) -> None:
        self.options = options
        self.ids = ids
        self.display = display
        self.path = path
        self.work: Path = options.work.resolve()
        self.variables = environment(self.work)
        self.effort: Effort = BRIEF if options.quick else FULL
        self.threads: list[int] = options.threads or ([1] if options.quick else [1, 2])
        self.results: Json = {
            "format": FORMAT,
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "quick": bool(options.quick),
            "method": {
                "block_ms": self.effort.block_seconds * 1e3,
                "least_rounds": self.effort.least_rounds,
                "most_rounds": self.effort.most_rounds,
            },
            "machine": machine.describe_machine(),
            "versions": machine.describe_versions(),
            "load": [machine.load_average()],
            "engine": None,
            "build": {},
            "lost": {},
            "cases": [],
        }

    def all(self) -> Json:
        """Build, prepare, measure; results are written after every case."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.display.say("building the programs natively")
        build(self.work, self.variables)
        batches = self.batches()
        if not self.options.quick:
            self.prepare(batches)
        self.measure(batches)
        if not self.options.quick:
            self.display.say("timing builds")
            cold = not self.options.no_cold
            self.results["build"] = time_builds(self.work, self.variables, cold=cold)
        self.results["load"].append(machine.load_average())
        save(self.path, self.results)
        self.display.say(f"results: {self.path}")
        return self.results

    def batches(self) -> list[Orders]:
        """Return the orders of each process: a group, or all in a quick run, per thread count.

        On several threads a full run leaves out what everyone computes on one.
        """

        def groups(threads: int) -> list[list[str]]:
            if self.options.quick:
                return [list(self.ids)]
            return by_group([name for name in self.ids if threads == 1 or find(name).divides])

        seconds = QUICK_PREPARE_SECONDS if self.options.quick else float("inf")
        return [
            Orders(
                group,
                threads,
                str(self.work),
                self.effort,
                simd=self.options.simd,
                prepare_seconds=seconds,
            )
            for threads in self.threads
            for group in groups(threads)
        ]

    def prepare(self, batches: Sequence[Orders]) -> None:
        """Compile what torch.compile and AOTInductor need; a second run finds it done."""
        total = sum(len(orders.cases) for orders in batches)
        with self.display.step("compiling peers", total) as step:
            prepare(
                batches, self.variables, self.work / "logs", _reporter(step), os.cpu_count() or 1
            )

    def measure(self, batches: Sequence[Orders]) -> None:
        """Measure all cases, one process at a time."""
        total = sum(len(orders.cases) for orders in batches)
        with self.display.step("measuring", total) as step:
            for orders in batches:
                logs = self.work / "logs"
                outcome = run(orders, self.variables, logs, _reporter(step), self.keep)
                self.results["engine"] = self.results["engine"] or outcome.engine
                for case, reason in outcome.lost.items():
                    self.results["lost"][f"{case}, threads: {orders.threads}"] = reason

    def keep(self, record: Json) -> None:
        """Add the record of a case to the results and write them."""
        self.results["cases"].append(record)
        save(self.path, self.results)


def _reporter(step: Step) -> Report:
    def report(case: str, threads: int, what: str) -> None:
        name = f"{case}, threads: {threads}"
        if what == "done":
            step.finished(name)
        elif what.startswith("lost"):
            step.finished(f"{name}: {what}")
        else:
            step.now(f"{name}: {what}")

    return report


def write_page(results: Json, path: Path, display: Display) -> None:
    """Write the page and its plots."""
    plots: list[str] = []
    try:
        from benchmarks.plots import draw

        folder = path.with_suffix("")
        plots = [plot.relative_to(path.parent).as_posix() for plot in draw(results, folder)]
    except ImportError as error:
        display.say(f"no plots: {error.name} is not installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(results, plots), encoding="utf-8")
    display.say(f"page: {path}" + (f" with {len(plots)} plots" if plots else ""))


def tell(results: Json, display: Display) -> None:
    """Print the targets that are not reached, and how many are."""
    verdicts = evaluate(results)
    for verdict in verdicts:
        if verdict.status in ("short", "missing"):
            value = "-" if verdict.value is None else f"{verdict.value:.2f}"
            display.say(
                f"{verdict.status}: {verdict.what}; {verdict.case}: {verdict.contender} against "
                f"{verdict.against} {value}, target {verdict.least:.3g} {verdict.note}".rstrip()
            )
    reached = sum(verdict.status == "reached" for verdict in verdicts)
    limited = sum(verdict.status == "limit" for verdict in verdicts)
    display.say(f"{reached} of {len(verdicts)} targets reached, {limited} at the machine's limit")


def run_and_exit() -> None:
    """Run the command and leave with its status."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
