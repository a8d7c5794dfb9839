"""What a native build needs, one check a line: expected, found, and the repair.

Every check reads an `Environment`, a project's files and the disk; none leaves a change.
"""

from __future__ import annotations

from rextio_torch.cli.doctor.check import Check, UnfitEnvironmentError, failures, lines
from rextio_torch.cli.doctor.compilers import check_compiler, check_rust
from rextio_torch.cli.doctor.host import (
    check_headers,
    check_platform,
    check_plugin,
    check_python,
    check_rextio,
    check_torch,
)
from rextio_torch.cli.doctor.interpreter import check_build_python, check_shell
from rextio_torch.cli.doctor.project import (
    check_build_folder,
    check_cargo_configuration,
    check_settings,
    check_space,
    check_writable,
)
from rextio_torch.cli.doctor.variables import check_variables
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.project import REXTIO_FILE
from rextio_torch.cli.toolchain import Toolchain

__all__ = ["Check", "UnfitEnvironmentError", "failures", "lines", "run_checks"]


def run_checks(tools: Toolchain, shell: Environment | None = None) -> list[Check]:
    """Run every check, with the programs and variables of `rextio-torch build`.

    With the environment of the `shell` also those that a build can do without: import torch, let
    Rextio read the project's settings, look at what a plain `rextio build` would find.
    """
    environment, project = tools.environment, tools.project
    checks: list[Check] = [
        check_platform(environment),
        check_python(environment),
        check_headers(environment),
        check_torch(environment),
        check_rextio(tools),
        check_plugin(environment),
        check_rust(tools, "cargo", tools.cargo),
        check_rust(tools, "rustc", tools.rustc),
        check_compiler(environment),
        check_build_python(tools, deep=shell is not None),
        *([] if shell is None else [check_shell(shell)]),
        *check_variables(environment),
    ]
    if project is not None:
        checks.append(check_writable(project))
        if shell is not None and (project / REXTIO_FILE).is_file():
            checks.append(check_settings(tools, project / REXTIO_FILE))
        checks.append(check_cargo_configuration(environment, project))
        checks.append(check_build_folder(environment, project))
    checks.append(check_space(environment, project))
    return checks
