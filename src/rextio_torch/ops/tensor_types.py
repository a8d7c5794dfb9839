"""The tensor types of the surface: dtypes, devices, ranks, and what each is called.

A type is a row here and a marker of the same name in `rextio_torch.types`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class _Dtype:
    """What a dtype is called: in keys and markers, in Rust (`tch::Kind`), in jaxtyping."""

    code: str
    rust: str
    jaxtyping: str
    is_floating: bool


_DTYPES = {
    "float32": _Dtype("f32", "Float", "Float32", is_floating=True),
    "int64": _Dtype("i64", "Int64", "Int64", is_floating=False),
}


@dataclass(frozen=True)
class TensorType:
    """A tensor type of the surface: dtype, device and rank, never sizes.

    `after` names the operator of the CUDA candidate whose result it is. Such a type has no marker
    that a signature could name: it exists between two lines of one function only, so that types
    alone say in which order the candidate's operations follow each other.
    """

    dtype: Literal["float32", "int64"]
    device: Literal["cpu", "cuda0"]
    rank: int
    after: str | None = None

    @property
    def is_floating(self) -> bool:
        """Whether its elements have a fraction, NaN and infinities."""
        return _DTYPES[self.dtype].is_floating

    @property
    def rust_kind(self) -> str:
        """Name of the dtype in Rust, a variant of `tch::Kind`."""
        return _DTYPES[self.dtype].rust

    @property
    def jaxtyping(self) -> str:
        """Name of the dtype in jaxtyping, e.g. `Float32`."""
        return _DTYPES[self.dtype].jaxtyping

    @property
    def key(self) -> str:
        """Rextio's key of the type, e.g. `rextio-torch/tensor-f32-cpu-2d`."""
        stage = f"-after-{self.after}" if self.after else ""
        return f"rextio-torch/tensor-{_DTYPES[self.dtype].code}-{self.device}-{self.rank}d{stage}"

    @property
    def marker(self) -> str:
        """Name in `rextio_torch.types`, e.g. `TensorF32Cpu2D` or `TensorF32Cuda0_2D`."""
        device = {"cpu": "Cpu", "cuda0": "Cuda0_"}[self.device]
        return f"Tensor{_DTYPES[self.dtype].code.upper()}{device}{self.rank}D"

    @property
    def dotted_marker(self) -> str:
        """Dotted name of the marker."""
        return f"rextio_torch.types.{self.marker}"

    @property
    def label(self) -> str:
        """The type as messages name it."""
        return f"{self.marker} after {self.after}" if self.after else self.marker


F32_1D = TensorType("float32", "cpu", 1)
F32_2D = TensorType("float32", "cpu", 2)
I64_1D = TensorType("int64", "cpu", 1)
TENSOR_TYPES = (F32_1D, F32_2D, I64_1D)

#: The build-only CUDA candidate: what comes in and goes out, and what stands between its lines.
CUDA_1D = TensorType("float32", "cuda0", 1)
CUDA_2D = TensorType("float32", "cuda0", 2)
CUDA_TYPES = (
    CUDA_1D,
    CUDA_2D,
    AFTER_MATMUL := TensorType("float32", "cuda0", 2, after="matmul"),
    AFTER_ADD := TensorType("float32", "cuda0", 2, after="add"),
    AFTER_RELU := TensorType("float32", "cuda0", 2, after="relu"),
)
ALL_TYPES = (*TENSOR_TYPES, *CUDA_TYPES)
TYPES_BY_KEY = {tensor_type.key: tensor_type for tensor_type in ALL_TYPES}
#: The types that a signature can name, by the dotted name of their marker.
TYPES_BY_MARKER = {item.dotted_marker: item for item in ALL_TYPES if item.after is None}


def cpu_type(dtype: str, rank: int) -> TensorType | None:
    """Return the CPU type of a dtype and a rank, if the surface has it."""
    found = (item for item in TENSOR_TYPES if (item.dtype, item.rank) == (dtype, rank))
    return next(found, None)


def dtypes_and_ranks() -> str:
    """Return what the CPU has in words: each dtype with its ranks."""
    ranks: dict[str, list[int]] = {}
    for item in TENSOR_TYPES:
        ranks.setdefault(item.dtype, []).append(item.rank)
    return ", ".join(
        f"{dtype} of rank {' or '.join(map(str, sorted(found)))}" for dtype, found in ranks.items()
    )
