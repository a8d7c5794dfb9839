"""What stands in the place of several examples."""

RELU = """\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
"""
BRANCHES = """\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 0:
        return x.relu()
    return x.tanh()
"""
TANH_LOOP = """\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(n):
        h = h.tanh()
    return h
"""
