"""`rextio-torch bench`: a function in eager PyTorch against the same function natively."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rextio_torch.bench.effort import Effort
from rextio_torch.bench.quiet import is_quiet
from rextio_torch.bench.stats import paired_ratio, quantile, rounded
from rextio_torch.cli.build import python_path
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.inputs import InputOptions
from rextio_torch.cli.layout import require_project
from rextio_torch.cli.native import native_functions, present_build
from rextio_torch.cli.progress import Display
from rextio_torch.cli.project import REXTIO_FILE
from rextio_torch.cli.workers import Event, run_worker
from rextio_torch.verify.function import SourceFunction

_WORKER = "rextio_torch.bench.worker"
_EFFORT = Effort(
    block_seconds=1e-3,
    case_seconds=2.0,
    least_rounds=11,
    most_rounds=51,
    attempts=3,
    quiet_seconds=10.0,
)
#: The contenders, in the order of the table; eager is what the others are compared with.
TITLES: Mapping[str, str] = {
    "eager": "eager",
    "inference": "eager, inference mode",
    "libtorch": "libtorch engine, direct",
    "fused-wrapper": "fused, wrapper",
    "fused-direct": "fused, direct",
}
_COLOURS = ("#444444", "#1f77b4", "#8c564b", "#ffb000", "#d62728")


@dataclass(frozen=True)
class Options(InputOptions):
    """What the command was asked for."""

    project: Path | None = None
    sizes: Sequence[int] = (64,)
    threads: int | None = None


@dataclass(frozen=True)
class Row:
    """The times of one contender: seconds per call."""

    median: float
    low: float
    high: float
    #: How many times faster than eager, round by round.
    faster: float


@dataclass(frozen=True)
class Timed:
    """The contenders on inputs of one size."""

    size: int | None
    inputs: list[str]
    threads: int
    simd: str
    others: float | None
    rows: dict[str, Row]

    @classmethod
    def of(cls, event: Event) -> Timed:
        """Return what a process measured."""
        rounds = event["rounds"]
        rows = {
            name: Row(
                rounded(median(times)),
                rounded(quantile(times, 0.25)),
                rounded(quantile(times, 0.75)),
                rounded(paired_ratio(rounds["eager"], times)),
            )
            for name, times in rounds.items()
        }
        others = event["others"]
        return cls(event["size"], event["inputs"], event["threads"], event["simd"], others, rows)


@dataclass(frozen=True)
class BenchResult:
    """A function's times, size by size."""

    function: str
    timed: list[Timed]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data; times in seconds."""
        return {"function": self.function, "timed": [asdict(item) for item in self.timed]}


def bench(
    function: str, options: Options, environment: Environment, display: Display
) -> BenchResult:
    """Time a function, or raise `CliError`."""
    project, name = _find(function, options.project)
    present_build(project, environment, display)
    found = _native(project, name)
    outcome = run_worker(
        f"timing {found.qualname}",
        _WORKER,
        {
            "path": str(python_path(project)),
            "function": found.to_dict(),
            **options.orders(),
            "sizes": list(options.sizes),
            "threads": options.threads,
            "effort": asdict(_EFFORT),
        },
        _variables(environment),
        display,
        lambda event: ", ".join(event["inputs"]) if event["event"] == "measuring" else None,
    )
    outcome.require("the measurement")
    return BenchResult(found.qualname, [Timed.of(event) for event in outcome.of("measured")])


def _variables(environment: Environment) -> dict[str, str]:
    """Return the variables without those that choose an engine: all of them are measured."""
    chosen = ("REXTIO_TORCH_ENGINE", "REXTIO_TORCH_SIMD")
    return {name: value for name, value in environment.variables.items() if name not in chosen}


def _find(function: str, project: Path | None) -> tuple[Path, str]:
    """Return the project of a function, and its name: `module.function` or `file.py:function`."""
    file, colon, name = function.rpartition(":")
    if not colon:
        return require_project(project or Path()), function
    path = Path(file)
    if not path.is_file():
        raise CliError(
            f"{file} is not a file",
            expected="module.function, or file.py:function",
            found="nothing" if not path.exists() else "a folder",
        )
    if project is not None:
        return require_project(project), f"{path.resolve()}:{name}"
    for folder in path.resolve().parents:
        if (folder / REXTIO_FILE).is_file():
            return folder, f"{path.resolve()}:{name}"
    raise CliError(
        f"{file} belongs to no project",
        expected=f"{REXTIO_FILE} in its folder or one above",
        found="none",
        repair=f"rextio-torch init {quoted(path.parent)}",
    )


def _native(project: Path, name: str) -> SourceFunction:
    native = native_functions(project)
    file, colon, function = name.rpartition(":")
    for item in native:
        if colon and item.file == Path(file) and item.name == function:
            return item
        if not colon and item.qualname == name:
            return item
    raise CliError(
        f"{name} is not a native function of {project}",
        expected=", ".join(item.qualname for item in native),
        found="none of that name",
        repair=f"rextio-torch build {quoted(project)}, which says why a function runs in Python",
    )


def lines(result: BenchResult) -> list[str]:
    """Return the result as lines of text."""
    width = max(map(len, TITLES.values()))
    found: list[str] = []
    for timed in result.timed:
        threads = f"{timed.threads} thread{'' if timed.threads == 1 else 's'}"
        found.append(f"{result.function}  {', '.join(timed.inputs)}  ({threads}, {timed.simd})")
        found.append(f"{'':<{width}}  µs per call  quartiles            times faster than eager")
        for name, title in TITLES.items():
            row = timed.rows[name]
            quartiles = f"{row.low * 1e6:.4g} to {row.high * 1e6:.4g}"
            found.append(
                f"{title:<{width}}  {row.median * 1e6:>11.4g}  {quartiles:<19}  {row.faster:.3g}"
            )
        if not is_quiet(timed.others):
            found.append(
                f"note: other programs used {timed.others:.1f} cores meanwhile; on a quiet machine "
                "the times are smaller and the ratios surer"
            )
    return found


def require_plotting() -> None:
    """Raise `CliError` if there is nothing to draw with: before anything is measured."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CliError(
            "a plot needs matplotlib",
            expected="rextio-torch[plot]",
            found="no matplotlib",
            repair='pip install "rextio-torch[plot]"',
        )


def draw(result: BenchResult, path: Path) -> None:
    """Draw times over size, or as bars where there is one size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    times = {name: [timed.rows[name].median * 1e6 for timed in result.timed] for name in TITLES}
    if len(result.timed) == 1:
        titles = list(TITLES.values())
        values = [measured[0] for measured in times.values()]
        bars = axes.barh(titles[::-1], values[::-1], color=_COLOURS[::-1])
        axes.bar_label(bars, fmt="%.3g", padding=2)
        axes.margins(x=0.12)
        axes.set_xlabel("µs per call")
        title = f"{result.function}: {', '.join(result.timed[0].inputs)}"
        figure.suptitle(textwrap.fill(title, 90), fontsize=9)
    else:
        sizes = [timed.size or 0 for timed in result.timed]
        for (name, title), colour in zip(TITLES.items(), _COLOURS, strict=True):
            axes.plot(sizes, times[name], label=title, color=colour, marker=".")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("size")
        axes.set_ylabel("µs per call")
        axes.set_title(result.function, fontsize=9)
        axes.legend(fontsize=7)
        axes.grid(alpha=0.25)
    try:
        figure.savefig(path)
    except ValueError as error:
        raise CliError(
            f"{path} cannot be drawn",
            expected="the name of an image: .png, .svg or .pdf",
            found=str(error).splitlines()[0],
        ) from error
