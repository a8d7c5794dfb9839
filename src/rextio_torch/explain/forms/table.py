"""The table itself: every form, checked once at import."""

from __future__ import annotations

from collections import Counter

from rextio_torch.explain.forms import (
    assignments,
    calls,
    control_flow,
    module,
    operators,
    signature,
    statements,
    values,
)
from rextio_torch.explain.model import Form

#: The modules of the table, by what their forms are of.
SUBJECTS = (signature, statements, assignments, control_flow, operators, values, calls, module)
FORMS: tuple[Form, ...] = tuple(
    sorted((form for subject in SUBJECTS for form in subject.ROWS), key=lambda form: form.code)
)
BY_ID = {form.id: form for form in FORMS}

#: Imports of every example in the table.
HEADER = """\
import torch
import torch.nn.functional as F
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D
"""


def example_module(text: str) -> str:
    """Return a whole module of an example: what must come first stays first."""
    first = "from __future__ import annotations\n"
    return f"{first if text.startswith(first) else ''}{HEADER}\n\n{text.removeprefix(first)}"


def check_forms(forms: tuple[Form, ...]) -> None:
    """Raise `ValueError` if two rows share an id or a code."""
    for what in ("id", "code"):
        for value, count in Counter(getattr(form, what) for form in forms).items():
            if count > 1:
                raise ValueError(f"{count} forms have the {what} {value!r}")


check_forms(FORMS)
