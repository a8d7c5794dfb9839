"""What is installed on this host: platform, Python, torch, Rextio, this plugin."""

from __future__ import annotations

from pathlib import Path

from rextio_torch import platforms, versions
from rextio_torch.cli.doctor.check import Check, Status, checked
from rextio_torch.cli.environment import Environment, version_tuple
from rextio_torch.cli.toolchain import Toolchain

ENTRY_POINT = "rextio_torch.plugin:plugin"


def check_platform(environment: Environment) -> Check:
    """Look this host up in the platform table."""
    row = platforms.lookup(environment.system, environment.machine)
    status: Status = "ok" if row.status == "certified" else "warn" if row.usable else "fail"
    usable = [row for row in platforms.PLATFORMS if row.usable]
    return Check(
        "platform",
        status,
        ", ".join(f"{row.host} ({row.status})" for row in usable),
        f"{row.host}: {row.status}, {row.reason}",
        None if row.usable else "build on one of the hosts named",
    )


def check_python(environment: Environment) -> Check:
    """CPython of the one supported minor version."""
    interpreter = environment.interpreter
    minor = version_tuple(interpreter.version)[:2]
    return checked(
        "Python",
        interpreter.implementation == "CPython" and minor == version_tuple(versions.PYTHON_VERSION),
        f"CPython {versions.PYTHON_VERSION}",
        f"{interpreter.implementation} {interpreter.version} ({interpreter.executable})",
        f"python{versions.PYTHON_VERSION} -m venv .venv && "
        '.venv/bin/pip install "rextio-torch[cli]"',
    )


def check_headers(environment: Environment) -> Check:
    """Python's C headers, which libtorch's bindings include."""
    include = Path(environment.interpreter.include)
    right = (include / "Python.h").is_file()
    return checked(
        "Python headers",
        right,
        "Python.h",
        str(include / "Python.h") if right else f"no Python.h in {include}",
        f"apt-get install python{versions.PYTHON_VERSION}-dev",
    )


def check_torch(environment: Environment) -> Check:
    """The one torch release whose libtorch the binding links."""
    torch = environment.torch
    return checked(
        "torch",
        torch is not None and torch.release == versions.TORCH_VERSION,
        f"torch {versions.TORCH_VERSION}, any build",
        "not installed" if torch is None else f"torch {torch.version} ({torch.location})",
        environment.interpreter.pip_install(f"torch=={versions.TORCH_VERSION}"),
    )


def check_rextio(tools: Toolchain) -> Check:
    """Rextio itself, its command, and the plugin API that it offers."""
    environment = tools.environment
    version = environment.distributions.get("rextio")
    api = environment.plugin_api or "not readable"
    found = "not installed" if version is None else f"rextio {version}, plugin API {api}"
    repair = environment.interpreter.pip_install(versions.REXTIO_REQUIREMENT)
    if not tools.rextio.path:
        found += f", no command rextio in {environment.interpreter.scripts} or on PATH"
        repair += " --force-reinstall"
    return checked(
        "Rextio",
        version is not None and versions.plugin_api_fits(api) and bool(tools.rextio.path),
        f"{versions.REXTIO_REQUIREMENT} with plugin API {versions.PLUGIN_API_VERSION} or a later "
        "minor",
        found,
        repair,
    )


def check_plugin(environment: Environment) -> Check:
    """This plugin, as Rextio will discover it."""
    version = environment.distributions.get("rextio-torch")
    return checked(
        "plugin",
        version is not None and environment.entry_point == ENTRY_POINT,
        f"entry point {versions.PLUGIN_ID} = {ENTRY_POINT}",
        f"rextio-torch {version or 'not installed'}, "
        f"entry point {environment.entry_point or 'missing'}",
        environment.interpreter.pip_install("rextio-torch"),
    )
