"""From a sequence of vectors to one vector, or to one number for each."""

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D

TOKENS = 0
CHANNELS = 1


def mean_pool(tokens: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return torch.mean(tokens, TOKENS)


def masked_mean(tokens: TensorF32Cpu2D, mask: TensorF32Cpu1D) -> TensorF32Cpu1D:
    """Mean over the tokens that a mask of zeros and ones keeps."""
    total = mask @ tokens
    count = mask.sum(dim=-1, keepdim=True)
    return total / count


def attention_pool(tokens: TensorF32Cpu2D, query: TensorF32Cpu1D) -> TensorF32Cpu1D:
    """Mean with learned weights."""
    weights = torch.softmax(tokens @ query, dim=TOKENS)
    return weights @ tokens


def power_mean(tokens: TensorF32Cpu2D, squares: int = 1) -> TensorF32Cpu1D:
    x = tokens.abs()
    for _ in range(squares):
        x = x**2
    x = x.mean(dim=TOKENS)
    for _ in range(squares):
        x = x**0.5
    return x


def log_sum_exp_pool(tokens: TensorF32Cpu2D) -> TensorF32Cpu1D:
    """Smooth maximum over tokens."""
    return tokens.exp().sum(dim=TOKENS).log()


def statistics_pool(tokens: TensorF32Cpu2D, weight: TensorF32Cpu1D) -> TensorF32Cpu1D:
    mean: TensorF32Cpu1D = tokens.mean(dim=TOKENS, keepdim=False)
    deviation: TensorF32Cpu1D = torch.square(tokens - mean).mean(dim=TOKENS).sqrt()
    return mean + weight * deviation


def channel_energy(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    """Energy of each row over its channels."""
    x = x.square()
    x = x.mean(CHANNELS)
    x = x.sqrt()
    return x


def pool(
    tokens: TensorF32Cpu2D, query: TensorF32Cpu1D, kind: int = 0, normalize: bool = True
) -> TensorF32Cpu1D:
    """Pool in one of three ways."""
    if kind == 0:
        pooled = tokens.mean(0)
    elif kind == 1:
        pooled = tokens.sum(0)
    else:
        pooled = attention_pool(tokens, query)
    if normalize:
        pooled = pooled / (pooled * pooled).sum(dim=0, keepdim=True).sqrt()
    return pooled
