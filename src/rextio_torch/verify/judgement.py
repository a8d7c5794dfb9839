"""What a result must be, element by element, and how a result compares with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch

from rextio_torch.verify.inputs import bits


def spacing(numbers: torch.Tensor) -> torch.Tensor:
    """Return the distance of neighbouring float32 numbers at float64 values."""
    exponent = torch.frexp(numbers.abs()).exponent
    return torch.ldexp(torch.ones_like(numbers), (exponent - 24).clamp(min=-149))


@dataclass(frozen=True)
class Judgement:
    """How a result compares with what was expected; `problem` says what is wrong, if anything."""

    bit_equal: bool
    #: The largest distance from what is exact, in units in the last place there.
    ulp: int
    problem: str | None = None


@dataclass
class Expectation:
    """What a result must be. Without a tolerance it must be eager's, up to the bits of a NaN."""

    expected: torch.Tensor
    #: The value around which `tolerance` holds, in float64.
    exact: torch.Tensor | None = None
    tolerance: torch.Tensor | None = None
    #: Where any value that is not finite is right: the order of a sum decides which one it is.
    overflow: torch.Tensor | None = None
    #: Where any value is right.
    undecided: torch.Tensor | None = None
    #: Where a result must be that of `single`, which eager gives for one element.
    special: torch.Tensor | None = None
    single: torch.Tensor | None = None

    def to_dict(self) -> dict[str, torch.Tensor]:
        """Return what is known by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, torch.Tensor]) -> Expectation:
        """Return the expectation that `to_dict` wrote down."""
        return cls(**data)

    def judge(self, result: object, *, exactly: bool) -> Judgement:
        """Compare a result with it; `exactly` asks for eager's bits (the libtorch engine)."""
        expected = self.expected
        if type(result) is not torch.Tensor:
            return Judgement(False, 0, f"a {type(result).__name__} instead of a tensor")
        for what in ("dtype", "shape", "device"):
            found, wanted = getattr(result, what), getattr(expected, what)
            if found != wanted:
                return Judgement(False, 0, f"{what} {_text(found)} instead of {_text(wanted)}")
        if result.requires_grad:
            return Judgement(False, 0, "it requires grad")
        equal = bits(result.contiguous()) == bits(expected.contiguous())
        same = equal | (result.isnan() & expected.isnan())
        bit_equal = bool(same.all())
        ulp = 0 if bit_equal else self._largest_distance(result)
        right = equal if exactly else same
        if not exactly and self.tolerance is not None and self.exact is not None:
            right = self._within(result, self.exact, self.tolerance)
        if bool(right.all()):
            return Judgement(bit_equal, ulp)
        return Judgement(bit_equal, ulp, self._difference(result, ~right, exactly=exactly))

    def _within(
        self, result: torch.Tensor, exact: torch.Tensor, tolerance: torch.Tensor
    ) -> torch.Tensor:
        expected = self.expected
        right = ((result.double() - exact).abs() <= tolerance) | (result == expected)
        right |= result == exact.float()
        right |= result.isnan() & (expected.isnan() | exact.isnan())
        if self.overflow is not None:
            right |= self.overflow & ~result.isfinite()
        if self.special is not None and self.single is not None:
            # NaN, infinities and the sign of zero: exactly as eager gives them for one element.
            same = (result == self.single) & (result.signbit() == self.single.signbit())
            same |= result.isnan() & self.single.isnan()
            right = torch.where(self.special, same, right)
        if self.undecided is not None:
            right |= self.undecided
        return right

    def _largest_distance(self, result: torch.Tensor) -> int:
        """Return how far off values are that are not eager's: from the exact ones, if known."""
        if result.dtype != torch.float32:
            return 0
        centre = self.expected.double() if self.exact is None else self.exact
        counted = result.isfinite() & centre.isfinite() & (result != self.expected)
        result, centre = result[counted], centre[counted]
        distance = (result.double() - centre).abs() / spacing(centre)
        return int(distance.max().ceil()) if distance.numel() else 0

    def _difference(self, result: torch.Tensor, wrong: torch.Tensor, *, exactly: bool) -> str:
        index = tuple(wrong.nonzero()[0].tolist())
        text = f"element {list(index)} is {result[index].item()!r}, in eager "
        text += repr(self.expected[index].item())
        if exactly or self.tolerance is None or self.exact is None:
            text += "; it must be the same bit by bit"
        else:
            text += (
                f", in float64 {self.exact[index].item()!r} "
                f"and at most {self.tolerance[index].item():.3g} off"
            )
        count = int(wrong.sum())
        return text + (f" ({count} of {wrong.numel()} elements are wrong)" if count > 1 else "")


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, torch.Size) else str(value)
