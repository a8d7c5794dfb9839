"""The functions of tests/corpus: inputs for each, and how each is expected to run.

The corpus is code in the ordinary style of inference services, written for these tests. Its share
of native functions says how much of such code the plugin reaches.
"""

from __future__ import annotations

import ast
import importlib
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch

PROJECT = Path(__file__).parent.parent / "corpus" / "project"
PACKAGE = "serving"

#: Sizes that the arguments of a function are made for: one row, some, many, none.
SIZES: tuple[Mapping[str, int], ...] = (
    {"b": 1, "d": 8, "h": 6, "k": 3, "m": 5},
    {"b": 5, "d": 7, "h": 4, "k": 2, "m": 9},
    {"b": 64, "d": 16, "h": 32, "k": 10, "m": 33},
    {"b": 0, "d": 8, "h": 6, "k": 3, "m": 5},
)

NATIVE = "native"
#: Returns a tuple of tensors, which no native function does; part of the functions that call it.
INLINED = "inlined"

Scalar = int | float | bool
Value = torch.Tensor | Scalar


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: its dimensions by name, and how its elements are made."""

    dims: str
    make: Callable[[tuple[int, ...], torch.Generator], torch.Tensor]

    def value(self, sizes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
        """Return the tensor for these sizes."""
        return self.make(tuple(sizes[name] for name in self.dims.split()), generator)


@dataclass(frozen=True)
class Choice:
    """A scalar argument: the values that it takes."""

    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Case:
    """A function of the corpus."""

    #: Module and name, without the package.
    name: str
    arguments: tuple[Tensor | Choice, ...]
    #: `native`, `inlined`, or the id of the form that keeps it on Python.
    outcome: str = NATIVE

    @property
    def function(self) -> Callable[..., object]:
        """The function in eager Python."""
        module, name = self.name.split(".")
        found: Callable[..., object] = getattr(eager_module(module), name)
        return found

    def inputs(self) -> Iterator[tuple[Value, ...]]:
        """Make the arguments for all sizes and all values of the scalars, always the same."""
        choices = [part.values for part in self.arguments if isinstance(part, Choice)]
        for number, sizes in enumerate(SIZES):
            for chosen in product(*choices):
                seed = zlib.crc32(f"{self.name} {number}".encode())
                generator = torch.Generator().manual_seed(seed)
                scalars = iter(chosen)
                yield tuple(
                    next(scalars) if isinstance(part, Choice) else part.value(sizes, generator)
                    for part in self.arguments
                )


def eager_module(name: str) -> object:
    """Import a module of the corpus's sources."""
    sys.path.insert(0, str(PROJECT))
    try:
        return importlib.import_module(f"{PACKAGE}.{name}")
    finally:
        sys.path.remove(str(PROJECT))


