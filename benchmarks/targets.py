"""What the fused engine must reach, as data, and whether results reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from benchmarks.cases import CASES
from benchmarks.contenders import RIVALS
from benchmarks.results import DIRECT, EAGER, LIBTORCH, PEAK, WRAPPER, Row, rows
from rextio_torch.bench.quiet import is_quiet
from rextio_torch.bench.stats import geometric_mean

Against: TypeAlias = Literal["eager", "best"]
Status: TypeAlias = Literal["reached", "limit", "short", "missing"]

#: A case runs at the machine's limit if it reaches this much of it.
LIMIT_SHARE = 0.85
#: Eager runs at memory speed if it reaches this much of the bandwidth at that size.
MEMORY_SHARE = 0.80
#: Of the machine's arithmetic peak, what a large product must reach.
PEAK_SHARE = 0.85
#: Two runs of the same code differ by this much.
TIE = 0.98
#: Single operations have targets from this size on.
LEAST_ELEMENTS = 64
SLOW_IN_EAGER = frozenset({"tanh", "exp", "log", "argmax"})


@dataclass(frozen=True)
class Target:
    """A ratio that a contender must reach at each of some cases."""

    what: str
    cases: Callable[[Row], bool]
    contender: str
    against: Against
    least: float | Callable[[Row], float]
    aim: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether one target is reached at one case or, for a mean, at all of its cases."""

    what: str
    case: str
    contender: str
    against: str
    least: float
    value: float | None
    status: Status
    note: str = ""


def _case(*ids: str) -> Callable[[Row], bool]:
    return lambda row: row.id in ids


def _chain(row: Row) -> bool:
    return row.program == "chain" and int(row.data["elements"]) <= 1024 * 1024


def single_operation(row: Row) -> bool:
    """Whether targets of single operations hold for a case: unary, softmax, sum, mean, argmax."""
    return row.group in ("unary", "reductions") and int(row.data["elements"]) >= LEAST_ELEMENTS


def _product(row: Row) -> bool:
    return row.group == "products"


def least_for_operation(row: Row) -> float:
    """Return what a single operation must reach against eager, by how near eager is to memory."""
    share = row.share_of_memory(EAGER)
    return 0.95 if share is not None and share >= MEMORY_SHARE else 1.2


def _both(
    what: str,
    cases: Callable[[Row], bool],
    contender: str,
    eager: float,
    best: float,
    aim: float | None = None,
) -> tuple[Target, ...]:
    return (
        Target(what, cases, contender, "eager", eager),
        Target(what, cases, contender, "best", best, aim),
    )


_SMALL, _MIDDLE = _case("linear-relu-mean/1x32x32"), _case("linear-relu-mean/1x128x64")
_CLASSIFIER, _MLP = _case("classifier/1x64x10"), _case("mlp/1")

TARGETS: tuple[Target, ...] = (
    *_both("linear → relu → mean, 1x32x32", _SMALL, DIRECT, 8, 5),
    *_both("linear → relu → mean, 1x32x32", _SMALL, WRAPPER, 4, 2.5),
    *_both("linear → relu → mean, 1x128x64", _MIDDLE, DIRECT, 7, 4.5),
    *_both("linear → relu → mean, 1x128x64", _MIDDLE, WRAPPER, 3.5, 2.3),
    *_both("classifier 1x64x10", _CLASSIFIER, DIRECT, 5, 5),
    *_both("classifier 1x64x10", _CLASSIFIER, WRAPPER, 2, 2),
    *_both("MLP 128→256→128→10, batch 1", _MLP, DIRECT, 3.5, 2),
    *_both("chain, 8x8 to 1024x1024", _chain, DIRECT, 3, 1.15, aim=1.3),
    *(
        Target("each operation", single_operation, DIRECT, "eager", least_for_operation),
        Target("each operation", single_operation, DIRECT, "best", 0.95),
    ),
    *_both("matmul and linear, every shape", _product, DIRECT, 0.97, 0.92),
)

#: Cases that two threads must run faster than one, and how many times.
SCALING: Mapping[str, float] = {
    "exp/1048576": 1.7,
    "chain/1024x1024": 1.7,
    "chain/2048x2048": 1.7,
    "softmax-rows/1024x1024": 1.7,
    "matmul/1024x1024x1024": 1.7,
}
#: Seconds that cargo may take after an edit.
EDIT_SECONDS = 10.0


def evaluate(results: Mapping[str, Any]) -> list[Verdict]:
    """Return the verdict on every target, in the order in which the page shows them."""
    one = list(rows(results, 1))
    verdicts = [judge(target, row) for target in TARGETS for row in one if target.cases(row)]
    verdicts += operation_means(one)
    verdicts += [judge_peak(row) for row in one if row.id == "matmul/1024x1024x1024"]
    verdicts += scaling(one, list(rows(results, 2)))
    verdicts += build_time(results)
    return verdicts


