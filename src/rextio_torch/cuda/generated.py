"""Read the generated Rust of the candidate: what it calls, and whether anything can move a tensor.

The text is what is compiled, runtime included. Nothing is loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rextio_torch.ops.table import OPERATORS
from rextio_torch.ops.tensor_types import CUDA_2D

#: Methods of `tch::Tensor` that copy a tensor or take a device to put it on; with `f_` or not.
_MOVING_METHODS = (
    "copy", "copy_", "copy_data", "cpu", "cuda", "internal_copy_from", "internal_to_copy",
    "pin_memory", "set_data", "to", "to_", "to_dense", "to_device", "to_device_", "to_dtype",
    "to_dtype_layout", "to_kind", "to_mkldnn", "to_other", "to_prim_device", "type_as",
)  # fmt: skip
_MOVING = re.compile(rf"(?:(?:\.|::)\s*|\bf_)(?:f_)?(?:{'|'.join(_MOVING_METHODS)})\s*\(")
#: The one function of the runtime that copies: values of a lazy CPU input, for the fused engine,
#: which these lines of `rxt_torch/boundary.rs` keep other devices out of.
CPU_ONLY = "materialise"
_CPU_GUARD = ("let on_cpu = expected.device == tch::Device::Cpu;", "let fused = on_cpu && ")

_CALL = re.compile(r"(?P<path>[A-Za-z_][\w:]*)\s*\(")
_FUNCTION = re.compile(r"\bfn (?P<name>\w+)")
#: Comments, characters and strings, of which the last may hold anything.
_NOT_CODE = re.compile(r"""//[^\n]*|'(?:\\.|[^'\\\n])'|"(?:\\.|[^"\\])*\"""", re.S)

#: What a generated function may call besides the four operations.
_FRAME = frozenset(
    {
        "rxt_torch::boundary::input",
        "rxt_torch::TensorType::on_cuda0",
        "rxt_torch::FunctionScope::enter",
        "std::mem::drop",
        "rxt_torch::boundary::output",
        "Ok",
    }
)


@dataclass(frozen=True)
class Move:
    """A call that copies a tensor or could move it to another device."""

    function: str
    line: str
    cpu_only: bool

    def to_dict(self) -> dict[str, str]:
        """Return the move as JSON-ready data."""
        return {"function": self.function, "line": self.line}


def operations() -> list[str]:
    """Return what the candidate calls in Rust, in order: by the types that follow each other."""
    steps = {
        row.cuda.signature.operands[0]: (row.id, row.cuda.signature.result)
        for row in OPERATORS
        if row.cuda is not None
    }
    ordered = []
    step = steps.get(CUDA_2D)
    while step is not None:
        ordered.append(f"rxt_torch::ops::{step[0]}")
        step = steps.get(step[1])
    return ordered


def generated_function(crate: str, name: str) -> str:
    """Return the text of a generated function, or raise `ValueError` if there is none."""
    match = re.search(rf"^fn {name}\b.*?^\}}$", crate, re.M | re.S)
    if match is None:
        raise ValueError(f"the generated crate has no function {name}")
    return match[0]


def calls(function: str) -> list[str]:
    """Return what a generated function calls, in order, without its own name."""
    _, _, body = function.partition("{\n")
    return [match["path"] for match in _CALL.finditer(body)]


def unexpected_calls(function: str) -> list[str]:
    """Return the calls that the candidate has no business to make."""
    allowed = _FRAME | set(operations())
    return [path for path in calls(function) if path not in allowed]


def moves(crate: str) -> list[Move]:
    """Return every call in the whole crate that copies a tensor or could move it."""
    text = _NOT_CODE.sub("''", crate)
    guarded = all(line in text for line in _CPU_GUARD)
    found = []
    for match in _MOVING.finditer(text):
        names = _FUNCTION.findall(text, 0, match.start())
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start : text.find("\n", match.start())].strip()
        name = names[-1] if names else ""
        found.append(Move(name, line, name == CPU_ONLY and guarded))
    return found
