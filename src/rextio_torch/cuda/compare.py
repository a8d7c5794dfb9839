"""Run the candidate beside the same chain in eager PyTorch, and say how they differ.

`python -m rextio_torch.cuda.compare` is started by the harness in a process of its own, with the
built module on its path, and prints one JSON object.
"""

from __future__ import annotations

import importlib
import json
import math
import platform
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch

Chain: TypeAlias = "Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]"

#: Rows of x, its columns, columns of the weight.
SHAPES = ((1, 1, 1), (4, 3, 5), (64, 128, 32), (257, 33, 17), (512, 1024, 1024), (0, 3, 4))
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 1e-40)


def inputs(device: str) -> Iterator[tuple[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
    """Yield what to call the chain with, each with a name."""
    import torch

    generator = torch.Generator().manual_seed(0)
    for rows, inner, columns in SHAPES:
        x, weight, bias = (
            torch.randn(size, generator=generator).to(device)
            for size in ((rows, inner), (inner, columns), (columns,))
        )
        name = f"{rows}x{inner} @ {inner}x{columns}"
        yield name, (x, weight, bias)
        yield f"{name}, strided", (x.t().contiguous().t(), weight[:, ::2], bias[::2])
    special = x.new_tensor([list(SPECIAL)] * 3)
    yield "special values", (special, x.new_ones(5, 4), x.new_tensor([0.5, -0.0, math.nan, 1.0]))


def measure(native: Chain, eager: Chain, device: str) -> list[dict[str, Any]]:
    """Return how the results differ, for every input."""
    import torch

    found = []
    for name, arguments in inputs(device):
        with torch.no_grad():
            expected = eager(*arguments)
        got = native(*arguments)
        same_kind = (got.device, got.dtype, got.shape) == (
            expected.device,
            expected.dtype,
            expected.shape,
        )
        bits_equal = same_kind and torch.equal(got.view(torch.int32), expected.view(torch.int32))
        difference = (got - expected).abs().nan_to_num(0.0) if same_kind else None
        largest = float(difference.max()) if difference is not None and difference.numel() else 0.0
        found.append(
            {
                "case": name,
                "device": str(got.device),
                "same_kind": same_kind,
                "bit_equal": bits_equal,
                "same_nan": same_kind and torch.equal(got.isnan(), expected.isnan()),
                "largest_difference": largest,
            }
        )
    return found


def refusals(native: Chain) -> list[dict[str, Any]]:
    """Return what happens with CPU tensors and with shapes that do not fit."""
    import torch

    x = torch.ones(2, 3, device="cuda:0")
    weight, bias = x.new_ones(3, 4), x.new_ones(4)
    wrong: list[tuple[str, type[Exception], tuple[torch.Tensor, ...]]] = [
        ("a CPU tensor", ValueError, (x, weight.cpu(), bias)),
        ("float64", ValueError, (x.double(), weight, bias)),
        ("rank 1", ValueError, (x, weight, x)),
        ("shapes that do not fit", RuntimeError, (x, x, bias)),
    ]
    found = []
    for what, expected, arguments in wrong:
        try:
            native(*arguments)
        except Exception as error:
            refused = type(error) is expected
            found.append({"case": what, "refused": refused, "error": str(error)})
        else:
            found.append({"case": what, "refused": False, "error": None})
    return found


def kernels(function: Chain, arguments: tuple[torch.Tensor, ...]) -> dict[str, int]:
    """Return what ran on the device during a call, copies included, and how often."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    function(*arguments)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        function(*arguments)
        torch.cuda.synchronize()
    on_device = (event.name for event in profiler.events() if event.device_type.name == "CUDA")
    return dict(Counter(on_device))


def transfers(found: dict[str, int]) -> list[str]:
    """Return what in a profile moves data between the host and devices, or between devices."""
    return [name for name in found if name.startswith("Memcpy") and "DtoD" not in name]


def report(native: Chain, eager: Chain) -> dict[str, Any]:
    """Return everything that was measured on `cuda:0`, and whether it is as it should be."""
    import torch

    cases = measure(native, eager, "cuda:0")
    refused = refusals(native)
    _, arguments = next(item for item in inputs("cuda:0") if item[0].startswith("64x"))
    ran, ran_eager = kernels(native, arguments), kernels(eager, arguments)
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": {
            "name": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "memory": properties.total_memory,
        },
        "runtime": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        },
        "cases": cases,
        "refusals": refused,
        "kernels": {"native": ran, "eager": ran_eager},
        "checks": {
            "bit-equal to eager on every input": all(case["bit_equal"] for case in cases),
            "results on cuda:0": all(case["device"] == "cuda:0" for case in cases),
            "other inputs are refused": all(item["refused"] for item in refused),
            "kernels ran on the device": bool(ran),
            "nothing was copied to or from the device": not transfers(ran),
        },
    }


def main() -> None:
    """Print the report of the built module on the path."""
    import torch  # noqa: F401  (a native module finds libtorch in the process)

    from rextio_torch.cuda import chain as source
    from rextio_torch.runtime.native import native

    built = importlib.import_module("chain")
    print(json.dumps(report(native(built.chain), source.chain)))


if __name__ == "__main__":
    main()
