"""The command line, `rextio-torch`."""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import sys

#: What the extra `cli` installs; the plugin itself needs none of them.
REQUIRED_MODULES = (
    "click",
    "libcst",
    "packaging",
    "pyproject_metadata",
    "rich",
    "tomlkit",
    "wheel",
)


def main() -> None:
    """Run the command line, or say in one line what to install for it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C before a command has begun is no error of the program: no traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a terminal cannot show, and a path that is no text, is written as an escape.
            stream.reconfigure(errors="backslashreplace")
    missing = [name for name in REQUIRED_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"rextio-torch: the command line needs {', '.join(missing)}: "
            'install "rextio-torch[cli]" (pip install "rextio-torch[cli]")',
            file=sys.stderr,
        )
        raise SystemExit(1)
    try:
        from rextio_torch.cli.environment import leave_out_generated

        # Built modules hide the plugin API of Rextio, which the commands import.
        leave_out_generated(dict(os.environ))
        from rextio_torch.cli.app import run
    except (ImportError, AttributeError):
        hiding = hiding_file(os.environ.get("PYTHONPATH", ""))
        if hiding is None:
            raise
        print(
            f"rextio-torch: {hiding}, on PYTHONPATH, hides the module of that name: unset "
            "PYTHONPATH, or rename the file",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
    run()


def hiding_file(path: str) -> str | None:
    """Return a file on a PYTHONPATH that Python takes for one of its own modules, torch or this."""
    own = sys.stdlib_module_names | {"torch", "rextio_torch"}
    for folder in filter(os.path.isdir, path.split(os.pathsep)):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py") and name.removesuffix(".py") in own:
                return os.path.join(folder, name)
    return None
