"""Compile the candidate anywhere, never load it, and say what was seen.

What this shows: the candidate is generated under the provider's permission, by an invented report
of a GPU, compiles against torch's CUDA wheel, and holds no call that moves a tensor between
devices. What it does not show: that it runs.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from pathlib import Path
from typing import Any

from rextio_torch import versions
from rextio_torch.cli.build import BuildResult, build
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.progress import Display
from rextio_torch.cli.report import read_report
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.cuda import generated, project
from rextio_torch.cuda.candidate import CLAIMS


def compile_candidate(
    folder: Path,
    environment: Environment,
    display: Display,
    probe: project.Probe = project.SYNTHETIC,
    executable: Path | None = None,
) -> tuple[BuildResult, dict[str, Any]]:
    """Write, generate and compile the candidate; return the build and what was seen of it."""
    cuda = project.cuda_version(environment)
    project.require_provider()
    project.write(folder, environment, probe, executable)
    result = build(folder, environment, display)
    if result.module is None or result.not_native:
        raise CliError(
            "the candidate was not generated as native code",
            found="; ".join(f"{f.qualname}: {f.reason}" for f in result.functions),
        )
    plan = _plan(folder)
    crate = folder / ".rextio" / "generated" / "rust" / "src" / "lib.rs"
    text = crate.read_text(encoding="utf-8")
    function = generated.generated_function(text, project.FUNCTION.replace(".", "__"))
    moves = generated.moves(text)
    unexpected = generated.unexpected_calls(function)
    elsewhere = [move.to_dict() for move in moves if not move.cpu_only]
    called = [path for path in generated.calls(function) if path in generated.operations()]
    linked = _linked(result.module)
    authorization = plan.get("lowering_authorization") or {}
    seen: dict[str, Any] = {
        **CLAIMS,
        "probe": probe.origin if executable is None else "executable",
        "versions": _versions(environment, folder, cuda),
        "provider": {
            key: plan.get("lock", {}).get(key)
            for key in ("provider_id", "provider_version", "capability_id", "target_triple")
        }
        | {
            "certification_tier": plan.get("capability", {}).get("certification_tier"),
            "preflight": plan.get("preflight"),
        },
        "authorization": authorization,
        "module": {
            "file": result.module.name,
            "sha256": hashlib.sha256(result.module.read_bytes()).hexdigest(),
            "source_id": result.source_id,
            "links": linked,
        },
        "generated_function": function.splitlines(),
        "operations": called,
        "moves": {
            "unexpected_calls_of_the_function": unexpected,
            "calls_in_the_runtime": elsewhere,
            "calls_for_cpu_inputs_only": [move.to_dict() for move in moves if move.cpu_only],
        },
        "checks": {
            "the module links torch's libraries": "libtorch_cpu.so" in linked,
            "permitted by the provider for this capability": (
                authorization.get("provider_id"),
                authorization.get("capability_id"),
            )
            == (versions.DEVICE_PROVIDER, versions.DEVICE_CAPABILITY),
            "the provider makes no claim": plan.get("report", {}).get("support_claim") is False,
            "exactly the four operations, in order": called == generated.operations(),
            "nothing moves between devices": not unexpected and not elsewhere,
        },
    }
    return result, seen


def build_only(folder: Path, environment: Environment, display: Display) -> dict[str, Any]:
    """Return the evidence of a candidate that was compiled and not loaded."""
    result, seen = compile_candidate(folder, environment, display)
    seen["checks"]["the module was not loaded"] = not _is_loaded(result.module)
    return {"kind": "cuda-candidate-build", **seen, "ok": all(seen["checks"].values())}


def _plan(folder: Path) -> dict[str, Any]:
    plans = read_report(folder, "build.json").get("device_provider_plans") or []
    if len(plans) != 1 or not isinstance(plans[0], dict):
        raise CliError(
            "Rextio resolved no device provider",
            expected=f"one plan of {versions.DEVICE_PROVIDER}",
            found=f"{len(plans)} plans",
        )
    return plans[0]


def _versions(environment: Environment, folder: Path, cuda: str) -> dict[str, str | None]:
    tools = Toolchain.of(environment, folder)
    rustc = tools.environment.run(tools.rustc.path, "--version", cwd=folder).first_line
    torch = environment.torch
    return {
        "platform": f"{environment.system} {environment.machine} {platform.release()}",
        "python": environment.interpreter.version,
        "torch": None if torch is None else torch.version,
        "torch_cuda": cuda,
        "tch": versions.TCH_VERSION,
        "rextio": environment.distributions.get("rextio"),
        "rextio_torch": versions.__version__,
        "rextio_device_cuda": versions.DEVICE_PROVIDER_VERSION,
        "rustc": rustc,
    }


def _linked(module: Path) -> list[str]:
    """Return the libraries that a module asks the loader for, read from the file."""
    done = subprocess.run(
        ["readelf", "--dynamic", "--wide", str(module)], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if "(NEEDED)" in line]
    return [line.rpartition("[")[2].rstrip("]") for line in lines]


def _is_loaded(module: Path | None) -> bool:
    """Whether a file is mapped into this process."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return module is None or str(module) in maps
