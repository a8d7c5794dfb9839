"""The `def` line of a function, with tensor types and defaults as Rextio reads them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.normalize.annotations import marker
from rextio_torch.normalize.code import Code
from rextio_torch.normalize.constants import module_literal
from rextio_torch.normalize.inference_mode import is_inference_decorator
from rextio_torch.normalize.statements import Frame, Var
from rextio_torch.normalize.values import Bound, Values
from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import parameters

#: Types of Python that Rextio has as they are.
SCALARS = frozenset({"int", "float", "bool", "str"})


def bound_parameters(frame: Frame) -> Iterator[tuple[Var, Bound]]:
    """Yield the parameters as the variables that they are at the start of a function."""
    for item in parameters(frame.function.node.params):
        name, annotation = item.name.value, item.annotation
        found = None if annotation is None else marker(frame.file, annotation.annotation)
        kind = None
        if found is not None:
            kind = found.type.key
        elif annotation is not None and isinstance(annotation.annotation, cst.Name):
            text = annotation.annotation.value
            kind = text if text in SCALARS else None
        yield Var(frame.number, name), Bound(name, kind, parameter=found is not None)


def written_signature(frame: Frame, values: Values) -> Code:
    """Return the decorators and the `def` line, up to its colon."""
    file, node = frame.file, frame.function.node
    edits = [
        (part, text)
        for item in parameters(node.params)
        for part, text in (*_annotation(item.annotation, frame, values), *_default(item, values))
    ]
    edits += _annotation(node.returns, frame, values)
    code, at = Code(""), file.offsets(node.name)[0]
    for part, text in sorted(edits, key=lambda edit: file.offsets(edit[0])[0]):
        begin, end = file.offsets(part)
        code, at = code + file.text[at:begin] + values.code(frame, part, text), end
    code = "def " + code + file.text[at : _after_colon(file, node)]
    for decorator in reversed(node.decorators):
        if is_inference_decorator(decorator.decorator, file.resolver):
            values.applied.add("decorator")
        else:
            code = f"@{values.text(frame, decorator.decorator)}\n" + code
    return code.at(values.origin(frame, node))


def _annotation(
    annotation: cst.Annotation | None, frame: Frame, values: Values
) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield an annotation with the text for it; as it is written, it has its own place still."""
    if annotation is None:
        return
    node = annotation.annotation
    found = marker(frame.file, node)
    if found is not None and found.form is not None:
        values.applied.add(found.form)
        yield node, values.imported(found.name)
    else:
        yield node, values.text(frame, node)


def _default(item: cst.Param, values: Values) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield a default that names a constant, with the literal."""
    node = item.default
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return
    if isinstance(node, cst.Name) and node.value in ("None", "True", "False"):
        return
    # It is evaluated where the function is defined: none of its names is local.
    constant = module_literal(values.file, node, values.constants)
    if constant is not None:
        values.applied.add("module_name")
        yield node, repr(constant.value)


def _after_colon(file: SourceFile, node: cst.FunctionDef) -> int:
    last: cst.CSTNode = node.name
    for item in parameters(node.params):
        end = item.default or item.annotation or item.name
        if file.offsets(end) > file.offsets(last):
            # `*args` stands before what is given by keyword only.
            last = end
    if node.returns is not None:
        last = node.returns.annotation
    at = file.offsets(last)[1]
    # Behind the last annotation only brackets, commas and comments come before the colon.
    while file.text[at] != ":":
        at = file.text.index("\n", at) if file.text[at] == "#" else at + 1
    return at + 1