def written_functions() -> set[str]:
    """Return the names of all functions in the sources of the corpus."""
    return {
        f"{path.stem}.{node.name}"
        for path in (PROJECT / PACKAGE).glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def normal(dims: str) -> Tensor:
    """Normal values."""
    return Tensor(dims, lambda shape, generator: torch.randn(shape, generator=generator))


def weight(dims: str) -> Tensor:
    """Normal values of a third of the size."""
    return Tensor(dims, lambda shape, generator: torch.randn(shape, generator=generator) / 3)


def positive(dims: str) -> Tensor:
    """Values between 0.1 and 1.1."""
    return Tensor(dims, lambda shape, generator: torch.rand(shape, generator=generator) + 0.1)


def distribution(dims: str) -> Tensor:
    """Values that sum to one along the last dimension."""
    return Tensor(
        dims, lambda shape, generator: torch.randn(shape, generator=generator).softmax(dim=-1)
    )


def one_hot(dims: str) -> Tensor:
    """Rows with a single one."""

    def make(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        labels = torch.randint(shape[1], shape[:1], generator=generator)
        return torch.nn.functional.one_hot(labels, shape[1]).to(torch.float32)

    return Tensor(dims, make)


def filled(dims: str, number: float) -> Tensor:
    """The same number everywhere."""
    return Tensor(dims, lambda shape, generator: torch.full(shape, number))


def number(value: float) -> Tensor:
    """A tensor of one element, as learned scalars are kept."""
    return Tensor("", lambda shape, generator: torch.tensor([value]))


def among(*values: Scalar) -> Choice:
    """A scalar that takes each of these values."""
    return Choice(values)


FLAG = among(False, True)
EPS = number(1e-5)
HALF = number(0.5)
ONE = number(1.0)
TEMPERATURE = number(1.7)
X = normal("b d")
BIAS = normal("k")
LOGITS = normal("b k")
PROBS = distribution("b k")
TARGET = one_hot("b k")
FEATURE = normal("d")
QUERIES, KEYS, VALUES = normal("b d"), normal("m d"), normal("m h")
LAYERS = (weight("h d"), weight("h"), weight("k h"), weight("k"))
TOKENS = X


def case(name: str, *arguments: Tensor | Choice, outcome: str = NATIVE) -> Case:
    """Return a row of the table."""
    return Case(name, arguments, outcome)


CASES: tuple[Case, ...] = (
    case("common.center", X),
    case("common.row_norm", X),
    case("common.unit_rows", X, EPS),
    case("common.moments", X, outcome=INLINED),
    case("common.halves", X, weight("d h"), weight("d h"), outcome=INLINED),
    case("scoring.linear_score", X, FEATURE, number(0.3)),
    case("scoring.click_probability", X, FEATURE, number(-0.2)),
    case("scoring.ranking_scores", X, KEYS, normal("m")),
    case("scoring.best_item", X, KEYS),
    case("scoring.pairwise_margin", X, X, FEATURE),
    case("scoring.factorization_machine", X, FEATURE, weight("d h"), HALF),
    case("scoring.wide_and_deep", X, LOGITS, FEATURE, weight("h k"), weight("h"), weight("h")),
    case("scoring.standardized_scores", X, FEATURE),
    case("scoring.boosted_scores", X, FEATURE, number(0.4), number(0.2), FLAG, FLAG),
    case("scoring.bradley_terry", normal("b"), normal("b")),
    case("scoring.bilinear_score", X, weight("d h"), normal("b h")),
    case("calibration.temperature_scale", LOGITS, TEMPERATURE),
    case("calibration.platt_scale", normal("b"), number(1.3), number(-0.4)),
    case("calibration.vector_scale", LOGITS, BIAS, BIAS),
    case("calibration.matrix_scale", LOGITS, weight("k k"), BIAS),
    case(
        "calibration.beta_calibration",
        positive("b"),
        positive("b"),
        number(1.1),
        number(0.9),
        number(0.1),
    ),
    case("calibration.log_odds", PROBS, positive("b k")),
    case("calibration.prior_shift", PROBS, distribution("k"), distribution("k")),
    case("calibration.log_softmax", LOGITS),
    case("calibration.annealed", LOGITS, TEMPERATURE, number(0.8), among(0, 1, 4)),
    case("calibration.calibrated_label", LOGITS, TEMPERATURE, BIAS, outcome="optional_tensor"),
    case("calibration.binary_confidence", normal("b"), TEMPERATURE, FLAG),
    case("features.standardize", X, FEATURE, positive("d")),
    case("features.standardize_batch", X, EPS),
    case("features.layer_norm", X, FEATURE, FEATURE, EPS),
    case("features.rms_norm", X, FEATURE, EPS),
    case("features.batch_norm_inference", X, FEATURE, positive("d"), FEATURE, FEATURE, EPS),
    case("features.min_max", X, FEATURE, filled("d", 4.0)),
    case("features.log1p_counts", positive("b d"), ONE),
    case("features.signed_sqrt", X, EPS),
    case("features.l1_normalize", X, EPS),
    case("features.l2_normalize", X, EPS),
    case("features.soft_clip", X, positive("d")),
    case("features.whiten", X, FEATURE, weight("d d"), positive("d"), EPS),
    case("features.column_stats", X, EPS),
    case("features.robust_scale", X, FEATURE, positive("d"), FLAG),
    case("attention.scaled_dot_product", QUERIES, KEYS, VALUES, number(0.35)),
    case("attention.masked_attention", QUERIES, KEYS, VALUES, normal("b m"), number(0.35)),
    case("attention.additive_attention", FEATURE, X, weight("d h"), weight("d h"), weight("h")),
    case("attention.attention_entropy", QUERIES, KEYS),
    case("attention.hard_attention", QUERIES, KEYS),
    case("attention.linear_attention", QUERIES, KEYS, VALUES, EPS),
    case("attention.cosine_attention", QUERIES, KEYS, VALUES, number(0.5)),
    case(
        "attention.pre_norm_feed_forward",
        X,
        FEATURE,
        FEATURE,
        EPS,
        weight("h d"),
        weight("h"),
        weight("d h"),
        FEATURE,
    ),
    case("attention.iterative_refinement", QUERIES, KEYS, among(0, 1, 3)),
    case("heads.mlp", X, *LAYERS),
    case("heads.gelu_mlp", X, weight("h d"), weight("k h")),
    case("heads.predict", X, weight("k d"), BIAS),
    case("heads.predict_proba", X, weight("k d"), BIAS),
    case("heads.residual_block", X, weight("d d"), FEATURE),
    case("heads.residual_tower", X, weight("d d"), FEATURE, among(0, 1, 4)),
    case("heads.selectable_head", X, weight("k d"), BIAS, among(0, 1, 2, 3)),
    case("heads.highway", X, weight("d d"), FEATURE, weight("d d"), FEATURE),
    case("heads.regression_head", X, weight("h d"), weight("h"), weight("h")),
    case("heads.squeeze_excite", X, weight("d h"), weight("h d")),
    case("heads.autoencoder_error", X, weight("d h"), weight("h d")),
    case("heads.multi_layer", X, weight("d d"), weight("d d"), among(0, 1, 4), FLAG),
    case("metrics.squared_error", X, X),
    case("metrics.absolute_error", X, X),
    case("metrics.rmse_per_output", X, X),
    case("metrics.cross_entropy", LOGITS, TARGET),
    case("metrics.entropy", PROBS, EPS),
    case("metrics.kl_divergence", PROBS, PROBS),
    case("metrics.js_divergence", PROBS, PROBS, HALF),
    case("metrics.cosine_similarity", X, X, EPS),
    case("metrics.brier_score", LOGITS, TARGET),
    case("metrics.dice", LOGITS, TARGET, ONE),
    case("metrics.r_squared", X, X, ONE, EPS),
    case("metrics.top_class", PROBS),
    case("metrics.loss_by_name", X, X, FLAG),
    case("postprocess.decode_boxes", X, X, positive("d")),
    case("postprocess.denormalize", X, FEATURE, positive("d")),
    case("postprocess.label_with_bonus", LOGITS, BIAS, FLAG),
    case("postprocess.sharpen", PROBS, among(0, 1, 3)),
    case("postprocess.blend_with_prior", PROBS, distribution("k"), number(0.8), number(0.2)),
    case(
        "postprocess.classify",
        X,
        weight("k d"),
        BIAS,
        distribution("k"),
        distribution("k"),
    ),
    case("postprocess.soft_threshold", X, positive("d")),
    case("postprocess.confidence_gap", LOGITS, LOGITS),
    case("postprocess.normalized_rank_weight", normal("b"), among(0.25, 1.0)),
    case("ensemble.average_probabilities", LOGITS, LOGITS, LOGITS, number(3.0)),
    case("ensemble.weighted_vote", LOGITS, LOGITS, number(0.6), number(0.4)),
    case("ensemble.geometric_mean", PROBS, PROBS),
    case("ensemble.calibrated_pair", X, *LAYERS, TEMPERATURE, HALF),
    case("ensemble.disagreement", LOGITS, LOGITS, HALF),
    case("ensemble.snapshot_average", X, weight("d k"), weight("d k"), among(1, 2, 4)),
    case("ensemble.stacked", normal("b"), normal("b"), number(0.7), number(0.5)),
    case("retrieval.cosine_matrix", X, KEYS, EPS),
    case("retrieval.squared_distances", X, KEYS, filled("b d", 1.0)),
    case("retrieval.nearest_centroid", X, normal("k d"), HALF),
    case("retrieval.soft_assignment", X, normal("k d"), number(2.0)),
    case("retrieval.late_interaction", X, KEYS, number(4.0)),
    case("retrieval.query_expansion", FEATURE, X, number(0.75)),
    case("retrieval.mean_embedding", X, positive("b"), EPS),
    case("retrieval.k_means_step", X, normal("k d"), among(0, 1, 3)),
    case("gating.glu", X, weight("d h"), weight("d h")),
    case("gating.swiglu", X, weight("d h"), weight("d h")),
    case("gating.geglu", X, weight("d h"), weight("d h")),
    case(
        "gating.gru_cell",
        X,
        normal("b h"),
        weight("d h"),
        weight("d h"),
        weight("d h"),
        weight("h h"),
    ),
    case("gating.mixture_of_two", X, weight("d h"), weight("d h"), FEATURE, weight("d h")),
    case("gating.route", X, weight("d k"), BIAS),
    case("gating.film", X, normal("h"), weight("h d"), weight("h d")),
    case("gating.gated_residual", X, X, FEATURE, FLAG),
    case("pooling.mean_pool", TOKENS),
    case("pooling.masked_mean", TOKENS, positive("b")),
    case("pooling.attention_pool", TOKENS, FEATURE),
    case("pooling.power_mean", TOKENS, among(0, 1, 2)),
    case("pooling.log_sum_exp_pool", TOKENS),
    case("pooling.statistics_pool", TOKENS, FEATURE),
    case("pooling.channel_energy", TOKENS),
    case("pooling.pool", TOKENS, FEATURE, among(0, 1, 2), FLAG),
    case("smoothing.exponential_smoothing", normal("b"), normal("b"), number(0.2), among(0, 1, 5)),
    case(
        "smoothing.label_propagation",
        distribution("b k"),
        distribution("b b"),
        number(0.9),
        among(0, 1, 3),
    ),
    case("smoothing.power_iteration", positive("d d"), positive("d")),
    case("smoothing.sinkhorn", normal("d d"), among(0, 1, 4)),
    case(
        "smoothing.momentum_update",
        X,
        X,
        number(0.1),
        number(0.9),
        among(0, 2),
        FLAG,
    ),
    case("smoothing.kalman_gain", positive("b"), positive("b"), positive("b"), among(0, 3)),
    case("smoothing.newton_sqrt", positive("b"), HALF, among(0, 1, 5)),
    case("smoothing.damped", X, weight("d d"), among(0.1, 1.0), among(0.2)),
    case("smoothing.trend", X, X, among(0, 1, 4)),
    case("service.embed", X, weight("h d"), normal("h"), EPS),
    case("service.classify", X, weight("h d"), normal("h")),
    case("service._spread", X),
    case("mutating.add_bias_in_place", X, FEATURE, outcome="augmented_tensor"),
    case("mutating.maybe_scaled", X, FEATURE, FLAG, outcome="returned_parameter"),
    case("mutating.rescale", X, FEATURE, outcome="plain_tensor"),
    case("mutating.flip_if_negative", X, outcome="tensor_comparison"),
)
BY_NAME = {entry.name: entry for entry in CASES}
