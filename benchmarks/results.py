"""The results of a run as JSON-ready data, and what is read from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from benchmarks.cases import Case
from rextio_torch.bench.stats import fastest, paired_ratio, quantile, rounded

FORMAT = 1
#: Keys of the limits among the contenders.
MEMORY, PEAK = "limit-memory", "limit-peak"
EAGER, LIBTORCH = "eager", "libtorch"
WRAPPER, DIRECT = "fused-wrapper", "fused-direct"
Json: TypeAlias = dict[str, Any]


def case_record(
    case: Case,
    threads: int,
    rounds: Mapping[str, Sequence[float]],
    calls: Mapping[str, int],
    missing: Mapping[str, str],
    rivals: Sequence[str],
    bound: Sequence[str],
) -> Json:
    """Return the record of a case.

    The best rival is chosen from `rivals`; `bound` are those that do less than a call of ours.
    """
    best = fastest(rounds, rivals)
    best_bound = fastest(rounds, [*rivals, *bound])
    return {
        "id": case.id,
        "program": case.program.name,
        "group": case.program.group,
        "title": case.program.title,
        "label": case.label,
        "threads": threads,
        "elements": case.elements,
        "bytes": 4 * (case.floats_read + case.floats_written),
        "flops": case.flops,
        "best": best,
        "best_bound": best_bound,
        "contenders": {
            name: {
                "median_us": rounded(median(times) * 1e6),
                "min_us": rounded(min(times) * 1e6),
                "spread": rounded((quantile(times, 0.75) - quantile(times, 0.25)) / median(times)),
                "rounds": len(times),
                "calls": calls[name],
                **_ratio("to_eager", rounds.get(EAGER), times),
                **_ratio("to_best", rounds.get(best or ""), times),
                **_ratio("to_bound", rounds.get(best_bound or ""), times),
            }
            for name, times in rounds.items()
        },
        "missing": dict(missing),
    }


def _ratio(name: str, reference: Sequence[float] | None, times: Sequence[float]) -> Json:
    return {} if not reference else {name: rounded(paired_ratio(reference, times))}


@dataclass(frozen=True)
class Row:
    """One case of the results, with names for what is asked of it."""

    data: Json

    @property
    def id(self) -> str:
        """The id of the case."""
        return str(self.data["id"])

    @property
    def program(self) -> str:
        """The name of the program."""
        return str(self.data["program"])

    @property
    def group(self) -> str:
        """The group of the program."""
        return str(self.data["group"])

    @property
    def name(self) -> str:
        """The program's title and the sizes."""
        return f"{self.data['title']}, {self.data['label']}"

    @property
    def threads(self) -> int:
        """The number of threads."""
        return int(self.data["threads"])

    @property
    def best(self) -> str | None:
        """The fastest rival."""
        return self.data["best"] or None

    @property
    def others(self) -> float | None:
        """Cores that other programs used while the case was measured, if known."""
        value = self.data.get("others")
        return None if value is None else float(value)

    def has(self, contender: str) -> bool:
        """Whether a contender was measured."""
        return contender in self.data["contenders"]

    def time(self, contender: str) -> float | None:
        """Median time of a call in µs."""
        return self._value(contender, "median_us")

    def ratio(self, contender: str, against: str) -> float | None:
        """How many times faster a contender is than `eager`, the `best` rival, or `bound` too."""
        return self._value(contender, f"to_{against}")

    def _value(self, contender: str, name: str) -> float | None:
        value = self.data["contenders"].get(contender, {}).get(name)
        return None if value is None else float(value)

    @property
    def limit(self) -> tuple[str, float] | None:
        """The limit of the machine that binds the case, and the µs it allows."""
        limits = [(name, time) for name in (MEMORY, PEAK) if (time := self.time(name))]
        return max(limits, key=lambda limit: limit[1], default=None)

    def share_of_limit(self, contender: str) -> float | None:
        """How much of the machine's limit a contender reaches: 1 is all of it."""
        time, limit = self.time(contender), self.limit
        return None if time is None or limit is None else limit[1] / time

    def share_of_memory(self, contender: str) -> float | None:
        """How much of the memory bandwidth at this size a contender reaches."""
        time, limit = self.time(contender), self.time(MEMORY)
        return None if time is None or limit is None else limit / time


def rows(results: Mapping[str, Any], threads: int | None = None) -> Iterator[Row]:
    """Yield the cases of the results, of one number of threads or of all."""
    for data in results["cases"]:
        row = Row(data)
        if threads is None or row.threads == threads:
            yield row


def load(path: Path) -> Json:
    """Read results, or raise `ValueError` if they are of another format."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path} is not a result of this benchmark (format {FORMAT})")
    return data


def save(path: Path, results: Mapping[str, Any]) -> None:
    """Write results, one line per case, so that a difference of two runs is readable."""
    head = {key: value for key, value in results.items() if key != "cases"}
    text = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in results["cases"])
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(f'{text},\n "cases": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    partial.replace(path)
