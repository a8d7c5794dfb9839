"""Functions that are written to be rewritten wrongly."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import torch
from support.normal_form import both, normalise, outcome

from rextio_torch.cli.publish import module
from rextio_torch.cli.staging import stage
from rextio_torch.syntax.source import Span

HEAD = """import torch
import torch.nn.functional as F
from rextio_torch.types import TensorF32Cpu2D as M

"""

#: Bodies of functions of tensors `x` and `y` and an int `n`, after statements of the module.
BODIES = {
    "the target of += is assigned inside": "h = x.exp()\nh += (h := x * x)\nreturn h",
    "a test without a branch raises": "if 1 // n > 0:\n    pass\nreturn x.relu()",
    "a test of a bare name raises": "if x:\n    y\nelse:\n    pass\nreturn x.relu()",
    "an undefined name": "undefined\nreturn x.relu()",
    "del of nothing": "del z\nreturn x.relu()",
    "del twice": "z = -x\nif n > 1:\n    del z\ndel z\nreturn x.relu()",
    "a tensor in a list": (
        "h = x.exp()\nws = [h, y]\nh += x\nacc = -x\nfor w in ws:\n    acc = acc + w\nreturn acc"
    ),
    "a tensor that a list gets": (
        "h = x.exp()\nws = []\nws.append(h)\nh += x\nfor w in ws:\n    h = h * w\nreturn h"
    ),
    "a tensor in the list of a loop": (
        "h = x.exp()\nacc = -x\nfor w in [y, h]:\n    h += y\n    acc = acc + w\nreturn acc"
    ),
    "an alias that a condition makes": (
        "h = x.exp()\nok = n > 1 and (h := x) is not None\nh += x\nreturn h"
    ),
    "an alias that a loop makes": (
        "h = x.exp()\nwhile (h := x) is not None and n > 0:\n    n = n - 1\n    h += x\nreturn -h"
    ),
    "an alias that a comprehension makes": (
        "h = x.exp()\nz = [(h := w) for w in [x]]\nh += x\nreturn h"
    ),
    "alpha is no bool": "return x.add(y, alpha=True)",
    "a string is no dtype": "return x.to('torch.float32').relu()",
    "no keyword of Tensor.to": "return x.to(dtype='cpu').relu()",
    "no probability": "return F.dropout(x, 'a', False).relu()",
    "dimensions are no bools": "return x @ y.transpose(True, 0)",
    "a context that is not called": "with torch.no_grad:\n    h = x.exp()\nreturn -h",
    "a context with another argument": "with torch.no_grad(True):\n    h = x.exp()\nreturn -h",
    "a tuple as condition": "if (x, y):\n    return -x\nreturn x.exp()",
    "a generator as condition": "if (a for a in y):\n    return -x\nreturn x.exp()",
    "a loop over a generator": "for k in (a for a in (1, 2)):\n    x = -x\nreturn x.exp()",
    "a lambda that is called later": ("g = lambda: h\nh = x.exp()\nh = h.sum(dim=1)\nreturn -g()"),
    "a lambda that gives a tensor another name": (
        "g = lambda: h\nh = x.exp()\nk = g()\nh += y\nreturn -k"
    ),
    "a variable by its name": "h = x.exp()\nk = locals()['h']\nh += y\nreturn -k",
    "a renamed variable by its name": "h = x.exp()\nh = h.sum(dim=1)\nreturn -eval('h')",
}

#: Whole modules with a function `f` of a tensor.
MODULES = {
    "a parameter after *args": (
        "def f(x: M, *args, k: int = 1) -> M:\n    '''Doc.'''\n    return -x\n"
    ),
    "a number that overflows": (
        "BIG = 1e400\ndef f(x: M, k: float = BIG) -> M:\n    return -x if k > 1 else x\n"
    ),
    "a call that is no constant": (
        "import itertools\nc = itertools.count(2)\ndef f(x: M) -> M:\n"
        "    for i in range(int(next(c)) ** 2):\n        x = x + x\n    return -x\n"
    ),
    "a function with the name of a temporary": (
        "def t1(n: int) -> int:\n    return n\ndef g(a: M) -> M:\n    for i in range(t1(2)):\n"
        "        a = a + a\n    return a\n"
        "def f(x: M) -> M:\n    return (x + x).relu() * g((x * x).exp())\n"
    ),
    "a method of a constant": (
        "S = 2\ndef f(x: M) -> M:\n    for _ in range(S.bit_length()):\n        x = x * x\n"
        "    return -x\n"
    ),
    "a method of a literal argument": (
        "def g(x: M, n: int) -> M:\n    for _ in range(n.bit_length()):\n        x = x * x\n"
        "    return -x\ndef f(x: M) -> M:\n    return g(x, 2)\n"
    ),
    "an attribute of a literal argument": (
        "from types import SimpleNamespace\nn = SimpleNamespace(real=3)\n"
        "def g(x: M, n: int) -> M:\n    for _ in range(n.real):\n        x = x * x\n"
        "    return -x\ndef f(x: M) -> M:\n    return g(x, 2)\n"
    ),
    "a function with the name of a builtin": (
        "def int(a): return a\n"
        "def f(x: M) -> M:\n    g = x.exp()\n    h = int(g)\n    g += x\n    return h * x\n"
    ),
    "a constant that a pattern binds": (
        "EPS = 1\nmatch 2:\n    case EPS: pass\ndef f(x: M) -> M:\n    for i in range(EPS):\n"
        "        x = x + x\n    return -x\n"
    ),
    "an attribute of the module": (
        "import sys\nEPS = 1\nsys.modules[__name__].EPS = 2\ndef f(x: M) -> M:\n"
        "    for i in range(EPS):\n        x = x + x\n    return -x\n"
    ),
    "a local with the name of an import": (
        "del torch\ndef f(x: M) -> M:\n    _torch = -(x + x)\n    return -(_torch * x)\n"
    ),
    **{
        f"a function by another: {again}": (
            f"def a(x: M) -> M:\n    return x.relu()\ndef b(x: M) -> M:\n    return x.exp()\n"
            f"{again}\n"
            "def f(x: M) -> M:\n    return a(x)\n"
        )
        for again in (
            "a, b = b, a",
            "for a in [b]: pass",
            "(a := b)",
            "del a",
            "from torch import *",
        )
    },
    **{
        f"a constant again: {again}": (
            f"EPS = 1\n{again}\ndef f(x: M) -> M:\n    for i in range(EPS):\n        x = x + x\n"
            "    return -x\n"
        )
        for again in ("EPS, K = 2, 3", "for EPS in [2]: pass", "del EPS", "class EPS: pass")
    },
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_hostile_bodies(body: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    written, normal, _ = both(f"{HEAD}def f(x: M, y: M, n: int) -> M:\n{lines}")
    for n in (0, 1, 2, 3):
        given = (torch.randn(3, 3), torch.randn(3, 3), n)
        one, two = outcome(written.f, given), outcome(normal.f, given)
        assert one.same_as(two)
        assert one.shares == two.shares


def test_what_inference_mode_made_in_the_last_round_is_not_changed() -> None:
    """PyTorch raises there; Rextio takes no augmented assignment of a tensor."""
    loop = (
        "def f(x: M, n: int) -> M:\n    h = x.exp()\n    for i in range(n):\n        h += x\n"
        "        with torch.inference_mode():\n            h = h * x\n    return h\n"
    )
    assert "h += x" in normalise({"module.py": HEAD + loop})["module.py"].text


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_hostile_modules(module: str) -> None:
    written, normal, _ = both(HEAD + module)
    given = [torch.randn(3, 3)]
    assert outcome(written.f, given).same_as(outcome(normal.f, given))


@pytest.mark.parametrize(
    "again",
    [
        "from consts import N\nN = 1",
        "from consts import N\nN, K = 1, 2",
        "try:\n    from consts import N\nexcept ImportError:\n    N = 1",
        "if K:\n    from consts import N\nelse:\n    from consts import K as N",
        "N = 1\nfrom consts import *",
        *(
            f"import consts\nfrom consts import N\n{line}"
            for line in ("consts.N += 1", "consts.N, K = 1, 2", "setattr(consts, 'N', 1)")
        ),
    ],
)
def test_a_constant_of_another_module_with_several_values(again: str) -> None:
    f = "def f(x: M) -> M:\n    for i in range(N):\n        x = x + x\n    return -x\n"
    files = normalise({"module.py": f"{HEAD}{again}\n{f}", "consts.py": "N = 2\nK = 3\n"})
    assert "range(2)" not in files["module.py"].text


G = "def g(x: M) -> M:\n    return -x\n"
F = "def f(x: M) -> M:\n    return g(x) + x\n"
STEPS = "def f(x: M) -> M:\n    for _ in range(N):\n        x = -x\n    return x.exp()\n"
SHADOWED = STEPS.replace("f(x: M)", "g(x: M, n: int)").replace("N", "max(n, 4)")


@pytest.mark.parametrize(
    ("files", "stays"),
    [
        ({"main": "from lib import N\n" + STEPS, "lib": "N = 3\n"}, None),
        ({"main": "import lib\n" + STEPS.replace("N", "lib.N"), "lib": "N = 3\n"}, None),
        (
            {"main": "from pkg import N\n" + STEPS, "pkg/__init__": "from .lib import N\n"}
            | {"pkg/lib": "N = 3\n"},
            None,
        ),
        (
            {"main": "import lib\n" + STEPS.replace("N", "lib.N"), "lib": "N = 3\n"}
            | {"setter": "def go():\n    import lib as k\n    k.N = 2\n"},
            "range(lib.N)",
        ),
        ({"main": "from lib import N\nN = 1\n" + STEPS, "lib": "N = 3\n"}, "range(N)"),
        (
            {"main": "from lib import N\nN = 1\ndef f(x: M, n: int = N) -> M:\n    return -x\n"}
            | {"lib": "N = 3\n"},
            "int = N",
        ),
        (
            {"pkg/__init__": "c = object()\n" + STEPS.replace("N", "c.N"), "pkg/c": "N = 2\n"},
            "range(c.N)",
        ),
        (
            {"main": "from pkg import g\n" + F, "pkg/__init__": "from .g import g\n", "pkg/g": G},
            None,
        ),
        (
            {"main": "from pkg import g\n" + F, "pkg/g": G}
            | {"pkg/__init__": "from .g import g\ndef g(x): return x.exp()\n"},
            "g(x) + x",
        ),
        (
            {"main": "from lib import g\ndef f(x: M, n: int) -> M:\n    return g(x, n)\n"}
            | {"lib": "def max(a, b): return 1\n" + SHADOWED},
            "return g(x, n)",
        ),
        (
            {"main": "from lib import g\ndef f(x: M, n: int) -> M:\n    return g(x, n)\n"}
            | {"lib": SHADOWED}
            | {
                "main": "from lib import g\nfrom os import sep as max\n"
                "def f(x: M, n: int) -> M:\n    return g(x, n)\n"
            },
            "return g(x, n)",
        ),
        ({"lib": G + F, "src/lib": "K = 1\n\n" + F.replace("g(x)", "-x")}, "g(x) + x"),
    ],
)
def test_names_across_files(files: dict[str, str], stays: str | None) -> None:
    """A name of another file is what it is there, or the function stays as it is."""
    sources = {f"{name}.py": (HEAD if " M" in text else "") + text for name, text in files.items()}
    found = normalise(sources)
    text = found[next(iter(sources))].text
    if stays is None:
        assert "(N)" not in text
        assert "lib.N" not in text
        assert "g(x) + x" not in text
    else:
        assert stays in text


def _guards(count: int) -> str:
    lines = "".join(
        f"    if n == {i}:\n        if n == {i + 1}:\n            return -a\n" for i in range(count)
    )
    return (
        f"def g(a: M, n: int) -> M:\n{lines}    return a.exp()\n"
        "def f(x: M, n: int) -> M:\n    return g(x, n) + x\n"
    )


def _nested(count: int) -> str:
    lines = ["    h = x.exp()\n"]
    for i in range(count):
        pad = "    " * (i + 1)
        value = "x.exp()" if i % 2 else "h.sum(dim=1)"
        lines.append(f"{pad}if n > {i}:\n{pad}    h = {value}\n")
    return f"def f(x: M, n: int) -> M:\n{''.join(lines)}    return h.softmax(dim=0)\n"


@pytest.mark.parametrize(
    "module",
    [
        f"def f(x: M, n: int) -> M:\n    return {' + '.join(['(x if n else -x)'] * 30)}\n",
        _guards(30),
        _nested(30),
        "def f(x: M, n: int) -> M:\n    if n == 0:\n        h = x\n"
        + "".join(f"    elif n == {i}:\n        h = x.exp()\n" for i in range(1, 30))
        + "    else:\n        h = -x\n    return h\n",
    ],
    ids=["conditional expressions", "early returns", "nested branches", "elif"],
)
def test_what_doubles_on_each_level_ends_soon(module: str) -> None:
    start = time.perf_counter()
    normalise({"module.py": HEAD + module})
    assert time.perf_counter() - start < 20


def test_files_that_are_rewritten_to_one_text_stay_apart(tmp_path: Path) -> None:
    project = tmp_path / "project"
    paths = {"first": "one", "second": "pkg/one", "third": "pkg/two"}
    for doc, path in paths.items():
        file = project / f"{path}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{HEAD}def f(x: M) -> M:\n    """The {doc}."""\n    return -x\n')
    staged = stage(project, tmp_path / "copy")
    (text,) = {normal.text for normal in staged.files.values()}
    for folder in ("", "python/"):
        for doc, path in paths.items():
            *parents, stem = path.split("/")
            built = folder + "/".join([*parents, f"_fallback_{stem}.py"])
            assert f'"""The {doc}."""' in module(built, text.encode(), staged).decode()


def test_a_module_that_binds_names_by_text_is_not_trusted() -> None:
    source = (
        "from rextio_torch.types import TensorF32Cpu2D\n\nSTEPS = 2\nglobals()['STEPS'] = 1\n\n\n"
        "def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    h = x.relu()\n"
        "    for _ in range(STEPS):\n        h = -h\n    return h\n"
    )
    assert "range(2)" not in normalise({"m.py": source})["m.py"].text


@pytest.mark.parametrize(
    ("annotation", "marker"),
    [
        ('Float32[np.ndarray, "a b"]', None),
        ('Float32[jaxtyping.Array, "a b"]', None),
        ('Float32[Float32[torch.Tensor, "b"], "a"]', None),
        ('Float32[torch.Tensor | None, "a b"]', None),
        ('Float32["torch.Tensor", "a b"]', "TensorF32Cpu2D"),
        ('Annotated[Float32[torch.Tensor, "a b"], "scores"]', "TensorF32Cpu2D"),
        ('Annotated[Float32[torch.Tensor, "a b"], rt.TensorF32Cpu1D]', None),
        ("Annotated[torch.Tensor, rt.TensorF32Cpu2D, rt.TensorF32Cpu1D]", None),
        ("Checked", "TensorF32Cpu2D"),
        ('"Checked"', "TensorF32Cpu2D"),
        *((name, None) for name in ("AClass", "AFunction", "Augmented", "Looped", "Deleted")),
    ],
)
def test_annotations_that_are_hard_to_read(annotation: str, marker: str | None) -> None:
    source = f"""from __future__ import annotations
