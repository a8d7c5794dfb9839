"""Simulated environments for the command line's tests: nothing of the machine is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rextio_torch.cli import report
from rextio_torch.cli.environment import Completed, Environment, Interpreter, Torch

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"

Answer = Completed | Callable[[Sequence[str], Mapping[str, str], Path | None], Completed]


@dataclass
class Machine:
    """Programs on PATH and what they answer; a missing one is not on PATH."""

    programs: dict[str, Answer] = field(default_factory=dict)

    def find(self, program: str, path: str | None) -> str | None:
        name = Path(program).name
        return f"/bin/{name}" if name in self.programs else None

    def execute(
        self, command: Sequence[str], variables: Mapping[str, str], cwd: Path | None
    ) -> Completed:
        answer = self.programs.get(Path(command[0]).name)
        if answer is None:
            return Completed(127, stderr=f"{command[0]}: not found")
        return answer if isinstance(answer, Completed) else answer(command, variables, cwd)


def python_answer(prefix: str, torch: str | None, error: str | None = None) -> Completed:
    return Completed(0, json.dumps({"prefix": prefix, "torch": torch, "error": error}) + "\n")


def make_machine(tmp_path: Path) -> Machine:
    prefix = str(tmp_path / "venv")
    return Machine(
        {
            "rextio": Completed(0),
            "cargo": Completed(0, "cargo 1.95.0 (f2d3ce0bd 2026-03-21)\n"),
            "rustc": Completed(0, "rustc 1.95.0 (59807616e 2026-04-14)\n"),
            "c++": Completed(0, "c++ (Debian) 12.2.0\n"),
            "cc": Completed(0, "cc (Debian) 12.2.0\n"),
            "python": python_answer(prefix, "2.11.0+cpu"),
        }
    )


def make_environment(
    tmp_path: Path, machine: Machine | None = None, **variables: str
) -> Environment:
    """Return an environment in which everything is well, with variables added."""
    machine = make_machine(tmp_path) if machine is None else machine
    prefix = tmp_path / "venv"
    include = tmp_path / "include"
    include.mkdir(exist_ok=True)
    (include / "Python.h").touch()
    return Environment(
        variables={
            "PATH": f"{prefix}/bin",
            "HOME": str(tmp_path),
            "VIRTUAL_ENV": str(prefix),
            "REXTIO_TORCH_CACHE_DIR": str(tmp_path / "cache"),
            **variables,
        },
        interpreter=Interpreter(
            version="3.11.7",
            implementation="CPython",
            executable=f"{prefix}/bin/python",
            prefix=str(prefix),
            base_prefix="/usr",
            include=str(include),
            scripts=f"{prefix}/bin",
        ),
        torch=Torch("2.11.0+cpu", f"{prefix}/lib/python3.11/site-packages/torch"),
        distributions={"rextio": "0.1.8", "torch": "2.11.0", "rextio-torch": "0.2.0"},
        plugin_api="1.7",
        entry_point="rextio_torch.plugin:plugin",
        system="Linux",
        machine="x86_64",
        find=machine.find,
        execute=machine.execute,
    )


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o755)
    return path


def artifact(package: str, kind: str = "lib", fresh: bool = False) -> str:
    return json.dumps(
        {
            "reason": "compiler-artifact",
            "package_id": package,
            "target": {"kind": [kind], "name": "x"},
            "fresh": fresh,
        }
    )


def function(native: bool = True) -> report.Function:
    route = "native-plugin:rextio-torch" if native else "fallback-python"
    return report.Function("m.f", native, route, None)
