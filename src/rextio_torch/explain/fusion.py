"""Which operations of a native function the fused engine runs as one.

These are the engine's rules (`runtime/rust/src/rxt_engine`) for what the source shows: which
operation works how is in the operator table, which result feeds which operation in the sites. Sizes
are not known here, so a broadcast that only sizes decide is not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rextio_torch.explain.inference import Site
from rextio_torch.explain.model import Fused

_LOOP = (
    "; in a loop the rounds wait together, up to 32 operations, so that it goes on across rounds"
)


def fused(sites: Sequence[Site]) -> tuple[Fused, ...]:
    """Return the groups of sites that run together, and how."""
    regions = _regions(sites)
    groups: list[tuple[list[int], str]] = []
    taken: set[int] = set()
    for index, site in enumerate(sites):
        operator = site.call.operator
        if operator.fusion == "product":
            activation = _activation(index, sites, regions)
            members = [index] + ([] if activation is None else [activation])
            does = []
            if any(
                parameter.optional and operand is not None
                for parameter, operand in zip(
                    operator.tensor_parameters, site.call.operands, strict=True
                )
            ):
                does.append("adds the bias")
            if activation is not None:
                does.append(f"applies {sites[activation].call.operator.id}")
                taken.add(activation)
            if does:
                text = f"{operator.id} {' and '.join(does)} as it writes its result"
                later = "" if activation is None else " (of a large product in a second pass)"
                groups.append((members, text + later))
    for members in regions:
        if members[0] in taken:
            continue
        reader = _rows_reader(members, sites)
        if reader is not None:
            name = sites[reader].call.operator.id
            count = "the operation" if len(members) == 1 else f"{len(members)} operations"
            how = f"{name} takes the rows of {count} before it as they are computed"
            groups.append(([*members, reader], how))
        elif len(members) > 1:
            how = "one pass over the elements, without temporary tensors in between"
            groups.append((members, how))
    result = []
    for members, how in sorted(groups, key=lambda group: group[0]):
        looping = any(sites[index].in_loop for index in members) and len(members) > 1
        result.append(Fused(tuple(sorted(members)), how + (_LOOP if looping else "")))
    return tuple(result)


def _consumers(index: int, sites: Sequence[Site]) -> list[int]:
    return [at for at, site in enumerate(sites) if index in site.operands]


def _rank(site: Site) -> int:
    return site.call.signature.result.rank


def _regions(sites: Sequence[Site]) -> list[list[int]]:
    """Return the elementwise operations, those together that join one region.

    An operation joins the region of the first one that uses it, if both have the same rank: a
    tensor of a lower rank is computed once and broadcast.
    """
    region = list(range(len(sites)))

    def root(index: int) -> int:
        while region[index] != index:
            index = region[index]
        return index

    for index, site in enumerate(sites):
        consumers = _consumers(index, sites)
        first = consumers[0] if consumers else None
        if first is None or site.call.operator.fusion != "elementwise":
            continue
        after = sites[first]
        joins = after.call.operator.fusion == "elementwise" and _rank(after) == _rank(site)
        if joins:
            region[root(index)] = root(first)
    members = defaultdict(list)
    for index, site in enumerate(sites):
        if site.call.operator.fusion == "elementwise":
            members[root(index)].append(index)
    return sorted(members.values())


def _activation(product: int, sites: Sequence[Site], regions: list[list[int]]) -> int | None:
    """Return the activation that a product applies itself: its only user, in no region."""
    consumers = _consumers(product, sites)
    if len(consumers) != 1 or sites[product].uses != 1:
        return None
    after = sites[consumers[0]]
    alone = [consumers[0]] in regions
    one_operand = len(after.call.operator.tensor_parameters) == 1
    return consumers[0] if alone and one_operand else None


def _rows_reader(members: list[int], sites: Sequence[Site]) -> int | None:
    """Return the operation along rows that consumes a region, if its first user is one."""
    users = [(at, index) for index in members for at in _consumers(index, sites)]
    outside = [at for at, _ in users if at not in members]
    if not outside:
        return None
    reader = sites[min(outside)]
    operand = reader.call.signature.operands[0]
    along = operand is not None and reader.call.options.get("dim") == operand.rank - 1
    return min(outside) if reader.call.operator.fusion == "rows" and along else None
