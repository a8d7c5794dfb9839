"""Similarity and retrieval over embeddings."""

from jaxtyping import Float32, Int64
from torch import Tensor, matmul

from serving.common import unit_rows


def cosine_matrix(
    queries: Float32[Tensor, "q d"], documents: Float32[Tensor, "n d"], eps: Float32[Tensor, "1"]
) -> Float32[Tensor, "q n"]:
    return unit_rows(queries, eps) @ unit_rows(documents, eps).T


def squared_distances(
    x: Float32[Tensor, "n d"], y: Float32[Tensor, "m d"], ones: Float32[Tensor, "n d"]
) -> Float32[Tensor, "n m"]:
    """Squared Euclidean distances, by the expanded square."""
    xx = (x**2).sum(dim=1, keepdim=True)
    yy = ones @ (y**2).T
    xy = x @ y.T
    return xx + yy - (xy + xy)


def nearest_centroid(
    x: Float32[Tensor, "n d"], centroids: Float32[Tensor, "k d"], half: Float32[Tensor, "1"]
) -> Int64[Tensor, "n"]:
    bias = half * (centroids * centroids).sum(1)
    return (x @ centroids.T - bias).argmax(dim=1)


def soft_assignment(
    x: Float32[Tensor, "n d"], centroids: Float32[Tensor, "k d"], beta: Float32[Tensor, "1"]
) -> Float32[Tensor, "n k"]:
    """Soft clusters."""
    affinity = matmul(x, centroids.t())
    return (beta * affinity).softmax(dim=-1)


def late_interaction(
    query: Float32[Tensor, "q d"], document: Float32[Tensor, "t d"], sharpness: Float32[Tensor, "1"]
) -> Float32[Tensor, "q"]:
    """A soft maximum over the document's tokens for each token of the query."""
    sim = query @ document.T
    attn = (sim * sharpness).softmax(dim=1)
    return (attn * sim).sum(dim=1)


def query_expansion(
    query: Float32[Tensor, "d"], feedback: Float32[Tensor, "n d"], beta: Float32[Tensor, "1"]
) -> Float32[Tensor, "d"]:
    centroid = feedback.mean(dim=0)
    query = query + beta * centroid
    return query / (query**2).sum(0, keepdim=True).sqrt()


def mean_embedding(
    tokens: Float32[Tensor, "t d"], weights: Float32[Tensor, "t"], eps: Float32[Tensor, "1"]
) -> Float32[Tensor, "d"]:
    """Weighted mean of token embeddings."""
    total = weights @ tokens
    norm = weights.abs().sum(dim=0, keepdim=True)
    return total / (norm + eps)


def k_means_step(
    x: Float32[Tensor, "n d"], centroids: Float32[Tensor, "k d"], iterations: int = 1
) -> Float32[Tensor, "n d"]:
    y = x
    for step in range(iterations):
        assign = (y @ centroids.T).softmax(dim=-1)
        pulled = assign @ centroids
        y = pulled if step > 0 else y + pulled
    return y.contiguous().tanh()
