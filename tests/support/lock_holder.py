"""Holds a lock in another process, which imports this module and little else.

Its search path may have a built module's part of Rextio in front, which hides the plugin API.
"""

from pathlib import Path

from rextio_torch.cli.locks import locked


def hold(path: Path, entered: object, leave: object) -> None:
    with locked(path):
        entered.set()  # type: ignore[attr-defined]
        leave.wait(20)  # type: ignore[attr-defined]
