"""Programs that eager PyTorch runs in another form than the typed source, to its advantage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch


def chain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Run the chain as one expression.

    The typed dialect needs two named intermediates. In eager PyTorch a name keeps the memory of
    its tensor from being used again, which makes large sizes slower.
    """
    return (((a + b) * a).tanh().exp() - b).sigmoid() * a


#: By name of the program; all other programs run as they are written in `sources/`.
EAGER_FORMS: Mapping[str, Callable[..., torch.Tensor]] = {"chain": chain}
