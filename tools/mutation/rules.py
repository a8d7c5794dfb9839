"""Mistakes in what is claimed, each with the unit tests that must fail."""

from __future__ import annotations

from tools.mutation.model import Mutation

_DECIDE = "tests/unit/test_decide.py::"
_CUDA = "tests/unit/test_cuda.py::"
_RECORDS = "tests/unit/test_records.py::test_records_say_what_is_accepted"


def _row(mistake: str, path: str, test: str, text: str, wrong: str) -> Mutation:
    return Mutation("claims", mistake, path, text, wrong, test)


RULES = (
    _row(
        "an operand of any rank is accepted", "ops/model.py", _DECIDE + "test_rejected",
        "if «signature.operands == operands» and all(",
        "[o and o.dtype for o in signature.operands] == [o and o.dtype for o in operands]",
    ),
    _row(
        "an operand of any dtype is accepted", "ops/model.py", _DECIDE + "test_rejected",
        "if «signature.operands == operands» and all(",
        "[o and o.rank for o in signature.operands] == [o and o.rank for o in operands]",
    ),
    _row(
        "an optional tensor need not fit", "ops/model.py", _DECIDE + "test_rejected",
        "if «signature.operands == operands» and all(",
        "signature.operands[:2] == operands[:2]",
    ),
    _row(
        "options are not compared", "ops/model.py", _DECIDE + "test_rejected",
        "same_literal(options[parameter.name], value)", "True",
    ),
    _row(
        "True counts as 1", "ops/model.py", _DECIDE + "test_rejected",
        "type(left) is type(right) and left == right", "left == right",
    ),
    _row(
        "an option of one spelling may have any value", "analysis/decide.py",
        _DECIDE + "test_rejected",
        "_require_one_of(parameter, options.pop(parameter.name), (parameter.default,))",
        "options.pop(parameter.name)",
    ),
    _row(
        "an unknown keyword is ignored", "analysis/decide.py", _DECIDE + "test_rejected",
        "if keyword.name not in by_name:\n            "
        "«raise _Unsupported(f\"`{keyword.name}=` is not supported\")»",
        "continue",
    ),
    _row(
        "the keyword of a parameter given twice wins", "analysis/decide.py",
        _DECIDE + "test_rejected",
        "if «keyword.name in bound»:", "False",
    ),
    _row(
        "a surplus argument is ignored", "analysis/decide.py", _DECIDE + "test_rejected",
        "if «len(arguments) > len(positional)»:", "False",
    ),
    _row(
        "a keyword-only option is accepted by position", "analysis/decide.py",
        _DECIDE + "test_rejected",
        "positional = «[parameter for parameter in parameters if parameter.positional]»",
        "list(parameters)",
    ),
    _row(
        "a value known only at run time counts as None", "analysis/decide.py",
        _DECIDE + "test_reasons",
        "if «not argument.literal.is_literal»:\n        how", "False",
    ),
    _row(
        "a function passed by keyword is overlooked", "analysis/decide.py",
        _DECIDE + "test_not_covered",
        "if «site.callables or» any(", "",
    ),
    _row(
        "a keyword known only at run time is judged", "analysis/decide.py",
        _DECIDE + "test_not_covered",
        "any(«not keyword.literal.is_literal» for keyword in site.keywords)", "False",
    ),
    _row(
        "an operand of another plugin is judged", "analysis/decide.py",
        _DECIDE + "test_not_covered",
        "any(«_is_foreign(argument.type_key)» for argument in arguments)", "False",
    ),
    _row(
        "a receiver of any type is judged", "analysis/decide.py", _DECIDE + "test_not_covered",
        "if «site.receiver.arg_type not in TYPES_BY_KEY»:", "site.receiver.arg_type is None",
    ),
    _row(
        "a comparison counts as a call", "analysis/decide.py", _DECIDE + "test_not_covered",
        "if «site.kind != \"call\"»:", "False",
    ),
    _row(
        "a method is looked up as a function", "analysis/decide.py", _DECIDE + "test_accepted",
        "(\"«method»\", site.target.rpartition", "function",
    ),
    _row(
        "pointwise rows accept int64", "ops/pointwise.py", _RECORDS,
        "Signature((F32_1D,), F32_1D))", "Signature((F32_1D,), F32_1D), "
        "Signature((__import__('rextio_torch.ops.tensor_types', fromlist=['x']).I64_1D,), F32_1D))",
    ),
    _row(
        "linear accepts a bias of rank 2", "ops/products.py", _RECORDS,
        "Signature((F32_2D, F32_2D, F32_1D), F32_2D)",
        "Signature((F32_2D, F32_2D, F32_1D), F32_2D), Signature((F32_2D,) * 3, F32_2D)",
    ),
    _row(
        "softmax accepts a negative dim", "ops/reduction.py", _RECORDS,
        "Signature((F32_2D,), F32_2D, {\"dim\": «(0, 1)»}),", "(0, 1, -1)",
    ),
    _row(
        "gelu accepts tanh's approximation", "ops/pointwise.py", _RECORDS,
        "signatures=«_SIGNATURES»,",
        "tuple(Signature(s.operands, s.result, {o.name: ('none', 'tanh') for o in options}) "
        "for s in _SIGNATURES)",
    ),
    _row(
        "relu accepts inplace=True", "ops/pointwise.py",
        "tests/unit/test_records.py::test_diagnostic_of_a_row",
        "option(\"inplace\", «False»)", "True",
    ),
    _row(
        "another spelling of a step is claimed on CUDA tensors", "analysis/decide.py",
        _CUDA + "test_everything_else_is_rejected",
        "or form is None or «spelling != form.spelling»:", "False",
    ),
    _row(
        "an intermediate on CUDA needs no name", "analysis/decide.py",
        _CUDA + "test_everything_else_is_rejected",
        "if «not _operands_are_names(site)»:", "False",
    ),
    _row(
        "the chain on CUDA needs no permission", "plugin.py",
        _CUDA + "test_without_permission_the_chain_is_rejected",
        "candidate.why_not(config) if «ends» else None", "False",
    ),
    _row(
        "relu on CUDA may follow the product", "ops/pointwise.py",
        _CUDA + "test_everything_else_is_rejected",
        "Signature((«AFTER_ADD»,), AFTER_RELU)", "type(AFTER_ADD)('float32', 'cuda0', 2, 'matmul')",
    ),
    _row(
        "code for CUDA needs no permission", "lowering/emit.py",
        _CUDA + "test_no_lowering_without_permission",
        "if «call.on_cuda»:", "False",
    ),
)  # fmt: skip
