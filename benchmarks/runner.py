"""Runs the measuring processes, one per group and number of threads, again if they die."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from benchmarks.cases import find
from benchmarks.orders import Orders
from benchmarks.results import Json

ROOT = Path(__file__).parent.parent
#: Longer silence than any compiler needs.
SILENCE_SECONDS = 900.0


@dataclass
class Outcome:
    """What the processes of some cases gave beside records."""

    #: Cases that could not be measured at all, with the reason.
    lost: dict[str, str] = field(default_factory=dict)
    engine: Json | None = None


#: Called with the id of a case, the number of its threads and what happens to it now.
Report = Callable[[str, int, str], None]
#: Called with the record of each measured case.
Keep = Callable[[Json], None]


def run(
    orders: Orders, variables: Mapping[str, str], logs: Path, report: Report, keep: Keep
) -> Outcome:
    """Run cases in a process of their own, again without what ended it, until all are done."""
    outcome = Outcome()
    left = list(orders.cases)
    failed = {case: dict(peers) for case, peers in orders.failed.items()}
    attempts: dict[str, int] = {}
    while left:
        case, contender, reason = left[0], "", "the process said nothing"
        started = False
        for event in _events(replace(orders, cases=list(left), failed=failed), variables, logs):
            kind = event["event"]
            started = started or kind != "ended"
            if kind == "preparing":
                case, contender = event["case"], event["contender"]
                report(case, orders.threads, f"preparing {contender}")
            elif kind == "measuring":
                case, contender = event["case"], ""
                report(case, orders.threads, "measuring")
            elif kind in ("result", "prepared"):
                if kind == "result":
                    keep(event["record"])
                case = event["record"]["id"] if kind == "result" else event["case"]
                left.remove(case)
                report(case, orders.threads, "done")
                case, contender = (left[0] if left else ""), ""
            elif kind == "engine":
                outcome.engine = event["engine"]
            elif kind == "ended":
                reason = event["reason"]
        if not started:
            # Not a case's fault, so the next start would not go better.
            outcome.lost.update(dict.fromkeys(left, reason))
            break
        if not left:
            break
        attempts[case] = attempts.get(case, 0) + 1
        if contender:
            failed.setdefault(case, {})[contender] = f"{reason} while preparing it"
        elif attempts[case] > 1:
            outcome.lost[case] = reason
            left.remove(case)
            report(case, orders.threads, f"lost: {reason}")
    return outcome


def _events(orders: Orders, variables: Mapping[str, str], logs: Path) -> Iterator[Json]:
    """Start a process and yield its events, and how it ended unless it ended well."""
    logs.mkdir(parents=True, exist_ok=True)
    name = f"{find(orders.cases[0]).program.group}-{orders.threads}"
    log_path = logs / f"{'prepare-' if orders.prepare_only else ''}{name}.log"
    environment = {
        **variables,
        "PYTHONPATH": str(ROOT),
        # The processor's own list of vector instructions is trusted. Else every process loads
        # test programs to check it, each in a process of its own, which takes long.
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        # Compiled kernels have the number of threads in them.
        "TORCHINDUCTOR_CACHE_DIR": str(Path(orders.folder) / f"inductor-{orders.threads}"),
    }
    with log_path.open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(orders.to_json())
            process.stdin.close()
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            while True:
                line = lines.get(timeout=SILENCE_SECONDS)
                if line is None:
                    break
                event = json.loads(line)
                if event["event"] == "done":
                    return
                yield event
            status = process.wait()
        except queue.Empty:
            yield {"event": "ended", "reason": f"no news for {SILENCE_SECONDS:.0f} s"}
            return
        finally:
            process.kill()
            process.wait()
            reader.join()
    by = f"by signal {-status}" if status < 0 else f"with status {status}"
    yield {"event": "ended", "reason": f"the process ended {by} ({_last_line(log_path)})"}


def _read(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _last_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    return text.splitlines()[-1][:200] if text else "no message"


def by_group(case_ids: Sequence[str]) -> list[list[str]]:
    """Group cases as tables do, in order."""
    groups: dict[str, list[str]] = {}
    for case_id in case_ids:
        groups.setdefault(find(case_id).program.group, []).append(case_id)
    return list(groups.values())


def prepare(
    batches: Sequence[Orders],
    variables: Mapping[str, str],
    logs: Path,
    report: Report,
    processes: int,
) -> None:
    """Compile what slow peers need, some processes at a time, before anything is timed."""

    def one(orders: Orders) -> Any:
        # The processes are as many as the cores; none of them needs compilers of its own beside.
        environment = {**variables, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        return run(replace(orders, prepare_only=True), environment, logs, report, lambda _: None)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(one, batches))
