"""Mistakes in the front end, each with the property test that must fail."""

from __future__ import annotations

from tools.mutation.model import Mutation

_TESTS = "tests/torch/test_normalize.py::"
_TRUST = "tests/torch/test_module_level.py::test_a_name_that_may_be_something_else_is_not_trusted"


def _row(mistake: str, path: str, test: str, text: str, wrong: str) -> Mutation:
    """Return a row; `test` is the id of a form, or the name of a test, there or in another file."""
    if "::" not in test:
        test = _TESTS + (test if test.startswith("test_") else f"test_rewrite[{test}]")
    return Mutation("normalise", mistake, f"normalize/{path}.py", text, wrong, test)


FRONT_END = (
    _row(
        "a unary minus is dropped", "equivalents", "unary_minus",
        'Equivalent("unary", "-", «"neg"»', '"identity"',
    ),
    _row(
        "a root becomes a square", "equivalents", "power",
        '*_power(0.5, «"sqrt"»)', '"square"',
    ),
    _row(
        "any exponent is two", "equivalents", "test_what_an_equivalent_refuses_stays",
        "return «bool(exponent == number)»", "True",
    ),
    _row(
        "alpha is ignored", "equivalents", "test_what_an_equivalent_refuses_stays",
        "return type(alpha) in (int, float) and «bool(alpha == 1)»", "True",
    ),
    _row(
        "dropout in training is nothing", "equivalents", "test_what_an_equivalent_refuses_stays",
        "«training is False» and type(p) in (int, float)", "True",
    ),
    _row(
        "a tensor of detach is nobody else's", "equivalents", "test_equivalent",
        '"Tensor.cpu",\n        fresh=«False»', "True",
    ),
    _row(
        "a power of an int has a factor more", "values", "power",
        "[left.code] * «power»", "(power + 1)",
    ),
    _row(
        "a linear layer takes its operands the other way round", "values", "attribute",
        "«[operands[0], operands[1].transposed]»", "[operands[1].transposed, operands[0]]",
    ),
    _row(
        "operands of an operator are swapped", "values", "unknown_function",
        "codes = «[value.code for value in operands]»", "[value.code for value in operands][::-1]",
    ),
    _row(
        "a negative dimension counts from the last but one", "arguments", "keyword",
        "return «value + rank»", "value + rank - 1",
    ),
    _row(
        "keywords are bound by position", "arguments", "keyword",
        "name = positional[index] if «item.keyword is None» else item.keyword",
        "index < len(positional)",
    ),
    _row(
        "the bias of a linear layer is dropped", "arguments", "keyword",
        "        types.append(kind)\n        «operands.append(found)»",
        "operands.append(found if len(operands) < 2 else None)",
    ),
    _row(
        "+= forgets the shape", "values", "augmented_tensor",
        "other = None if row is None else row[0].«in_place»", "id",
    ),
    _row(
        "a second name is no second owner", "function", "test_what_stays_computes_the_same",
        "state.env[var] = replace(state.env[var], fresh=«False»)", "True",
    ),
    _row(
        "a parameter is nobody else's", "signature", "test_what_stays_computes_the_same",
        "Bound(name, kind, parameter=«found is not None»)",
        "found is not None, fresh=True",
    ),
    _row(
        "what a loop shares is only shared after it", "function",
        "test_what_stays_computes_the_same",
        "head.env[var] = replace(head.env[var], fresh=«False»)", "True",
    ),
    _row(
        "what one branch shares is not shared after it", "function",
        "test_what_stays_computes_the_same",
        "fresh=first.fresh «and» second.fresh", "or",
    ),
    _row(
        "branches are swapped where one is empty", "function", "pass_statement",
        'negated = "if «not »" + test.operand', "",
    ),
    _row(
        "branches are swapped where the rest is written twice", "function", "first_in_block",
        "then = self.run((*statement.«body», *rest)", "orelse",
    ),
    _row(
        "branches of a conditional expression are swapped", "body", "conditional_expression",
        "{**given, found: «body»}), build, until)", "orelse",
    ),
    _row(
        "a tuple is assigned without temporaries", "body", "tuple_unpacking",
        "if «var in later»:", "False",
    ),
    _row(
        "a starred target is a plain one", "body", "test_what_stays_computes_the_same",
        "if «starred or »len(variables)", "",
    ),
    _row(
        "results of a call are assigned without temporaries", "exits", "tensor_function",
        "if «any(var in later.reads() for later in statement.values[index + 1 :])»:", "False",
    ),
    _row(
        "arguments are bound in the order of the parameters", "body", "tensor_function",
        "name = positional[index].name.value if «item.keyword is None» else item.keyword.value",
        "index < len(positional)",
    ),
    _row(
        "a parameter that changes stands for the caller's variable", "body", "tensor_function",
        "elif «name not in changed and »var is not None:", "",
    ),
    _row(
        "a parameter that changes is the caller's literal", "body", "tensor_function",
        "if «name not in changed and »constant is not None:", "",
    ),
    _row(
        "a default is left out", "body", "tensor_function",
        "frame.literals[name] = constant.value\n        return",
        "pass\n        return",
    ),
    _row(
        "what follows a return in a branch is lost", "exits", "tensor_function",
        "self.of((*orelse, «*rest»))", "*rest[1:]",
    ),
    _row(
        "what is computed before a part is computed after it", "body", "assignment_expression",
        "if «self.computes(expr, node) or reassigns(found, node)»:", "self.computes(expr, node)",
    ),
    _row(
        "several targets are one", "body", "several_targets",
        "for var, name in zip(variables[1:], names[1:], strict=True)",
        "for var, name in zip(variables[2:], names[2:], strict=True)",
    ),
    _row(
        "else of a loop runs before it", "body", "loop_else",
        "return (*«self.lists(loop), *after»)", "after, *self.lists(loop)",
    ),
    _row(
        "a loop reads nothing again", "statements", "test_what_stays_computes_the_same",
        "found = again | («live(loop.body, Ways(again, after, again))» - target)", "frozenset()",
    ),
    _row(
        "both branches read what the first does", "statements", "first_in_block",
        "live(body, inner) | live(«orelse», inner)", "body",
    ),
    _row(
        "+= does not read what it changes", "statements", "augmented_tensor",
        "now |= {«target, »*value.reads()}", "",
    ),
    _row(
        "a name keeps its place with another type", "function", "changed_type",
        "if home is not None and («home[1] == value.type» or", "True",
    ),
    _row(
        "a constant that is assigned again is a constant", "bindings", "test_constants",
        "if «len(values) > 1»}", "False",
    ),
    _row(
        "is not None is is None", "function", "none_test",
        "return «is_none == isinstance(operator, cst.Is)»", "is_none",
    ),
    _row(
        "a name that a block binds is trusted", "module_level", _TRUST,
        "lines = «\"\".join(f\"{name} = None\\n\" for name in dict.fromkeys(_bound(item)))»", '""',
    ),
    _row(
        "a name that a function binds is trusted", "module_level", _TRUST,
        "for it in bindings(file).names if «f\"{file.module}.{it}\" in elsewhere»)",
        "False",
    ),
    _row(
        "names that are bound by text are trusted", "module_level", _TRUST,
        "trusted = «not file.names.stars and not binds_by_text(file)»", "True",
    ),
)  # fmt: skip