def judge(target: Target, row: Row) -> Verdict:
    """Return the verdict on a target at a case."""
    least = target.least(row) if callable(target.least) else target.least
    value = row.ratio(target.contender, target.against)
    status, note = status_of(value, least, row, target.contender)
    if status == "reached" and target.aim is not None and value is not None and value < target.aim:
        note = f"the aim is {target.aim:g}"
    left_out = sum(name in RIVALS for name in row.data["missing"])
    if target.against == "best" and left_out:
        note = "; ".join(filter(None, (note, f"{left_out} peers did not run")))
    if not is_quiet(row.others):
        note = "; ".join(filter(None, (note, "disturbed by other programs")))
    return Verdict(
        target.what, row.name, target.contender, target.against, least, value, status, note
    )


def status_of(value: float | None, least: float, row: Row, contender: str) -> tuple[Status, str]:
    """Return the status of a ratio, and the machine's limit where that is what stops it."""
    if value is None:
        return "missing", row.data["missing"].get(contender, "not measured")
    if value >= least:
        return "reached", ""
    share = row.share_of_limit(contender)
    if share is None or row.limit is None or share < LIMIT_SHARE:
        return "short", ""
    kind = "FMA peak" if row.limit[0] == PEAK else "memory bandwidth"
    return "limit", f"{share:.0%} of the machine's {kind}"


def _sizes_of_operation(program: str) -> int:
    return sum(case.program.name == program and case.elements >= LEAST_ELEMENTS for case in CASES)


def operation_means(one: Iterable[Row]) -> list[Verdict]:
    """Return the verdicts on the geometric mean of each operation, where all sizes were run."""
    by_program: dict[str, list[Row]] = {}
    for row in one:
        if single_operation(row) and row.ratio(DIRECT, "eager") is not None:
            by_program.setdefault(row.program, []).append(row)
    verdicts = []
    for program, found in by_program.items():
        if len(found) < _sizes_of_operation(program):
            continue
        least = 3.0 if program.partition("-")[0] in SLOW_IN_EAGER else 2.0
        value = geometric_mean(ratio for row in found if (ratio := row.ratio(DIRECT, "eager")))
        shares = [row.share_of_limit(DIRECT) or 0.0 for row in found]
        status: Status = "reached" if value >= least else "short"
        note = ""
        if status == "short" and min(shares) >= LIMIT_SHARE:
            status, note = "limit", "at the machine's limit at every size"
        title = str(found[0].data["title"])
        verdicts.append(
            Verdict("geometric mean over sizes", title, DIRECT, "eager", least, value, status, note)
        )
    return verdicts


def judge_peak(row: Row) -> Verdict:
    """Return the verdict on the share of the arithmetic peak of a large product."""
    time, peak, libtorch = row.time(DIRECT), row.time(PEAK), row.time(LIBTORCH)
    if time is None or peak is None:
        return Verdict(
            "share of the FMA peak", row.name, DIRECT, "peak", PEAK_SHARE, None, "missing"
        )
    least = PEAK_SHARE if libtorch is None else max(PEAK_SHARE, TIE * peak / libtorch)
    value = peak / time
    status: Status = "reached" if value >= least else "short"
    note = "" if libtorch is None else f"libtorch reaches {peak / libtorch:.0%}"
    return Verdict("share of the FMA peak", row.name, DIRECT, "peak", least, value, status, note)


def scaling(one: Sequence[Row], two: Sequence[Row]) -> list[Verdict]:
    """Return the verdicts on two threads against one."""
    single, double = ({row.id: row for row in found} for found in (one, two))
    verdicts = []
    for case_id, least in SCALING.items():
        if case_id not in single or case_id not in double:
            continue
        before, after = single[case_id], double[case_id]
        times = before.time(DIRECT), after.time(DIRECT)
        value = None if times[0] is None or times[1] is None else times[0] / times[1]
        status, note = status_of(value, least, after, DIRECT)
        if not (is_quiet(before.others) and is_quiet(after.others)):
            note = "; ".join(filter(None, (note, "disturbed by other programs")))
        what = "two threads against one"
        verdicts.append(Verdict(what, after.name, DIRECT, "one thread", least, value, status, note))
    return verdicts


def build_time(results: Mapping[str, Any]) -> list[Verdict]:
    """Return the verdict on the time of a build after an edit, in seconds of cargo."""
    after = results.get("build", {}).get("after_edit")
    if not after or after.get("cargo_seconds") is None:
        return []
    seconds = float(after["cargo_seconds"])
    status: Status = "reached" if seconds < EDIT_SECONDS else "short"
    what = "build after an edit, seconds of cargo (at most)"
    return [Verdict(what, "programs.py", "build", "", EDIT_SECONDS, seconds, status)]
