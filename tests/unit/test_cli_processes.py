"""Running programs and ending them."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rextio_torch.cli import processes


def test_output_comes_line_by_line(tmp_path: Path) -> None:
    seen: list[str] = []
    status = processes.run_lines(
        ["sh", "-c", "echo out; echo err >&2; exit 3"],
        variables=os.environ,
        cwd=tmp_path,
        on_line=seen.append,
        on_tick=lambda: None,
    )
    assert status == 3
    assert seen == ["out", "err"]


def test_a_program_that_left_its_output_open_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    status = processes.run_lines(
        ["sh", "-c", "sleep 5 & exit 0"],
        variables=os.environ,
        cwd=tmp_path,
        on_line=lambda line: None,
        on_tick=lambda: None,
    )
    assert status == 0
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_interrupt_ends_everything_that_was_started(tmp_path: Path, stubborn: bool) -> None:
    # The grandchild is in a session of its own, as cargo is under Rextio.
    trap = "trap '' TERM; " if stubborn else ""
    child = ["sh", "-c", f"{trap}echo started; while :; do sleep 0.1; done"]
    script = (
        "import subprocess, time\n"
        f"child = subprocess.Popen({child}, start_new_session=True, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    pids: list[int] = []

    def on_line(line: str) -> None:
        pids.append(int(line))
        raise processes.Interrupted(2)

    began = time.monotonic()
    with pytest.raises(processes.Interrupted):
        processes.run_lines(
            [sys.executable, "-c", script],
            variables=os.environ,
            cwd=tmp_path,
            on_line=on_line,
            on_tick=lambda: None,
        )
    assert time.monotonic() - began < 10
    assert pids[0] not in processes._running()


def test_what_must_not_be_cut_short_ends_before_the_signal_counts() -> None:
    done = []

    @processes.stoppable()
    def work() -> None:
        with processes.undisturbed():
            signal.raise_signal(signal.SIGTERM)
            # An impatient second one.
            signal.raise_signal(signal.SIGINT)
            done.append("inside")
        done.append("never")

    with pytest.raises(processes.Interrupted) as error:
        work()
    assert done == ["inside"]
    assert error.value.status == 128 + signal.SIGTERM


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with processes.stoppable(), processes.undisturbed():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
