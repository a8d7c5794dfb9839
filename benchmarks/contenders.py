"""Titles of the contenders, for pages and plots: known without importing any of them."""

from __future__ import annotations

from collections.abc import Mapping

#: Contenders that take weights as inputs, in the order of the tables.
INPUTS: Mapping[str, str] = {
    "eager": "eager",
    "inference": "inference mode",
    "compile": "compile",
    "compile-static": "compile static",
    "aoti": "AOTI",
    "aoti-run": "AOTI runner",
    "ort": "ORT",
    "ort-bound": "ORT bound",
    "libtorch": "libtorch engine",
    "fused-wrapper": "fused, wrapper",
    "fused-direct": "fused, direct",
}
#: Contenders that hold weights as constants.
CONSTANTS: Mapping[str, str] = {
    "compile-constants": "compile, module",
    "compile-frozen": "compile, frozen",
    "aoti-constants": "AOTI runner",
    "aoti-frozen": "AOTI runner, frozen",
    "ort-constants": "ORT",
    "ort-bound-constants": "ORT bound",
}
#: They do less than a call of ours, so the best peer is chosen without them.
BOUND = ("ort-bound", "ort-bound-constants")
#: This project's own.
OURS = ("libtorch", "fused-wrapper", "fused-direct")
#: Those among which the best peer is chosen.
RIVALS = tuple(key for key in (*INPUTS, *CONSTANTS) if key not in (*BOUND, *OURS))
LIMITS: Mapping[str, str] = {"limit-memory": "memory", "limit-peak": "FMA peak"}
TITLES: Mapping[str, str] = {
    **INPUTS,
    **{key: f"{title}, weights held" for key, title in CONSTANTS.items()},
    **LIMITS,
}
EXPLANATIONS: Mapping[str, str] = {
    "eager": "eager PyTorch, the reference",
    "inference mode": "eager under `torch.inference_mode()`, entered once around the calls",
    "compile": "`torch.compile(f)`, one compiled function for all sizes of a program",
    "compile static": "`torch.compile(f, dynamic=False)`, compiled for the size; both under "
    "`inference_mode`, which makes them a little faster",
    "AOTI": "AOTInductor: `torch.export`, `aoti_compile_and_package`, called as "
    "`aoti_load_package` returns it",
    "AOTI runner": "the same package through its `loader.run`, without the Python around it",
    "ORT": "ONNX Runtime's `session.run` on numpy arrays that share the tensors' memory",
    "ORT bound": "ONNX Runtime with inputs and output bound once: every call writes into the same "
    "memory. That is less than a call of ours does, so it is shown but the best peer is chosen "
    "without it",
    "libtorch engine": "this project, operation by operation through libtorch, without Rextio's "
    "Python wrapper",
    "fused, wrapper": "this project's fused engine, called through Rextio's Python wrapper",
    "fused, direct": "the fused engine, called as `rextio_torch.native(f)`",
}
