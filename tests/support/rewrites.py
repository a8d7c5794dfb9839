"""Functions around each form that the front end rewrites, and those where it does not."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

HEADER = """\
from typing import Annotated, Optional

import torch
import torch.nn.functional as F
from jaxtyping import Float32
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D

if torch:
    from rextio_torch.types import TensorF32Cpu2D as Conditional

DIM = 1
LAST = -1
Matrix = TensorF32Cpu2D


def double(t: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return t + t


def mixed(t: TensorF32Cpu2D, s: TensorF32Cpu2D, k: int = 2) -> TensorF32Cpu2D:
    t = t - s
    if k > 1:
        return t.tanh()
    h = s - t
    return h


def swap(t: TensorF32Cpu2D, s: TensorF32Cpu2D):
    return s, t


def counted(t: TensorF32Cpu2D, k: int = 2) -> TensorF32Cpu2D:
    k = k + 1
    if k > 2:
        return t.tanh()
    return t.exp()


def optional(
    t: TensorF32Cpu2D, s: TensorF32Cpu2D, b: Optional[TensorF32Cpu1D] = None
) -> TensorF32Cpu2D:
    h = t - s
    if b is not None:
        h = h + b
    return h.exp() if b is None else h


def pair(t: TensorF32Cpu2D, s: TensorF32Cpu2D):
    s = t - s
    return s, t * s


"""
SIGNATURE = """\
def f(
    x: TensorF32Cpu2D, y: TensorF32Cpu2D, v: TensorF32Cpu1D, w: TensorF32Cpu2D, n: int, flag: bool
) -> TensorF32Cpu2D:
"""

#: For each form, bodies of `f(x, y, v, w, n, flag)`, or whole functions. `E` stands for a drawn
#: expression, `U` for a drawn method, `O` for a drawn operator, the same one wherever it stands.
REWRITES: Mapping[str, tuple[str, ...]] = {
    "quoted_annotation": (
        'def f(x: "TensorF32Cpu2D", y: "TensorF32Cpu2D", v: "TensorF32Cpu1D", '
        'w: "TensorF32Cpu2D", n: int, flag: bool) -> "TensorF32Cpu2D":\n    return E O y\n',
    ),
    "annotated_metadata": (
        "def f(x: Annotated[torch.Tensor, TensorF32Cpu2D], y: Annotated[TensorF32Cpu2D, 'y'], "
        "v: TensorF32Cpu1D, w: TensorF32Cpu2D, n: int, flag: bool) -> TensorF32Cpu2D:\n"
        "    return E O y\n",
    ),
    "alias_of_type": (
        "def f(x: Matrix, y: Matrix, v: TensorF32Cpu1D, w: Matrix, n: int, flag: bool) -> Matrix:\n"
        "    return E O y\n",
    ),
    "jaxtyping": (
        'def f(x: Float32[torch.Tensor, "b d"], y: TensorF32Cpu2D, '
        'v: Float32[torch.Tensor, "d"], w: TensorF32Cpu2D, n: int, flag: bool'
        ') -> Float32[torch.Tensor, "b d"]:\n    return E O v\n',
    ),
    "conditional_type": (
        "def f(x: Conditional, y: TensorF32Cpu2D, v: TensorF32Cpu1D, w: Conditional, n: int, "
        "flag: bool) -> Conditional:\n    return E O y\n",
    ),
    "decorator": (f"@torch.no_grad()\n{SIGNATURE}    return E O y\n",),
    "docstring": ('"""What it does."""\nreturn E.U()',),
    "bare_expression": (
        "x O y\nh = E\n'text'\nh\nreturn h.U()",
        "h = E\nh @ w\nreturn h O y",
        "h = E\nh O v\nif flag:\n    x @ w\nreturn h.U()",
    ),
    "pass_statement": (
        "if flag:\n    pass\nelse:\n    x = x O y\nh = x.U()\nreturn h",
        "h = E.U()\nfor _ in range(n):\n    pass\nreturn h",
    ),
    "with_statement": (
        "with torch.no_grad():\n    h = E O y\nreturn h.U()",
        "h = E.U()\nif flag:\n    with torch.inference_mode(), torch.no_grad():\n"
        "        h = h O y\nreturn h",
    ),
    "delete": ("h = E\ng = h O y\ndel h\nh = g.U()\nreturn h",),
    "annotated_local": (
        "h: TensorF32Cpu2D = E\nm: TensorF32Cpu1D = h.mean(dim=0)\nreturn h O m.exp()",
        "h: TensorF32Cpu2D = E O y\nreturn h",
        "h: torch.Tensor = E\nk: Count = n + 1\nfor _ in range(k):\n"
        "    g: list[int] | None = h O y\n    h = g.U()\nreturn h",
    ),
    "declared_local": (
        "h: TensorF32Cpu2D\nif flag:\n    h = x O y\nelse:\n    h = E.U()\nreturn h.exp()",
    ),
    "changed_type": (
        "h = E\nm = h.mean(dim=1)\nh = h.sum(dim=0)\nm = y O h\nreturn m.U()",
        "h = E\nh = h.mean(dim=0)\nif flag:\n    h = y O h\nelse:\n    h = x.U()\nreturn h",
        "x = x.mean(dim=0)\nx = y O x\nreturn x.U()",
        "h = E.sum(dim=0)\ng = y O h\nfor _ in range(n):\n    h = g.U()\n    h = h.mean(dim=0)\n"
        "    g = g O h\nreturn g",
    ),
    "augmented_tensor": (
        "h = x.U()\nh += y\nreturn h",
        "h = x.mean(dim=0)\nh -= v\nreturn x O h",
        "h = E.U()\nh += v\nh -= y\nh *= x\nh /= y\nreturn h",
        "h = E.U()\ng = h O y\ng *= h\nh += g\nreturn g O h",
        "h = E.exp()\nfor _ in range(n):\n    h -= v\n    h *= x\nreturn h",
        "if flag:\n    h = x.U()\nelse:\n    h = x O v\nh += y\nreturn E.U()",
        "h = x O y\nh /= h\nif flag:\n    h += y\nreturn h.U()",
    ),
    "none_test": (
        "if x is None:\n    return x O y\nreturn E.U()",
        "h = y.U()\nif h is not None:\n    h = h O x\nelse:\n    h = y\nreturn h.U()",
        "h = optional(x, y)\nreturn h.U()",
        "h = optional(x, y, v)\nreturn h O y",
        "return E O optional(x, y, None)",
        "h = E\nfor _ in range(n):\n    h = optional(h, y) if x is not None else h\n"
        "return h.U()",
    ),
    "truth": (
        "if n:\n    return E.U()\nreturn x O y",
        "while n:\n    n = n - 1\n    x = x.U()\nreturn x O y",
        "if not n and flag or n - 1:\n    return E.U()\nreturn x O y",
        "return x.U() if n else y O x",
        "k = 0.5\nif flag:\n    k = 0.0\nif k:\n    return x O y\nreturn x.U()",
        "if n - 1:\n    pass\nelse:\n    x = x O y\nreturn E.U()",
    ),
    "tuple_unpacking": (
        "a, _ = E.U(), y\n_, b = pair(x, y)\nfor _ in range(n):\n    b = b O v\nreturn a - b",
        "a, b = (E, x O v) if flag else (y.U(), E)\nreturn a - b",
        "g, h = x.U(), y\ng, h = h, g\nreturn g - h",
        "g, h = pair(y, x)\nh, g = pair(g O x, h)\nreturn g - h",
        "a, b, c = x, E.U(), y\na, b, c = b, c.U(), a O b\nreturn (a - b) / c",
        "x, y = y, x\nh = x - y\nx, y = y O h, x\nreturn x - y",
    ),
    "several_targets": ("g = h = E.U()\nh = h O y\nreturn g - h", "x = h = y O x\nreturn x - h"),
    "loop_else": (
        "h = E.U()\nfor _ in range(n):\n    h = h O y\nelse:\n    h = h.tanh()\nreturn h",
        "h = E.U()\nk = n\nwhile k > 0:\n    h = h O y\n    k = k - 1\nelse:\n    h = h.tanh()\n"
        "return h",
    ),
    "first_in_block": (
        "if flag:\n    h = x O y\nelse:\n    h = E.U()\nreturn h.tanh()",
        "if flag:\n    h = x.mean(dim=0)\nelse:\n    h = E.U()\ng = y O h\nreturn g",
        "if n > 1:\n    h = x.U()\nelif flag:\n    h = x O y\nelse:\n    h = y.exp()\n"
        "g = h - E\nreturn g",
        "if flag:\n    if n > 1:\n        h = x.U()\n    else:\n        h = y.sum(dim=0)\n"
        "else:\n    h = x O v\nreturn E - h",
        "if flag:\n    h = x.U()\nelse:\n    h = y.mean(dim=0)\nif n > 1:\n    return x.exp()\n"
        "else:\n    r = E O h\nreturn r",
        "g = E.U()\nfor i in range(n):\n    if flag:\n        h = g O y\n    else:\n"
        "        h = g.tanh()\n    g = h - x\nreturn g",
    ),
    "declared_twice": (
        "if flag:\n    h = x O y\n    return h.U()\nh = E\nreturn h.tanh()",
        "if n > 1:\n    h = x.mean(dim=0)\n    return y O h\nh = E.U()\ng = h - x\nreturn g",
        "g = E.U()\nfor _ in range(n):\n    h = g O y\n    g = h - x\nif flag:\n"
        "    h = x.exp()\n    return h O g\nh = g.tanh()\nreturn h",
    ),
    "written_list": (
        "h = E.U()\nfor k in [3, 1, n]:\n    if k > 1:\n        h = h O y\n    h = h.tanh()\n"
        "return h",
    ),
    "unary_minus": ("return -E", "return -(x O y).U()", "h = -x\nreturn y O -h"),
    "power": (
        "return (x O y) ** 2",
        "return E ** 0.5 O y",
        "h = -x ** 2\nreturn h.U()",
        "if n ** 3 > 8:\n    return x.U()\nreturn x ** 2.0",
    ),
    "conditional_expression": (
        "return x.U() if flag else E",
        "h = (x O y if n > 1 else y) - (v if flag else x)\nreturn h",
        "h = (x if flag else y.U() if n > 1 else v) O x\nreturn h - y",
        "h = x.exp()\nh += y if flag else v\nreturn h",
        "return x - (y @ w if flag else x.U())",
        "return x - (y - E if flag else x - y)",
    ),
    "attribute": (
        "h = E\nreturn h @ w.T",
        "return torch.matmul(x, (x O y).mT)",
        "return E @ y.T",
    ),
    "keyword": (
        "return E.softmax(-1)",
        "return torch.softmax(dim=LAST, input=E)",
        "h = E.sum(dim=DIM)\nh = h.exp()\nreturn x O torch.mean(y, -2, keepdim=False)",
        "return F.softmax(E.U(), dim=DIM, dtype=None)",
        "h = x.mean((0,))\nreturn torch.add(other=h, input=y)",
        "return F.linear(weight=w, input=E)",
        "return F.linear(bias=v if flag else None, input=x, weight=w)",
        "return F.relu(E, False) O y",
    ),
    "expression_receiver": ("return (x O y).U()", "h = (E - y).U()\nreturn (x O h).sum(dim=0) O x"),
    "tensor_function": (
        "return double(E) O y",
        "h = mixed(x, y)\ng = mixed(s=x, t=h.U(), k=n)\nreturn h - g",
        "t = mixed(y, x, n)\nreturn t O mixed(double(t), y)",
        "x = double(x)\nh = mixed(y, x)\nreturn h - x",
        "h = E.U()\nfor k in range(n):\n    h = mixed(h, y, k)\nreturn h - mixed(y, h, k=n)",
        "g, h = pair(double(x), y)\nreturn g - h",
        "g, h = swap(x.U(), y)\ng, h = swap(g, h)\nreturn g - h",
        "return counted(x, 2) - counted(y, k=1) O counted(y)",
    ),
    "unknown_function": (
        "return torch.mm(x, w)",
        "return torch.subtract(E, y)",
        "return F.dropout(E, 0.3, training=False) O y",
        "return F.dropout(x + y, p=0.3, training=False) * v",
        "h = torch.divide(x, torch.absolute(y))\nreturn h.U()",
        "h = x @ torch.transpose(w, -2, 1)\nreturn h.U()",
    ),
    "unknown_method": (
        "return x.mm(w)",
        "return E.sub(y).U()",
        "h = E.detach()\nreturn h.div(v)",
        "h = x.exp().contiguous()\nh += y\nreturn h.subtract(x)",
        "h = E.mean(dim=0)\nreturn y O h.float().to(torch.float32)",
        "return x @ w.t()",
        "return x.matmul(w.swapaxes(0, -1))",
    ),
    "module_name": ("return E.softmax(dim=DIM)", "if n > DIM:\n    x = x O y\nreturn x.U()"),
    "assignment_expression": (
        "return (h := E.U()) - h",
        "if (k := n + 1) > 0 and flag:\n    return x.U()\nreturn x O y",
        "h = x - (x := y O x)\nreturn h - x",
        "if (k := n * 2) > 2:\n    x = x.U()\nreturn (x O y if k > 3 else y.exp())",
    ),
    "method_of_call": ("return E.U().sub(y)", "return x.exp().U().multiply(v) O y"),
}  # fmt: skip

METHODS = ("relu", "sigmoid", "tanh", "abs", "neg", "square", "exp", "sqrt")
EXPRESSIONS = ("x", "y", "(x + y)", "(x * v)", "x.tanh()", "(y / x)", "torch.relu(y)", "(x - y)")


def source_of(texts: Iterable[str], drawn: Mapping[str, str], more: str = "") -> str:
    """Return a module with a function for each text: `f0`, `f1`, …"""
    functions = []
    for index, text in enumerate(texts):
        if not text.startswith(("def ", "@")):
            text = SIGNATURE + textwrap.indent(text, "    ")
        written = re.sub(r"\b[EUO]\b", lambda word: drawn.get(word[0], word[0]), text)
        functions.append(written.replace("def f(", f"def f{index}("))
    return HEADER + more + "\n\n\n".join(functions) + "\n"


#: Where forms with a rewrite stay as they are: the form whose reason is shown, a body or a
#: function as above, and the text that the finding points at.
STAYS: tuple[tuple[str, str, str], ...] = (
    ("unknown_annotation", "def f(x: Twice, y: Twice, v: TensorF32Cpu1D, w: Twice, n: int,"
     " flag: bool) -> TensorF32Cpu2D:\n    return x.relu()\n", "Twice"),
    ("decorator", f"@plain\n{SIGNATURE}    return x.relu()\n", "plain"),
    ("decorator", f"@torch.inference_mode(False)\n{SIGNATURE}    return x.relu()\n",
     "torch.inference_mode"),
    ("bare_expression", "plain(x)\nreturn x.relu()", "plain(x)"),
    ("with_statement", "with torch.enable_grad():\n    h = x.relu()\nreturn h", "with"),
    ("with_statement", "with torch.no_grad() as c:\n    h = x.relu()\nreturn h", "with"),
    ("delete", "h = [n, 2]\ndel h[0]\nreturn x.relu()", "del h[0]"),
    ("augmented_tensor", "x += y\nreturn x.relu()", "x += y"),
    ("augmented_tensor", "h = x.exp()\ng = h\nh *= y\nreturn g - h", "h *= y"),
    ("augmented_tensor", "h = x\nh -= y\nreturn h.exp()", "h -= y"),
    ("augmented_tensor", "h = x.detach()\nh /= y\nreturn h.exp()", "h /= y"),
    ("augmented_tensor",
     "h = x.exp()\nfor _ in range(n):\n    h += y\n    g = h\n    h = g\nreturn h.exp()",
     "h += y"),
    ("augmented_tensor",
     "h = y.exp()\ng = h.exp()\nk = x.exp()\nfor _ in range(n):\n    h += x\n    k = k + g\n"
     "    g = h\nreturn k",
     "h += x"),
    ("augmented_tensor", "h = x.exp() if flag else y\nh += x\nreturn h.exp()", "h += x"),
    ("augmented_tensor",
     "h = x.exp()\ng = y.exp()\nif flag:\n    g = h\ng += y\nreturn h - g", "g += y"),
    ("augmented_tensor", "h = v.exp()\nh += x\nreturn y - h", "h += x"),
    ("augmented_tensor", "h = same(x)\nh += y\nreturn h.exp()", "h += y"),
    ("tuple_unpacking", "a, *b = x, y\nreturn a - b[0]", "a, *b = x, y"),
    ("tuple_unpacking", "a, b = plain(x), y\na, b = c\nreturn a.exp()", "a, b = c"),
    ("truth", "if x:\n    return x.exp()\nreturn x.tanh()", "x"),
    ("loop_else",
     "h = x.exp()\nfor _ in range(n):\n    h = h.tanh()\n    if flag:\n        break\nelse:\n"
     "    h = h.relu()\nreturn h", "for _ in range(n)"),
    ("first_in_block", "if flag:\n    h = x.exp()\nreturn h", "h"),
    ("first_in_block", "for _ in range(n):\n    h = x.exp()\nreturn h", "h"),
    ("changed_type", "h = y.mean(dim=0)\nk = x.exp()\nfor _ in range(n):\n    k = k - y * h\n"
     "    h = y.tanh()\nreturn k", "h"),
    ("power", "return x ** 3", "x ** 3"),
    ("power", "return x ** n", "x ** n"),
    ("conditional_expression", "if flag and (n if flag else 2) > 1:\n    return x.exp()\n"
     "return x.tanh()", "n if flag else 2"),
    ("conditional_expression", "k = n\nwhile (k if flag else 0) > 0:\n    k = k - 1\n"
     "return x.tanh()", "k if flag else 0"),
    ("attribute", "return x.T.exp()", "x.T"),
    ("attribute", "return x.T @ y", "x.T"),
    ("attribute", "return x.real.exp()", "x.real"),
    ("keyword", "return x.softmax(dim=n)", "dim=n"),
    ("tensor_function", "return again(x)", "again(t, k + 1)"),
    ("tensor_function", "return early(x, n)", "early(x, n)"),
    ("tensor_function", "return many(x)", "many(x)"),
    ("tensor_function", "return defaulted(x)", "defaulted(x)"),
    ("unknown_function", "return torch.floor(x)", "torch.floor(x)"),
    ("unknown_function", "return F.dropout(x, 0.5)", "F.dropout(x, 0.5)"),
    ("unknown_function", "return torch.subtract(x, y, alpha=2)", "torch.subtract"),
    ("unknown_method", "return x.floor()", "x.floor()"),
    ("unknown_method", "return x.add(y, alpha=2)", "x.add"),
    ("method_of_call", "return x.exp().floor()", "floor"),
    ("module_name", "return x.softmax(dim=CHANGED)", "CHANGED"),
    ("assignment_expression", "if flag and (k := n + 1) > 0:\n    return x.exp()\n"
     "return x.tanh()", "k := n + 1"),
    ("returned_parameter", "return x.detach()", "return"),
    ("returned_parameter", "h = F.dropout(x, training=False)\nreturn h", "return"),
    ("returned_parameter", "return same(x)", "return"),
    ("returned_parameter", "h = x if flag else y\nreturn h", "return"),
)  # fmt: skip

#: What the functions above call, beside what is in `HEADER`.
HELPERS = """\
CHANGED = 0
CHANGED = 1
Twice = TensorF32Cpu1D
Twice = TensorF32Cpu2D
c = None


def plain(t):
    return t


def same(t: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return t


def again(t: TensorF32Cpu2D, k: int = 0) -> TensorF32Cpu2D:
    if k > 2:
        return t.exp()
    return again(t, k + 1)


def early(t: TensorF32Cpu2D, k: int) -> TensorF32Cpu2D:
    for i in range(k):
        return t.exp()
    return t.tanh()


def many(*ts: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return ts[0].exp()


def defaulted(t: TensorF32Cpu2D, k: int = len("ab")) -> TensorF32Cpu2D:
    return t.exp()


"""
