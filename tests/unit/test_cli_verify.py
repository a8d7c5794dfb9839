"""The texts and refusals of `rextio-torch verify` and `bench` that need no build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from cli_environment import make_environment
from click.testing import CliRunner
from rich.console import Console

from rextio_torch.cli import bench
from rextio_torch.cli.app import cli
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.module import check_module
from rextio_torch.cli.native import native_functions, present_build
from rextio_torch.cli.progress import Display
from rextio_torch.cli.verify import Options, VerifyResult, lines
from rextio_torch.cli.workers import Outcome
from rextio_torch.verify import events
from rextio_torch.verify.function import SourceFunction


def tally(**changes: Any) -> dict[str, Any]:
    return {
        "function": "model.f",
        "engine": "fused-avx2",
        "cases": 100,
        "bit_equal": 60,
        "within": 40,
        "failed": 0,
        "worst_ulp": 3,
        "raised": 0,
        "failures": [],
        **changes,
    }


def result(*tallies: dict[str, Any], **changes: Any) -> VerifyResult:
    fields = {"notes": [], "crash": None, **changes}
    return VerifyResult(Path("model"), "module.so", "f" * 64, list(tallies), **fields)


def plain(result: VerifyResult) -> list[str]:
    return [click.unstyle(line) for line in lines(result)]


def test_the_table_says_how_each_function_went() -> None:
    found = plain(result(tally(), tally(engine="libtorch", bit_equal=100, within=0, worst_ulp=0)))
    assert not result(tally()).failed
    head, first, second, *rest = found
    assert head.split() == ["function", "engine", "cases", "bit-equal", "within", "worst", "ULP",
                            "failed"]  # fmt: skip
    assert first.split()[1:] == ["model.f", "fused-avx2", "100", "60", "40", "3", "0"]
    assert second.split()[1:] == ["model.f", "libtorch", "100", "100", "0", "0", "0"]
    assert rest[-1] == "200 calls, 0 failed"


def test_a_failure_comes_with_its_command() -> None:
    failure = {"case": "small", "problem": "element [0] is 1.0", "reproduce": "rextio-torch …"}
    broken = result(tally(failed=7, failures=[failure]))
    assert broken.failed
    text = "\n".join(plain(broken))
    assert "FAIL" in text
    assert "failed: model.f on fused-avx2, case small: element [0] is 1.0" in text
    assert "again: rextio-torch …" in text
    assert "and 6 more cases of model.f" in text


def test_a_process_that_ended_is_a_failure_without_any_failed_case() -> None:
    ended = result(crash="the process was ended by SIGSEGV in model.f")
    assert ended.failed
    assert "SIGSEGV" in "\n".join(lines(ended))
    assert lines(ended)[-1] == "0 calls, 0 failed, ended early"


def test_a_function_that_was_not_called_is_no_pass() -> None:
    missed = {"function": "model.g", "message": "model.g: no value can be made for parameter o",
              "expected": "int", "found": "dict", "repair": None}  # fmt: skip
    found = result(tally(), unverified=[missed])
    assert found.failed
    assert found.to_dict()["unverified"] == [missed]
    text = plain(found)
    at = text.index("not verified: model.g: no value can be made for parameter o")
    assert text[at + 1 : at + 3] == ["  expected: int", "  found: dict"]
    assert text[-1] == "100 calls, 0 failed, 1 not verified"


def test_the_command_to_reproduce_repeats_what_was_asked() -> None:
    options = Options(shapes={"x": [8, 16]}, values={"n": "3"}, inputs=Path("in puts.pt"))
    text = options.reproduce(["model"], tally(), "small-n=3")
    assert text == (
        "rextio-torch verify model --function model.f --shape x=8x16 --value n=3 "
        "--inputs 'in puts.pt' --engine fused-avx2 --case small-n=3"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--shape", "x"], "name=value"),
        (["--shape", "x=8xmany"], "8x16"),
        (["--shape", "x=-8"], "not negative"),
        (["--value", "=3"], "name=value"),
        (["--inputs", "missing.pt"], "does not exist"),
        (["--check", "missing.pt"], "does not exist"),
    ],
)
def test_mistakes_in_the_arguments_exit_with_2(arguments: list[str], text: str) -> None:
    done = CliRunner().invoke(cli, ["verify", *arguments])
    assert done.exit_code == 2
    assert text in done.output


def test_a_bundle_brings_its_own_inputs(tmp_path: Path) -> None:
    (tmp_path / "bundle.pt").touch()
    arguments = ["verify", "--check", str(tmp_path / "bundle.pt"), "--shape", "x=3"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert "takes its inputs from the file" in done.output


def test_without_a_module_nothing_passes(tmp_path: Path) -> None:
    display = Display(Console(quiet=True))
    with pytest.raises(CliError, match="not built from the present source") as raised:
        present_build(tmp_path, make_environment(tmp_path), display, may_build=False)
    assert raised.value.found == "no module"


def test_a_project_without_native_functions_is_an_error(tmp_path: Path) -> None:
    reports = tmp_path / ".rextio" / "reports"
    reports.mkdir(parents=True)
    module = {"module_name": "model", "file_path": str(tmp_path / "model.py"), "functions": []}
    (reports / "check.json").write_text(json.dumps({"modules": [module]}))
    with pytest.raises(CliError, match=r"no function of .* is native"):
        native_functions(tmp_path)


@pytest.mark.parametrize(
    ("module", "file"),
    [("a", "a.py"), ("a.b", "a/b.py"), ("a.b", "a/b/__init__.py"), ("a", "a/__init__.py")],
)
def test_the_folder_that_a_module_is_imported_from(module: str, file: str) -> None:
    assert SourceFunction(module, "f", Path("/project") / file).root == Path("/project")


def test_doctor_looks_at_a_module_only_where_there_is_one(tmp_path: Path) -> None:
    assert check_module(tmp_path, make_environment(tmp_path)) == []


def test_doctor_says_why_a_module_does_not_load(tmp_path: Path) -> None:
    folder = tmp_path / ".rextio" / "build" / "python"
    folder.mkdir(parents=True)
    (folder / "_rextio_native.so").write_bytes(b"no library")
    # The simulated machine cannot run the process that would load it.
    (check,) = check_module(tmp_path, make_environment(tmp_path))
    assert check.status == "fail"
    assert "every function would run in Python" in check.found
    assert check.repair == f"rextio-torch build {tmp_path}"


def test_events_are_told_from_what_functions_print() -> None:
    code = (
        "from rextio_torch.verify.events import say\n"
        "print('a part of a line', end='')\n"
        "say({'event': 'done'})\n"
        "print('more')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "a part of a line", f'{events.MARK}{{"event": "done"}}', "more",
    ]  # fmt: skip


def test_how_a_process_ended() -> None:
    assert Outcome(-11).ending == "the process was ended by SIGSEGV"
    assert Outcome(3).ending == "the process ended with exit status 3"
    failure = Outcome(3, printed=["ImportError: no torch"]).failure("recording")
    assert "ImportError: no torch" in "\n".join(failure.lines())


ROUNDS = {
    "eager": [10e-6, 12e-6, 11e-6],
    "inference": [9e-6, 9e-6, 9e-6],
    "libtorch": [8e-6, 8e-6, 8e-6],
    "fused-wrapper": [4e-6, 4e-6, 4e-6],
    "fused-direct": [2e-6, 2e-6, 2e-6],
}


def timed(**changes: Any) -> bench.Timed:
    event = {
        "size": 64, "inputs": ["x=8x64"], "threads": 2, "simd": "avx2", "others": 0.0,
        "rounds": ROUNDS, **changes,
    }  # fmt: skip
    return bench.Timed.of(event)


def test_times_are_compared_with_eager_round_by_round() -> None:
    found = timed()
    assert found.rows["eager"].faster == 1.0
    assert found.rows["fused-direct"].faster == 5.5
    assert found.rows["eager"].median == 11e-6
    text = bench.lines(bench.BenchResult("model.f", [found]))
    assert text[0] == "model.f  x=8x64  (2 threads, avx2)"
    assert any(line.split() == ["fused,", "direct", "2", "2", "to", "2", "5.5"] for line in text)
    assert not any("note" in line for line in text)
    noisy = bench.lines(bench.BenchResult("model.f", [timed(others=1.5)]))
    assert "other programs used 1.5 cores" in noisy[-1]


@pytest.mark.parametrize("count", [1, 2])
def test_a_plot_of_one_size_and_of_several(tmp_path: Path, count: int) -> None:
    result = bench.BenchResult("model.f", [timed(size=8 * (i + 1)) for i in range(count)])
    bench.draw(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(CliError, match="cannot be drawn"):
        bench.draw(result, tmp_path / "plot.nothing")


def test_a_function_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    with pytest.raises(CliError, match="belongs to no project"):
        bench._find(f"{tmp_path / 'model.py'}:f", None)
    with pytest.raises(CliError, match="is not a file"):
        bench._find(f"{tmp_path / 'other.py'}:f", None)
    (tmp_path / "rextio.toml").touch()
    project, name = bench._find(f"{tmp_path / 'model.py'}:f", None)
    assert project == tmp_path.resolve()
    assert name == f"{(tmp_path / 'model.py').resolve()}:f"


def test_the_command_line_imports_torch_in_its_workers_only() -> None:
    code = (
        "import sys; from rextio_torch.cli import app, bench, verify; "
        "print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
