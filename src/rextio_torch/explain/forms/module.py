"""Forms at module level that keep all functions of a file, or of the project, on Python."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.forms.examples import RELU
from rextio_torch.explain.model import Form
from rextio_torch.ops.tensor_types import TYPES_BY_MARKER
from rextio_torch.syntax import on_import
from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import imported_names, statements

#: What the front end makes of it, and where it does not.
_LEFT_OUT = "Left out of what Rextio reads; what is loaded is your own file, whole."
_UNSURE = "the file has `from … import *`, `globals()`, `vars(…)`, `exec`, `eval` or `sys.modules`"


MODULE_CALL = Form(
    code="RXTP-FORM-090",
    id="module_call",
    title="a call at module level",
    reason="A call that runs on import, also in a default value or under "
    '`if __name__ == "__main__":`, could bind an imported name again.',
    advice="Move it into another file, or into a function that other code calls.",
    example="""\
WEIGHT = torch.zeros(3)


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    rewritten=_LEFT_OUT,
    except_where=_UNSURE + ", or it is a default value of a function with tensors",
    detect_in_file=on_import.calls,
    scope="file",
)


MODULE_DECORATOR = Form(
    code="RXTP-FORM-091",
    id="module_decorator",
    title="a decorator at module level",
    reason="A decorator, of another function or of a class too, could bind an imported name again.",
    advice="Move what is decorated into another file.",
    example="""\
from dataclasses import dataclass


@dataclass
class Options:
    steps: int


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
class Options:
    steps = 3


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    rewritten=_LEFT_OUT,
    except_where=_UNSURE,
    detect_in_file=on_import.decorators,
    scope="file",
)


BASE_CLASS = Form(
    code="RXTP-FORM-092",
    id="base_class",
    title="a class with a base class",
    reason="Making the class runs code of its base class.",
    advice="Move the class into another file that imports the functions from this one.",
    example="""\
class Model(torch.nn.Module):
    pass


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    rewritten=_LEFT_OUT,
    except_where=_UNSURE,
    detect_in_file=on_import.base_classes,
    scope="file",
)


STAR_IMPORT = Form(
    code="RXTP-FORM-093",
    id="star_import",
    title="from … import *",
    reason="It may bind any name again.",
    advice="Name what is imported.",
    example="""\
from math import *


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
from math import pi


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    detect_in_file=on_import.star_imports,
    scope="file",
)


EVALUATED_ANNOTATION = Form(
    code="RXTP-FORM-094",
    id="evaluated_annotation",
    title="an annotation that runs code",
    reason="`X | None` and `X[…]` of an imported type run code of it when the function is defined.",
    advice="Write `from __future__ import annotations` first in the file: annotations are not "
    "evaluated then.",
    example="""\
def g(x: TensorF32Cpu2D | None) -> int:
    return 1


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
from __future__ import annotations


def g(x: TensorF32Cpu2D | None) -> int:
    return 1


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    rewritten="Rextio reads the file as with `from __future__ import annotations`.",
    except_where=_UNSURE,
    detect_in_file=on_import.evaluated_annotations,
    scope="file",
)


MODULE_STATEMENT = Form(
    code="RXTP-FORM-095",
    id="module_statement",
    title="a statement at module level that changes something",
    reason="`with`, an augmented assignment and an assignment to an index run code on import "
    "that could bind an imported name again.",
    advice="Write the final value, or move it into another file.",
    example="""\
SIZES = {}
SIZES["hidden"] = 3


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
SIZES = {"hidden": 3}


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    rewritten=_LEFT_OUT,
    except_where=_UNSURE,
    detect_in_file=on_import.changes,
    scope="file",
)


PROJECT_CALL = Form(
    code="RXTP-FORM-096",
    id="project_call",
    title="a use of the project's modules on import",
    reason="A file of the project that calls another one's functions, or assigns to its "
    "attributes, while it is imported could replace its functions.",
    advice="Keep such scripts outside the project's folder or in .rextioignore, or put the "
    "code into a function.",
    example=RELU,
    other="""\
import torch

import example

print(example.f(torch.zeros(2, 2)))
""",
    instead=RELU,
    rewritten=_LEFT_OUT,
    except_where=_UNSURE + ", or assigns to an attribute of a module of the project",
    detect_in_file=on_import.project_uses,
    scope="project",
)


def _conditional_types(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield the imports of tensor types that are inside another statement."""
    top = [line for line in file.tree.body if isinstance(line, cst.SimpleStatementLine)]
    always = {id(statement) for line in top for statement in line.body}
    for statement in statements(file.tree.body):
        if isinstance(statement, cst.ImportFrom) and id(statement) not in always:
            targets = map(file.names.imports.get, imported_names(statement))
            if any(target in TYPES_BY_MARKER for target in targets):
                yield statement


CONDITIONAL_TYPE = Form(
    code="RXTP-FORM-097",
    id="conditional_type",
    title="a tensor type that is imported inside if or try",
    reason="Rextio does not take a type from an import that may not run, as under "
    "`if TYPE_CHECKING:`.",
    advice="Import it outside.",
    rewritten="Imported outside, under another name.",
    example="""\
if torch:
    from rextio_torch.types import TensorF32Cpu2D as Matrix


def f(x: Matrix) -> Matrix:
    return x.relu()
""",
    instead=RELU,
    detect_in_file=_conditional_types,
    scope="file",
)
