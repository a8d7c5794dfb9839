"""The dependencies of a generated crate: compiled once with progress, or seeded from a copy.

They are compiled in a crate of their own beside the generated one, with the same manifest but
another name: the dependencies' artifacts are the same, and nothing of it can be mistaken for a
project's module. Cargo then finds them fresh when `rextio build` runs.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import os
import shlex
import shutil
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomlkit

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import (
    copy_tree,
    read_toml,
    remove_partial,
    remove_tree,
    write_atomically,
)
from rextio_torch.cli.layout import CARGO_FOLDER, BuildFolder, WarmCopy, write_origin
from rextio_torch.cli.locks import locked
from rextio_torch.cli.processes import run_lines
from rextio_torch.cli.progress import CargoProgress, Display
from rextio_torch.cli.project import CARGO_FILE, REXTIO_FILE, cargo_configurations
from rextio_torch.cli.report import error_tail, read_report
from rextio_torch.cli.source import translator_digest

CRATE = "rextio_torch_dependencies"
STATE_FILE = "state.json"
#: What a warm copy leaves out: everything that is one project's.
_OWN = ("*rextio_generated_native*", "*_rextio_native*", f"*{CRATE}*", "incremental")
#: Variables that cargo, rustc or a build script compile by.
_COMPILE_VARIABLES = (
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "RUSTUP_TOOLCHAIN",
    "LIBTORCH_USE_PYTORCH",
)
_NETWORK = (
    "download of config.json failed",
    "failed to download",
    "failed to get",
    "unable to update registry",
    "couldn't connect",
    "could not resolve host",
    "timeout was reached",
)


@dataclass(frozen=True)
class Tools:
    """The programs of a build and the variables they run with."""

    rextio: str
    cargo: str
    rustc: str
    variables: Mapping[str, str]

    @classmethod
    def find(cls, environment: Environment, project: Path) -> Tools:
        """Find the programs that a build in `environment` uses."""
        scripts = environment.interpreter.scripts
        beside = Path(scripts) / "rextio"
        rextio = str(beside) if beside.is_file() else environment.which("rextio")
        if rextio is None:
            raise CliError(
                "the command rextio is missing",
                expected=f"{beside}",
                found="no such file, and no rextio on PATH",
                repair=f"{environment.interpreter.executable} -m pip install --force-reinstall "
                '"rextio>=0.1.7,<0.2"',
            )
        settings = read_toml(project / REXTIO_FILE).get("toolchain", {})
        variables = dict(environment.variables)
        channel = variables.get("REXTIO_RUST_TOOLCHAIN") or settings.get("rust_toolchain")
        if channel:
            variables["RUSTUP_TOOLCHAIN"] = str(channel)
        environment = replace(environment, variables=variables)
        cargo = _configured(environment, project, settings, "cargo")
        python = _configured(environment, project, settings, "python", "python3", "python")
        if python is not None:
            variables["PYO3_PYTHON"] = python
        rustc = environment.which("rustc") or "rustc"
        cargo = cargo or environment.which("cargo") or "cargo"
        return cls(rextio, cargo, rustc, variables)

    def cargo_variables(self) -> dict[str, str]:
        """Return the variables under which cargo finds its work fresh in `rextio build` too.

        Rextio builds for PYO3_PYTHON, or for the interpreter it runs on, spelled as its script
        spells it; PyO3 compiles again when that spelling changes.
        """
        variables = dict(self.variables)
        if not variables.get("PYO3_PYTHON"):
            variables["PYO3_PYTHON"] = script_interpreter(Path(self.rextio))
        return variables


def _configured(
    environment: Environment, project: Path, settings: Mapping[str, Any], tool: str, *names: str
) -> str | None:
    """Find a tool that the project configures, a file or the folder it is in, as Rextio does."""
    chosen = environment.variables.get(f"REXTIO_{tool.upper()}") or settings.get(tool)
    if not isinstance(chosen, str) or not chosen:
        return None
    # Rextio runs in the project, so that is where a relative path begins.
    base = project / Path(chosen).expanduser()
    for name in names or (tool,):
        for candidate in (base, base / name, base / "bin" / name):
            if candidate.is_file():
                return str(candidate)
    return None


def script_interpreter(script: Path) -> str:
    """Return the interpreter that an installed script runs on, as the script spells it."""
    with contextlib.suppress(OSError, ValueError):
        first, second = [*script.read_text(encoding="utf-8").splitlines()[:2], "", ""][:2]
        if first.startswith("#!") and "python" in os.path.basename(first):
            return first[2:].strip()
        if second.startswith("'''exec'"):
            # How pip and uv write a path that is too long, or has a space, for a first line.
            return shlex.split(second.replace("'''exec'", "exec"))[1]
    return sys.executable


def normalised_manifest(text: str) -> dict[str, Any]:
    """Return the part of a generated manifest that decides how dependencies compile."""
    data = tomllib.loads(text)
    return {
        key: data[key]
        for key in sorted(data)
        if key in {"dependencies", "build-dependencies", "profile", "target", "patch"}
    }


def dependency_manifest(text: str) -> str:
    """Return the manifest of the crate that only compiles the dependencies of a generated one."""
    document = tomlkit.parse(text)
    package: Any = document["package"]
    package["name"] = CRATE
    package.pop("build", None)
    library: Any = document.get("lib")
    if library is not None:
        library["name"] = CRATE
        library.pop("path", None)
    # On its own wherever it lies: a workspace above a project has no say in it.
    if "workspace" not in document:
        document["workspace"] = tomlkit.table()
    return tomlkit.dumps(document)


class Dependencies:
    """Brings a project's build folder to where only the project itself is left to compile."""

    def __init__(
        self,
        environment: Environment,
        project: Path,
        folder: BuildFolder,
        tools: Tools,
        display: Display,
        lock: int,
    ) -> None:
        self.environment = environment
        self.project = project
        self.folder = folder
        self.tools = tools
        self.display = display
        self.lock = lock

    def prepare(self) -> str:
        """Do what is needed and return what that was, in a word."""
        remove_partial(self.folder.folder, CARGO_FOLDER)
        compiler = self._compiler()
        quick = self._quick_key(compiler)
        state = self._read_state()
        present = self.folder.cargo.is_dir()
        if present and state.get("quick") == quick and state.get("complete"):
            return "ready"
        manifest = self._generate()
        if manifest is None:
            return "none"
        normal = normalised_manifest(manifest)
        key = _digest(normal, compiler)
        # A manifest without this plugin's crates is that of a project that does not use it yet.
        complete = "tch" in normal.get("dependencies", {})
        if present and state.get("key") == key:
            self._write_state(key, quick, complete)
            return "ready"
        warm = self.folder.warm(key)
        seeded = self._seed(warm)
        self._compile(manifest)
        self._write_state(key, quick, complete)
        if not warm.cargo.is_dir():
            self._store(warm)
        return "seeded" if seeded else "compiled"

    def _compiler(self) -> str:
        """Describe the compilers and flags; cargo keeps the artifacts of each apart."""
        environment = replace(self.environment, variables=self.tools.variables)
        rustc = environment.run(self.tools.rustc, "-vV", cwd=self.project)
        variables = self.tools.cargo_variables()
        flags = {name: variables.get(name) for name in (*_COMPILE_VARIABLES, "PYO3_PYTHON")}
        own = (self.project / CARGO_FILE).resolve()
        above = [
            data
            for path, data in cargo_configurations(self.project, variables)
            if path.resolve() != own
        ]
        return json.dumps([rustc.stdout, flags, above], sort_keys=True, default=str)

    def _quick_key(self, compiler: str) -> str:
        """Digest what decides the manifest, without generating it."""
        settings = self.project / REXTIO_FILE
        text = settings.read_text(encoding="utf-8") if settings.is_file() else ""
        return _digest(text, compiler, translator_digest(), dict(self.environment.distributions))

    def _read_state(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            data = json.loads((self.folder.folder / STATE_FILE).read_text(encoding="utf-8"))
            if isinstance(data, dict):
                return data
        return {}

    def _write_state(self, key: str, quick: str, complete: bool) -> None:
        data = {"key": key, "quick": quick, "complete": complete}
        write_atomically(self.folder.folder / STATE_FILE, json.dumps(data, indent=2) + "\n")

    def _generate(self) -> str | None:
        """Have Rextio write the crate without compiling it, and return its manifest if any."""
        lines: list[str] = []
        with self.display.step("translating the project") as step:
            status = run_lines(
                [self.tools.rextio, "generate", str(self.project), "--fallback=cpython"],
                variables=self.tools.variables,
                cwd=self.project,
                on_line=lambda name, line: lines.append(line),
                on_tick=lambda: step.tick("", 0, ""),
                keep=(self.lock,),
            )
        if status != 0:
            raise CliError(
                f"Rextio could not translate {self.project}",
                detail="\n".join(lines[-40:]),
                repair=f"rextio check {self.project}",
            )
        report = read_report(self.project, "generate.json")
        crate = Path(str(report.get("generated_rust")))
        manifest = crate / "Cargo.toml"
        if report.get("accepted_native_count") == 0 or not manifest.is_file():
            return None
        return manifest.read_text(encoding="utf-8")

    def _seed(self, warm: WarmCopy) -> bool:
        if not warm.folder.is_dir():
            return False
        with locked(warm.lock, shared=True, waiting=self._waiting("the warm copy")):
            if not warm.cargo.is_dir():
                return False
            with self.display.step("copying compiled dependencies"):
                # What is there is of other dependencies, another compiler, or was interrupted.
                remove_tree(self.folder.cargo)
                copy_tree(warm.cargo, self.folder.cargo)
            write_origin(warm.folder, self.environment, None)
        return True

    def _store(self, warm: WarmCopy) -> None:
        """Keep a copy of the compiled dependencies; a full disk is no reason to fail a build."""
        try:
            with locked(warm.lock, waiting=self._waiting("the warm copy")):
                if warm.cargo.is_dir():
                    return
                remove_partial(warm.folder, CARGO_FOLDER)
                with self.display.step("keeping a copy for other projects"):
                    copy_tree(self.folder.cargo, warm.cargo, ignore=_ignore_own)
                write_origin(warm.folder, self.environment, None)
        except (OSError, shutil.Error) as error:
            self.display.say(f"no copy of the dependencies was kept: {error}")

    def _waiting(self, what: str) -> Any:
        return lambda holder: self.display.say(
            f"waiting for {what}" + (f" ({holder})" if holder else "")
        )

    def _compile(self, manifest: str) -> None:
        # Inside the project, so that cargo reads the same configuration as for the real crate.
        crate = self.project / ".rextio" / "dependencies"
        write_atomically(crate / "Cargo.toml", dependency_manifest(manifest))
        write_atomically(crate / "src" / "lib.rs", "")
        (crate / "Cargo.lock").unlink(missing_ok=True)
        variables = self.tools.cargo_variables()
        offline, total = self._resolve(crate, variables)
        progress = CargoProgress(total=total, root=CRATE)

        def on_line(stream: str, line: str) -> None:
            if stream == "stderr":
                progress.feed_status(line, time.monotonic())
            else:
                name = progress.feed_message(line)
                if name is not None:
                    step.finished(name, progress.counter)

        with self.display.step("compiling dependencies", total) as step:
            status = run_lines(
                [
                    self.tools.cargo,
                    "build",
                    "--release",
                    "--message-format=json-render-diagnostics",
                    *offline,
                ],
                variables=variables,
                cwd=crate,
                on_line=on_line,
                on_tick=lambda: step.tick(progress.counter, len(progress.done), progress.current),
            )
            seconds = step.seconds
        if status != 0:
            raise CliError(
                "the dependencies did not compile",
                expected=f"cargo build in {crate} to succeed",
                found=f"exit status {status}",
                detail=error_tail("\n".join(progress.notes)),
                repair="rextio-torch doctor (and free memory: compiling the bindings takes 2 GB)",
            )
        self.display.say(
            f"dependencies: {len(progress.done)} crates, {progress.fresh} of them already "
            f"compiled, {seconds:.0f} s"
        )

    def _resolve(self, crate: Path, variables: Mapping[str, str]) -> tuple[list[str], int | None]:
        """Choose the versions, off line where the registry cannot be reached; count them."""
        environment = replace(self.environment, variables=variables)
        host = ""
        for line in environment.run(self.tools.rustc, "-vV", cwd=crate).stdout.splitlines():
            host = line.removeprefix("host: ") if line.startswith("host: ") else host
        command = [self.tools.cargo, "metadata", "--format-version=1"]
        command += ["--filter-platform", host] if host else []
        output: dict[str, list[str]] = {}
        offline: list[str] = []
        status = 1
        for extra in ([], ["--offline"]):
            output = {"stdout": [], "stderr": []}
            with self.display.step("choosing and fetching crates") as step:
                status = run_lines(
                    [*command, *extra],
                    variables=variables,
                    cwd=crate,
                    on_line=lambda stream, line, seen=output: seen[stream].append(line),  # type: ignore[misc]
                    on_tick=lambda step=step: step.tick("", 0, ""),  # type: ignore[misc]
                )
            offline = extra
            text = "\n".join(output["stderr"]).lower()
            if status == 0 or not any(mark in text for mark in _NETWORK):
                break
        if status != 0:
            raise CliError(
                "cargo could not choose the crates to build",
                expected="the crates registry, or its files from an earlier build",
                detail=error_tail("\n".join(output["stderr"])),
                repair="connect to the network (cargo honours HTTPS_PROXY) and run it again",
            )
        with contextlib.suppress(ValueError, KeyError, TypeError):
            metadata = json.loads("".join(output["stdout"]))
            return offline, len(metadata["resolve"]["nodes"]) - 1
        return offline, None


def _ignore_own(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if any(fnmatch.fnmatchcase(name, p) for p in _OWN)}


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
