"""The plots: time over size on logarithmic axes, and bars of ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import GROUPS
from benchmarks.results import DIRECT, WRAPPER, Row, rows

#: A line of the time plots: its name, its contenders (the fastest at each size) and its colour.
_LINES: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("eager", ("eager", "inference"), "#444444"),
    ("torch.compile", ("compile", "compile-static", "compile-constants", "compile-frozen"),
     "#1f77b4"),
    ("AOTInductor", ("aoti", "aoti-run", "aoti-constants", "aoti-frozen"), "#9467bd"),
    ("ONNX Runtime", ("ort", "ort-constants"), "#2ca02c"),
    ("libtorch engine", ("libtorch",), "#8c564b"),
    ("fused, wrapper", ("fused-wrapper",), "#ffb000"),
    ("fused, direct", ("fused-direct",), "#d62728"),
)  # fmt: skip
_COLUMNS = 4
_DPI = 80


def draw(results: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw all plots into a folder and return their paths."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for threads in sorted({row.threads for row in rows(results)}):
        found = list(rows(results, threads))
        for group, title in GROUPS.items():
            of_group = [row for row in found if row.group == group]
            path = folder / f"{group}-{threads}.png"
            if _draw_times(of_group, f"{title}, threads: {threads}", path):
                drawn.append(path)
        path = folder / f"ratios-{threads}.png"
        if _draw_ratios(found, f"Times faster, threads: {threads}", path):
            drawn.append(path)
    return drawn


def _draw_times(found: Sequence[Row], title: str, path: Path) -> bool:
    from matplotlib.figure import Figure

    programs: dict[str, list[Row]] = {}
    for row in found:
        # A line through shapes of different kinds would say nothing; the bars have the others.
        if row.group != "products" or len(set(row.data["label"].split("x"))) == 1:
            programs.setdefault(row.program, []).append(row)
    # One size is no line.
    programs = {name: many for name, many in programs.items() if len(many) > 1}
    if not programs:
        return False
    columns = min(_COLUMNS, len(programs))
    lines = math.ceil(len(programs) / columns)
    figure = Figure(figsize=(3.0 * columns + 2.2, 2.5 * lines + 0.8), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes in grid[len(programs) :]:
        axes.set_visible(False)
    for axes, many in zip(grid, programs.values(), strict=False):
        many = sorted(many, key=_work)
        sizes = [_work(row) for row in many]
        for name, contenders, colour in _LINES:
            times = [_fastest(row, contenders) for row in many]
            axes.plot(sizes, times, label=name, color=colour, marker=".", linewidth=1.2)
        limits = [row.limit[1] if row.limit else math.nan for row in many]
        axes.plot(sizes, limits, label="limit of the machine", color="#aaaaaa", linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(str(many[0].data["title"]), fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25)
    figure.supxlabel("multiply-adds" if found[0].data["flops"] else "elements", fontsize=8)
    figure.supylabel("µs per call", fontsize=8)
    figure.suptitle(title, fontsize=10)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=7)
    figure.savefig(path, dpi=_DPI)
    return True


def _work(row: Row) -> float:
    return row.data["flops"] / 2 or float(row.data["elements"])


def _fastest(row: Row, contenders: Sequence[str]) -> float:
    times = [time for name in contenders if (time := row.time(name)) is not None]
    return min(times, default=math.nan)


def _draw_ratios(found: Sequence[Row], title: str, path: Path) -> bool:
    from matplotlib.figure import Figure

    shown = [row for row in found if row.ratio(DIRECT, "eager") and _headline(row)]
    if not shown:
        return False
    shown.reverse()
    figure = Figure(figsize=(9, 0.36 * len(shown) + 1.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, against in zip(axes, ("eager", "best"), strict=True):
        for shift, contender, colour in ((0.2, DIRECT, "#d62728"), (-0.2, WRAPPER, "#ffb000")):
            values = [row.ratio(contender, against) or 0 for row in shown]
            places = [place + shift for place in range(len(shown))]
            name = {DIRECT: "direct", WRAPPER: "wrapper"}[contender]
            drawn = ax.barh(places, values, height=0.38, color=colour, label=name)
            ax.bar_label(drawn, fmt="%.2g", fontsize=6, padding=1)
        ax.axvline(1, color="#444444", linewidth=0.8)
        ax.set_xlabel({"eager": "than eager", "best": "than the best peer"}[against], fontsize=8)
        ax.tick_params(labelsize=7)
        ax.margins(x=0.12)
    axes[0].set_yticks(range(len(shown)), [row.name for row in shown])
    axes[1].legend(fontsize=7)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=_DPI)
    return True


def _headline(row: Row) -> bool:
    """Whether the bars show a case; single operations have lines only."""
    return row.group in ("programs", "chain", "products")
