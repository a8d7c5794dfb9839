"""Functions that Rextio accepts and that cannot be built: they stay on Python, alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from cli_environment import make_environment
from rextio.cli.main import main
from rich.console import Console
from support.analysis import write_project

from rextio_torch.cli.environment import Completed, Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.explain import explain_path
from rextio_torch.cli.isolation import Isolation, callees_first, note_kept, uncompiled
from rextio_torch.cli.progress import Display
from rextio_torch.cli.publish import module
from rextio_torch.cli.report import functions, read_report
from rextio_torch.cli.staging import Staged, stage
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.explain.forms.table import HEADER
from rextio_torch.explain.rextio_words import NOT_BUILT

#: `steps` and `refused` stop the code generator; `refused` calls a function that is defined below.
MODEL = f'''{HEADER}import advised
from helpers import steps


def good(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    """Ordinary code."""
    h = x.relu()
    for _ in range(twice(advised.steps(n))):
        h = h.tanh()
    return h


def refused(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(twice(n)):
        h = h.relu().cosh()
    return h


def caller(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(steps(n)):
        h = h.tanh()
    return h


def twice(n: int) -> int:
    return n + n
'''


def _in_process(
    command: Sequence[str], variables: Mapping[str, str], cwd: Path | None
) -> Completed:
    """Run Rextio's command as the environment does, without the start of a process."""
    assert Path(command[0]).name == "rextio"
    with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
        status = main(list(command[1:]))
    return Completed(status, output.getvalue(), errors.getvalue())


def test_explain_leaves_only_what_stops_the_generator_to_python(tmp_path: Path) -> None:
    helpers = {"helpers": NOT_BUILT.example + "\n", "advised": NOT_BUILT.instead + "\n"}
    write_project(tmp_path / "p", {"m": MODEL, **helpers})
    environment = replace(Environment.current(), execute=_in_process)
    answer = explain_path(tmp_path / "p", environment)
    found = {it.qualname: [(f.code, f.span.line) for f in it.findings] for it in answer.functions}
    lines = MODEL.splitlines()
    stop = lines.index("        h = h.relu().cosh()") + 1
    call = lines.index("    for _ in range(steps(n)):") + 1
    assert found == {
        "m.good": [],
        "m.refused": [("RXTP-FORM-086", stop)],
        "m.caller": [("RXT070", call)],
    }
    assert answer.not_native == ["m.refused", "m.caller"]
    assert not answer.everywhere
    notes = [note for note in answer.notes if note.startswith(NOT_BUILT.code)]
    assert [note.split()[1] for note in notes] == ["helpers.steps", "m.refused"]
    assert "unsupported for-loop iterable" in notes[0]


def test_callees_come_first() -> None:
    def function(name: str, *called: str, native: bool = True) -> dict[str, object]:
        return {
            "qualname": name,
            "native_status": "accepted" if native else "rejected",
            "route": "native-direct" if native else "fallback-python",
            "calls": [{"target": target} for target in called],
        }

    check = {
        "modules": [
            {"functions": [function("a.f", "g", "b.k", "print"), function("a.g", "h", "g")]},
            {"functions": [function("b.k", "f"), function("b.h", native=False)]},
        ]
    }
    assert callees_first(check) == ["a.g", "b.k", "a.f"]


CRATE = """\
mod runtime {
fn helper() {
    broken();
}
}

#[pyfunction]
fn m__first(n: i64) -> PyResult<i64> {
    return Ok(n);
}

#[allow(unused_variables)]
#[pyfunction]
fn m__second<'py>(py: pyo3::Python<'py>) -> PyResult<i64> {
    return Ok(y);
}

#[pymodule]
fn _rextio_native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(m__first, m)?)?;
}
"""


def _error(line: int, *more: int) -> str:
    places = "".join(f"   --> src/lib.rs:{number}:5\n" for number in (line, *more))
    return f"error[E0425]: at {line}\n{places}\n"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (_error(9), ["m.first"]),
        (_error(15, 9), ["m.second"]),
        (_error(9) + _error(15), ["m.first", "m.second"]),
        # An attribute belongs to the function below it.
        (_error(12), ["m.second"]),
        (_error(7), ["m.first"]),
        # The runtime, the module, and what has no place in the crate, are no function's.
        (_error(3), []),
        (_error(20), []),
        (_error(11), []),
        (_error(99), []),
        ("error: linking with `cc` failed: exit status: 1\n", []),
        # Rextio keeps the end of long output: of the first error only some places may be there.
        ("   --> src/lib.rs:9:5\n" + _error(15), ["m.second"]),
        ("warning: unused\n   --> src/lib.rs:9:5\n", []),
    ],
)
def test_functions_that_errors_of_the_compiler_lie_in(
    output: str, expected: list[str], tmp_path: Path
) -> None:
    crate = tmp_path / "lib.rs"
    crate.write_text(CRATE)
    found = dict(uncompiled(output, crate, ["m.first", "m.second"]))
    assert list(found) == expected
    assert all("error[E0425]: at" in why for why in found.values())


