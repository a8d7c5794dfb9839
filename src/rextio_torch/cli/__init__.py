"""The command line: `rextio-torch init`, `build`, `cache` and `doctor`."""

from __future__ import annotations

import importlib.util
import sys

#: What the extra `cli` installs; the plugin itself needs none of them.
REQUIRED_MODULES = ("click", "rich", "tomlkit")


def main() -> None:
    """Run the command line, or say in one line what to install for it."""
    missing = [name for name in REQUIRED_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"rextio-torch: the command line needs {', '.join(missing)}: "
            'install "rextio-torch[cli]" (pip install "rextio-torch[cli]")',
            file=sys.stderr,
        )
        raise SystemExit(1)
    from rextio_torch.cli.app import run

    run()
