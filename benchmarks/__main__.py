"""`python -m benchmarks`."""

from benchmarks.cli import run_and_exit

run_and_exit()
