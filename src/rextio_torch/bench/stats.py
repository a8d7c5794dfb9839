"""The statistics of a measurement: medians, quartiles and ratios of paired rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, isfinite, log
from statistics import median


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, interpolated."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def paired_ratio(reference: Sequence[float], measured: Sequence[float]) -> float:
    """Return how many times faster `measured` is: the median of the rounds' ratios.

    Both were measured in the same rounds, so that a slow moment of the machine touches both.
    """
    return median(a / b for a, b in zip(reference, measured, strict=True))


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values."""
    logarithms = [log(value) for value in values]
    return exp(sum(logarithms) / len(logarithms))


def fastest(rounds: Mapping[str, Sequence[float]], names: Iterable[str]) -> str | None:
    """Return the name with the smallest median, or None if none of them was measured."""
    measured = [name for name in names if rounds.get(name)]
    return min(measured, key=lambda name: median(rounds[name]), default=None)


def rounded(value: float, digits: int = 4) -> float:
    """Round to significant digits, so that results stay small and readable."""
    return float(f"{value:.{digits}g}") if isfinite(value) else value
