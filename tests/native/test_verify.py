"""`rextio-torch verify` and `bench` on a built project: green, and red where something is wrong."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from support.native import CACHE, REPOSITORY, cli, run

SOURCE = REPOSITORY / "tests" / "native" / "verify" / "model.py"
PACKAGE = REPOSITORY / "src" / "rextio_torch"
FUNCTIONS = ("model.score", "model.grown", "model.largest", "model.repeated", "model.asking")


def make_project(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SOURCE, folder)
    run(cli("init", folder))
    return folder


@pytest.fixture(scope="module")
def project() -> Path:
    path = make_project(CACHE / "native" / "verify")
    run(cli("build", path, "--json"))
    return path


def verify(*arguments: str | Path, **changes: str | None) -> tuple[int, dict[str, Any]]:
    done = run(cli("verify", *arguments, "--json"), check=False, **changes)
    return done.returncode, json.loads(done.stdout)


def module_of(project: Path) -> Path:
    (module,) = (project / ".rextio" / "build" / "python").glob("_rextio_native*.so")
    return module


@pytest.fixture
def damaged(project: Path) -> Iterator[Path]:
    """Keep the mark of the source in the module, but make it one that does not load."""
    module = module_of(project)
    content = module.read_bytes()
    module.write_bytes(content.replace(b"PyInit__rextio_native", b"PyInit__rextio_nativX"))
    yield project
    module.write_bytes(content)


def test_every_function_is_green_on_every_engine(project: Path) -> None:
    status, data = verify(project, "--no-build")
    assert status == 0, data
    assert data["ok"]
    assert data["crash"] is None
    results = {(item["function"], item["engine"]): item for item in data["results"]}
    engines = {engine for _, engine in results}
    assert {"libtorch", "fused-portable"} <= engines
    assert set(results) == {(function, engine) for function in FUNCTIONS for engine in engines}
    for (function, engine), item in results.items():
        assert item["cases"] > 90
        assert item["failed"] == 0
        assert item["bit_equal"] + item["within"] == item["cases"]
        assert engine != "libtorch" or item["within"] == 0
        # argmax of an empty row.
        assert (item["raised"] > 0) == (function == "model.largest")
    # The worst results are some roundings away, not thousands.
    assert 0 < results["model.score", "fused-portable"]["worst_ulp"] < 100


def test_a_wrong_result_is_shown_with_a_command_that_reproduces_it(project: Path) -> None:
    """A callback that answers otherwise under native code stands for a wrong result."""
    arguments = ("--function", "model.asking", "--value", "n=97", "--engine", "fused-portable")
    done = run(cli("verify", project, *arguments), check=False)
    assert done.returncode == 1
    assert "FAIL" in done.stdout
    assert "bits" not in done.stdout
    again = [line for line in done.stdout.splitlines() if "again: " in line]
    words = shlex.split(again[0].partition("again: ")[2])
    assert words[:2] == ["rextio-torch", "verify"]
    status, data = verify(*words[2:])
    assert status == 1
    (result,) = data["results"]
    assert result["cases"] == result["failed"] == 1
    assert "element" in result["failures"][0]["problem"]


def test_a_process_that_ends_is_a_failure(project: Path) -> None:
    status, data = verify(project, "--function", "model.asking", "--value", "n=98")
    assert status == 1
    assert not data["ok"]
    assert "SIGABRT" in data["crash"]
    assert "model.asking on libtorch, case small-contiguous-normal-n=98" in data["crash"]


def test_a_module_that_does_not_load_is_no_pass(damaged: Path) -> None:
    status, data = verify(damaged)
    assert status == 1
    assert "does not load" in data["error"]["message"]
    assert "PyInit" in data["error"]["found"]
    done = run(cli("doctor", damaged), check=False)
    assert done.returncode == 1
    assert "the last build does not load" in done.stdout
    assert "PyInit" in done.stdout
    # What the documentation says of the same module: native mode makes it an error.
    call = "import torch, model; print(model.asking(torch.ones(1, 1), 0))"
    use = {"PYTHONPATH": str(damaged / ".rextio" / "build" / "python")}
    own = os.pathsep.join((use["PYTHONPATH"], str(REPOSITORY / "src")))
    program = [sys.executable, "-P", "-c", call]
    silent = run(program, PYTHONPATH=own, REXTIO_NATIVE_MODE=None)
    assert "-1" in silent.stdout
    loud = run(program, check=False, PYTHONPATH=own, REXTIO_NATIVE_MODE="native")
    assert loud.returncode != 0


def test_doctor_is_green_with_a_build_that_loads(project: Path) -> None:
    done = run(cli("doctor", project, "--json"), check=False)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["native module"]["status"] == "ok"


def test_a_module_of_another_source_is_refused_or_built_again() -> None:
    project = make_project(CACHE / "native" / "verify-stale")
    model = project / "model.py"
    model.write_text(
        "from rextio_torch.types import TensorF32Cpu2D\n\n\n"
        "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return x.abs()\n"
    )
    assert verify(project)[0] == 0
    model.write_text(model.read_text().replace("abs", "relu"))
    status, data = verify(project, "--no-build")
    assert status == 1
    assert "not built from the present source" in data["error"]["message"]
    checks = json.loads(run(cli("doctor", project, "--json"), check=False).stdout)["checks"]
    assert {check["name"]: check["status"] for check in checks}["native module"] == "warn"
    status, data = verify(project)
    assert status == 0
    assert {item["function"] for item in data["results"]} == {"model.f"}


def test_a_bundle_checks_another_copy_of_the_module(project: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pt"
    function = ("--function", "model.score")
    assert verify(project, *function, "--save", bundle)[0] == 0
    # Without the project: modules that are merely installed.
    shutil.copytree(project / ".rextio" / "build" / "python", tmp_path / "installed")
    path = os.pathsep.join((str(tmp_path / "installed"), str(REPOSITORY / "src")))
    status, data = verify("--check", bundle, PYTHONPATH=path)
    assert status == 0, data
    assert data["module"].startswith(str(tmp_path))
    assert all(item["cases"] > 90 for item in data["results"])
    # And as a wheel brings them.
    wheel = json.loads(run(cli("wheel", project, "--out", tmp_path, "--json")).stdout)
    target = tmp_path / "wheel"
    install = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--target", target]
    run([*install, wheel["wheel"]])
    path = os.pathsep.join((str(target), str(REPOSITORY / "src")))
    status, data = verify("--check", bundle, "--engine", "libtorch", PYTHONPATH=path)
    assert status == 0, data
    assert Path(data["module"]).parent == target / wheel["native_package"] / "lib"
    assert data["source_id"] == wheel["source_id"]
    assert all(item["cases"] > 90 and not item["failed"] for item in data["results"])
    Path(data["module"]).write_bytes(b"no library")
    status, data = verify("--check", bundle, PYTHONPATH=path)
    assert status == 1
    assert "the native part of verify does not load" in data["error"]["found"]
    status, data = verify("--check", bundle)
    assert status == 1
    assert "does not load" in data["error"]["message"]
    content = torch.load(bundle, weights_only=True)
    torch.save({**content, "source_id": "1" * 64}, bundle)
    status, data = verify(project, "--check", bundle)
    assert status == 1
    assert "was not built from the source" in data["error"]["message"]
    call = content["functions"][0]["calls"][0]
    call["tensor"]["expected"] += 1.0
    call["tensor"]["exact"] += 1.0
    torch.save(content, bundle)
    status, data = verify(project, "--check", bundle)
    assert status == 1
    assert {item["failed"] for item in data["results"]} == {1}


def test_shapes_and_recorded_inputs_of_the_user(project: Path, tmp_path: Path) -> None:
    function = ("--function", "model.score", "--engine", "fused")
    status, data = verify(project, *function, "--shape", "x=4x6", "--shape", "weight=9x6")
    assert status == 0, data
    status, data = verify(project, *function, "--shape", "x=4x6", "--shape", "weight=9x7")
    assert status == 1
    assert "do not fit together" in data["error"]["message"]
    status, data = verify(project, *function, "--shape", "nothing=4x6")
    assert status == 1
    assert "nothing" in data["error"]["message"]
    inputs = {"x": torch.randn(4, 6), "weight": torch.randn(9, 6), "bias": torch.randn(9)}
    torch.save(inputs, tmp_path / "inputs.pt")
    numpy.savez(tmp_path / "inputs.npz", **{key: value.numpy() for key, value in inputs.items()})
    for name in ("inputs.pt", "inputs.npz"):
        status, data = verify(project, *function, "--inputs", tmp_path / name)
        assert status == 0, data
        assert {item["cases"] for item in data["results"]} == {4}


def test_a_broken_kernel_is_caught() -> None:
    """One coefficient of e^x is off in its fourth digit, its results in their fifth."""
    folder = CACHE / "native" / "verify-broken"
    package = folder / "src" / "rextio_torch"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "target")
    shutil.copytree(PACKAGE, package, ignore=ignored)
    kernels = package / "runtime" / "rust" / "src" / "rxt_kernels" / "math.rs"
    text = kernels.read_text()
    assert text.count("0.499_999_94]") == 1
    kernels.write_text(text.replace("0.499_999_94]", "0.499_9]"))
    project = make_project(folder / "project")
    changes = {"PYTHONPATH": str(package.parent)}
    where = run(
        [sys.executable, "-c", "import rextio_torch; print(rextio_torch.__file__)"], **changes
    )
    assert str(package) in where.stdout
    functions = [word for name in FUNCTIONS for word in ("--function", name)]
    status, data = verify(project, *functions, **changes)
    assert status == 1
    failed = {(item["function"], item["engine"]): item["failed"] for item in data["results"]}
    for (function, engine), count in failed.items():
        if engine == "libtorch" or function in ("model.largest", "model.asking"):
            assert count == 0
        else:
            # After a product and a mean less of it is left than after e^x alone.
            assert count > (50 if function == "model.grown" else 5), failed


def test_bench_times_a_function_of_the_project(project: Path, tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    command = cli("bench", project / "model.py:score", "--size", "8", "--size", "16")
    done = run([*command, "--plot", plot, "--json"])
    data = json.loads(done.stdout)
    assert data["function"] == "model.score"
    assert [timed["size"] for timed in data["timed"]] == [8, 16]
    for timed in data["timed"]:
        assert set(timed["rows"]) == {
            "eager", "inference", "libtorch", "fused-wrapper", "fused-direct",
        }  # fmt: skip
        assert all(row["median"] > 0 for row in timed["rows"].values())
        assert timed["rows"]["eager"]["faster"] == 1.0
    assert plot.read_bytes().startswith(b"\x89PNG")
    done = run(cli("bench", "model.nothing", "--project", project), check=False)
    assert done.returncode == 1
    assert "model.score" in done.stderr


def test_the_command_says_what_it_does_meanwhile(project: Path) -> None:
    done = subprocess.run(
        cli("verify", project, "--function", "model.largest", "--engine", "libtorch"),
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "running the source in eager PyTorch" in done.stdout
    assert "running the native module" in done.stdout
    assert "ok    model.largest  libtorch" in done.stdout
