"""Runs functions and their normal forms side by side in eager Python."""

from __future__ import annotations

import copy
import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from rextio_torch.normalize.project import NormalFile, normalize_files
from rextio_torch.syntax.files import module_name, parse_files


@dataclass(frozen=True)
class Outcome:
    """What a call gives: a value or the class of an exception, and what became of the inputs."""

    value: object
    raises: str | None
    arguments: Sequence[object]

    @property
    def shares(self) -> set[int]:
        """Which arguments the result has its memory in common with, by their positions."""
        results = self.value if isinstance(self.value, tuple) else (self.value,)
        memory = {
            item.untyped_storage().data_ptr() for item in results if isinstance(item, torch.Tensor)
        } - {0}
        return {
            index
            for index, item in enumerate(self.arguments)
            if isinstance(item, torch.Tensor) and item.untyped_storage().data_ptr() in memory
        }

    def same_as(self, other: Outcome) -> bool:
        """Compare bit by bit; NaNs count by their bits too."""
        return (
            self.raises == other.raises
            and _same(self.value, other.value)
            and all(map(_same, self.arguments, other.arguments))
        )


def _same(one: object, two: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        if one.shape != two.shape or one.dtype != two.dtype:
            return False
        if one.dtype == torch.float32:
            one, two = one.contiguous().view(torch.int32), two.contiguous().view(torch.int32)
        return torch.equal(one, two)
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return type(one) is type(two) and one == two


def outcome(function: Callable[..., object], arguments: Iterable[object]) -> Outcome:
    """Call a function with copies of the arguments, random numbers begun anew."""
    given = [copy.deepcopy(argument) for argument in arguments]
    # Not `torch.manual_seed`, which writes down a stack for each kind of device.
    torch.default_generator.manual_seed(0)
    try:
        with torch.no_grad():
            value = function(*given)
    except Exception as error:
        return Outcome(None, type(error).__name__, given)
    return Outcome(value, None, given)


def normalise(sources: dict[str, str]) -> dict[str, NormalFile]:
    """Normalise a project, given as its files by their names."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in sources.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        modules = {path: module_name(path, root) for path in root.rglob("*.py")}
        found = normalize_files(parse_files(modules).values())
        return {normal.file.path.relative_to(root).as_posix(): normal for normal in found}


def load(text: str) -> ModuleType:
    """Run a module's text."""
    name = f"_loaded_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def both(source: str) -> tuple[ModuleType, ModuleType, NormalFile]:
    """Return a module, its normal form as a module, and what became of it."""
    normal = normalise({"module.py": source})["module.py"]
    original, staged, loaded = load(source), load(normal.text), load(source)
    for name, value in vars(loaded).items():
        # What is left out for Rextio is what the source says.
        if vars(staged).get(name, value) is None:
            setattr(staged, name, value)
    return original, staged, normal
