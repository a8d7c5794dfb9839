"""What the plugin knows about the CUDA candidate: device facts, permission, diagnostics.

Its operations are in the operator table (`Operator.cuda`). A project asks for it by naming the
device provider in rextio.toml; Rextio resolves that provider before it generates code and hands
its permission to each lowering.
"""

from __future__ import annotations

from rextio.artifacts.models import RuntimeRequirement
from rextio.plugins.api import DeviceLoweringAuthorization, DeviceValueMetadata

from rextio_torch import platforms
from rextio_torch.ops.model import Diagnostic
from rextio_torch.ops.tensor_types import CUDA_2D, CUDA_TYPES, TensorType
from rextio_torch.versions import DEVICE_CAPABILITY, DEVICE_PROVIDER, TCH_VERSION, TORCH_VERSION

#: What every description of the candidate carries.
CLAIMS = {"support_claim": False, "certification_ready": False}
CLAIMS_TEXT = "support_claim=false, certification_ready=false"

NOT_AUTHORISED = Diagnostic(
    code="RXTP-TORCH-901",
    why=(
        "CUDA tensors have a build-only candidate, which is generated on Linux x86_64 for a "
        f"project that names its device provider ({CLAIMS_TEXT})."
    ),
    example="r.mean(dim=1)  # the end of the chain, without a device provider",
    instead=(
        f'device_provider = "{DEVICE_PROVIDER}"  # and device_capability = "{DEVICE_CAPABILITY}", '
        "in [target] of rextio.toml"
    ),
)
OUTSIDE = Diagnostic(
    code="RXTP-TORCH-902",
    why=(
        "On CUDA tensors there is one build-only chain of named intermediates, rank 2 @ rank 2, "
        "+ rank 1, .relu(), .mean(dim=1), and nothing else: no transfers, no mixing with CPU "
        f"tensors ({CLAIMS_TEXT})."
    ),
    example="x.softmax(dim=1)  # x: TensorF32Cuda0_2D",
    instead="h = x @ w  # then b = h + bias, r = b.relu(), return r.mean(dim=1)",
)
DIAGNOSTICS = (NOT_AUTHORISED, OUTSIDE)


def device_metadata(tensor_type: TensorType) -> DeviceValueMetadata | None:
    """Return the device facts of a type; none for the CPU, where Rextio needs none.

    They are the ones that the provider's capability asks for, to the letter.
    """
    if tensor_type.device == "cpu":
        return None
    return DeviceValueMetadata(
        logical_device="gpu:0",
        backend="cuda",
        dtype=tensor_type.dtype,
        rank=tensor_type.rank,
        layout="strided",
        runtime="libtorch",
        runtime_version=TORCH_VERSION,
        reuse_domain_runtime=True,
        features=("inference", "no-grad"),
        memory_spaces=("device",),
        runtime_requirements=(
            RuntimeRequirement("libtorch", TORCH_VERSION, ("cuda", "pytorch-wheel")),
            RuntimeRequirement("tch", TCH_VERSION, ("cuda",)),
        ),
    )


def why_not(config: object) -> str | None:
    """Return why this project may not claim the candidate, or `None` if it may."""
    host = platforms.lookup()
    if not host.cuda_candidate:
        return f"there is no CUDA candidate for {host.system} {host.machine}"
    target = getattr(config, "target", None)
    chosen = (getattr(target, "device_provider", None), getattr(target, "device_capability", None))
    if chosen == (None, None):
        return "no device provider is chosen"
    if chosen != (DEVICE_PROVIDER, DEVICE_CAPABILITY):
        return f"the device provider is {chosen[0]!r} with {chosen[1]!r}, which is another one"
    return None


def require_authorization(authorization: DeviceLoweringAuthorization | None) -> None:
    """Raise `ValueError` unless the provider permits this code, and `RuntimeError` elsewhere.

    Rextio checks the device facts against the permission; which provider and capability gave it
    is for the plugin to check.
    """
    host = platforms.lookup()
    if not host.cuda_candidate:
        raise RuntimeError(f"there is no CUDA candidate for {host.system} {host.machine}")
    wanted = (DEVICE_PROVIDER, DEVICE_CAPABILITY)
    given = authorization and (authorization.provider_id, authorization.capability_id)
    if authorization is None or given != wanted:
        raise ValueError(
            f"CUDA code needs the permission of {wanted[0]} for {wanted[1]}, got {given}"
        )
    metadata = device_metadata(CUDA_2D)
    if metadata is None or not authorization.authorizes(metadata):
        raise ValueError(f"the permission of {wanted[0]} is for another device than cuda:0")


def type_labels() -> str:
    """Return the names of the types that a signature can have."""
    return " | ".join(item.marker for item in CUDA_TYPES if item.after is None)
