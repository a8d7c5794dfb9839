"""`rextio-torch build` with the real cargo.

The projects are at fixed paths in the repository's `.cache`, so that their build folders are warm
the second time. The first run ever on a machine compiles the dependencies, which takes minutes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.activate import activate
from support.native import CACHE, build, cli, run, variables

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.publish import with_own_module
from rextio_torch.cli.source import source_id
from rextio_torch.runtime.source_mark import marked_source_ids

PROJECTS = CACHE / "native" / "build-command"
#: Of processor time; with the dependencies it takes more than a hundred.
REBUILD_SECONDS = 25.0

#: Functions that plain Rextio takes as they are.
DIALECT = """\
import torch
from rextio_torch.types import TensorF32Cpu2D


def activate(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.{name}(x)
"""
MODEL = f"""\
{DIALECT}

def documented(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    \"\"\"A docstring, which plain Rextio refuses.\"\"\"
    return torch.relu(x)


def rounded(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.floor(x)
"""
#: Rextio accepts the last function and writes Rust for it that does not compile.
UNCOMPILED = f"""\
{MODEL}

def uncompiled(n: int) -> int:
    if n > 0:
        y = n + 1
        return y
    y = n - 1
    return y
"""


@pytest.fixture(scope="module", autouse=True)
def cargo() -> None:
    """Fail, never skip, where there is nothing to build with."""
    assert shutil.which("cargo"), "these tests need cargo: curl -sSf https://sh.rustup.rs | sh"


def make_project(folder: Path, name: str, model: str = MODEL) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / ".cargo", ignore_errors=True)
    write_model(folder, name, model)
    run(cli("init", folder))
    return folder


def write_model(folder: Path, name: str, model: str = MODEL) -> None:
    (folder / "model.py").write_text(model.format(name=name))


def check_module(project: Path, name: str) -> None:
    """Require that the module computes torch's `name`, one that every engine rounds alike."""
    folder = project / ".rextio" / "build" / "python"
    # A process of its own for each module, forked from one that has imported torch.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    with ProcessPoolExecutor(1, context) as pool:
        result, expected = pool.submit(activate, str(folder), name).result()
    assert result == expected


def source_marks(project: Path) -> list[str]:
    (module,) = (project / ".rextio" / "build" / "python").glob("_rextio_native*.so")
    return marked_source_ids(module)


def compiled_crates(project: Path) -> list[str]:
    """Return what cargo compiled in the last `rextio build`."""
    report = json.loads((project / ".rextio" / "reports" / "build.json").read_text())
    lines = report["native_build"]["stderr"].splitlines()
    return [line.split()[1] for line in lines if line.lstrip().startswith("Compiling ")]


@pytest.fixture
def project() -> Path:
    return make_project(PROJECTS / "project", "relu")


@pytest.fixture
def built(project: Path) -> Path:
    """The project with the module of its present source; built only where that is not there."""
    here = source_id(project, Environment.current())
    if not list((project / ".rextio" / "build" / "python").glob("_rextio_native*.so")) or (
        source_marks(project) != [here]
    ):
        build(project)
    return project


def processor_seconds() -> float:
    """Return what the processes that were run have computed; other work does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_build_and_rebuild_after_an_edit(project: Path, record_property: Any) -> None:
    first = build(project)
    assert {f["qualname"]: f["native"] for f in first["functions"]} == {
        "model.activate": True,
        "model.documented": True,
        "model.rounded": False,
    }
    rounded = first["functions"][2]
    assert "a function of torch that is not in the operator table" in rounded["reason"]
    assert source_marks(project) == [first["source_id"]]
    check_module(project, "relu")

    write_model(project, "neg")
    began = processor_seconds()
    second = build(project)
    seconds = processor_seconds() - began
    record_property("rebuild_seconds", round(seconds, 2))
    print(f"rebuild after an edit: {seconds:.1f} s of processors, {second['seconds']}")
    assert seconds < REBUILD_SECONDS
    assert second["dependencies"] == "ready"
    assert compiled_crates(project) == ["rextio_generated_native"]
    assert second["source_id"] != first["source_id"]
    assert source_marks(project) == [second["source_id"]]
    check_module(project, "neg")


def test_text_output_lists_each_function(built: Path) -> None:
    """With `--require-native` the exit status says that one is not native.

    PYTHONPATH may still name the last build.
    """
    project = built
    folder = str(project / ".rextio" / "build" / "python")
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    done = run(cli("build", project, "--require-native"), check=False, PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: not native: model.rounded"
    lines = done.stdout.splitlines()
    assert any(line.startswith("native  model.activate ") for line in lines)
    assert any(line.startswith("python  model.rounded ") for line in lines)
    assert f"use it: PYTHONPATH={project}/.rextio/build/python python -P <script>" in lines
    assert "2 of 3 functions native" in lines[-1]
    assert "\x1b" not in done.stdout
    check_module(project, "relu")


def test_a_function_that_does_not_compile_leaves_the_others_native(built: Path) -> None:
    """Where native code is required, the last build stays instead."""
    project, marks = built, source_marks(built)
    write_model(project, "neg", UNCOMPILED)
    done = run(cli("build", project, "--require-native"), check=False)
    assert done.returncode == 1
    assert "error: model.uncompiled cannot be native (RXTP-BUILD-001)" in done.stderr
    assert source_marks(project) == marks
    check_module(project, "relu")

    result = build(project)
    assert list(result["isolated"]) == ["model.uncompiled"]
    assert {f["qualname"]: f["native"] for f in result["functions"]} == {
        "model.activate": True,
        "model.documented": True,
        "model.rounded": False,
        "model.uncompiled": False,
    }
    assert result["functions"][3]["reason"].startswith("RXTP-BUILD-001: line 18: ")
    assert "error[E0425]" in (project / ".rextio" / "reports" / "check.json").read_text()
    check_module(project, "neg")
    fallback = project / ".rextio" / "build" / "python" / "_fallback_model.py"
    assert fallback.read_bytes() == (project / "model.py").read_bytes()


def python_files(project: Path) -> dict[str, bytes]:
    """Return the Python files of the wheel that Rextio wrote."""
    (wheel,) = (project / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}


def test_plain_rextio_build_gives_the_same() -> None:
    """Of a project that needs no rewriting."""
    project = make_project(PROJECTS / "dialect", "relu", DIALECT)
    build(project)
    crate = project / ".rextio" / "generated" / "rust"
    ours = {p.name: p.read_bytes() for p in [*crate.glob("src/*"), *crate.glob("Cargo.*")]}
    our_wheel = python_files(project)
    # As typed in the activated environment.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    began = time.monotonic()
    run(
        [Path(sys.executable).with_name("rextio"), "build", project, "--fallback=cpython"],
        VIRTUAL_ENV=sys.prefix,
        PATH=path,
    )
    print(f"plain rextio build: {time.monotonic() - began:.1f} s")
    plain = {p.name: p.read_bytes() for p in [*crate.glob("src/*"), *crate.glob("Cargo.*")]}
    assert plain == ours
    # Ours has the user's own module in the place of the wrapper.
    wheel = python_files(project)
    wheel["model.py"] = with_own_module(wheel["model.py"].decode()).encode()
    assert our_wheel == wheel
    assert compiled_crates(project) == ["rextio_generated_native"], "dependencies were rebuilt"
    assert source_marks(project) == ["0" * 64]
    check_module(project, "relu")
    # And back again.
    build(project)
    assert compiled_crates(project) == ["rextio_generated_native"], "dependencies were rebuilt"


def test_two_builds_of_two_sources_at_once_give_two_right_modules() -> None:
    names = {"left": "abs", "right": "neg"}
    left = PROJECTS / "left" / "model.py"
    if left.exists() and "torch.abs" in left.read_text():
        # Swapped each time: what the last run left behind must not be picked up either.
        names = {"left": "neg", "right": "abs"}
    projects = {make_project(PROJECTS / side, name): name for side, name in names.items()}
    running = {
        project: subprocess.Popen(
            cli("build", project, "--json"),
            env=variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for project in projects
    }
    for project, process in running.items():
        out, err = process.communicate()
        assert process.returncode == 0, out + err
        assert "waiting for another build" not in err
        assert source_marks(project) == [json.loads(out)["source_id"]]
    for project, name in projects.items():
        check_module(project, name)


def test_two_builds_of_one_project_at_once_take_turns(project: Path) -> None:
    processes = [
        subprocess.Popen(
            cli("build", project, "--json"),
            env=variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sum("waiting for another build" in err for _, err in outputs) == 1, outputs
    assert len({json.loads(out)["source_id"] for out, _ in outputs}) == 1, outputs
    check_module(project, "relu")


def test_a_module_of_another_source_is_refused(built: Path) -> None:
    project = built
    (before,) = source_marks(project)
    config = project / ".cargo" / "config.toml"
    other = "f" * 64
    # Cargo then compiles the module under another source id than the one the command gave it.
    config.write_text(
        config.read_text() + f'REXTIO_TORCH_SOURCE_ID = {{ value = "{other}", force = true }}\n'
    )
    done = run(cli("build", project, "--json"), check=False)
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["message"] == "the built module is not this source's"
    assert other[:12] in error["found"]
    assert source_marks(project) == [before]


@pytest.mark.usefixtures("built")  # There is a warm copy from here on.
def test_a_new_project_is_seeded_from_the_warm_copy(tmp_path: Path) -> None:
    new = make_project(tmp_path / "new", "abs")
    try:
        began = time.monotonic()
        data = build(new)
        print(f"first build of a new project: {time.monotonic() - began:.1f} s, {data['seconds']}")
        assert data["dependencies"] == "seeded"
        assert data["seconds"]["total"] < 60
        assert compiled_crates(new) == ["rextio_generated_native"]
        check_module(new, "abs")
    finally:
        run(cli("cache", "clear", "--project", new, "--yes"))


def test_a_project_without_native_functions_says_so() -> None:
    folder = make_project(PROJECTS / "python-only", "relu")
    (folder / "model.py").write_text('def f(x: int) -> int:\n    """Doc."""\n    return x\n')
    done = run(cli("build", folder))
    assert "no native function" in done.stdout.splitlines()
    assert list((folder / ".rextio" / "build").rglob("_rextio_native*")) == []


def test_a_built_module_is_used_as_the_build_says(built: Path) -> None:
    """In the project's own folder too."""
    project = built
    folder = str(project / ".rextio" / "build" / "python")
    use = {"PYTHONPATH": folder}
    code = "import torch, model\nprint(model.__file__, model.activate(torch.ones(1, 1)))\n"
    # Not .py: Rextio would take it for a part of the project.
    inside, outside = project / "use.txt", project.parent / "use.txt"
    for script, options in ((inside, ["-P"]), (outside, [])):
        script.write_text(code)
        done = run([sys.executable, *options, script], REXTIO_NATIVE_MODE="native", **use)
        assert done.stdout.startswith(f"{folder}{os.sep}_fallback_model.py")
    assert "hides Rextio itself" in run(cli("doctor", project), **use).stdout


def test_a_file_that_does_not_parse(built: Path) -> None:
    project = built
    bad = project / "bad.py"
    bad.write_text("def f(:\n")
    try:
        done = run(cli("build", project), check=False)
    finally:
        bad.unlink()
    assert done.returncode == 1
    assert f"| {bad}:1: Python parse error: invalid syntax" in done.stderr
    check_module(project, "relu")


@pytest.fixture
def failing_cargo(tmp_path: Path) -> str:
    """A PATH whose cargo fails, as a broken compiler would, once the generated crate is built."""
    real = shutil.which("cargo")
    stub = tmp_path / "bin" / "cargo"
    stub.parent.mkdir()
    stub.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--manifest-path*) '
        "echo '   Compiling rextio_generated_native v0.1.0' >&2; "
        "echo 'error[E0308]: mismatched types' >&2; exit 101;; esac\n"
        f'exec "{real}" "$@"\n'
    )
    stub.chmod(0o755)
    return f"{stub.parent}{os.pathsep}{os.environ['PATH']}"


def test_a_failed_build_shows_cargo_s_error(built: Path, failing_cargo: str) -> None:
    project = built
    done = run(cli("build", project), check=False, PATH=failing_cargo)
    assert done.returncode == 1
    assert "error: rextio build failed with exit status 1" in done.stderr
    assert "| error[E0308]: mismatched types" in done.stderr
    assert "Compiling" not in done.stderr
    # What a build replaces, it replaces when it has succeeded.
    check_module(project, "relu")


def test_an_interrupted_build_leaves_nothing_running(built: Path) -> None:
    project = built
    write_model(project, "square")
    process = subprocess.Popen(
        cli("build", project),
        env=variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("building the project"):
            break
    deadline = time.monotonic() + 30
    while not (started := cargo_processes(project)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert started, "cargo was never seen"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    assert "interrupted" in err
    assert cargo_processes(project) == []
    check_module(project, "relu")
    build(project)
    check_module(project, "square")


def cargo_processes(project: Path) -> list[str]:
    """Return the command lines of running processes that name the project's generated crate."""
    done = run(["ps", "-A", "-ww", "-o", "args="])
    crate = str(project / ".rextio" / "staged" / project.name / ".rextio" / "generated" / "rust")
    return [line for line in done.stdout.splitlines() if "cargo" in line and crate in line]
