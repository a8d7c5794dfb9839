"""Handwritten digits: train in eager PyTorch, build the inference natively, compare both.

Run `make demo` at the root of the repository, or this file in an environment that has
`rextio-torch[examples]`. Exits with 1 if a function of `inference/` is not native or a prediction
differs.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

PROJECT = Path(__file__).parent / "inference"


def load_data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return training and test images [n, 64] in [0, 1] and their labels [n]."""
    digits = load_digits()
    parts = train_test_split(digits.data / 16.0, digits.target, test_size=0.3, random_state=0)
    train_images, test_images = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    train_labels, test_labels = (torch.tensor(part, dtype=torch.int64) for part in parts[2:])
    return train_images, test_images, train_labels, test_labels


def train(images: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    """Train a 64-128-64-10 perceptron; return weights and biases in the order of use."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 64), torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def build() -> list[dict[str, object]]:
    """Build the inference functions natively; return the build's report of each function."""
    command = [sys.executable, "-m", "rextio_torch.cli"]
    subprocess.run([*command, "init", str(PROJECT)], check=True)
    # Progress goes to the terminal (standard error), the report to standard output.
    done = subprocess.run(
        [*command, "build", str(PROJECT), "--json"], check=False, stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        sys.exit(f"the build failed:\n{done.stdout}")
    functions: list[dict[str, object]] = json.loads(done.stdout)["functions"]
    return functions


def load_eager() -> ModuleType:
    """Import the source file itself: the same functions in eager PyTorch."""
    spec = importlib.util.spec_from_file_location("eager_digits", PROJECT / "digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_native() -> ModuleType:
    """Import the built module; in native mode it refuses to fall back to Python."""
    os.environ["REXTIO_NATIVE_MODE"] = "native"
    sys.path.insert(0, str(PROJECT / ".rextio" / "build" / "python"))
    return importlib.import_module("digits")


def microseconds(
    functions: Sequence[Callable[..., object]], arguments: Sequence[torch.Tensor]
) -> list[float]:
    """Return the median time of a call of each function in µs, measured in turns."""
    timers = [timeit.Timer(lambda f=function: f(*arguments)) for function in functions]
    count = max(1, timers[0].autorange()[0] // 20)
    rounds = [[timer.timeit(count) / count * 1e6 for timer in timers] for _ in range(31)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def main() -> int:
    """Train, build, compare and time; return the exit status."""
    train_images, images, train_labels, labels = load_data()
    print(f"training on {len(train_images)} images …", flush=True)
    weights = train(train_images, train_labels)

    report = build()
    for entry in report:
        print(f"{'native' if entry['native'] else 'PYTHON'}  {entry['qualname']}")
    all_native = bool(report) and all(entry["native"] for entry in report)

    eager, native = load_eager(), load_native()
    with torch.no_grad():
        eager_classes = eager.classify(images, *weights)
        eager_probabilities = eager.probabilities(images, *weights)
    native_classes = native.classify(images, *weights)
    native_probabilities = native.probabilities(images, *weights)

    different = int((native_classes != eager_classes).sum())
    largest = float((native_probabilities - eager_probabilities).abs().max())
    print(f"test images: {len(images)}")
    for name, classes in (("eager", eager_classes), ("native", native_classes)):
        print(f"accuracy, {name}: {float((classes == labels).float().mean()):.4f}")
    print(f"predictions that differ: {different}")
    print(f"largest difference of a probability: {largest:.3g}")

    print("µs per call           eager   native")
    with torch.no_grad():
        for name in ("probabilities", "classify"):
            for batch in (1, 256):
                arguments = [images[:batch], *weights]
                functions = [getattr(module, name) for module in (eager, native)]
                times = microseconds(functions, arguments)
                print(f"{name:13} {batch:5} {times[0]:8.1f} {times[1]:8.1f}")
    return 0 if all_native and different == 0 and largest < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
