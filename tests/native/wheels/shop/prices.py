import rextio

from rextio_torch import types as kinds


def doubled(x: kinds.TensorF32Cpu2D) -> kinds.TensorF32Cpu2D:
    y = x + x
    return y.relu()


@rextio.native
def total(values: list[int]) -> int:
    s = 0
    for v in values:
        s = s + v
    return s


@rextio.native
def named(x: kinds.TensorF32Cpu2D, names: dict[str, int]) -> int:
    """Doc."""
    assert x is not None
    return len(names)
