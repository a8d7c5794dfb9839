"""The table itself: every form, checked once at import."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

from rextio_torch.explain.forms import (
    assignments,
    calls,
    control_flow,
    definition,
    module,
    operators,
    signature,
    statements,
    values,
)
from rextio_torch.explain.model import Form

#: The modules of the table, by what their forms are of.
SUBJECTS: tuple[ModuleType, ...] = (
    signature,
    definition,
    statements,
    assignments,
    control_flow,
    operators,
    values,
    calls,
    module,
)


def forms_of(*subjects: ModuleType) -> tuple[Form, ...]:
    """Return the forms that modules of the table state, by their codes."""
    found = [form for subject in subjects for form in vars(subject).values()]
    return tuple(
        sorted((form for form in found if isinstance(form, Form)), key=lambda form: form.code)
    )


FORMS = forms_of(*SUBJECTS)
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
