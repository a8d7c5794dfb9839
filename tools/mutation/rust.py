"""A copy of the runtime crate that holds all mistakes at once, each behind a switch.

So one compilation serves every mistake: a variable of the environment chooses the one that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.mutation.model import Mutation

#: Names the number of the mistake that runs; without it the copy behaves as the original.
VARIABLE = "REXTIO_TORCH_MUTATION"

_SWITCH = f"""
/// Whether the mistake with this number runs.
pub fn mutation(number: u32) -> bool {{
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("{VARIABLE}").map_or(0, |text| text.parse().unwrap());
    *CHOSEN.get_or_init(chosen) == number
}}
"""


def with_switches(path: str, source: str, rows: Iterable[tuple[int, Mutation]]) -> str:
    """Return a file's text with its mistakes, numbered, beside what they replace."""
    places: dict[tuple[int, int], list[tuple[int, Mutation]]] = {}
    for number, row in rows:
        places.setdefault(row.span(source), []).append((number, row))
    parents = "super::" * len(Path(path).parts)
    end = len(source)
    # From the last to the first, so that positions stay right.
    for (begin, stop), here in sorted(places.items(), reverse=True):
        if stop > end:
            raise ValueError(f"{here[0][1]}: overlaps another row's text in {path}")
        end = begin
        right = source[begin:stop]
        cases = "".join(
            f"if {parents}rxt_core::mutation({number}) {{ {row.wrong} }} else "
            for number, row in here
        )
        switched = f"{cases}{{ {right} }}"
        # Whole statements stay statements; an expression stays one operand.
        is_statement = right.rstrip().endswith((";", "}"))
        source = source[:begin] + (switched if is_statement else f"({switched})") + source[stop:]
    return source


def write_crate(original: Path, copy: Path, rows: Sequence[Mutation]) -> None:
    """Copy the crate with all mistakes in it; what did not change keeps its time."""
    numbered = list(enumerate(rows, start=1))
    kept = set()
    for path in sorted(original.rglob("*")):
        name = path.relative_to(original)
        if not path.is_file() or name.parts[0] == "target":
            continue
        kept.add(name)
        content = path.read_bytes()
        if name.parts[0] == "src":
            inner = name.relative_to("src").as_posix()
            here = [(number, row) for number, row in numbered if row.path == inner]
            text = with_switches(inner, content.decode(), here)
            if inner == "rxt_core/mod.rs":
                text += _SWITCH
            content = text.encode()
        target = copy / name
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    unknown = {row.path for row in rows} - {
        name.relative_to("src").as_posix() for name in kept if name.parts[0] == "src"
    }
    if unknown:
        raise ValueError(f"no such file in {original / 'src'}: {', '.join(sorted(unknown))}")
    for path in (copy / "src").rglob("*.rs"):
        if path.relative_to(copy) not in kept:
            path.unlink()
