"""Marker types at run time: inert names."""

from __future__ import annotations

import importlib
from typing import get_type_hints

import pytest

from rextio_torch import types
from rextio_torch.ops.tensor_types import ALL_TYPES
from rextio_torch.plugin import TorchPlugin


@pytest.mark.parametrize("name", types.__all__)
def test_a_marker_is_an_inert_class(name: str) -> None:
    marker = getattr(types, name)
    assert isinstance(marker, type)
    assert marker.__mro__ == (marker, object)
    assert marker.__module__ == "rextio_torch.types"
    assert [key for key in vars(marker) if not key.startswith("__")] == []


def test_annotated_functions_are_untouched() -> None:
    def f(x: types.TensorF32Cpu2D) -> types.TensorF32Cpu1D:
        return x

    value = object()
    assert f(value) is value
    assert get_type_hints(f) == {"x": types.TensorF32Cpu2D, "return": types.TensorF32Cpu1D}


def test_annotations_of_the_vocabulary_exist() -> None:
    """Rextio resolves an annotation by its dotted name; Python must find the same name."""
    names = {name for item in TorchPlugin().type_vocabulary() for name in item.annotations}
    assert len(names) == len([item for item in ALL_TYPES if item.after is None])
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type)
