"""What stands around functions at module level, and what Rextio is shown of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.analysis import write_project
from support.normal_form import normalise

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.explain import explain_path
from rextio_torch.explain.forms.table import FORMS, HEADER, example_module
from rextio_torch.explain.model import Explanation, Form

FILES = [form for form in FORMS if form.scope != "function" and form.rewritten]
ONE = "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return x.relu()\n"


def _explained(root: Path, modules: dict[str, str]) -> Explanation:
    return explain_path(write_project(root, modules), Environment.current())


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    modules = {form.id: example_module(form.example) for form in FILES}
    scripts = {
        f"script_{form.id}": form.other.replace("example", form.id)
        for form in FILES
        if form.other is not None
    }
    return _explained(tmp_path_factory.mktemp("examples"), modules | scripts)


@pytest.mark.parametrize("form", FILES, ids=lambda form: form.id)
def test_the_functions_of_each_example_are_native(form: Form, examples: Explanation) -> None:
    assert not examples.everywhere
    assert not examples.files
    found = {it.qualname: it for it in examples.functions}
    assert found[f"{form.id}.f"].native


#: What stands at module level around `f` and `g`, and what of these is native: code that binds the
#: names that they use in another way than it seems.
AROUND = {
    "a call": ("print('loaded')\n", "f g"),
    "a class": ("class Model(torch.nn.Module):\n    width = 3\n", "f g"),
    "a program": ("if __name__ == '__main__':\n    print(f(torch.ones(1, 1)))\n", "f g"),
    "try": ("try:\n    print(1)\nexcept ValueError:\n    pass\n", "f g"),
    "an import": ("with open(__file__) as file:\n    import math\n", "f g"),
    "a builtin": ("range = print\n", "f"),
    "a builtin by a call": ("range = vars(torch)['arange']\n", ""),
    "a builtin by a class": ("class range(list):\n    pass\n", "f"),
    "a builtin by a decorated function": (
        "import functools\n\n\n@functools.cache\ndef range(n: int):\n    return [n]\n",
        "f",
    ),
    "a module by a call": ("F = print('F')\n", "g"),
    "a module in a block": ("if torch.cuda.is_available():\n    F = torch\n", "g"),
    "a module by a loop": ("for F in list([1]):\n    pass\n", "g"),
    "a module by with": ("with open(__file__) as F:\n    pass\n", "g"),
    "a module by :=": ("print(F := 3)\n", "g"),
    "a module by a function": ("def set_f():\n    global F\n    F = 3\n\n\nset_f()\n", "g"),
    "names by text": ("exec('F = 3')\n", ""),
    "no names by text": ("torch.nn.Linear(1, 1).eval()  # in evaluation mode\n", "f g"),
    "names of a star": ("from math import *\n\nprint(pi)\n", ""),
    "the function itself": ("f = print(f)\n", "g"),
    "the function by setattr": (
        "import sys\n\nsetattr(sys.modules[__name__], 'f', print)\n",
        "",
    ),
}
FUNCTIONS = """\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.relu(x)


def g(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    y = x.relu()
    for _ in range(n):
        y = y.tanh()
    return y


"""


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    modules = {
        f"m{index}_{'after' if after else 'before'}": HEADER
        + (FUNCTIONS + text if after else text + "\n\n" + FUNCTIONS)
        for index, (text, _) in enumerate(AROUND.values())
        for after in (False, True)
    }
    answer = _explained(tmp_path_factory.mktemp("around"), modules)
    assert not answer.everywhere
    return {it.qualname: it.native for it in answer.functions}


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("index", range(len(AROUND)), ids=list(AROUND))
def test_a_name_that_may_be_something_else_is_not_trusted(
    index: int, place: str, around: dict[str, bool]
) -> None:
    _, native = list(AROUND.values())[index]
    if "itself" in list(AROUND)[index] and place == "before":
        return
    found = {name for name in ("f", "g") if around[f"m{index}_{place}.{name}"]}
    assert found == set(native.split())


ALONE = f"""\
import functools
import math


@functools.cache
def decorated(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return -x


def default(x: TensorF32Cpu2D, n: int = int("3")) -> TensorF32Cpu2D:
    return -x


class Model(torch.nn.Module):
    def forward(self, x: TensorF32Cpu2D) -> TensorF32Cpu2D:
        return -x


def calls(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return decorated(x)


{ONE}"""


def test_functions_that_are_left_out_are_explained(tmp_path: Path) -> None:
    answer = _explained(tmp_path, {"m": example_module(ALONE)})
    assert not answer.files
    found = {it.qualname: it for it in answer.functions}
    assert list(found) == ["m.decorated", "m.default", "m.Model.forward", "m.calls", "m.f"]
    assert [name for name, it in found.items() if it.native] == ["m.f"]
    codes = {name: {item.code for item in it.findings} for name, it in found.items()}
    assert "RXTP-FORM-014" in codes["m.decorated"]
    assert "RXTP-FORM-090" in codes["m.default"]
    assert "RXTP-FORM-015" in codes["m.Model.forward"]
    assert "RXTP-FORM-074" in codes["m.calls"]


WRITES = f"""\
import logging

log = logging.getLogger(__name__)


def logs(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    log.warning("seen")
    return x.relu()


def prints(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    for _ in range(2):
        print("round")
    return y


def steps(n: int) -> int:
    logging.info("steps")
    return n + 1


def calls(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return logs(x)


def counts(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    y = x.relu()
    for _ in range(steps(n)):
        y = y.tanh()
    return y


{ONE}"""


@pytest.mark.parametrize("star", ["", "from math import *\n"], ids=["", "star"])
def test_what_prints_or_logs_is_not_native(star: str, tmp_path: Path) -> None:
    """Rextio's own code for it reaches no handler; nor is it in the functions that call one."""
    answer = _explained(tmp_path, {"m": example_module(star + WRITES)})
    found = {it.qualname: it for it in answer.functions}
    native = [name for name, it in found.items() if it.native]
    assert native == ([] if star else ["m.f"])
    for name in ("m.logs", "m.prints"):
        assert "RXTP-FORM-099" in {item.code for item in found[name].findings}


def test_a_file_that_trusts_itself_is_left_as_it_is() -> None:
    text = HEADER + "\n\nimport math\n\nK = 3\nNAMES = ['a']\n\n\n" + ONE
    assert normalise({"m.py": text})["m.py"].text == text
