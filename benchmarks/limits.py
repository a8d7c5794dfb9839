"""The machine's limits, measured by a small C loop in the same rounds as everything else."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import subprocess
import tempfile
from pathlib import Path

import torch

from benchmarks.cases import Case
from benchmarks.contender import UnavailableError
from rextio_torch.bench.contender import Contender

SOURCE = Path(__file__).with_name("machine_limits.c")
#: One step of the peak loop is some nanoseconds: a call of the limit is that many.
_PEAK_STEPS = 10_000


class Limits:
    """The compiled loops."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.stream_seconds.restype = ctypes.c_double
        library.stream_seconds.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t),
            *(ctypes.c_int, ctypes.c_long),
        ]
        library.fma_seconds.restype = ctypes.c_double
        library.fma_seconds.argtypes = [ctypes.c_int, ctypes.c_long]
        library.fma_step_flops.restype = ctypes.c_long
        self._library = library

    @classmethod
    def compile(cls) -> Limits:
        """Compile the loops for this machine, or raise `UnavailableError`."""
        with tempfile.TemporaryDirectory() as folder:
            return cls(_compile(Path(folder) / "machine_limits.so"))

    def stream(self, case: Case, threads: int) -> Contender:
        """Return the limit of memory: reading and writing what the case reads and writes."""
        source = torch.ones(case.floats_read)
        target = torch.ones(case.floats_written)

        def sample(count: int) -> float:
            seconds: float = self._library.stream_seconds(
                source.data_ptr(),
                target.data_ptr(),
                case.floats_read,
                case.floats_written,
                threads,
                count,
            )
            return seconds

        return Contender(lambda: sample(1), sample)

    def peak(self, case: Case, threads: int) -> Contender:
        """Return the limit of arithmetic: as many fused multiply-adds as the case's products."""
        flops = _PEAK_STEPS * threads * self._library.fma_step_flops()

        def sample(count: int) -> float:
            # The rate is what is measured; a case of a few operations is too short to time.
            steps = max(1, round(count * case.flops / flops))
            seconds: float = self._library.fma_seconds(threads, steps * _PEAK_STEPS)
            return float(seconds / (steps * flops) * case.flops * count)

        return Contender(lambda: sample(1), sample)


def _compile(target: Path) -> ctypes.CDLL:
    native = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        *("-O3", native, "-ffp-contract=fast", "-shared", "-fPIC", "-pthread"),
        *(str(SOURCE), "-o", str(target)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"no C compiler: {error.strerror}") from error
    if done.returncode != 0:
        raise UnavailableError(f"the C compiler failed: {done.stderr.strip()[-200:]}")
    return ctypes.CDLL(str(target))
