"""Environment variables that divert a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rextio_torch import versions
from rextio_torch.cli.doctor.check import Check, Status
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.project import REXTIO_FILE


@dataclass(frozen=True)
class _Rule:
    """Environment variables that a build must not see, or that are worth a word."""

    names: tuple[str, ...]
    status: Status
    why: str
    allowed: Callable[[str], bool] = lambda value: False
    #: Whether set to nothing is set, to the program that reads it.
    empty_counts: bool = False


_VARIABLES: tuple[_Rule, ...] = (
    _Rule(
        (versions.BYPASS_VARIABLE,),
        "fail",
        "it disables the check that torch and the binding fit each other",
        empty_counts=True,
    ),
    _Rule(
        ("LIBTORCH_STATIC",),
        "fail",
        "it links libtorch's archives, which the wheel does not have",
        # The values that torch-sys takes for "no".
        lambda value: value in {"0", "false", "FALSE"},
        empty_counts=True,
    ),
    _Rule(
        ("LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_CXX11_ABI"),
        "warn",
        "ignored: the installed torch is linked",
        empty_counts=True,
    ),
    _Rule(
        ("CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_TARGET"),
        "fail",
        "Rextio looks for the module in target/release of the crate",
    ),
    _Rule(("CARGO_BUILD_BUILD_DIR",), "fail", "it overrides the project's own build folder"),
    _Rule(("PYO3_CONFIG_FILE",), "fail", "it replaces the interpreter that PyO3 builds for"),
    _Rule(("PYO3_CROSS", "PYO3_CROSS_LIB_DIR"), "fail", "it makes PyO3 build for another host"),
    _Rule(("PYO3_NO_PYTHON",), "fail", "it keeps PyO3 from asking the interpreter"),
    _Rule(
        ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CXXFLAGS"),
        "warn",
        "dependencies compile again whenever it changes",
    ),
    _Rule(
        ("REXTIO_PLUGINS_ENABLED",),
        "fail",
        f"it replaces [plugins] enabled of {REXTIO_FILE}, and this plugin is not in it",
        lambda value: versions.PLUGIN_ID in value,
    ),
    _Rule(
        ("LIBTORCH_USE_PYTORCH",),
        "warn",
        "any value links the installed torch, and a changed one compiles its bindings again",
        lambda value: value == "1",
        empty_counts=True,
    ),
)


def check_variables(environment: Environment) -> list[Check]:
    """Return a check for each variable that stands in the way, or one that says none does."""
    wrong = []
    for rule in _VARIABLES:
        for name in rule.names:
            value = environment.variables.get(name)
            if value is None or (not value and not rule.empty_counts) or rule.allowed(value):
                continue
            found = f"{name}={value}: {rule.why}"
            check = Check(f"variable {name}", rule.status, f"{name} unset", found, f"unset {name}")
            wrong.append(check)
    if environment.generated_paths:
        found = ", ".join(environment.generated_paths)
        check = Check(
            "variable PYTHONPATH",
            "warn",
            "no folder of built modules",
            f"{found}: hides Rextio itself; left out here and by rextio-torch build",
            "unset PYTHONPATH, and set it only for the program that uses the build",
        )
        wrong.append(check)
    expected = f"{versions.BYPASS_VARIABLE} and others that divert a build are unset"
    return wrong or [Check("environment variables", "ok", expected, "none of them is set")]
