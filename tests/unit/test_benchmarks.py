"""The parts of the benchmark that measure nothing: cases, statistics, targets, pages, restarts."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cli, runner
from benchmarks.cases import CASES, PROGRAMS, QUICK, find
from benchmarks.contenders import BOUND, RIVALS
from benchmarks.orders import BRIEF, Orders
from benchmarks.page import render
from benchmarks.results import FORMAT, Row, case_record, load, save
from benchmarks.targets import TARGETS, evaluate, judge, status_of
from rextio_torch.bench import quiet, stats

SOURCES = Path(cli.__file__).with_name("sources")

# Microseconds per call of each contender, the same in all rounds.
TIMES: dict[str, dict[str, float]] = {
    "linear-relu-mean/1x32x32": {
        "eager": 10.0,
        "compile": 20.0,
        "ort": 8.0,
        "ort-bound": 4.0,
        "libtorch": 9.0,
        "fused-wrapper": 2.0,
        "fused-direct": 1.0,
        "limit-memory": 0.1,
        "limit-peak": 0.01,
    },
    "relu/1048576": {"eager": 1000.0, "fused-direct": 1000.0, "limit-memory": 900.0},
    "sum-vector/65536": {"eager": 4.0, "fused-direct": 5.0, "limit-memory": 1.0},
    "matmul/1024x1024x1024": {
        "eager": 16000.0,
        "libtorch": 16000.0,
        "fused-direct": 15000.0,
        "limit-memory": 800.0,
        "limit-peak": 14000.0,
    },
}


def record(case_id: str, threads: int = 1, **missing: str) -> dict[str, Any]:
    rounds = {name: [time * 1e-6] * 3 for name, time in TIMES[case_id].items()}
    calls = dict.fromkeys(rounds, 1)
    return case_record(find(case_id), threads, rounds, calls, missing, RIVALS, BOUND)


@pytest.fixture
def results() -> dict[str, Any]:
    return {
        "format": FORMAT,
        "date": "2026-01-01",
        "quick": False,
        "method": {"block_ms": 2.0, "least_rounds": 3, "most_rounds": 3},
        "machine": {
            "processor": "a processor",
            "cores": 2,
            "memory_gib": 8.0,
            "system": "a system",
            "torch_capability": "AVX2",
        },
        "versions": {"torch": "2.11.0"},
        "load": [0.1, 0.2],
        "engine": {"simd": "avx2"},
        "build": {
            "cold": {
                "seconds": 200.0,
                "cargo_seconds": 9.0,
                "dependencies_seconds": 180.0,
                "dependencies": "compiled",
                "functions": 5,
            },
            "after_edit": {
                "seconds": 12.0,
                "cargo_seconds": 11.0,
                "dependencies_seconds": 0.1,
                "dependencies": "ready",
                "functions": 5,
            },
        },
        "lost": {"exp/64, threads: 2": "the process ended by signal 11"},
        "cases": [
            record("linear-relu-mean/1x32x32", aoti="RuntimeError: no compiler"),
            record("relu/1048576"),
            record("sum-vector/65536"),
            record("matmul/1024x1024x1024"),
            record("matmul/1024x1024x1024", threads=2),
        ],
    }


def verdict(results: dict[str, Any], *words: str) -> Any:
    found = [v for v in evaluate(results) if all(word in str(v) for word in words)]
    assert len(found) == 1, found
    return found[0]


def test_cases_have_ids_of_their_own_and_functions_in_the_sources() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    assert set(QUICK) <= {case.id for case in CASES}
    for program in PROGRAMS:
        text = (SOURCES / f"{program.module}.py").read_text(encoding="utf-8")
        assert f"def {program.function}(" in text
        weights = [parameter.weight for parameter in program.parameters]
        assert weights == sorted(weights), "weights come last"


def test_every_target_has_a_case() -> None:
    for target in TARGETS:
        assert any(target.cases(Row(minimal(case.id))) for case in CASES), target.what


def minimal(case_id: str) -> dict[str, Any]:
    return case_record(find(case_id), 1, {}, {}, {}, RIVALS, BOUND)


def test_work_of_a_case() -> None:
    linear = find("linear/8x64x64")
    assert linear.floats_read == 8 * 64 + 64 * 64 + 64
    assert linear.floats_written == 8 * 64
    assert linear.flops == 2 * 8 * 64 * 64
    assert find("argmax-rows/8x8").floats_written == 16
    assert find("mlp/4").flops == 2 * 4 * (128 * 256 + 256 * 128 + 128 * 10)


def test_statistics() -> None:
    assert stats.quantile([3, 1, 2, 4, 5], 0.5) == 3
    assert stats.quantile([1, 2], 0.75) == 1.75
    assert stats.geometric_mean([1, 4]) == pytest.approx(2)
    # The slow second round touches both and leaves the ratio alone.
    assert stats.paired_ratio([2, 200, 2], [1, 100, 1]) == 2
    assert stats.fastest({"a": [3, 3, 9], "b": [1, 4, 4]}, ["a", "b", "c"]) == "a"
    assert stats.fastest({}, ["a"]) is None
    assert stats.rounded(123.456) == 123.5


def test_a_record_has_ratios_to_eager_and_to_the_best_peer() -> None:
    row = Row(record("linear-relu-mean/1x32x32"))
    assert row.best == "ort"
    assert row.data["best_bound"] == "ort-bound"
    assert row.ratio("fused-direct", "eager") == 10
    assert row.ratio("fused-direct", "best") == 8
    assert row.ratio("fused-direct", "bound") == 4
    assert row.limit == ("limit-memory", 0.1)
    assert row.share_of_limit("fused-direct") == pytest.approx(0.1)
    assert row.time("aoti") is None


def test_targets_reached_short_and_at_the_limit(results: dict[str, Any]) -> None:
    reached = verdict(results, "1x32x32", "fused-direct", "against='best'")
    assert (reached.status, reached.value, reached.least) == ("reached", 8, 5)
    assert reached.note == "1 peers did not run"
    relu = verdict(results, "each operation", "relu", "against='eager'")
    # Eager runs at memory speed, so that as fast as eager is enough.
    assert (relu.status, relu.least) == ("reached", 0.95)
    total = verdict(results, "each operation", "sum", "against='eager'")
    assert (total.status, total.value, total.least) == ("short", 0.8, 1.2)
    peak = verdict(results, "share of the FMA peak")
    assert (peak.status, peak.value) == ("reached", pytest.approx(14 / 15))
    threads = verdict(results, "two threads")
    assert (threads.status, threads.value) == ("limit", 1)
    build = verdict(results, "build after an edit")
    assert (build.status, build.value) == ("short", 11)
    # One size of four is no mean over sizes.
    assert not [v for v in evaluate(results) if v.what.startswith("geometric")]


def test_a_contender_that_did_not_run_is_missing_with_its_reason(results: dict[str, Any]) -> None:
    data = copy.deepcopy(results["cases"][0])
    del data["contenders"]["fused-direct"]
    data["missing"]["fused-direct"] = "RuntimeError: it has no native function"
    found = judge(TARGETS[0], Row(data))
    assert (found.status, found.note) == ("missing", "RuntimeError: it has no native function")


def test_a_machine_whose_limits_are_unknown_stops_nothing() -> None:
    data = record("sum-vector/65536")
    del data["contenders"]["limit-memory"]
    assert status_of(0.8, 1.2, Row(data), "fused-direct") == ("short", "")


def test_the_page_shows_targets_losses_and_what_did_not_run(results: dict[str, Any]) -> None:
    page = render(results, ["benchmarks/unary-1.png"])
    assert "![benchmarks/unary-1.png](benchmarks/unary-1.png)" in page
    _, _, losses = page.partition("## Losses")
    losses, _, rest = losses.partition("## Plots")
    assert "sum (1-D), n = 65536" in losses
    assert "linear" not in losses
    assert "RuntimeError: no compiler" in rest
    assert "the process ended by signal 11" in rest
    assert "| after an edit | 12 | 0.1 | 11 |" in rest
    assert "Matrix products, two threads" in rest
    for line in page.splitlines():
        # A cell too many or too few breaks the table.
        assert not line.startswith("|") or line.endswith("|")
    for table in tables(page):
        assert len({line.count("|") for line in table}) == 1, table[0]


def tables(page: str) -> Iterator[list[str]]:
    table: list[str] = []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
        elif table:
            yield table
            table = []


def test_results_are_written_and_read(results: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, results)
    assert load(path) == results
    path.write_text(json.dumps({**results, "format": 0}), encoding="utf-8")
    with pytest.raises(ValueError, match="not a result"):
        load(path)


def test_rendering_needs_neither_torch_nor_a_build(
    results: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file of this name stands for a package that is not installed.
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')", encoding="utf-8")
    save(tmp_path / "results.json", results)
    code = "import sys; from benchmarks.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "--render", "--json", "results.json", "--page", "page.md"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{cli.ROOT}:{cli.ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "# Benchmarks" in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_a_disturbed_case_says_so(results: dict[str, Any]) -> None:
    results["cases"][0]["others"] = 0.5
    found = verdict(results, "1x32x32", "fused-direct", "against='eager'")
    assert found.note == "disturbed by other programs"
    assert "more than 0.1 in 1 of 1 cases" in render(results, [])


def test_other_programs_are_watched_where_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter([100.0, 100.0 + 1e9])
    monkeypatch.setattr(quiet, "_busy_seconds", lambda: next(busy))
    assert not quiet.is_quiet(quiet.Watch().others())
    monkeypatch.setattr(quiet, "_busy_seconds", lambda: None)
    assert quiet.is_quiet(quiet.Watch().others())


def test_cases_are_chosen_by_pattern() -> None:
    assert cli.chosen(quick=True, only=None) == list(QUICK)
    assert cli.chosen(quick=False, only="^mlp/") == [
        "mlp/1",
        "mlp/4",
        "mlp/16",
        "mlp/64",
        "mlp/256",
    ]
    assert cli.chosen(quick=False, only="nothing of this name") == []


def test_orders_survive_the_pipe() -> None:
    orders = Orders(["exp/64"], 2, "work", BRIEF, failed={"exp/64": {"aoti": "a reason"}})
    assert Orders.from_json(orders.to_json()) == orders


def test_a_contender_that_ends_the_process_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Orders] = []

    def events(orders: Orders, *_: object) -> Iterator[dict[str, Any]]:
        started.append(orders)
        if len(started) == 1:
            yield {"event": "result", "record": {"id": "exp/64"}}
            yield {"event": "preparing", "case": "exp/4096", "contender": "aoti"}
            yield {"event": "ended", "reason": "the process ended by signal 11"}
            return
        for case in orders.cases:
            yield {"event": "result", "record": {"id": case}}

    monkeypatch.setattr(runner, "_events", events)
    orders = Orders(["exp/64", "exp/4096"], 1, "work", BRIEF)
    records: list[dict[str, Any]] = []
    outcome = runner.run(orders, {}, Path("logs"), lambda *_: None, records.append)
    assert [found["id"] for found in records] == ["exp/64", "exp/4096"]
    assert not outcome.lost
    assert started[1].cases == ["exp/4096"]
    reason = "the process ended by signal 11 while preparing it"
    assert started[1].failed == {"exp/4096": {"aoti": reason}}


def test_a_case_that_ends_the_process_twice_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(orders: Orders, *_: object) -> Iterator[dict[str, Any]]:
        for case in orders.cases:
            yield {"event": "measuring", "case": case}
            if case == "exp/64":
                yield {"event": "ended", "reason": "the process ended by signal 9"}
                return
            yield {"event": "result", "record": {"id": case}}

    monkeypatch.setattr(runner, "_events", events)
    orders = Orders(["exp/64", "exp/4096"], 1, "work", BRIEF)
    records: list[dict[str, Any]] = []
    outcome = runner.run(orders, {}, Path("logs"), lambda *_: None, records.append)
    assert [found["id"] for found in records] == ["exp/4096"]
    assert outcome.lost == {"exp/64": "the process ended by signal 9"}


def test_a_process_that_does_not_start_loses_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(*_: object) -> Iterator[dict[str, Any]]:
        yield {"event": "ended", "reason": "the process ended with status 1"}

    monkeypatch.setattr(runner, "_events", events)
    orders = Orders(["exp/64", "exp/4096"], 1, "work", BRIEF)
    outcome = runner.run(orders, {}, Path("logs"), lambda *_: None, [].append)
    assert set(outcome.lost) == {"exp/64", "exp/4096"}
