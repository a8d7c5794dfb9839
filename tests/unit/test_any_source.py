"""explain on source that nobody would write: it never raises, and its places are in the file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz import examples

from rextio_torch.explain.forms.table import FORMS, HEADER, example_module
from rextio_torch.explain.inference import infer
from rextio_torch.ops.table import OPERATORS
from rextio_torch.syntax.source import SourceFile, Span, UnreadableError

_NAMES = st.sampled_from(["x", "y", "w", "h", "n", "i", "torch", "F", "f", "ñ", "TensorF32Cpu2D"])
_ANNOTATIONS = st.sampled_from(
    (
        *("TensorF32Cpu2D", "TensorF32Cpu1D", "TensorI64Cpu1D", "int", "float", "", "unknown"),
        *("TensorF32Cpu2D | None", "'TensorF32Cpu2D'", "list[TensorF32Cpu2D]", "Annotated[int, 3]"),
    )
)
_LITERALS = st.sampled_from(
    (
        *("0", "1", "-1", "None", "True", "'none'", "1.5", "(0, 1)", "...", "b'x'", "1j"),
        *("10**400", "'𝄞'", "f'{x}'", "'' ''", "0x_ff", "()"),
    )
)
_KEYWORDS = st.sampled_from(["dim", "keepdim", "dtype", "bias", "approximate", "inplace", "alpha"])
_TARGETS = st.sampled_from(
    (
        *sorted({spelling.target for row in OPERATORS for spelling in row.spellings}),
        *("relu_", "torch.mm", "f", "len", "range", "T", "shape", "item"),
    )
)


def _expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    dotted = _TARGETS.filter(lambda text: text.replace(".", "").isidentifier())
    method = dotted.filter(lambda text: "." not in text)
    arguments = st.lists(
        st.one_of(inner, st.tuples(_KEYWORDS, inner).map("=".join), inner.map("*{}".format)),
        max_size=3,
    ).map(", ".join)
    symbol = st.sampled_from(
        ("+", "-", "*", "/", "@", "%", "**", "//", "<", "==", "and", "or", "is", "in", "<<", "&")
    )
    return st.one_of(
        st.tuples(dotted, arguments).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(inner, method, arguments).map(lambda p: f"({p[0]}).{p[1]}({p[2]})"),
        st.tuples(inner, method).map(lambda p: f"({p[0]}).{p[1]}"),
        st.tuples(inner, symbol, inner).map(lambda p: f"({' '.join(p)})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(_NAMES, inner).map(lambda p: f"({p[0]} := {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}:, None]"),
        inner.map("-({})".format),
        inner.map("(lambda x: {})".format),
        inner.map("[{} for i in x]".format),
        inner.map("(\n{}  # note\n)".format),
        inner.map("(yield {})".format),
    )


_EXPRESSION = st.recursive(st.one_of(_NAMES, _NAMES, _LITERALS), _expressions, max_leaves=6)


def _blocks(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    heads = st.one_of(
        _EXPRESSION.map("if {}:".format),
        _EXPRESSION.map("while {}:".format),
        st.tuples(_NAMES, _EXPRESSION).map(lambda p: f"for {p[0]} in {p[1]}:"),
        st.tuples(_EXPRESSION, _NAMES).map(lambda p: f"with {p[0]} as {p[1]}:"),
        st.tuples(_NAMES, _ANNOTATIONS).map(lambda p: f"def {p[0]}(x: {p[1] or 'int'}):"),
        _NAMES.map("class {}:".format),
        st.just("try:"),
        _EXPRESSION.map("match {}:".format),
    )

    def block(parts: tuple[str, list[str], list[str]]) -> list[str]:
        head, body, other = parts
        lines = [head, *(f"    {line}" for line in body)]
        if head.startswith("match"):
            lines = [head, "    case [x, *_]:", *(f"        {line}" for line in body)]
        elif head.startswith("try"):
            lines += ["except* ValueError as h:", *(f"    {line}" for line in other)]
        elif head.startswith(("if", "while", "for")) and len(other) % 2:
            lines += ["else:", *(f"    {line}" for line in other)]
        return lines

    return st.tuples(heads, inner, inner).map(block)


_STATEMENT = st.one_of(
    st.tuples(_NAMES, _EXPRESSION).map(" = ".join),
    st.tuples(_NAMES, _NAMES, _EXPRESSION).map(lambda p: f"{p[0]}, {p[1]} = {p[2]}"),
    st.tuples(_NAMES, _EXPRESSION).map(lambda p: f"{p[0]} += {p[1]}"),
    st.tuples(_NAMES, _ANNOTATIONS.filter(bool), _EXPRESSION).map(
        lambda p: f"{p[0]}: {p[1]} = {p[2]}"
    ),
    _EXPRESSION,
    _EXPRESSION.map("return {}".format),
    _EXPRESSION.map("assert {}".format),
    _EXPRESSION.map("raise {}".format),
    _NAMES.map("del {}".format),
    _NAMES.map("global {}".format),
    _NAMES.map("import torch.nn as {}".format),
    st.sampled_from(["pass", "return", "'''doc'''", "x.data = y", "x[0] = y", "pass; pass"]),
)
_BODY = st.recursive(
    st.lists(_STATEMENT, min_size=1, max_size=4),
    lambda inner: st.tuples(inner, _blocks(inner), inner).map(lambda p: [*p[0], *p[1], *p[2]]),
    max_leaves=4,
)


def _function(parts: tuple[str, str, str, str, list[str]]) -> str:
    name, first, second, result, body = parts
    head = f"def {name}(x{first and ': ' + first}, y: {second or 'int'} = 1, *n)"
    lines = [f"{head}{result and ' -> ' + result}:", *(f"    {line}" for line in body)]
    return "\n".join(lines)


_FUNCTION = st.tuples(_NAMES, _ANNOTATIONS, _ANNOTATIONS, _ANNOTATIONS, _BODY).map(_function)
_EXAMPLES = [example_module(form.example) for form in FORMS]


@st.composite
def _changed(draw: st.DrawFn) -> str:
    """An example of the table of forms with a piece exchanged: often no Python at all."""
    source = draw(st.sampled_from(_EXAMPLES))
    begin = draw(st.integers(0, len(source)))
    end = draw(st.integers(begin, min(begin + 12, len(source))))
    other = draw(st.one_of(_EXPRESSION, st.text(max_size=4), _STATEMENT.map("\n    {}\n".format)))
    return source[:begin] + other + source[end:]


_SOURCES = st.one_of(
    st.lists(_FUNCTION | _STATEMENT, min_size=1, max_size=3).map(
        lambda parts: "\n\n".join([HEADER, *parts]) + "\n"
    ),
    _changed(),
)


def _assert_in_file(span: Span, file: SourceFile) -> None:
    lines = file.lines
    assert 1 <= span.line <= span.end_line <= len(lines), span
    assert 1 <= span.column <= len(lines[span.line - 1]) + 1, span
    assert 1 <= span.end_column <= len(lines[span.end_line - 1]) + 1, span
    assert (span.line, span.column) <= (span.end_line, span.end_column)


@settings(max_examples=examples(150), deadline=None)
@given(_SOURCES, st.sampled_from(["\n", "\r\n"]))
def test_any_source(source: str, newline: str) -> None:
    text = source.replace("\n", newline).encode("utf-8", errors="surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.py"
        path.write_bytes(text)
        try:
            file = SourceFile(path, "m")
        except UnreadableError:
            return
        found = []
        for function in file.functions():
            found.append(function.node)
            facts = infer(file, function)
            for form in FORMS:
                found += form.detect(facts) if form.detect is not None else ()
            found += [node for node, _ in facts.rejections]
            found += [site.node for site in facts.sites]
        for form in FORMS:
            found += form.detect_in_file(file) if form.detect_in_file is not None else ()
        for node in found:
            _assert_in_file(file.span(node), file)
            file.slice(file.span(node))