from typing import TYPE_CHECKING, Annotated
import jaxtyping
import numpy as np
import rextio_torch.types as rt
import torch
from jaxtyping import Float32
if TYPE_CHECKING:
    from rextio_torch.types import TensorF32Cpu2D as Checked
AClass = AFunction = Augmented = Looped = Deleted = rt.TensorF32Cpu2D
class AClass: ...
def AFunction(): ...
Augmented |= None
for Looped in (): ...
del Deleted
def f(x: {annotation}, y: rt.TensorF32Cpu1D) -> rt.TensorF32Cpu1D:
    return -y
"""
    (head, *_) = normalise({"m.py": source})["m.py"].functions["f"].lines
    assert head.text.startswith(f"def f(x: {f'rt.{marker}' if marker else annotation}, y")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_places_in_files_with_other_line_ends(end: str) -> None:
    body = "# one\ndef f(x: M) -> M:\n    '''Doc.'''\n    return (\n        -x\n    )\n\n# after\n"
    found = normalise({"m.py": (HEAD + body).replace("\n", end)})["m.py"]
    for text, place in (("x.neg()", "-x"), ("after", "after")):
        before = re.split("\r\n|\r|\n", found.text[: found.text.index(text)])
        line, column = len(before), len(before[-1]) + 1
        origin = found.origin(Span(line, column, line, column + len(text)))
        assert found.file.slice(origin.span) == place


def test_a_byte_order_mark_is_left_out_of_the_copy(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    source = f"{HEAD}def f(x: M) -> M:\n    return x.relu()\n"
    (tmp_path / "project" / "m.py").write_text(source, encoding="utf-8-sig")
    staged = stage(tmp_path / "project", tmp_path / "copy")
    assert (staged.folder / "m.py").read_text(encoding="utf-8") == source


def test_names_that_python_reads_as_others() -> None:
    names = "fi = 2\n\ufb01 = 3\n"
    assert not normalise({"m.py": f"{HEAD}{names}{G}", "other.py": HEAD + G}).get("m.py")
