"""`rextio-torch explain`: what it shows, its JSON, its exit status, and input that is broken."""

from __future__ import annotations

import json
import os
import re
import resource
import time
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from support.analysis import write_project
from syrupy.assertion import SnapshotAssertion

from rextio_torch.cli.app import cli
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.explain import explain_path
from rextio_torch.cli.explain_text import lines, source_lines
from rextio_torch.cuda import project
from rextio_torch.explain.forms.table import FORMS, HEADER, example_module
from rextio_torch.explain.model import Form
from rextio_torch.ops.table import OPERATORS

REPOSITORY = Path(__file__).parent.parent.parent


#: The forms that leave other functions of a project alone.
APART = [form for form in FORMS if form.scope != "project" and form.stops != "generator"]


def invoke(*arguments: str | Path, color: bool = False) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, arguments)], color=color)


def text_of(path: Path, *, normalize: bool = False, show: bool = False) -> str:
    answer = explain_path(path, Environment.current(), normalize=normalize)
    shown = lines(answer, 100, source=source_lines(answer), show=show)
    return _without_version(click.unstyle("\n".join(shown)))


def _without_version(text: str) -> str:
    """Rextio's own words name its version, which differs between the ends of the range."""
    return text.replace(f"supported {version('rextio')} subset", "supported … subset")


@pytest.fixture(scope="module")
def all_forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every unsupported form, a module each, in one project."""
    modules = {form.id: example_module(form.example) for form in APART}
    return write_project(tmp_path_factory.mktemp("forms"), modules)


@pytest.fixture(scope="module")
def shown(all_forms: Path) -> dict[str, str]:
    """What is shown of each module, without the folder."""
    before = Path.cwd()
    os.chdir(all_forms)
    try:
        whole = text_of(Path())
    finally:
        os.chdir(before)
    parts: dict[str, str] = {}
    for part in whole.split("\n\n"):
        name = re.match(r"(?:native|python|whole file)  (\w+)", part.strip())
        if name is not None:
            parts[name[1]] = parts.get(name[1], "") + part.strip() + "\n"
    return parts


@pytest.mark.parametrize("form", APART, ids=lambda form: form.id)
def test_how_each_reason_is_shown(
    form: Form, shown: dict[str, str], snapshot: SnapshotAssertion
) -> None:
    assert shown[form.id] == snapshot


ORDINARY = """\
DIM = -1


