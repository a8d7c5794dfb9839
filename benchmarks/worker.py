"""One process of the benchmark: prepares, checks and times cases with one number of threads.

It reads its orders as JSON from standard input and writes events, one JSON object a line, to
standard output. What libraries print goes to standard error.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import cases as all_cases
from benchmarks.build import load_eager, load_native
from benchmarks.contender import Peer, Setting, UnavailableError
from benchmarks.contenders import BOUND, RIVALS
from benchmarks.eager_forms import EAGER_FORMS
from benchmarks.inputs import make_tensors
from benchmarks.limits import Limits
from benchmarks.orders import Orders
from benchmarks.peers import PEERS
from benchmarks.results import EAGER, MEMORY, PEAK, case_record
from rextio_torch.bench.contender import Contender
from rextio_torch.bench.measure import Patience, measure

#: How long one process waits for a quiet machine, all its cases together.
PATIENCE_SECONDS = 600.0

Say = Callable[[Mapping[str, Any]], None]


def reason_of(error: BaseException) -> str:
    """Return why something failed, in one line and without paths of this machine."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = re.sub(r"(?:/[\w.+~-]+)+/", "…/", text)
    name = "" if isinstance(error, UnavailableError) else f"{type(error).__name__}: "
    return f"{name}{text}"[:300].removesuffix(": ")


def as_tensor(result: Any) -> torch.Tensor:
    """Return what a contender returned as one tensor."""
    if isinstance(result, list | tuple):
        result = result[0]
    return result if isinstance(result, torch.Tensor) else torch.from_numpy(result)


def check(result: torch.Tensor, expected: torch.Tensor) -> None:
    """Raise `UnavailableError` if a result is not eager's."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        raise UnavailableError(
            f"wrong result: {result.dtype} {list(result.shape)} instead of "
            f"{expected.dtype} {list(expected.shape)}"
        )
    if not expected.is_floating_point():
        different = int((result != expected).sum())
        if different:
            raise UnavailableError(f"wrong result: {different} of {expected.numel()} differ")
        return
    largest = float(expected.abs().max())
    if not torch.allclose(result, expected, rtol=1e-4, atol=1e-4 * max(1.0, largest)):
        difference = float((result - expected).abs().max())
        raise UnavailableError(f"wrong result: differs by up to {difference:.3g}")


class Worker:
    """The state of one process."""

    def __init__(self, orders: Orders, say: Say) -> None:
        self.orders = orders
        self.say = say
        self.folder = Path(orders.folder)
        torch.set_num_threads(orders.threads)
        self.limits: Limits | None = None
        self.no_limits = ""
        try:
            self.limits = Limits.compile()
        except UnavailableError as error:
            self.no_limits = reason_of(error)
        self.prepared_seconds = 0.0
        self.patience = Patience(PATIENCE_SECONDS if orders.effort.quiet_seconds else 0.0)

    def run(self) -> None:
        """Do all cases."""
        from rextio_torch import engine

        for number, case_id in enumerate(self.orders.cases):
            case = all_cases.find(case_id)
            built = load_native(self.folder, case.program)
            info = engine()
            if number == 0:
                self.say({"event": "engine", "engine": asdict(info)})
            setting = Setting(
                case=case,
                threads=self.orders.threads,
                eager=EAGER_FORMS.get(case.program.name) or load_eager(self.folder, case.program),
                built=built,
                tensors=make_tensors(case),
                folder=self.folder,
                simd=self.orders.simd or info.simd,
            )
            if self.orders.prepare_only:
                self._prepare_all(setting)
                self.say({"event": "prepared", "case": case_id})
            else:
                self.say({"event": "result", "record": self._measure(setting)})

    def _measure(self, setting: Setting) -> dict[str, Any]:
        case = setting.case
        contenders, missing = self._prepare_all(setting)
        if self.limits is None:
            missing[MEMORY] = self.no_limits
        else:
            contenders[MEMORY] = self.limits.stream(case, setting.threads)
            if case.flops:
                contenders[PEAK] = self.limits.peak(case, setting.threads)
        self.say({"event": "measuring", "case": case.id})
        measured = measure(contenders, self.orders.effort, setting.threads, self.patience)
        record = case_record(
            case, setting.threads, measured.rounds, measured.calls, missing, RIVALS, BOUND
        )
        others = measured.others
        return {**record, "others": None if others is None else round(others, 3)}

    def _prepare_all(self, setting: Setting) -> tuple[dict[str, Contender], dict[str, str]]:
        contenders: dict[str, Contender] = {}
        missing: dict[str, str] = {}
        expected = setting.eager(*setting.arguments).clone()
        known = self.orders.failed.get(setting.case.id, {})
        for peer in PEERS:
            if peer.constants and not setting.case.program.weights:
                continue
            if self.orders.prepare_only and not peer.slow:
                continue
            if peer.key in known:
                missing[peer.key] = known[peer.key]
                continue
            self.say({"event": "preparing", "case": setting.case.id, "contender": peer.key})
            try:
                contenders[peer.key] = self._prepare(peer, setting, expected)
            # A peer may fail in any way; that is its result.
            except Exception as error:
                missing[peer.key] = reason_of(error)
        if EAGER in missing:
            raise RuntimeError(f"eager cannot run {setting.case.id}: {missing[EAGER]}")
        return contenders, missing

    def _prepare(self, peer: Peer, setting: Setting, expected: torch.Tensor) -> Contender:
        if peer.slow and self.prepared_seconds > self.orders.prepare_seconds:
            raise UnavailableError("left out: the time to prepare peers in a quick run was used up")
        begun = time.perf_counter()
        try:
            contender = peer.prepare(setting)
            with contender.context():
                result = as_tensor(contender.call()).clone()
        finally:
            if peer.slow:
                self.prepared_seconds += time.perf_counter() - begun
        check(result, expected)
        return contender


def main() -> None:
    """Run the orders that come on standard input."""
    orders = Orders.from_json(sys.stdin.read())
    # The channel keeps standard output to itself.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(event: Mapping[str, Any]) -> None:
        channel.write(json.dumps(event) + "\n")
        channel.flush()

    Worker(orders, say).run()
    say({"event": "done"})


if __name__ == "__main__":
    main()
