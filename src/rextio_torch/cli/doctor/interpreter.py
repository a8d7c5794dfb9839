"""The Python that a build finds: the one that libtorch's build script and PyO3 ask."""

from __future__ import annotations

import json
from pathlib import Path

from rextio_torch import versions
from rextio_torch.cli import hiding_file
from rextio_torch.cli.doctor.check import Check, checked
from rextio_torch.cli.environment import Completed, Environment
from rextio_torch.cli.project import REXTIO_FILE
from rextio_torch.cli.toolchain import Toolchain

#: Says where an interpreter belongs and which torch it has, as torch-sys will ask it.
_PROBE = """
import json, os, sys
result = {"prefix": os.path.realpath(sys.prefix), "torch": None, "error": None}
try:
    %s
except Exception as error:
    result["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(result))
"""
_PROBE_DEEP = _PROBE % 'import torch; result["torch"] = torch.__version__'
#: Without importing torch: quick enough for every build.
_PROBE_QUICK = _PROBE % 'import importlib.metadata as m; result["torch"] = m.version("torch")'
#: Where nothing hides a module of Python: the build scripts do not run in the project either.
ELSEWHERE = Path("/")


def check_build_python(tools: Toolchain, *, deep: bool = True) -> Check:
    """The interpreter that libtorch's build script will ask for torch, and the one of PyO3."""
    environment, interpreter = tools.environment, tools.environment.interpreter
    name = "python" if environment.variables.get("VIRTUAL_ENV") is not None else "python3"
    expected = f"{name} on PATH is {interpreter.prefix} with torch {versions.TORCH_VERSION}"
    link = f"ln -s {interpreter.executable} {interpreter.scripts}/{name}"

    def wrong(found: str, repair: str = link, expected: str = expected) -> Check:
        hiding = hiding_file(environment.variables.get("PYTHONPATH", ""))
        if hiding is not None:
            found += f"; {hiding}, on PYTHONPATH, hides the module of that name"
            repair = f"unset PYTHONPATH, or rename {hiding}"
        return Check(f"{name} of the build", "fail", expected, found, repair)

    path = environment.which(name)
    if path is None:
        return wrong(f"{name} is not on PATH")
    done = environment.run(path, "-c", _PROBE_DEEP if deep else _PROBE_QUICK, cwd=ELSEWHERE)
    answer = _probed(done)
    if answer is None:
        return wrong(f"{path}: {done.first_line or 'no answer'}")
    prefix, torch, error = answer
    if prefix != interpreter.prefix:
        return wrong(f"{path} of {prefix}, {f'torch {torch}' if torch else 'no torch'}")
    if torch is None or torch.partition("+")[0] != versions.TORCH_VERSION:
        return wrong(
            f"{path}: torch {torch}" if torch else f"{path}: torch does not import: {error}",
            interpreter.pip_install(f"torch=={versions.TORCH_VERSION}"),
        )
    other = environment.variables.get("PYO3_PYTHON")
    if tools.python is not None and not tools.python.path:
        found, right = f"[toolchain] python {tools.python.problem}", False
    elif other:
        answer = _probed(environment.run(other, "-c", _PROBE_QUICK, cwd=ELSEWHERE))
        found, right = f"PYO3_PYTHON={other}", bool(answer and answer[0] == interpreter.prefix)
    else:
        found, right = "", True
    if not right:
        return wrong(
            found,
            "unset PYO3_PYTHON"
            if tools.python is None
            else f"remove python from [toolchain] of {REXTIO_FILE} (or REXTIO_PYTHON)",
            f"PYO3_PYTHON unset, or an interpreter of {interpreter.prefix}",
        )
    return Check(f"{name} of the build", "ok", expected, f"{path}, torch {torch}")


def check_shell(shell: Environment) -> Check:
    """What plain `rextio build` needs and `rextio-torch build` does by itself: activation."""
    interpreter = shell.interpreter
    name = "python" if shell.variables.get("VIRTUAL_ENV") is not None else "python3"
    path = shell.which(name)
    prefix = None
    if path is not None:
        answer = _probed(shell.run(path, "-c", _PROBE_QUICK, cwd=ELSEWHERE))
        prefix = None if answer is None else answer[0]
    if interpreter.is_virtual:
        activate = f". {interpreter.scripts}/activate"
    else:
        activate = f'export PATH="{interpreter.scripts}:$PATH"'
    return checked(
        "plain rextio build",
        prefix == interpreter.prefix,
        f"{name} on PATH is {interpreter.prefix}",
        f"{path} of {prefix or 'nothing known'}" if path else f"no {name} on PATH",
        f"{activate} (rextio-torch build does this by itself)",
    )


def _probed(done: Completed) -> tuple[str, str | None, str | None] | None:
    if done.returncode != 0:
        return None
    try:
        # The last line: an interpreter may greet, torch may warn.
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        return str(answer["prefix"]), answer["torch"], answer["error"]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
