"""Shape rules: the sizes of a result from the sizes of the operands.

Each rule takes the operator's name, the operands' shapes (`None` for an optional operand left
out) and the options, and returns the result's shape or raises `ShapeError` with the class and the
text that the native function raises. `rxt_core::shape` in the Rust runtime states once more the
rules that can fail; the native tests compare class and text of every error sample.
"""

from __future__ import annotations

from collections.abc import Sequence

from rextio_torch.ops.model import Options, Shape, ShapeError

Shapes = tuple[Shape | None, ...]


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _present(shapes: Shapes) -> list[Shape]:
    return [shape for shape in shapes if shape is not None]


def same(op: str, shapes: Shapes, options: Options) -> Shape:
    """Return the shape of the only operand."""
    (shape,) = _present(shapes)
    return shape


def broadcast(op: str, shapes: Shapes, options: Options) -> Shape:
    """Return the broadcast of two shapes, aligned at the last dimension."""
    left, right = _present(shapes)
    rank = max(len(left), len(right))
    result: list[int] = []
    for a, b in zip(_padded(left, rank), _padded(right, rank), strict=True):
        if a != b and 1 not in (a, b):
            raise ShapeError(
                f"{op}: shapes {_text(left)} and {_text(right)} cannot be broadcast together: "
                f"sizes {a} and {b} differ and neither is 1"
            )
        result.append(b if a == 1 else a)
    return tuple(result)


def broadcast_in_place(op: str, shapes: Shapes, options: Options) -> Shape:
    """As `broadcast`, where the result takes the place of the first operand and has its shape."""
    left, right = _present(shapes)
    result = broadcast(op, shapes, options)
    if result != left:
        raise ShapeError(
            f"{op}: shapes {_text(left)} and {_text(right)} give {_text(result)}, but an in-place "
            f"result has the shape of the first operand"
        )
    return result


def _padded(shape: Shape, rank: int) -> Sequence[int]:
    return (1,) * (rank - len(shape)) + shape


def matmul(op: str, shapes: Shapes, options: Options) -> Shape:
    """Return the shape of a matrix product of ranks 2x2, 2x1 or 1x2."""
    left, right = _present(shapes)
    inner = right[0] if len(right) == 1 else right[-2]
    if left[-1] != inner:
        raise ShapeError(
            f"{op}: shapes {_text(left)} and {_text(right)} cannot be multiplied: "
            f"inner sizes {left[-1]} and {inner} differ"
        )
    return left[:-1] + right[-1:] if len(right) == 2 else left[:-1]


def linear(op: str, shapes: Shapes, options: Options) -> Shape:
    """Return the shape of `input @ weight.T + bias`: [n, in], [out, in], [out] -> [n, out]."""
    input_, weight, bias = shapes
    assert input_ is not None
    assert weight is not None
    if input_[-1] != weight[-1]:
        raise ShapeError(
            f"{op}: input of shape {_text(input_)} and weight of shape {_text(weight)} do not "
            f"fit: last sizes {input_[-1]} and {weight[-1]} differ"
        )
    # Eager broadcasts a bias of one value over all outputs.
    if bias is not None and bias[0] not in (weight[0], 1):
        raise ShapeError(
            f"{op}: bias of shape {_text(bias)} does not fit weight of shape {_text(weight)}: "
            f"expected {weight[0]} values"
        )
    return (*input_[:-1], weight[0])


def reduce(op: str, shapes: Shapes, options: Options) -> Shape:
    """Return the shape with dimension `dim` removed, or of size 1 with `keepdim`."""
    (shape,) = _present(shapes)
    dim = options["dim"]
    assert isinstance(dim, int)
    kept = (1,) if options["keepdim"] else ()
    return shape[:dim] + kept + shape[dim + 1 :]


def reduce_nonempty(op: str, shapes: Shapes, options: Options) -> Shape:
    """As `reduce`, for reductions without a value for an empty dimension.

    Eager raises `IndexError` if the reduced dimension has size 0.
    """
    (shape,) = _present(shapes)
    dim = options["dim"]
    assert isinstance(dim, int)
    if shape[dim] == 0:
        raise ShapeError(
            f"{op}: dimension {dim} of shape {_text(shape)} is empty and has no result",
            exception="IndexError",
        )
    return reduce(op, shapes, options)
