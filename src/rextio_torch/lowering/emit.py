"""The Rust text of a claimed site, of a type's boundary conversion and of the function scope.

All of it calls into the runtime crate (`rextio_torch/runtime/rust`); no Rust is written here
beyond one expression each.
"""

from __future__ import annotations

import os

from rextio.plugins.api import (
    LOWERING_BACKEND_PYO3,
    BoundaryConversion,
    ClaimSite,
    LoweredExpr,
    LoweringContext,
    PluginFunctionScopeGuard,
)

from rextio_torch import platforms
from rextio_torch.analysis.decide import Call, decide
from rextio_torch.cuda import candidate
from rextio_torch.derive.records import rule_id
from rextio_torch.ops.model import OptionValue
from rextio_torch.ops.tensor_types import TensorType
from rextio_torch.runtime.loader import helpers
from rextio_torch.versions import BYPASS_VARIABLE, TORCH_VERSION


def lower(site: ClaimSite, context: LoweringContext) -> LoweredExpr:
    """Return the expression for a site that was claimed before.

    Raises `ValueError` if the site is no longer what was claimed, or the backend is not the
    PyO3 one, or the device provider does not permit a CUDA site, and `RuntimeError` if this host is
    not supported or tch's version check is switched off.
    """
    platforms.require_supported()
    if BYPASS_VARIABLE in os.environ:
        raise RuntimeError(
            f"{BYPASS_VARIABLE} is set: generated code links torch {TORCH_VERSION} and no other "
            f"version; unset {BYPASS_VARIABLE}"
        )
    if context.target_language != "rust" or context.backend != LOWERING_BACKEND_PYO3:
        raise ValueError(
            f"tensor code exists for Rust with the {LOWERING_BACKEND_PYO3!r} backend, not for "
            f"{context.target_language!r} with {context.backend!r}"
        )
    call = decide(site)
    if not isinstance(call, Call):
        raise ValueError(f"site {site.target!r} was claimed but is not in the operator table")
    if call.on_cuda:
        candidate.require_authorization(context.device_authorization)
    expected = (
        rule_id(call.operator, call.spelling.site_kind, on_cuda=call.on_cuda),
        call.signature.result.key,
    )
    if (site.rule_id, site.result_type) != expected:
        raise ValueError(
            f"site {site.target!r} was claimed as {(site.rule_id, site.result_type)}, "
            f"now it is {expected}"
        )
    return LoweredExpr(rust=_call_expression(call, site, context), helpers=helpers())


def _call_expression(call: Call, site: ClaimSite, context: LoweringContext) -> str:
    rendered = list(context.operands)
    if site.receiver is not None:
        if context.receiver is None:
            raise ValueError(f"method {site.target!r} has no rendered receiver")
        rendered.insert(0, context.receiver)
    scope = "Function" if context.function_scope_guard_active else "Operation"
    arguments = [f"rxt_torch::Scope::{scope}"]
    for parameter, index in zip(call.operator.tensor_parameters, call.operands, strict=True):
        if index is None:
            arguments.append("None")
        elif parameter.optional:
            arguments.append(f"Some(&{rendered[index]})")
        else:
            arguments.append(f"&{rendered[index]}")
    arguments += [
        _literal(call.options[parameter.name]) for parameter in call.operator.runtime_options
    ]
    return f"rxt_torch::ops::{call.operator.id}({', '.join(arguments)})?"


def _literal(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{"".join(map(_character, value))}"'
    raise ValueError(f"no Rust literal for {value!r}")


def _character(character: str) -> str:
    """Return a character as it stands in a Rust string literal."""
    plain = character.isascii() and character.isprintable() and character not in '"\\'
    return character if plain else f"\\u{{{ord(character):x}}}"


def conversion(tensor_type: TensorType) -> BoundaryConversion:
    """Return how a tensor crosses between Python and the native function."""
    constructor = {"cpu": "new", "cuda0": "on_cuda0"}[tensor_type.device]
    rust_type = (
        f'rxt_torch::TensorType::{constructor}("{tensor_type.marker}", '
        f"rxt_torch::Kind::{tensor_type.rust_kind}, {tensor_type.rank})"
    )
    return BoundaryConversion(
        param_rust="pyo3::Bound<'py, pyo3::PyAny>",
        param_expr=f'rxt_torch::boundary::input(&{{param}}, "{{param}}", {rust_type})?',
        return_rust="rxt_torch::Output<'py>",
        return_expr="rxt_torch::boundary::output(py, {value})?",
    )


def function_scope() -> PluginFunctionScopeGuard:
    """Return the guard of a whole native function: no autograd, no autocast."""
    return PluginFunctionScopeGuard(rust="rxt_torch::FunctionScope::enter()", helpers=helpers())
