"""The dependencies of a generated crate: compiled once with progress, or seeded from a warm copy.

They are compiled in a crate of their own beside the generated one, with the same manifest but
another name: the dependencies' artifacts are the same, and nothing of it can be mistaken for a
project's module. Cargo then finds them fresh when `rextio build` runs.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import copy_tree, remove_partial, remove_tree, write_atomically
from rextio_torch.cli.layout import CARGO_FOLDER, BuildFolder, write_origin
from rextio_torch.cli.locks import locked
from rextio_torch.cli.processes import run_lines
from rextio_torch.cli.progress import CargoProgress, Display, Step
from rextio_torch.cli.project import CARGO_FILE, REXTIO_FILE, cargo_configurations
from rextio_torch.cli.report import error_tail, read_report
from rextio_torch.cli.rextio import run_rextio
from rextio_torch.cli.source import translator_digest
from rextio_torch.cli.staging import Staged
from rextio_torch.cli.toolchain import Toolchain

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
    "PYO3_PYTHON",
)
#: What cargo says where the registry cannot be reached; Rextio then tries once more off line, too.
_NETWORK = (
    "download of config.json failed",
    "failed to download",
    "failed to get",
    "unable to update registry",
    "couldn't connect",
    "could not resolve host",
    "timeout was reached",
)


def normalised_manifest(text: str) -> dict[str, Any]:
    """Return the part of a generated manifest that decides how dependencies compile."""
    decisive = {"dependencies", "build-dependencies", "profile", "target", "patch"}
    return {key: value for key, value in tomllib.loads(text).items() if key in decisive}


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


@dataclass(frozen=True)
class Dependencies:
    """Brings a project's build folder to where only the project itself is left to compile."""

    project: Path
    #: The project's copy, which Rextio translates.
    staged: Staged
    folder: BuildFolder
    tools: Toolchain
    display: Display
    lock: int

    def prepare(self) -> str:
        """Do what is needed and return what that was, in a word."""
        remove_partial(self.folder.folder, CARGO_FOLDER)
        compiler = self._compiler()
        quick = self._quick_key(compiler)
        state = _read_state(self.folder)
        present = self.folder.cargo.is_dir()
        if present and state.get("quick") == quick:
            return "ready"
        manifest = self._generate()
        if manifest is None:
            return "none"
        normal = normalised_manifest(manifest)
        key = _digest(normal, compiler)
        warm = self.folder.warm(key)
        # Incomplete from here until it is written again.
        (self.folder.folder / STATE_FILE).unlink(missing_ok=True)
        seeded = not (present and state.get("key") == key) and self._seed(warm)
        compiled = self._compile(manifest)
        # A manifest without this plugin's crates is that of a project that does not use it yet.
        complete = "tch" in normal.get("dependencies", {})
        self._write_state(key, quick if complete else None)
        if not warm.cargo.is_dir():
            self._store(warm)
        return "seeded" if seeded else "compiled" if compiled else "ready"

    def _compiler(self) -> str:
        """Describe the compilers and flags; cargo keeps the artifacts of each apart."""
        environment, variables = self.tools.environment, self.tools.variables
        rustc = environment.run(self.tools.rustc.path, "-vV", cwd=self.project)
        flags = {name: variables.get(name) for name in _COMPILE_VARIABLES}
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
        distributions = dict(self.tools.environment.distributions)
        return _digest(text, compiler, translator_digest(), distributions)

    def _write_state(self, key: str, quick: str | None) -> None:
        text = json.dumps({"key": key, "quick": quick}, indent=2)
        write_atomically(self.folder.folder / STATE_FILE, text + "\n")

    def _generate(self) -> str | None:
        """Have Rextio write the crate without compiling it, and return its manifest if any."""
        run_rextio("generate", self.staged, self.tools, self.display, self.lock, {})
        report = read_report(self.staged.folder, "generate.json")
        manifest = Path(str(report.get("generated_rust"))) / "Cargo.toml"
        if report.get("accepted_native_count") == 0 or not manifest.is_file():
            return None
        return manifest.read_text(encoding="utf-8")

    def _seed(self, warm: BuildFolder) -> bool:
        if not warm.folder.is_dir():
            return False
        with locked(warm.lock, shared=True, waiting=self.display.waiting("the warm copy")):
            if not warm.cargo.is_dir():
                return False
            with self.display.step("copying the warm copy of the dependencies"):
                # What is there is of other dependencies, another compiler, or was interrupted.
                remove_tree(self.folder.cargo)
                copy_tree(warm.cargo, self.folder.cargo)
            write_origin(warm.folder, self.tools.environment, None)
        return True

    def _store(self, warm: BuildFolder) -> None:
        """Keep a warm copy; a full disk is no reason to fail a build."""
        try:
            with locked(warm.lock, waiting=self.display.waiting("the warm copy")):
                if warm.cargo.is_dir():
                    return
                remove_partial(warm.folder, CARGO_FOLDER)
                with self.display.step("keeping a warm copy for other projects"):
                    copy_tree(self.folder.cargo, warm.cargo, ignore=_ignore_own)
                write_origin(warm.folder, self.tools.environment, None)
        except OSError as error:
            self.display.say(f"no warm copy of the dependencies was kept: {error}")

    def _compile(self, manifest: str) -> int:
        """Compile what is not compiled yet, and return how many crates that were."""
        # Inside the project, so that cargo reads the same configuration as for the real crate.
        crate = self.project / ".rextio" / "dependencies"
        write_atomically(crate / "Cargo.toml", dependency_manifest(manifest))
        write_atomically(crate / "src" / "lib.rs", "")
        (crate / "Cargo.lock").unlink(missing_ok=True)
        for network in ((), ("--offline",)):
            progress = CargoProgress(root=CRATE)
            with self.display.step("compiling dependencies", progress) as step:
                status = self._cargo_build(crate, network, progress, step)
            if status == 0 or not needs_network("\n".join(progress.notes)):
                break
        if status != 0:
            raise CliError(
                "the dependencies did not compile",
                expected=f"cargo build in {crate} to succeed",
                found=f"exit status {status}",
                detail=error_tail("\n".join(progress.notes)),
                repair="connect to the network (cargo honours HTTPS_PROXY) and run it again"
                if network
                else f"make room on the disk of {crate} or {self.folder.root}, then run it again"
                if "No space left" in "\n".join(progress.notes)
                else "rextio-torch doctor (and free memory: compiling the bindings takes 2 GB)",
            )
        compiled = len(progress.done) - progress.fresh
        if compiled:
            self.display.say(
                f"dependencies: {len(progress.done)} crates, {progress.fresh} of them already "
                f"compiled, {step.seconds:.0f} s"
            )
        return compiled

    def _cargo_build(
        self, crate: Path, network: tuple[str, ...], progress: CargoProgress, step: Step
    ) -> int:
        def on_line(line: str) -> None:
            name = progress.feed(line, time.monotonic())
            if name is not None:
                step.finished(name)
            if progress.running and progress.total is None:
                progress.total = self._count(crate)

        return run_lines(
            [
                self.tools.cargo.path,
                "build",
                "--release",
                "--message-format=json-render-diagnostics",
                *network,
            ],
            variables=self.tools.variables,
            cwd=crate,
            on_line=on_line,
            on_tick=step.tick,
            keep=(self.lock,),
        )

    def _count(self, crate: Path) -> int:
        """Count the crates that are needed on this host, once cargo has chosen and fetched them."""
        command = ("tree", "--offline", "--prefix=none", "--format={p}")
        done = self.tools.environment.run(self.tools.cargo.path, *command, cwd=crate)
        crates = {line.removesuffix(" (*)") for line in done.stdout.splitlines() if line}
        return max(len(crates) - 1, 0)


def _read_state(folder: BuildFolder) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        data = json.loads((folder.folder / STATE_FILE).read_text(encoding="utf-8"))
        if isinstance(data, dict):
            return data
    return {}


def compiled(folder: BuildFolder) -> bool:
    """Whether a build folder holds all dependencies, as far as was known at the last build."""
    return folder.cargo.is_dir() and _read_state(folder).get("quick") is not None


def needs_network(text: str) -> bool:
    """Whether cargo failed for want of the registry."""
    return any(mark in text.lower() for mark in _NETWORK)


def _ignore_own(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if any(fnmatch.fnmatchcase(name, p) for p in _OWN)}


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
