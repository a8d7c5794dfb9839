"""Attention over a set of keys, one head at a time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float32, Int64

from serving.common import moments


def scaled_dot_product(
    q: Float32[torch.Tensor, "queries dim"],
    k: Float32[torch.Tensor, "keys dim"],
    v: Float32[torch.Tensor, "keys value"],
    scale: Float32[torch.Tensor, "1"],
) -> Float32[torch.Tensor, "queries value"]:
    """Plain attention."""
    scores = q @ k.T
    scores = scores * scale
    return torch.softmax(scores, dim=-1) @ v


def masked_attention(
    q: Float32[torch.Tensor, "queries dim"],
    k: Float32[torch.Tensor, "keys dim"],
    v: Float32[torch.Tensor, "keys value"],
    mask: Float32[torch.Tensor, "queries keys"],
    scale: Float32[torch.Tensor, "1"],
) -> Float32[torch.Tensor, "queries value"]:
    attn = (q @ k.t() * scale + mask).softmax(dim=-1)
    attn = F.dropout(attn, p=0.1, training=False)
    return attn @ v


def additive_attention(
    query: Float32[torch.Tensor, "dim"],
    keys: Float32[torch.Tensor, "keys dim"],
    w_query: Float32[torch.Tensor, "dim hidden"],
    w_key: Float32[torch.Tensor, "dim hidden"],
    v: Float32[torch.Tensor, "hidden"],
) -> Float32[torch.Tensor, "keys"]:
    """Bahdanau's score of each key for one query."""
    hidden = torch.tanh(keys @ w_key + query @ w_query)
    return (hidden @ v).softmax(0)


def attention_entropy(
    q: Float32[torch.Tensor, "queries dim"],
    k: Float32[torch.Tensor, "keys dim"],
) -> Float32[torch.Tensor, "queries"]:
    p = F.softmax(q @ k.T, dim=1)
    return -(p * p.log()).sum(dim=1)


def hard_attention(
    q: Float32[torch.Tensor, "queries dim"],
    k: Float32[torch.Tensor, "keys dim"],
) -> Int64[torch.Tensor, "queries"]:
    """The key that each query attends to most."""
    return torch.argmax(torch.mm(q, k.t()), dim=-1)


def linear_attention(
    q: Float32[torch.Tensor, "queries dim"],
    k: Float32[torch.Tensor, "keys dim"],
    v: Float32[torch.Tensor, "keys value"],
    eps: Float32[torch.Tensor, "1"],
) -> Float32[torch.Tensor, "queries value"]:
    """Attention with a positive feature map instead of a softmax."""
    q, k = q.sigmoid(), k.sigmoid()
    weights = q @ k.T
    norm = weights.sum(dim=-1, keepdim=True) + eps
    return (weights / norm) @ v


def cosine_attention(
    q: Float32[torch.Tensor, "queries dim"],
    k: Float32[torch.Tensor, "keys dim"],
    v: Float32[torch.Tensor, "keys value"],
    temperature: Float32[torch.Tensor, "1"],
) -> Float32[torch.Tensor, "queries value"]:
    q = q / q.square().sum(dim=-1, keepdim=True).sqrt()
    k = k / k.square().sum(dim=-1, keepdim=True).sqrt()
    return ((q @ k.T) / temperature).softmax(dim=-1).matmul(v)


def pre_norm_feed_forward(
    x: Float32[torch.Tensor, "tokens dim"],
    gain: Float32[torch.Tensor, "dim"],
    bias: Float32[torch.Tensor, "dim"],
    eps: Float32[torch.Tensor, "1"],
    w_in: Float32[torch.Tensor, "hidden dim"],
    b_in: Float32[torch.Tensor, "hidden"],
    w_out: Float32[torch.Tensor, "dim hidden"],
    b_out: Float32[torch.Tensor, "dim"],
) -> Float32[torch.Tensor, "tokens dim"]:
    """The feed-forward half of a transformer block."""
    residual = x
    mean, var = moments(x)
    x = (x - mean) / torch.sqrt(var + eps)
    x = x * gain + bias
    x = F.gelu(F.linear(x, w_in, b_in), approximate="none")
    x = F.linear(x, w_out, b_out)
    x = F.dropout(x, 0.1, training=False)
    return residual + x


def iterative_refinement(
    q: Float32[torch.Tensor, "queries dim"],
    memory: Float32[torch.Tensor, "keys dim"],
    hops: int = 2,
) -> Float32[torch.Tensor, "queries dim"]:
    for _ in range(hops):
        read = (q @ memory.T).softmax(dim=-1) @ memory
        q = q + read
    return q.tanh()