def scale(x: TensorF32Cpu2D, by: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return x * by


@torch.inference_mode()
def score(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    \"\"\"Probabilities of the classes.\"\"\"
    h = F.linear(scale(x, by=b), w)
    h += -x
    return torch.softmax(h ** 2, dim=DIM)


def gated(x: TensorF32Cpu2D, hard: bool) -> TensorF32Cpu2D:
    gate: TensorF32Cpu2D = x.relu() if hard else x.sigmoid()
    a, b = gate, x
    return (a - b).detach()
"""


def test_show_prints_what_functions_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    write_project(tmp_path, {"m": HEADER + ORDINARY})
    monkeypatch.chdir(tmp_path)
    assert text_of(Path(), normalize=True, show=True) == snapshot


def test_a_project_that_one_script_keeps_on_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    (form,) = [form for form in FORMS if form.scope == "project"]
    assert form.other is not None
    write_project(tmp_path, {"example": example_module(form.example), "script": form.other})
    monkeypatch.chdir(tmp_path)
    assert text_of(Path()) == snapshot


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.stops == "generator"], ids=lambda form: form.id
)
def test_what_stops_the_build(
    form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """Then no function of the project is native, whatever Rextio's analysis says."""
    other = example_module(FORMS[2].instead)
    write_project(tmp_path, {"m": example_module(form.example), "other": other})
    monkeypatch.chdir(tmp_path)
    assert text_of(Path()) == snapshot
    assert invoke("--as-written", "--strict").exit_code == 1
    assert invoke("--strict").exit_code == 0


MIXED = f'''{HEADER}import rextio


def native(
    x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D, y: TensorF32Cpu2D
) -> TensorF32Cpu1D:
    hidden = F.linear(x, w, b).relu()
    mixed = hidden * y - hidden.tanh()
    return mixed.mean(dim=1)


@rextio.native
def shim(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Run in Python."""
    return x.relu()


def score(n: int) -> float:
    text = "n"
    return text.count("n") * 0.5


@rextio.native
def callback(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    y = x.relu()
    if score(n) > 1.0:
        y = y.tanh()
    return y.exp()


def several(x: TensorF32Cpu2D, größe: int) -> TensorF32Cpu2D:
    """Several reasons, and a value of unknown type after the first."""
    y = x.relu() if größe > 0 else x.tanh()
    z = y.sigmoid()
    return (z + x).softmax(dim=-1)


def unknown(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    nothing = None
    return x.relu()


class Layer:
    class Inner:
        def f(self, x: TensorF32Cpu2D) -> TensorF32Cpu2D:
            return x.relu()


def plain(n: int) -> int:
    """No tensors: not listed."""
    return n
'''


def test_native_python_shim_and_callbacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    write_project(tmp_path, {"mixed": MIXED})
    monkeypatch.chdir(tmp_path)
    assert text_of(Path()) == snapshot
    result = invoke("--as-written", "--json")
    assert result.exit_code == 0
    data = json.loads(_without_version(result.stdout))
    data["projects"] = ["…"]
    assert data == snapshot(name="json")


def test_strict(all_forms: Path) -> None:
    """Each form is listed with its reason, and the exit status says that not all is native."""
    result = invoke(all_forms, "--as-written", "--strict", "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["ok"] is False
    found = {
        finding["code"]
        for part in (*data["functions"], *data["files"])
        for finding in part["findings"]
        if finding["reason"] and finding["instead"]
    }
    assert found >= {form.code for form in APART}
    assert set(data["not_native"]) == {f["qualname"] for f in data["functions"] if not f["native"]}
    assert "error: not native: " in result.stderr
    assert invoke(all_forms, "--json").exit_code == 0


def test_strict_on_the_examples() -> None:
    result = invoke(REPOSITORY / "examples", "--strict")
    assert result.exit_code == 0, result.output
    assert "4 of 4 functions with tensor annotations native" in result.stdout


def test_a_part_of_a_project(tmp_path: Path) -> None:
    """A file, or a folder, is explained in its project, and only it is shown."""
    root = write_project(tmp_path, {"a": example_module(FORMS[2].example), "b": "import a\n"})
    (root / "package").mkdir()
    (root / "package" / "c.py").write_text(example_module(FORMS[0].instead))
    result = invoke(root / "package" / "c.py", "--json")
    names = [function["qualname"] for function in json.loads(result.stdout)["functions"]]
    assert names == ["package.c.f", "package.c.without_bias"]
    result = invoke(root / "package", "--json")
    assert [f["qualname"] for f in json.loads(result.stdout)["functions"]] == names


def test_colour_only_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_project(tmp_path, {"m": example_module(FORMS[2].example)})
    assert "\x1b[" not in invoke(root).stdout
    coloured = invoke(root, color=True).stdout
    assert "\x1b[" in coloured
    assert click.unstyle(coloured) == invoke(root).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in invoke(root, color=True).stdout


def test_it_writes_nothing(tmp_path: Path) -> None:
    root = write_project(tmp_path, {"m": example_module(FORMS[2].example)})
    before = sorted(root.rglob("*"))
    assert invoke(root).exit_code == 0
    assert sorted(root.rglob("*")) == before


def test_a_folder_without_a_project(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(example_module(FORMS[0].instead))
    result = invoke(tmp_path)
    assert result.exit_code == 0
    assert "2 of 2 functions" in result.stdout
    assert "does not enable rextio-torch" in " ".join(result.stdout.split())


def test_other_plugins_stay_enabled(tmp_path: Path) -> None:
    """One that is missing is Rextio's error, not left out."""
    (tmp_path / "rextio.toml").write_text('[plugins]\nenabled = ["no-such-plugin"]\n')
    (tmp_path / "m.py").write_text(example_module(FORMS[0].instead))
    result = invoke(tmp_path)
    assert result.exit_code == 1
    assert "no-such-plugin" in result.stderr


# Positions


def test_columns_are_characters(tmp_path: Path) -> None:
    """Rextio counts bytes; the caret stands under the character, wide ones and tabs included."""
    body = 'def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n\tprint("漢é", -x)\n\treturn x.relu()\n'
    root = write_project(tmp_path, {"m": HEADER + body})
    (function,) = explain_path(root, Environment.current(), normalize=False).functions
    minus = next(finding for finding in function.findings if finding.code == "RXTP-FORM-060")
    assert (minus.span.column, minus.span.end_column) == (14, 16)
    shown = text_of(root).splitlines()
    at = next(i for i, line in enumerate(shown) if "minus before a tensor" in line)
    source, caret = shown[at + 2], shown[at + 3]
    wide = source.replace("漢", "漢 ")
    assert wide.index("-x") == caret.index("^")
    assert caret.count("^") == 2


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_endings_and_form_feeds(tmp_path: Path, ending: str) -> None:
    text = f"{HEADER}\n\x0c\n# \u2028\ndef f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return -x\n"
    root = write_project(tmp_path, {})
    (root / "m.py").write_bytes(text.replace("\n", ending).encode())
    shown = text_of(root)
    assert "8 |     return -x\n" in shown


# Broken input


def failure(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    machine = json.loads(invoke(*arguments, "--json").stdout)
    assert machine["ok"] is False
    assert machine["error"]["message"] in result.stderr
    return result.stderr


def test_a_syntax_error(tmp_path: Path) -> None:
    root = write_project(tmp_path, {"m": "def f(:\n"})
    assert f"{root}/m.py:1: Python parse error" in failure(root)


def test_no_utf_8(tmp_path: Path) -> None:
    root = write_project(tmp_path, {})
    (root / "m.py").write_bytes(b"x = '\xe9'\n")
    assert "m.py cannot be read" in failure(root)
    assert "UTF-8" in failure(root)


def test_a_null_byte(tmp_path: Path) -> None:
    root = write_project(tmp_path, {"m": "x = '\0'\n"})
    assert "null bytes" in failure(root)


def test_a_folder_named_like_a_file(tmp_path: Path) -> None:
    """It is no source, and the copy that Rextio reads does not have it."""
    root = write_project(tmp_path, {"m": example_module(FORMS[2].example)})
    (root / "folder.py").mkdir()
    assert invoke(root).exit_code == 0


def test_no_such_file(tmp_path: Path) -> None:
    assert "does not exist" in failure(tmp_path / "nothing")
    (tmp_path / "notes.txt").touch()
    assert "is not a Python file" in failure(tmp_path / "notes.txt")


def test_a_file_that_rextio_leaves_out(tmp_path: Path) -> None:
    root = write_project(tmp_path, {})
    (root / "build").mkdir()
    (root / "build" / "m.py").touch()
    assert "is left out of the project" in failure(root / "build" / "m.py")


def test_nothing_to_explain(tmp_path: Path) -> None:
    """An empty folder, and one without tensor annotations, are no error: there is nothing wrong."""
    for modules in ({}, {"m": "def f(n: int) -> int:\n    return n\n"}):
        result = invoke(write_project(tmp_path, modules), "--strict")
        assert result.exit_code == 0
        assert result.stdout.startswith("no function with tensor annotations")


def test_broken_settings(tmp_path: Path) -> None:
    (tmp_path / "rextio.toml").write_text("[plugins\n")
    assert "is not valid TOML" in failure(tmp_path)


def test_a_deep_expression(tmp_path: Path) -> None:
    text = f"{HEADER}\ndef f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return {'-' * 3000}x\n"
    failure(write_project(tmp_path, {"m": text}))


def test_syntax_that_the_parser_does_not_know(tmp_path: Path) -> None:
    """Rextio parses with CPython, explain with libcst, which lags behind in corners."""
    text = f"{HEADER}\n(number): int = 1\n"
    root = write_project(tmp_path, {"new": text, "old": example_module(FORMS[2].example)})
    assert "new.py cannot be explained" in failure(root)
    assert invoke(root / "old.py").exit_code == 0


def test_without_rextio(tmp_path: Path) -> None:
    environment = Environment.current()
    nowhere = environment.interpreter.__class__(
        **{**vars(environment.interpreter), "scripts": str(tmp_path)}
    )
    broken = environment.__class__(
        **{**vars(environment), "interpreter": nowhere, "find": lambda name, path: None}
    )
    with pytest.raises(CliError, match="rextio cannot be run"):
        explain_path(write_project(tmp_path, {}), broken)


# Speed


def test_a_hundred_functions(tmp_path: Path) -> None:
    """In processor time of the analysis here, which other work on the machine does not change."""
    body = """
def f{i}(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D, n: int) -> TensorF32Cpu2D:
    '''Doc.'''
    h = F.linear(x, w, b).relu()
    y: TensorF32Cpu2D = (-h).tanh()
    for i in range(n, 0, -1):
        y = (y + h).sigmoid() if n > {i} else y
    s = y.softmax(dim=-1)
    assert n > 0
    return s @ w.T
"""
    text = HEADER + "\n".join(body.replace("{i}", str(i)) for i in range(100))
    root = write_project(tmp_path, {"m": text})
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time()
    answer = explain_path(root, Environment.current(), normalize=False)
    own = time.process_time() - own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(answer.functions) == 100
    assert all(len(function.findings) == 10 for function in answer.functions)
    assert own + (after.ru_utime - children.ru_utime) < 8


# What fuses

FUSION = {
    "linear_relu": ("h = F.linear(x, w, v)\n    return h.relu()", [(0, 1)]),
    "bias_only": ("return F.linear(x, w, v)", [(0,)]),
    "no_bias": ("return F.linear(x, w)", []),
    "matmul_activation": ("h = x @ w\n    return h.tanh()", [(0, 1)]),
    "product_read_twice": ("h = x @ w\n    return h.tanh() + h", [(1, 2)]),
    "activation_joins_region": ("h = x @ w\n    y = h.relu()\n    return y * x", [(1, 2)]),
    "region": ("return torch.exp(x.tanh() + w)", [(0, 1, 2)]),
    "lower_rank_is_broadcast": ("return v.exp() + x", []),
    "single_operation": ("return x.relu()", []),
    "rows": ("y = x * w\n    return y.softmax(dim=1)", [(0, 1)]),
    "not_along_rows": ("y = x * w\n    return y.softmax(dim=0)", []),
    "after_softmax": ("y = x.softmax(dim=1)\n    z = y.tanh()\n    return z.exp()", [(1, 2)]),
    "activation_before_rows": (
        "h = x @ w\n    y = h.relu()\n    return y.softmax(dim=1)",
        [(0, 1)],
    ),
    "loop": (
        "h = x.relu()\n    for _ in range(3):\n        h = torch.tanh(h + x)\n    return h",
        [(1, 2)],
    ),
}


def test_what_fuses(tmp_path: Path) -> None:
    signature = "(x: TensorF32Cpu2D, w: TensorF32Cpu2D, v: TensorF32Cpu1D) -> TensorF32Cpu2D"
    functions = [f"def {name}{signature}:\n    {body}\n" for name, (body, _) in FUSION.items()]
    root = write_project(tmp_path, {"m": "\n\n".join([HEADER, *functions])})
    answer = explain_path(root, Environment.current())
    assert not answer.not_native
    found = {
        function.qualname.removeprefix("m."): [group.operations for group in function.fused]
        for function in answer.functions
    }
    assert found == {name: groups for name, (_, groups) in FUSION.items()}
    loop = next(function for function in answer.functions if function.qualname == "m.loop")
    assert "up to 32 operations" in loop.fused[0].how


#: Bodies in which an operation follows a form that Rextio does not compile, and all codes found.
FOLLOWING = {
    "power": ("h = x ** 2\n    return F.softmax(h, dim=-1)", {"FORM-062", "TORCH-019"}),
    "minus": ("h = -x\n    g = F.softmax(h, dim=1)\n    return g.relu()", {"FORM-060"}),
    "row": ("h = x[0]\n    g = F.softmax(h, dim=1)\n    return x + g", {"FORM-070", "TORCH-019"}),
    "slice": ("h = x[1:]\n    return F.softmax(h, dim=1)", {"FORM-070"}),
    "transposed": ("h = x.T @ w\n    return h.mean(dim=-1)", {"FORM-069", "TORCH-017", "FORM-054"}),
    "rejected": (
        "h = F.softmax(x, dim=-1)\n    return h.sum(dim=-1)",
        {"TORCH-019", "TORCH-018", "FORM-054"},
    ),
    "number": (
        "h = x * 2.0\n    g = h.tanh()\n    return g.sum(dim=3)",
        {"TORCH-015", "TORCH-018"},
    ),
    # A dimension that is counted from the end leaves the type known.
    "mean": (
        "h = x.mean(dim=-1)\n    return F.softmax(h, dim=1)",
        {"TORCH-017", "TORCH-019", "FORM-054"},
    ),
    # One of two ranks: nothing is said of what follows.
    "either": ("h = x.mean(dim=5)\n    return F.softmax(h, dim=1)", {"TORCH-017"}),
}


def test_what_follows_an_unsupported_form_has_a_reason_of_its_own_or_none(tmp_path: Path) -> None:
    signature = "(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D"
    functions = [f"def {name}{signature}:\n    {body}\n" for name, (body, _) in FOLLOWING.items()]
    root = write_project(tmp_path, {"m": "\n\n".join([HEADER, *functions])})
    answer = explain_path(root, Environment.current(), normalize=False)
    found = {
        function.qualname.removeprefix("m."): {
            finding.code.removeprefix("RXTP-") for finding in function.findings
        }
        for function in answer.functions
    }
    assert found == {name: codes for name, (_, codes) in FOLLOWING.items()}


def test_what_is_rewritten_is_no_reason(tmp_path: Path) -> None:
    """A dimension counted from the end, beside what keeps the function on Python."""
    text = (
        "def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D | None) -> TensorF32Cpu1D:\n"
        "    return x.relu().softmax(-1).mean(dim=-1)\n"
    )
    root = write_project(tmp_path, {"m": f"{HEADER}\n\n{text}"})
    (function,) = explain_path(root, Environment.current()).functions
    assert [finding.code for finding in function.findings] == ["RXTP-FORM-001"]


def test_rows_say_how_the_engine_computes_them() -> None:
    """As the engine's own operations do: unary and binary ones, products, reductions."""
    engine = REPOSITORY / "src" / "rextio_torch" / "runtime" / "rust" / "src"
    text = (engine / "rxt_torch" / "ops.rs").read_text(encoding="utf-8")
    assert "const MAX_PENDING: u32 = 32;" in (engine / "rxt_engine" / "node.rs").read_text()
    macros = re.findall(r"^(?:unary|arithmetic)! \{\n(.*?)^\}", text, re.M | re.S)
    elementwise = {name for part in macros for name in re.findall(r"^    (\w+) =>", part, re.M)}
    bodies = dict(re.findall(r"^pub fn (\w+)\((.*?)^\}", text, re.M | re.S))
    for operator in OPERATORS:
        if operator.fusion == "elementwise":
            assert operator.id in elementwise
            continue
        body = bodies[operator.id]
        expected = {"product": ("Product",), "rows": ("Reduce", "Softmax"), "none": ("Argmax",)}
        assert any(f"Operation::{kind}" in body for kind in expected[operator.fusion])


EARLY = """\
from rextio_torch.types import TensorF32Cuda0_2D


def early(x: TensorF32Cuda0_2D, w: TensorF32Cuda0_2D) -> TensorF32Cuda0_2D:
    h = x @ w
    return h


def order(x: TensorF32Cuda0_2D, w: TensorF32Cuda0_2D) -> TensorF32Cuda0_2D:
    h = x @ w
    return h.relu()
"""


def test_the_cuda_candidate(tmp_path: Path) -> None:
    """Nothing fuses there; without a device provider the end of the chain has the reason."""
    project.write(tmp_path / "cuda", Environment.current(), project.SYNTHETIC)
    permitted = text_of(tmp_path / "cuda")
    assert "native  chain.chain" in permitted
    assert "build-only" in permitted
    assert "fused" not in permitted
    (tmp_path / "without").mkdir()
    source = (tmp_path / "cuda" / "chain.py").read_text(encoding="utf-8")
    write_project(tmp_path / "without", {"chain": source})
    assert "RXTP-TORCH-901" in text_of(tmp_path / "without")


def test_what_is_outside_the_cuda_candidate(tmp_path: Path) -> None:
    write_project(tmp_path, {"m": EARLY})
    text = text_of(tmp_path)
    assert "0 of 2 functions" in text
    assert "RXTP-FORM-054" in text.partition("m.order")[0]
    assert "RXTP-TORCH-902" in text.partition("m.order")[2]
