"""Which operations of a native function the fused engine runs as one.

These are the engine's rules (`runtime/rust/src/rxt_engine`) for what the source shows: which
operation works how is in the operator table, which result feeds which operation in the sites. Sizes
are not known here, so a broadcast that only sizes decide is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rextio_torch.explain.facts import Site
from rextio_torch.explain.model import Fused
from rextio_torch.ops.model import ShapeError

_LOOP = (
    "; in a loop the rounds wait together, up to 32 operations, so that it goes on across rounds"
)
#: From so many waiting operations on, one is computed when it is made.
_MOST_WAITING = 32


def fused(sites: Sequence[Site]) -> tuple[Fused, ...]:
    """Return the groups of sites that run together, and how."""
    result = []
    for members in ran(sites):
        how = _how(members, sites)
        if how is not None:
            looping = any(sites[index].in_loop for index in members) and len(members) > 1
            result.append(Fused(tuple(sorted(members)), how + (_LOOP if looping else "")))
    return tuple(sorted(result, key=lambda group: group.operations))


def _how(members: Sequence[int], sites: Sequence[Site]) -> str | None:
    """Say how some operations run as one, the last of them last; `None` if that is nothing."""
    first, last = sites[members[0]], sites[members[-1]]
    operator = first.call.operator
    if operator.fusion == "product":
        pairs = zip(operator.tensor_parameters, first.call.operands, strict=True)
        does = []
        if any(parameter.optional and operand is not None for parameter, operand in pairs):
            does.append("adds the bias")
        if len(members) > 1:
            does.append(f"applies {last.call.operator.id}")
        if not does:
            return None
        later = "" if len(members) == 1 else " (of a large product in a second pass)"
        return f"{operator.id} {' and '.join(does)} as it writes its result{later}"
    if len(members) == 1:
        return None
    if last.call.operator.fusion == "rows":
        count = "the operation" if len(members) == 2 else f"{len(members) - 1} operations"
        return f"{last.call.operator.id} takes the rows of {count} before it as they are computed"
    return "one pass over the elements, without temporary tensors in between"


def ran(sites: Sequence[Site]) -> list[list[int]]:
    """Return what the engine runs, group by group, with the operation that has the value last."""
    engine = _Engine(sites)
    for index in range(len(sites)):
        engine.make(index)
    for index in range(len(sites)):
        if not engine.consumers[index]:
            engine.value(index)
    return engine.ran


class _Engine:
    """The engine's evaluation, for sites instead of tensors."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = sites
        self.consumers = [
            [at for at, site in enumerate(sites) if index in site.operands]
            for index in range(len(sites))
        ]
        #: Dimensions of each result that are of size 1 for certain.
        self.thin: list[tuple[bool, ...]] = []
        self.waiting: list[int] = []
        self.computed: set[int] = set()
        #: What a region computed without keeping it: the next time its value is kept.
        self.inlined: set[int] = set()
        self.ran: list[list[int]] = []

    def make(self, index: int) -> None:
        operands = self.operands(index)
        self.thin.append(self._thin_dimensions(self.sites[index]))
        self.waiting.append(1 + sum(self.waiting[at] for at in operands))
        if self.waiting[index] > _MOST_WAITING:
            self.value(index)

    def operands(self, index: int) -> Iterable[int]:
        return [at for at in self.sites[index].operands if at is not None]

    def value(self, index: int) -> None:
        if index in self.computed:
            return
        self.computed.add(index)
        self.ran.append(self._compute(index))
        self.waiting[index] = 0

    def _compute(self, index: int) -> list[int]:
        site, operands = self.sites[index], self.operands(index)
        fusion = site.call.operator.fusion
        if fusion == "elementwise":
            product = self._product_before(index)
            if product is not None:
                self.computed.add(product)
                for at in self.operands(product):
                    self.value(at)
                return [product, index]
            for at in operands:
                if not self._waits_elementwise(at):
                    self.value(at)
            return self._region(index)
        if fusion == "rows":
            (source,) = site.operands
            if source is not None and self._feeds(source, site):
                return [*self._region(source), index]
        for at in operands:
            self.value(at)
        return [index]

    def _waits_elementwise(self, index: int) -> bool:
        elementwise = self.sites[index].call.operator.fusion == "elementwise"
        return elementwise and index not in self.computed

    def _product_before(self, index: int) -> int | None:
        """Return the product that only this operation on one tensor needs."""
        if len(self.sites[index].call.operator.tensor_parameters) != 1:
            return None
        (source,) = self.sites[index].operands
        if source is None or source in self.computed:
            return None
        alone = len(self.consumers[source]) == 1 and self.sites[source].uses == 1
        is_product = self.sites[source].call.operator.fusion == "product"
        return source if alone and is_product else None

    def _feeds(self, source: int, reader: Site) -> bool:
        """Whether an operation along rows takes the rows of a region as they come."""
        operand = reader.call.signature.operands[0]
        along = operand is not None and reader.call.dimension == operand.rank - 1
        if not along or not self._waits_elementwise(source) or source in self.inlined:
            return False
        self.inlined.add(source)
        before = self.sites[source].operands
        return not (
            len(before) == 1
            and before[0] is not None
            and before[0] not in self.computed
            and self.sites[before[0]].call.operator.fusion == "product"
        )

    def _region(self, last: int) -> list[int]:
        """Return the operations that are computed with this one, in order."""
        members: list[int] = []
        known: set[int] = set()

        def add(index: int) -> None:
            for at in self.operands(index):
                if at in known:
                    continue
                if self._joins(at, last):
                    add(at)
                else:
                    self.value(at)
                known.add(at)
            members.append(index)

        add(last)
        return members

    def _joins(self, index: int, last: int) -> bool:
        # A smaller tensor that is broadcast is computed once, not for each row.
        if not self._waits_elementwise(index) or self.thin[index] != self.thin[last]:
            return False
        again = index in self.inlined
        self.inlined.add(index)
        return not again

    def _thin_dimensions(self, site: Site) -> tuple[bool, ...]:
        """Return where the result is of size 1 for certain, by the row's own shape rule."""
        operator, signature = site.call.operator, site.call.signature
        shapes = []
        for at, of in zip(site.operands, signature.operands, strict=True):
            known = operator.fusion == "elementwise" and at is not None
            thin = self.thin[at] if known and at is not None else ()
            sizes = tuple(1 if is_thin else 2 for is_thin in thin)
            shapes.append(None if of is None else sizes or (2,) * of.rank)
        try:
            result = operator.shape_rule(operator.id, tuple(shapes), site.call.options)
        except ShapeError:
            return (False,) * signature.result.rank
        return tuple(size == 1 for size in result)