# The rounds of a build, with the reports of one that compiles nothing

SOURCE = '''"""Two functions."""


# Kept as it is.
def first(n: int) -> int:
    return n


def second(n: int) -> int:
    return n
'''


def _step(*broken: int) -> tuple[Callable[[Staged], str], list[dict[str, str]]]:
    """Return a step that fails at a line of the crate each time, until there are no more."""
    rounds: list[dict[str, str]] = []

    def step(staged: Staged) -> str:
        rounds.append({name: why.rpartition(": ")[2] for name, why in staged.kept.items()})
        listed = [
            {
                "qualname": f"m.{name}",
                "file_path": str(staged.folder / "m.py"),
                "native_status": "not-candidate" if f"m.{name}" in staged.kept else "accepted",
                "route": "fallback-python" if f"m.{name}" in staged.kept else "native-direct",
                "name_range": {"start": {"line": 5, "column": 4}},
            }
            for name in ("first", "second")
        ]
        reports = staged.folder / ".rextio" / "reports"
        reports.mkdir(parents=True)
        check = {"modules": [{"module_name": "m", "functions": listed}]}
        (reports / "check.json").write_text(json.dumps(check))
        if len(rounds) > len(broken):
            return "built"
        (staged.folder / "src").mkdir()
        (staged.folder / "src" / "lib.rs").write_text(CRATE)
        stderr = _error(broken[len(rounds) - 1])
        native = {"status": "failed", "tool": "cargo", "stderr": stderr}
        build = {"native_build": native, "generated_rust": str(staged.folder)}
        (reports / "build.json").write_text(json.dumps(build))
        raise CliError(f"round {len(rounds)} failed")

    return step, rounds


@pytest.fixture
def shown() -> StringIO:
    return StringIO()


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    write_project(tmp_path / "p", {"m": SOURCE})
    return stage(tmp_path / "p", tmp_path / "copy")


def _isolation(tmp_path: Path, shown: StringIO, *, require_native: bool = False) -> Isolation:
    tools = Toolchain.of(make_environment(tmp_path), tmp_path / "p")
    display = Display(Console(file=shown, width=200))
    return Isolation(tools, display, require_native=require_native)


def test_a_step_runs_again_without_the_function_that_stopped_it(
    staged: Staged, shown: StringIO, tmp_path: Path
) -> None:
    step, rounds = _step(9, 15)
    result, last = _isolation(tmp_path, shown).run(step, staged)
    assert result == "built"
    assert rounds == [{}, {"m.first": "at 9"}, {"m.first": "at 9", "m.second": "at 15"}]
    assert shown.getvalue().count(NOT_BUILT.code) == 2

    copied = (last.folder / "m.py").read_text()
    assert copied.count("@_rextio_torch_exempt\ndef ") == 2
    # What is published is the user's own file, and the report says why it runs.
    assert module("python/m.py", copied.encode(), last) == SOURCE.encode()
    note_kept(last)
    listed = functions(read_report(last.folder, "check.json"))
    assert [item.reason for item in listed] == [
        f"{NOT_BUILT.code}: line 5: the Rust that Rextio writes does not compile: "
        f"error[E0425]: at {line}"
        for line in (9, 15)
    ]


@pytest.mark.parametrize("broken", [(3,), (9, 9), (9, 3)], ids=["no function", "same", "later"])
def test_an_error_that_no_further_function_explains_is_the_builds(
    broken: tuple[int, ...], staged: Staged, shown: StringIO, tmp_path: Path
) -> None:
    step, rounds = _step(*broken)
    with pytest.raises(CliError, match=f"^round {len(broken)} failed$"):
        _isolation(tmp_path, shown).run(step, staged)
    assert len(rounds) == len(broken)


def test_where_native_is_required_nothing_is_left_to_python(
    staged: Staged, shown: StringIO, tmp_path: Path
) -> None:
    step, rounds = _step(9)
    with pytest.raises(CliError, match=r"^m\.first cannot be native \(RXTP-BUILD-001\)$") as error:
        _isolation(tmp_path, shown, require_native=True).run(step, staged)
    assert "at 9" in str(error.value.found)
    assert len(rounds) == 1
