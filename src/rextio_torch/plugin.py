"""The face towards Rextio: plugin API 1.7, every answer derived from the operator table."""

from __future__ import annotations

from rextio.plugins import api
from rextio.plugins.api import (
    ClaimResult,
    ClaimSite,
    CoverageDecl,
    CrateDependency,
    LoweredExpr,
    LoweringContext,
    PluginFunctionScopeContext,
    PluginFunctionScopeGuard,
    PluginType,
    RuleRecord,
)

from rextio_torch.analysis.decide import Call, CudaRejection, decide
from rextio_torch.cuda import candidate
from rextio_torch.derive import records
from rextio_torch.lowering import emit
from rextio_torch.ops.tensor_types import ALL_TYPES
from rextio_torch.runtime.loader import helpers
from rextio_torch.versions import (
    PLUGIN_API_VERSION,
    PLUGIN_ID,
    TCH_VERSION,
    __version__,
    plugin_api_fits,
)


def require_plugin_api(host: str) -> None:
    """Raise `RuntimeError` unless this plugin fits the host's plugin API."""
    if not plugin_api_fits(host):
        raise RuntimeError(
            f"{PLUGIN_ID} {__version__} needs Rextio plugin API {PLUGIN_API_VERSION} (same major, "
            f"at least this minor), but the installed Rextio has {host}; install a matching rextio"
        )


class TorchPlugin:
    """Rextio's view of this package; see `rextio.plugins.api` for what each member promises."""

    plugin_id = PLUGIN_ID
    api_version = PLUGIN_API_VERSION

    def to_rextio_plugin(self) -> dict[str, object]:
        """Return the metadata of the plugin."""
        return {
            "id": PLUGIN_ID,
            "name": "PyTorch inference",
            "target_language": "rust",
            "packages": list(self.covers().packages),
        }

    def covers(self) -> CoverageDecl:
        """Return the packages, modules and symbols that claims may come from."""
        return records.coverage()

    def describe(self, config: object) -> tuple[RuleRecord, ...]:
        """Return a record for each claiming rule and each diagnostic code."""
        return records.rule_records()

    def type_vocabulary(self) -> tuple[PluginType, ...]:
        """Return the tensor types of `rextio_torch.types`, and those of the CUDA candidate.

        A type without a marker has no conversion: its values never leave a native function.
        """
        return tuple(
            PluginType(
                key=tensor_type.key,
                annotations=() if tensor_type.after else (tensor_type.dotted_marker,),
                rust_type="rxt_torch::Tensor",
                conversion=None if tensor_type.after else emit.conversion(tensor_type),
                helpers=helpers(),
                device_value_metadata=candidate.device_metadata(tensor_type),
            )
            for tensor_type in ALL_TYPES
        )

    def claim(self, site: ClaimSite, config: object) -> ClaimResult:
        """Return whether a site is claimed, rejected with a diagnostic, or not covered."""
        decision = decide(site)
        if decision is None:
            return api.NotCovered()
        if isinstance(decision, CudaRejection):
            return api.Rejected(records.cuda_rejection(candidate.OUTSIDE, decision.reason))
        if isinstance(decision, Call):
            # Asked where a chain ends: without the types of its first steps Rextio passes over the
            # rest of the function in silence, and nobody would read why.
            ends = decision.on_cuda and decision.signature.result.after is None
            reason = candidate.why_not(config) if ends else None
            if reason is not None:
                return api.Rejected(records.cuda_rejection(candidate.NOT_AUTHORISED, reason))
            return api.Claimed(
                rule_id=records.rule_id(
                    decision.operator, decision.spelling.site_kind, on_cuda=decision.on_cuda
                ),
                result_type=decision.signature.result.key,
            )
        return api.Rejected(records.rejection_diagnostic(decision.operator, decision.reason))

    def lower(self, claimed: ClaimSite, ctx: object) -> LoweredExpr:
        """Return the Rust of a claimed site; `ValueError` if it is not what was claimed."""
        if not isinstance(ctx, LoweringContext):
            raise ValueError(f"expected a LoweringContext, got {type(ctx).__name__}")
        return emit.lower(claimed, ctx)

    def crate_dependencies(self) -> tuple[CrateDependency, ...]:
        """Return the crates that generated code needs, with exact pins."""
        return (CrateDependency("tch", f"={TCH_VERSION}", ("python-extension",)),)

    def function_scope_guard(
        self, ctx: PluginFunctionScopeContext
    ) -> PluginFunctionScopeGuard | None:
        """Return the guard of a native function, or `None` where each operation guards itself.

        A function that calls back into Python has no function scope: the callback must see the
        caller's grad mode. Nor has one that holds no operation.
        """
        if (
            ctx.backend != api.LOWERING_BACKEND_PYO3
            or ctx.has_python_boundary_calls
            or not ctx.used_rule_ids
        ):
            return None
        return emit.function_scope()


def plugin() -> TorchPlugin:
    """Entry point: return the plugin.

    Raises `RuntimeError` if the installed Rextio has another plugin API.
    """
    require_plugin_api(api.PLUGIN_API_VERSION)
    return TorchPlugin()
